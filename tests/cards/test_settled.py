"""What people read once a frozen call is settled, while its twin is not, and right after they settle it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assent.contracts.identity import Identity
from assent.contracts.outcome import Outcome
from assent.contracts.plan import Plan
from assent.contracts.ruling import Ruled, RuledKind, RulingKind, Settlement
from assent.contracts.status import Status
from assent.payload import sha256
from cards import Attachment, Showing, UnfitRuling, overflow, refused_ruling, ruled_toast, settled_notice
from cards.rulings import _UNFIT
from tests.support.card_rules import check, markdowns
from tests.support.cards import APPROVED, NOW, WORDING, built, buttons, plan, said
from tests.support.review_cards import PROBED, REFUTED, RETRIED, SETTLED, URL, review, shown


def told(settlement: Settlement, of: Plan | None = None) -> dict[str, Any]:
    from simulator.cards import check_card

    return check_card(check(settled_notice(settlement, of or plan(), WORDING)))


def settled(settlement: Settlement, **fields: Any) -> dict[str, Any]:
    outcome = Outcome(approval_id="inv-42", status=Status.FROZEN, reason="no answer")
    return built(Showing(plan=plan(), decided=APPROVED, outcome=outcome, ended_at=NOW, settlement=settlement, **fields))


# What was settled


@pytest.mark.parametrize("where", ["the approval's card", "the operators' card", "the conversation"])
@pytest.mark.parametrize(
    ("settlement", "colour", "state", "expected"),
    [
        (SETTLED, "green", "Settled: it happened", ["It did happen.", "Settled by <person id='ou_olga'", "outbox"]),
        (REFUTED, "grey", "Settled: it did not happen", ["It did not happen.", "ou_olga", "Nothing was sent."]),
        (PROBED, "green", "Settled: it happened", ["Found out by the automatic check", '"invoice": "2026-42"']),
        (RETRIED, "green", "Settled: it happened", ["It was tried again after", '"invoice": "2026-42"']),
    ],
)
def test_a_settlement_says_what_by_whom_when_and_why(
    where: str, settlement: Settlement, colour: str, state: str, expected: list[str]
) -> None:
    if where == "the approval's card":
        found = settled(settlement)
    elif where == "the operators' card":
        found = shown(review(settlement=settlement))
    else:
        found = told(settlement)
    assert found["header"]["template"] == colour
    assert found["header"]["text_tag_list"][0]["text"]["content"] == state
    for part in (*expected, f"millisecond='{int(settlement.settled_at.timestamp() * 1000)}'"):
        assert part in said(found)
    assert "已核实" in said(found, "zh_cn")
    assert found["config"]["summary"]["content"].startswith(f"{state}: send_invoice")


def test_a_settled_approval_no_longer_says_that_it_is_unknown() -> None:
    found = settled(SETTLED)
    assert "not known" not in said(found)
    assert "Approved by <person id='ou_ben'" in said(found)
    assert "callback" not in json.dumps(found)


def test_an_approval_that_was_ended_by_hand_can_be_settled() -> None:
    found = built(Showing(plan=plan(), decided=APPROVED, settlement=SETTLED))
    assert "It did happen." in said(found)
    assert "running" not in said(found)


def test_what_is_known_anyway_is_not_settled_over() -> None:
    outcome = Outcome(approval_id="inv-42", status=Status.EXECUTED, content="sent")
    found = built(Showing(plan=plan(), decided=APPROVED, outcome=outcome, settlement=REFUTED))
    assert found["header"]["template"] == "green"
    assert "did not happen" not in said(found)


def test_what_did_not_happen_has_no_result() -> None:
    refuted = REFUTED.model_copy(update={"content": "a secret result"})
    for found in (settled(refuted), shown(review(settlement=refuted)), told(refuted)):
        assert "a secret result" not in json.dumps(found)


def test_a_preview_of_a_settled_result_says_so() -> None:
    long = SETTLED.model_copy(update={"content": "r" * 300, "truncated": True})
    assert "… only the beginning" in said(told(long))
    assert "… only the beginning" not in said(told(SETTLED))


def test_the_requester_is_notified_of_the_settlement() -> None:
    found = told(REFUTED)
    assert "<at id=ou_ann></at> It is now known what became of your request." in markdowns(found)
    assert buttons(found) == {}
    nobody = told(REFUTED, plan(requester=Identity(open_id="all")))
    assert "<at " not in json.dumps(nobody)


# A call whose twin is frozen


def test_a_pending_card_warns_that_the_same_call_is_frozen() -> None:
    found = built(Showing(plan=plan(frozen_twin="inv-41"), twin_url=URL))
    assert "The very same call is frozen" in json.dumps(found["body"]["elements"][0])
    for part in ("nobody knows whether it took effect", "does not run until that is settled", "inv-41"):
        assert part in said(found)
    assert "即使同意本申请也不会执行" in said(found, "zh_cn")
    assert buttons(found)["twin"]["behaviors"] == [{"type": "open_url", "default_url": URL}]
    assert {"approve", "reject"} <= set(buttons(found))


def test_a_call_that_may_be_repeated_only_says_that_its_twin_is_frozen() -> None:
    text = said(built(Showing(plan=plan(frozen_twin="inv-41", retry_safe=True))))
    assert "The very same call is frozen" in text
    assert "until that is settled" not in text


def test_somebody_elses_frozen_call_is_told_without_a_name_or_a_link() -> None:
    found = built(Showing(plan=plan(another_is_frozen=True)))
    text = said(found)
    assert "The very same call is frozen" in text
    assert "Somebody else asked for it." in text
    assert "The frozen approval" not in text
    assert "twin" not in buttons(found)


def test_without_a_frozen_twin_there_is_no_warning() -> None:
    found = built(Showing(plan=plan(), twin_url=URL))
    assert "frozen" not in said(found)
    assert "twin" not in buttons(found)


def test_a_decided_card_warns_no_more() -> None:
    assert "very same call" not in said(built(Showing(plan=plan(frozen_twin="inv-41"), decided=APPROVED)))


@pytest.mark.parametrize("length", range(17_000, 25_000, 250))
def test_the_warning_and_its_link_never_take_the_room_of_what_is_approved(length: int) -> None:
    of = plan({"body": "x" * length}, frozen_twin="i" * 200)
    file = overflow(of, WORDING)
    attachment = Attachment(name=file.name, size=len(file.data), sha256=sha256(file.data)) if file else None
    for url in (None, URL, "https://x.example/" + "a" * 1900):
        found = built(Showing(plan=of, twin_url=url, attachment=attachment))
        assert "approve" in buttons(found)


# What an operator is told


@pytest.mark.parametrize("kind", RulingKind)
@pytest.mark.parametrize("became", RuledKind)
def test_every_ruling_has_a_toast_in_both_languages(kind: RulingKind, became: RuledKind) -> None:
    for settlement in (None, SETTLED, REFUTED):
        answer = ruled_toast(Ruled(kind=became, settlement=settlement), kind, WORDING).answer()["toast"]
        assert answer["type"] in {"info", "success", "error"}
        assert answer["content"] == answer["i18n"]["en_us"] != answer["i18n"]["zh_cn"]


def test_the_second_operator_is_told_who_was_first_and_what_was_settled() -> None:
    ruled = Ruled(kind=RuledKind.ALREADY_SETTLED, settlement=REFUTED)
    toast = ruled_toast(ruled, RulingKind.EXECUTED, WORDING, name="韩梅梅\u202e")
    assert toast.content == "韩梅梅⟦U+202E⟧ has already settled this. Its state: Settled: it did not happen."
    assert toast.i18n["zh_cn"] == "韩梅梅⟦U+202E⟧ 已处理该事项，当前状态：已核实：未生效"


def test_toasts_tell_what_was_settled() -> None:
    texts = {kind: ruled_toast(Ruled(kind=RuledKind.SETTLED), kind, WORDING).content for kind in RulingKind}
    assert texts[RulingKind.EXECUTED] == "Settled: it happened."
    assert texts[RulingKind.NOT_EXECUTED] == "Settled: it did not happen."
    again = Ruled(kind=RuledKind.SETTLED, settlement=SETTLED)
    assert ruled_toast(again, RulingKind.RETRY, WORDING).content == "Settled: it happened."
    retried = Ruled(kind=RuledKind.RETRYING)
    assert ruled_toast(retried, RulingKind.RETRY, WORDING).content == "It is being tried again."
    assert "Nothing was settled" in ruled_toast(retried, RulingKind.NOT_EXECUTED, WORDING).content


def test_every_refusal_says_that_nothing_was_changed() -> None:
    known = ["wrong_hash", "not_certain", "no_reason", "bad_content", "not_a_result", "tampered", "missing"]
    assert set(_UNFIT) <= set(known)
    texts = [refused_ruling(why, WORDING) for why in (*known, "{something else}")]
    assert len({toast.content for toast in texts}) == len(texts)
    assert all(toast.type == "error" and "hanged" in toast.content for toast in texts)
    assert all("未做任何更改" in toast.i18n["zh_cn"] for toast in texts)
    assert all(str(UnfitRuling(why)) for why in _UNFIT)
