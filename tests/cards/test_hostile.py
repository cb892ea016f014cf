"""Whatever others write into a request or a result: it stays text, it is seen, and nothing of it gets lost."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assent.arguments.fields import typed
from assent.contracts.approvers import Approvers
from assent.contracts.identity import Identity
from assent.contracts.manifest import Risk
from assent.contracts.outcome import Outcome
from assent.contracts.permission import Execution, Permission
from assent.contracts.plan import Edit, Plan
from assent.contracts.policy import Rule
from assent.contracts.review import Examined
from assent.contracts.ruling import Settlement
from assent.contracts.state import Progress
from assent.contracts.status import Status
from assent.payload import sha256
from assent.safe import markdown, visible
from cards import Attachment, ReviewShowing, Showing, card, overflow, review_card, settled_notice
from cards.editing import changed_in
from tests.support.card_rules import markdowns, objects, plain_texts
from tests.support.cards import APPROVED, NOW, REJECTED, WORDING, plan
from tests.support.hostile_texts import ATTACKS, TEXT, asked, kept, storable
from tests.support.hypothesis_settings import unhurried
from tests.support.permission_cards import GRANT
from tests.support.review_cards import ENDED, LATE, REFUTED, SETTLED, frozen

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53) + 1, 2**53 - 1), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(TEXT, inner, max_size=5)),
    max_leaves=12,
)


def read(showing: Showing) -> dict[str, Any]:
    """The card of an approval, which keeps every rule."""
    return kept(card(showing, WORDING))


def attached(of: Plan) -> Attachment | None:
    file = overflow(of, WORDING)
    return Attachment(name=file.name, size=len(file.data), sha256=sha256(file.data)) if file else None


def showings(of: Plan, text: str) -> list[Showing]:
    file = attached(of)
    outcomes = [
        Outcome(approval_id="a", status=status, content=text, reason=text, authorize_url=text) for status in Status
    ]
    return [
        Showing(plan=of, attachment=file),
        Showing(plan=of),
        Showing(plan=of, replaced=True),
        Showing(plan=of, decided=APPROVED, attachment=file),
        Showing(plan=of, decided=REJECTED.model_copy(update={"reason": text})),
        *(Showing(plan=of, decided=APPROVED, outcome=each, ended_at=NOW, attachment=file) for each in outcomes),
        *(Showing(plan=of, decided=APPROVED, settlement=each, attachment=file) for each in settlements(of, text)),
    ]


def settlements(of: Plan, text: str) -> list[Settlement]:
    hostile = {"content": [text, {text[:500]: text}], "reason": text, "settled_by": of.requester}
    return [each.model_copy(update=hostile) for each in (SETTLED, REFUTED)]


def reviews(of: Plan, text: str) -> list[ReviewShowing]:
    """A review in which everything that others write is this text, as often as it can be."""
    late = [
        LATE.model_copy(update={"content": json.dumps(text), "error": text}),
        LATE.model_copy(update={"state": text, "content": text[:2000], "error": text}),
        LATE.model_copy(update={"state": "failed", "content": None, "error": text}),
    ]
    seen = ENDED.model_copy(
        update={"error": text, "worker": text, "state": text, "body_ended": False, "late": tuple(late)}
    )
    call = frozen(of, error=text + ".", decided_by=of.requester)
    crowd = Examined(attempts=(seen,) * 9, did_not_run=True, waiting=301, joined=(text[:200] or "x",) * 20)
    base = ReviewShowing(plan=of, frozen=call, examined=crowd, url="https://example.com/x")
    changes: list[dict[str, Any]] = [
        {},
        {"url": text},
        {"replaced": True},
        {"examined": Examined(attempts=(seen,))},
        *({"settlement": each} for each in settlements(of, text)),
    ]
    return [base.model_copy(update=change) for change in changes]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: ascii(attack[:20]))
def test_an_attack_in_every_place_stays_text(attack: str) -> None:
    text = storable(attack)
    person = Identity(open_id=" ".join(text[:50].split()) or "x")
    hostile = asked(
        {"value": attack, attack[:3000]: "name", "deep": [[{attack[:500]: attack}]]},
        tool=text[:200],
        description=text,
        request_reason=text[:4000],
        requester=person,
        asked_by=text[:200],
        approvers=Approvers.of([person] * 30),
        frozen_twin=" ".join(text[:50].split()) or "x",
        approval_id=" ".join(text[:50].split()) or "x",
    )
    for showing in showings(hostile, text):
        read(showing)
        read(showing.model_copy(update={"twin_url": text}))
    for review in reviews(hostile, text):
        kept(review_card(review, WORDING))
    for settlement in settlements(hostile, text):
        kept(settled_notice(settlement, hostile, WORDING))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: ascii(attack[:20]))
def test_every_argument_is_whole_in_the_card_or_in_the_file(attack: str) -> None:
    hostile = asked({"first": attack, "second": "short"})
    file = overflow(hostile, WORDING)
    shown = plain_texts(read(Showing(plan=hostile, attachment=attached(hostile))))
    quoted = visible(json.dumps(attack, ensure_ascii=False))
    whole = quoted if attack != attack.strip() else visible(attack)
    if file is None:
        assert whole in shown
    else:
        assert "\n".join(f"| {line}" for line in whole.split("\n")) in file.data.decode()
        assert any("first" in line for line in markdowns(read(Showing(plan=hostile, attachment=attached(hostile)))))
    assert "short" in shown


@given(arguments=st.dictionaries(TEXT, VALUES, max_size=25), text=TEXT)
@settings(unhurried, max_examples=12)  # each makes a card of every state
def test_any_request_makes_cards_that_keep_the_rules(arguments: dict[str, Any], text: str) -> None:
    words = storable(text)
    hostile = asked(arguments, description=words, request_reason=words, asked_by=words[:60] or None)
    file = overflow(hostile, WORDING)
    for showing in showings(hostile, words):
        shown = read(showing)
        if showing.attachment is None and not (showing.decided or showing.outcome or showing.settlement):
            may_approve = "approve" in [each.get("name") for each in shown["body"]["elements"]]
            lacks = any("This card could not hold everything" in line for line in markdowns(shown))
            assert may_approve != (lacks or showing.replaced)
            assert file is not None or not lacks


@given(arguments=st.dictionaries(TEXT, VALUES, max_size=25), text=TEXT)
@settings(unhurried, max_examples=12)
def test_any_frozen_request_makes_cards_that_keep_the_rules(arguments: dict[str, Any], text: str) -> None:
    words = storable(text)
    hostile = asked(arguments, description=words, request_reason=words, asked_by=words[:60] or None)
    for review in reviews(hostile, words):
        kept(review_card(review, WORDING))
    for settlement in settlements(hostile, words):
        kept(settled_notice(settlement, hostile, WORDING))


@given(arguments=st.dictionaries(TEXT, VALUES, max_size=25))
@settings(unhurried, max_examples=15)
def test_a_card_without_a_file_holds_every_name_and_every_text(arguments: dict[str, Any]) -> None:
    hostile = asked(arguments)
    if overflow(hostile, WORDING) is not None:
        return
    shown = read(Showing(plan=hostile))
    seen = "\n".join([*plain_texts(shown), *markdowns(shown)])
    for name, value in arguments.items():
        in_json = visible(json.dumps(name, ensure_ascii=False))
        assert name == "" or markdown(name).replace(" ", "&#32;") in seen or in_json in seen
        if isinstance(value, str):
            assert visible(value) in seen or visible(json.dumps(value, ensure_ascii=False)) in seen


@pytest.mark.parametrize("count", [21, 60, 300, 1000])
def test_many_arguments_are_all_there(count: int) -> None:
    many = asked({f"argument_{n:04}": f"value-{n:04}" for n in range(count)})
    shown = read(Showing(plan=many, attachment=attached(many)))
    file = overflow(many, WORDING)
    text = file.data.decode() if file else "\n".join(plain_texts(shown))
    assert all(f"value-{n:04}" in text for n in range(count))
    read(Showing(plan=many, attachment=attached(many), decided=APPROVED))


def test_deep_nesting_is_written_out() -> None:
    deep: Any = "bottom"
    for _ in range(60):
        deep = {"level": [deep]}
    shown = read(Showing(plan=asked({"deep": deep})))
    assert any('"bottom"' in text for text in plain_texts(shown))


def test_names_that_are_markup_are_shown_as_they_are() -> None:
    shown = read(Showing(plan=asked({"<at id=all></at>": 1, "**b**": 2, "": 3, " spaced ": 4})))
    labels = markdowns(shown)
    assert "**&#60;at&#32;id&#61;all&#62;&#60;&#47;at&#62;**" in labels
    assert "**&#42;&#42;b&#42;&#42;**" in labels
    assert "**&#34;&#34;**" in labels
    assert "**&#32;spaced&#32;**" in labels


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202eb", "a⟦U+202E⟧b"),
        ("zero\u200bwidth", "zero⟦U+200B⟧width"),
        ("bell\x07", "bell⟦U+0007⟧"),
        ("line\nbreak\ttab", "line\nbreak\ttab"),
        ("over\rwritten", "over⟦U+000D⟧written"),
        ("⟦U+202E⟧", "⟦U+27E6⟧U+202E⟧"),
        ("no\u00a0break", "no⟦U+00A0⟧break"),
        ("全角　空格", "全角　空格"),
        ("👨\u200d👩\u200d👧 ❤\ufe0f", "👨\u200d👩\u200d👧 ❤\ufe0f"),
        ("a\u200db\ufe0f", "a⟦U+200D⟧b⟦U+FE0F⟧"),
        ("e\u0301", "e\u0301"),
        ("e" + "\u0301" * 5, "e\u0301\u0301\u0301⟦U+0301⟧⟦U+0301⟧"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(one=st.text(max_size=40), other=st.text(max_size=40))
@unhurried
def test_different_texts_never_look_the_same(one: str, other: str) -> None:
    assert (visible(one) == visible(other)) == (one == other)


def test_a_mention_needs_an_id_that_can_be_nothing_else() -> None:
    odd = [Identity(open_id=each) for each in ("ou 1", "ou_1></at><at id=all", "all", "x" * 65, "用户")]
    shown = read(Showing(plan=plan(approvers=Approvers.of(odd))))
    assert not [line for line in markdowns(shown) if "<at " in line]
    both = Identity(open_id="<at id=all>", user_id="u_1")
    assert "<at id=u_1></at>" in markdowns(read(Showing(plan=plan(approvers=Approvers.of([both])))))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: ascii(attack[:20]))
def test_an_attack_through_policy_edits_grants_and_people_stays_text(attack: str) -> None:
    text = storable(attack)
    person = Identity(open_id=" ".join(text[:50].split()) or "x")
    arguments = {"value": attack, attack[:3000]: "name"}
    before = asked({"value": "other", "gone": attack})
    hostile = asked(arguments, approvers=Approvers.of([person] * 3))
    edit = Edit(
        by=person,
        proposed_payload=before.payload,
        proposed_payload_sha256=before.payload_sha256,
        payload=hostile.payload,
        payload_sha256=hostile.payload_sha256,
    )
    chat = Approvers(kind=Approvers.Kind.CHAT, chat_id=person.open_id)
    more = {
        "warnings": (text[:4000], text[:4000]),
        "rule": Rule(name=text[:500] or "x", policy_sha256="0" * 64),
        "edit": edit,
        "grant": GRANT.model_copy(update={"granted_by": person}),
        "permission": Permission(execution=Execution.ASK_ONCE),
        "remember_for": timedelta(days=7),
        "risk": Risk.HIGH,
    }
    bold = hostile.model_copy(update=more)
    judged = APPROVED.model_copy(update={"actor": person})
    progress = Progress(approvers=chat, stages=2, approvals=(judged,) * 20, delegations=((person, person),) * 9)
    schema = {"properties": {name: {"type": "string"} for name in arguments}}
    file = attached(bold)
    read(
        Showing(
            plan=bold,
            progress=progress.model_copy(update={"called": (person,) * 40}),
            parameters=schema,
            attachment=file,
        )
    )
    read(Showing(plan=bold, parameters=schema))
    denied = Outcome(approval_id="inv-42", status=Status.REJECTED, reason=text[:4000])
    withheld = denied.model_copy(update={"status": Status.EXECUTED, "withheld": True, "withheld_reason": text[:4000]})
    for outcome in (denied, withheld.model_copy(update={"approved_by": (person,) * 30, "edit": edit})):
        read(Showing(plan=bold, outcome=outcome, ended_at=NOW))
        read(Showing(plan=bold.model_copy(update={"grant": None}), outcome=outcome, approvals=(judged,) * 30))


@given(arguments=st.dictionaries(TEXT, VALUES, max_size=12))
@settings(unhurried, max_examples=12)
def test_any_arguments_make_a_form_that_changes_nothing_by_itself(arguments: dict[str, Any]) -> None:
    shown = read(Showing(plan=asked(arguments, sensitive=()), parameters={}))
    forms = [each for each in shown["body"]["elements"] if each.get("name") == "decision"]
    for form in forms:
        values = {each["name"]: each["behaviors"][0]["value"] for each in objects(form) if each.get("tag") == "button"}
        names = values["edit"]["fields"]
        inputs = {each["name"]: each for each in objects(form) if each.get("tag") in ("input", "select_static")}
        sent = {
            name: str(inputs[f"arg_{n}"].get("default_value", inputs[f"arg_{n}"].get("initial_option")))
            for n, name in enumerate(names)
        }
        assert typed({}, arguments, sent) == arguments
        typed_into = {f"arg_{n}": sent[name] for n, name in enumerate(names)}
        assert changed_in(names, values["approve"]["shown"], typed_into) == {}
