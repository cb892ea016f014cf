"""No English sentence on a Chinese card, and no Chinese on an English one: every state, every reason, every toast."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assent import reasons
from assent.contracts.decision import DecisionKind, Stage, Verdict, VerdictKind
from assent.contracts.grants import RevokedKind
from assent.contracts.outcome import Outcome
from assent.contracts.permission import Permission, ResultReview
from assent.contracts.plan import Edit, Plan
from assent.contracts.policy import Rule
from assent.contracts.ruling import Ruled, RuledKind, RulingKind, Settlement
from assent.contracts.status import Status
from assent.contracts.values import Surface
from cards import (
    Attachment,
    BundledCall,
    Showing,
    bundle_card,
    card,
    overflow,
    refused_ruling,
    result_card,
    review_card,
    revoked_toast,
    ruled_toast,
    settled_notice,
    toast,
)
from cards.inbox import Waiting, inbox_card
from cards.reasons import problems_of, reason_of
from cards.wording import Both, _ours
from tests.support.cards import APPROVED, NOW, REJECTED, WORDING, plan
from tests.support.documents import ROOT
from tests.support.permission_cards import BEN, GRANT, ONCE, SCHEMA, TWO
from tests.support.result_cards import showing as result_showing
from tests.support.review_cards import review as frozen_review

_ENGLISH = re.compile(r"[A-Za-z][a-z']+(?: [A-Za-z][a-z']+){2,}")
"""Three words in a row: names, units and codes are fewer."""
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_MARKUP = re.compile(r"<[^>]*>")
# What others wrote is in no language that a card could choose: here it is of digits.
CALL: dict[str, Any] = {"description": "42", "request_reason": "42", "warnings": ("42",), "asked_by": "42", "tool": "t"}
ARGUMENTS: dict[str, Any] = {"n": 1, "api_key": "7" * 20}


def call(**more: Any) -> Plan:
    return plan(ARGUMENTS, **{**CALL, **more})


def texts(shown: Any, language: str) -> Iterator[str]:
    """Everything that somebody reads in one language."""
    if isinstance(shown, list):
        for each in shown:
            yield from texts(each, language)
    if isinstance(shown, dict):
        if isinstance(shown.get("i18n_content"), dict):
            yield shown["i18n_content"][language]
        elif isinstance(shown.get("content"), str):
            yield shown["content"]
        for key, value in shown.items():
            if key not in ("i18n_content", "value"):
                yield from texts(value, language)


def speaks_both(built: str) -> None:
    shown = json.loads(built)
    for text in texts(shown, "zh_cn"):
        assert not _ENGLISH.search(_MARKUP.sub(" ", text)), text
    for text in texts(shown, "en_us"):
        assert not _CHINESE.search(text), text


def says_both(said: Both) -> None:
    assert not _ENGLISH.search(said.zh), said
    assert not _CHINESE.search(said.en), said


def ended(status: Status, **more: Any) -> Outcome:
    return Outcome(approval_id="inv-42", status=status, **more)


def states() -> Iterator[Showing]:
    high = call(risk="high", approvers=TWO, rule=Rule(name="42", policy_sha256="0" * 64), frozen_twin="a-1", **ONCE)
    former = Edit(by=BEN, proposed_payload=high.payload, proposed_payload_sha256="1", payload="{}", payload_sha256="2")
    yield Showing(plan=call(), parameters=SCHEMA)
    yield Showing(plan=call(), parameters={"properties": {"n": {"type": "integer"}}})
    yield Showing(plan=high, parameters={"properties": {"n": {"type": "integer"}}}, reminder=True)
    yield Showing(plan=call(edit=former.model_copy(update={"payload": high.payload})))
    yield Showing(plan=plan({}, **CALL))
    yield Showing(plan=plan({"n": "1" * 60_000}, **CALL))
    yield Showing(plan=plan({"n": "1" * 60_000}, **CALL), attachment=Attachment(name="1", size=1, sha256="0" * 64))
    yield Showing(plan=call(), decided=APPROVED)
    yield Showing(plan=call(), decided=APPROVED, reviewing=Status.FAILED)
    yield Showing(plan=call(), replaced=True)
    yield Showing(plan=call(), replaced=True, moved=True)
    for status in Status:
        yield Showing(plan=call(), decided=APPROVED, outcome=ended(status, content=1), ended_at=NOW)
        yield Showing(plan=call(), outcome=ended(status, withheld=True), ended_at=NOW)
    yield Showing(plan=call(), decided=REJECTED.model_copy(update={"reason": "42"}), outcome=ended(Status.REJECTED))
    yield Showing(plan=call(grant=GRANT), outcome=ended(Status.EXECUTED))
    revoked = GRANT.model_copy(update={"revoked_at": NOW, "revoked_by": BEN})
    yield Showing(plan=call(grant=GRANT), outcome=ended(Status.EXECUTED), grant=revoked)
    sealed = Permission(result=ResultReview.ALWAYS)
    yield Showing(plan=call(permission=sealed), decided=APPROVED, outcome=ended(Status.EXECUTED, content=1))
    yield Showing(plan=call(), outcome=ended(Status.FAILED, authorize_url="https://example.com/"))
    yield Showing(plan=call(), outcome=ended(Status.FAILED, authorize_url="javascript:1"))


@pytest.mark.parametrize("showing", list(states()))
def test_a_card_is_in_one_language_whatever_its_state(showing: Showing) -> None:
    speaks_both(card(showing, WORDING))


def settlement(kind: RulingKind, **more: Any) -> Settlement:
    about = {"approval_id": "inv-42", "surface": Surface.FEISHU}
    return Settlement(kind=kind, settled_at=NOW, **about, **{"settled_by": BEN, "reason": "42", **more})


def test_so_are_those_of_results_reviews_bundles_and_the_bot() -> None:
    for status in (Status.EXECUTED, Status.FAILED, Status.FROZEN):
        of = result_showing({"n": 1}).model_copy(update={"plan": call(), "status": status, "error": None})
        for change in ({}, {"reminder": True}, {"replaced": True}, {"decided": APPROVED}, {"content": b"null"}):
            speaks_both(result_card(of.model_copy(update=change), WORDING))
        for withheld in (True, False):
            over = ended(Status.EXECUTED, withheld=withheld)
            speaks_both(result_card(of.model_copy(update={"outcome": over, "ended_at": NOW}), WORDING))
    review = frozen_review()
    frozen = review.frozen.model_copy(update={"error": None})
    seen = [each.model_copy(update={"error": None, "worker": "1"}) for each in review.examined.attempts]
    examined = review.examined.model_copy(update={"attempts": tuple(seen)})
    review = review.model_copy(update={"plan": call(), "frozen": frozen, "examined": examined})
    speaks_both(review_card(review, WORDING))
    speaks_both(review_card(review.model_copy(update={"replaced": True}), WORDING))
    for kind in (RulingKind.EXECUTED, RulingKind.NOT_EXECUTED):
        for found in (settlement(kind), settlement(kind, settled_by=None, retried=True)):
            speaks_both(review_card(review.model_copy(update={"settlement": found}), WORDING))
            speaks_both(settled_notice(found, call(), WORDING))
            speaks_both(card(Showing(plan=call(), settlement=found, outcome=ended(Status.FROZEN)), WORDING))
    several = [BundledCall(showing=each) for each in states() if len(each.plan.payload) < 1000]
    for each in several:
        built = bundle_card("b", (each, each.model_copy(update={"apart": True})), WORDING, is_new=False)
        assert built is not None
        speaks_both(built)
    for waiting in ((), (Waiting(call(), Stage.CALL), Waiting(call(), Stage.RESULT))):
        speaks_both(inbox_card(waiting, 3 if waiting else 0, WORDING))
    file = overflow(plan({"n": "1" * 60_000}, **CALL), WORDING)
    assert file is not None


def test_every_toast_is_in_one_language() -> None:
    verdicts = [Verdict(kind=kind, status=status, decided_by=BEN) for kind in VerdictKind for status in (None, *Status)]
    verdicts += [Verdict(kind=VerdictKind.ACCEPTED, approvals=n, needed=2) for n in (0, 1)]
    for verdict in verdicts:
        for kind in DecisionKind:
            for stage in Stage:
                _says_both(toast(verdict, kind, WORDING, name="42", stage=stage).i18n)
    for revoked in RevokedKind:
        _says_both(revoked_toast(revoked, WORDING).i18n)
    for why in (
        "wrong_hash",
        "not_certain",
        "tried_again",
        "no_reason",
        "bad_content",
        "not_a_result",
        "tampered",
        "?",
    ):
        _says_both(refused_ruling(why, WORDING).i18n)
    for ruled in RuledKind:
        for ruling in RulingKind:
            _says_both(ruled_toast(Ruled(kind=ruled), ruling, WORDING, name="42").i18n)


def _says_both(i18n: dict[str, str]) -> None:
    says_both(Both(i18n["en_us"], i18n["zh_cn"]))


@pytest.mark.parametrize("name", list(reasons.ALL))
def test_every_reason_of_the_service_is_said_in_both_languages(name: str) -> None:
    reason = reasons.ALL[name]
    said = reason(**dict.fromkeys(reason.placeholders, "42"))
    assert reasons.known(said) is not None
    says_both(reason_of(said, WORDING))
    outcome = ended(Status.FAILED, reason=said)
    speaks_both(card(Showing(plan=call(), decided=APPROVED, outcome=outcome), WORDING))
    _says_both(toast(Verdict(kind=VerdictKind.INVALID, reason=said), DecisionKind.EDIT, WORDING).i18n)


def test_what_the_check_of_a_schema_says_is_said_in_general_to_who_reads_chinese() -> None:
    said = problems_of(
        'invalid arguments: $.n: the value is not of type "integer"; m: the number is too large', WORDING
    )
    assert said.zh == "$.n：不符合该工具的要求；m：数字过大"
    assert said.en == '$.n: the value is not of type "integer"; m: the number is too large'


def test_what_others_said_goes_through_as_it_is() -> None:
    assert reason_of("Wrong amount.", WORDING) == ("Wrong amount.", "Wrong amount.")


def test_one_word_stands_for_one_thing() -> None:
    """A person 同意, not 批准; what runs is an 操作, not a 调用; what is 结果未知 is 核实, by 值班人员."""
    for key, text in _ours("zh-CN.toml").items():
        said = text.fill(dict.fromkeys(text.placeholders, ""))
        assert not re.search("批准|调用|复核|运维|冻结|征求|至多", said), key


def test_chinese_sentences_have_full_width_marks() -> None:
    for key, text in _ours("zh-CN.toml").items():
        said = text.fill(dict.fromkeys(text.placeholders, "x"))
        assert not re.search("[\u4e00-\u9fff][,;:?!()]|[,;:?!()][\u4e00-\u9fff]", said), key
        assert not re.search("[\u4e00-\u9fff，。：；、？！（）“”] [\u4e00-\u9fff，。：；、？！（）“”]", said), key


# Every reason the service can give is known

_MADE_IN = (
    "assent/core/deciding.py",
    "assent/core/delivering.py",
    "assent/core/executing.py",
    "assent/content.py",
    "activities/bodies.py",
    "activities/tools.py",
    "activities/weighing.py",
    "workflows/approval.py",
    "workflows/calls.py",
    "ledger/claims.py",
    "ledger/grants.py",
    "activities/planning.py",
    "assent/agent_calls.py",
    "assent/policy/rules.py",
    "workers/clicks.py",
    "workers/interactions.py",
    "workers/private_messages.py",
    "workers/sweeping.py",
)
_ELSEWHERE = frozenset(
    {
        "the manifest says that there is a probe",
        "it is asked without end",
        "only who can be asked is",
        "a claim is never deleted",
        "it was inserted above",
        "the approval id belongs to another request",
        "the conversation is busy",
        "a quota is used up",
        "it is not certain that the call did not run, and the tool is not retry_safe",
        "it is settled that the call did not run: there is nothing to try again",
        "it is shut",
        "this worker has another version of 42",  # the card says that the tool did not warn
        "the function did not answer",
        "the probe answered 42",  # each of its answers has a text of its own
        "it is not valid",
        "files for the bot",
        "what awaits me",
        "the review was ended before everybody was told what was settled",
        # A request that nobody is asked about: only the agent hears why.
        "it is asked, and not yet on record: send the same again, with 42",
        "callback_url: this service announces nothing; set ASSENT_CALLBACK_SECRET",
        "chat_id: this service sends no cards; set ASSENT_FEISHU_APP_ID",
        "reply_to: this token may ask in certain chats alone; say in chat_id which one it is",
        "requester: its ids are known to be of two people; name the requester by one of them",
        "requester: tenant_key is not the one of this installation; leave it out",
        # What a rule is tried with, and a policy that is not in force.
        "it is about every call",
        "the policy has changed",
        "the policy has changed (rule 42)",
        "it cannot be read: 42",
        "it is not UTF-8, or larger than 42 KiB",
        "the policy in the ledger is not the one that was published; publish it again",
    }
)
"""What is asserted, or told to agents and operators alone."""


def sentences(file: Path) -> Iterator[str]:
    """The sentences in a module that are no documentation and go to no log."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    documented = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts | documented:
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else "42" for each in node.values)


@pytest.mark.parametrize("file", _MADE_IN)
def test_every_sentence_that_can_become_a_reason_has_its_texts(file: str) -> None:
    every = [*sentences(ROOT / file)]
    assert every
    found = [
        each
        for each in every
        if re.match(r"[a-z_]+[:,]? [a-z'_]+ .*[a-z]", each) and "%s" not in each and each not in _ELSEWHERE
    ]
    assert [each for each in found if reasons.known(each) is None] == []
