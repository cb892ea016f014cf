"""Cards on their way to a simulated Feishu: to whom, how often, and what becomes of those that came before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.cards import CardActivities, in_time
from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuRefused, FeishuSilent, FeishuUnavailable
from assent.content import Content
from assent.contracts.address import Address, AddressKind
from assent.contracts.approvers import Approvers
from assent.contracts.conclude import Conclusion
from assent.contracts.decision import DecisionKind, Judged, Remember, Stage, VerdictKind
from assent.contracts.deliver import CardKind, Delivery, Revision
from assent.contracts.execute import ToolCall
from assent.contracts.grants import Grant
from assent.contracts.identity import Identity
from assent.contracts.manifest import Risk
from assent.contracts.outcome import Outcome
from assent.contracts.permission import Permission, ResultReview
from assent.contracts.plan import Edit, Plan
from assent.contracts.request import Request
from assent.contracts.state import Progress
from assent.contracts.status import Status
from assent.payload import canonical_payload, sha256
from cards import Wording
from ledger import Ending, Holder, Ledger, MessageKind
from ledger.schema import ClaimState
from tests.conftest import new_database
from tests.support import tools
from tests.support.cards import plan
from tests.support.feishu_service import APP, Chat, buttons, simulated
from tests.support.patience import PATIENCE
from tests.support.waiting import until

TEAM = Address(kind=AddressKind.CHAT_ID, id="oc_team")
ANN, BEN, CAT = (Identity(open_id=f"ou_{who}", tenant_key="tenant_1") for who in ("requester", "approver", "operator"))
MARK = tools.mark.manifest
ARGUMENTS = {"path": "/tmp/x", "amount": "1.00", "note": "none"}
NOW = datetime.now(UTC)


@dataclass
class CardSender:
    """The card activities, without the workflows that ask for them."""

    ledger: Ledger
    chat: Chat
    cards: CardActivities

    async def planned(self, approval_id: str, arguments: dict[str, Any] | None = None, **fields: Any) -> Plan:
        given = {**ARGUMENTS, **(arguments or {})}
        request = Request(approval_id=approval_id, tool="mark", arguments=given, requester=ANN)
        made = plan(
            given,
            **{
                "tool": "mark",
                "approval_id": approval_id,
                "request_sha256": request.sha256,
                "idempotency_key": f"ns:approval:{approval_id}",
                "manifest_sha256": MARK.shown_sha256,
                "requester": ANN,
                "approvers": Approvers.of([BEN, CAT]),
                "addresses": (TEAM,),
                "sensitive": (),
                "deadline": NOW + timedelta(minutes=15),
                "asked_at": NOW,
                "is_shown_in_turn": True,
                **fields,
            },
        )
        open_until = NOW + timedelta(hours=1)
        prepared = await self.ledger.register(request, made, None, now=NOW, open_until=open_until)
        assert prepared.plan is not None
        return prepared.plan

    async def deliver(self, approval_id: str, **asked: Any) -> dict[str, Any]:
        delivered = await self.cards.deliver(Delivery(approval_id=approval_id, **asked))
        assert delivered.message_id is not None, delivered
        return await self.shown(delivered.message_id)

    async def shown(self, message_id: str) -> dict[str, Any]:
        answer = await self.chat.http.get(f"/api/messages/{message_id}")
        message: dict[str, Any] = answer.raise_for_status().json()
        return message

    async def text(self, message: dict[str, Any]) -> str:
        """What a message says now."""
        return json.dumps((await self.shown(message["message_id"]))["content"], ensure_ascii=False)

    async def ended(self, made: Plan, status: Status = Status.EXECUTED, **outcome: Any) -> None:
        judged = outcome.pop("judged", ())
        known = {"payload_sha256": made.payload_sha256, "idempotency_key": made.idempotency_key}
        ending = Outcome(approval_id=made.approval_id, status=status, **{**known, **outcome})
        await self.ledger.conclude(Conclusion(outcome=ending, entries=(), judged=judged, closed_at=datetime.now(UTC)))
        await until(lambda: self.cards.finish(made.approval_id))  # a busy machine may need more than its second

    async def ran(self, made: Plan, content: Any, state: ClaimState = ClaimState.EXECUTED) -> None:
        call, holder = ToolCall.of(made), Holder(token=made.approval_id, worker="w")
        await self.ledger.begin(call, holder)
        error = "it broke" if state is ClaimState.FAILED else None
        await self.ledger.finish(call, holder, 1, Ending(state=state, content=Content.of(content), error=error))


@pytest.fixture(name="sender", scope="module")
async def _sender(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CardSender]:
    async with AsyncExitStack() as stack:
        chat = await stack.enter_async_context(simulated(limits=False))
        ledger = Ledger.open(await new_database("sqlite", tmp_path_factory.mktemp("sender")))
        stack.push_async_callback(ledger.dispose)
        await ledger.upgrade()
        await ledger.publish([MARK], NOW)
        feishu = Feishu(app_id=APP["app_id"], app_secret=APP["app_secret"], domain=chat.url)
        stack.push_async_callback(feishu.close)
        yield CardSender(ledger, chat, CardActivities(ledger, feishu, Wording.load()))


def judged(who: Identity, of: Plan, kind: str = "approve", stage: Stage = Stage.CALL, sha: str | None = None) -> Judged:
    return Judged(
        event_id=f"{of.approval_id}:{who}:{kind}:{stage}",
        delivery_id="1",
        kind=DecisionKind(kind),
        actor=who,
        verdict=VerdictKind.ACCEPTED,
        received_at=datetime.now(UTC),
        stage=stage,
        payload_sha256=sha or of.payload_sha256,
    )


async def test_the_form_is_there_exactly_as_long_as_the_tool_is_the_one_that_was_planned(sender: CardSender) -> None:
    await sender.planned("form-1")
    assert "Edit the arguments" in await sender.text(await sender.deliver("form-1"))
    await sender.planned("form-2", manifest_sha256="0" * 64)
    assert "Edit the arguments" not in await sender.text(await sender.deliver("form-2"))


async def test_progress_changes_the_newest_cards_each_time_and_no_others(sender: CardSender) -> None:
    two = Approvers(kind=Approvers.Kind.PEOPLE, people=(BEN, CAT, ANN), threshold=3)
    made = await sender.planned("progress", approvers=two)
    first = await sender.deliver("progress", progress=Progress(approvers=two))
    second = await sender.deliver("progress", generation=2, reminder=True, progress=Progress(approvers=two))
    assert "Still waiting: run mark?" in await sender.text(second)
    assert "further down" in await sender.text(first)
    for count, people in ((1, (BEN,)), (2, (BEN, CAT))):
        approvals = tuple(judged(who, made) for who in people)
        progress = Progress(approvers=two, approvals=approvals, approved=count)
        await sender.cards.show(Revision(approval_id="progress", progress=progress, generation=2))
        assert f"{count} of 3" in await sender.text(second)
        assert f"{count} of 3" not in await sender.text(first)
    await sender.cards.show(Revision(approval_id="progress", decided=judged(ANN, made)))
    assert "It is running now" in await sender.text(second)
    await sender.ended(made, judged=tuple(judged(who, made) for who in (BEN, CAT, ANN)), content="done")
    for message in (first, second):
        text = await sender.text(message)
        assert "Done." in text
        assert text.count("Approved by <person") == 6  # three people, in English twice: once for whoever has neither


async def test_what_was_said_of_older_cards_is_said_on_no_newer_one(sender: CardSender) -> None:
    two = Approvers(kind=Approvers.Kind.PEOPLE, people=(BEN, CAT), threshold=2)
    made = await sender.planned("followed", approvers=two)
    first = await sender.deliver("followed", progress=Progress(approvers=two))
    second = await sender.deliver("followed", generation=2, progress=Progress(approvers=two, stage=2, stages=2))
    before = [await sender.text(each) for each in (first, second)]
    late = Progress(approvers=two, approvals=(judged(BEN, made),), approved=1)
    await sender.cards.show(Revision(approval_id="followed", progress=late, generation=1))
    assert [await sender.text(each) for each in (first, second)] == before


async def test_a_card_that_was_followed_while_it_was_changed_says_so_again(
    sender: CardSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = Approvers(kind=Approvers.Kind.PEOPLE, people=(BEN, CAT), threshold=2)
    made = await sender.planned("overtaken", approvers=two)
    first = await sender.deliver("overtaken", progress=Progress(approvers=two))
    patch, waits, goes_on = Feishu.patch, asyncio.Event(), asyncio.Event()

    async def held_up(client: Feishu, message_id: str, card: str) -> None:
        if not waits.is_set():
            waits.set()
            await goes_on.wait()
        await patch(client, message_id, card)

    monkeypatch.setattr(Feishu, "patch", held_up)
    said = Progress(approvers=two, approvals=(judged(BEN, made),), approved=1)
    showing = asyncio.create_task(sender.cards.show(Revision(approval_id="overtaken", progress=said, generation=1)))
    await waits.wait()
    await sender.deliver("overtaken", generation=2, progress=Progress(approvers=two, stage=2, stages=2))
    goes_on.set()
    await showing
    assert "further down" in await sender.text(first)
    assert not buttons((await sender.shown(first["message_id"]))["content"])


async def test_where_newer_cards_cannot_be_sent_the_older_ones_go_on_saying_how_it_stands(
    sender: CardSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await sender.planned("unsent", {"note": "u" * 60_000})
    first = await sender.deliver("unsent")

    async def refuse(*_: object) -> str:
        raise FeishuRefused(230027, "no")

    monkeypatch.setattr(Feishu, "upload", refuse)
    refused = await sender.cards.deliver(
        Delivery(approval_id="unsent", place=0, kind=CardKind.CALL, generation=2, reminder=True)
    )
    assert refused.refused
    said = Progress(approvers=made.approvers, approvals=(judged(CAT, made),), approved=1)
    await sender.cards.show(Revision(approval_id="unsent", progress=said, generation=2))
    now = await sender.shown(first["message_id"])
    assert len(now["revisions"]) == 2
    assert buttons(now["content"])


@pytest.mark.parametrize("resisted", [0, 3])
async def test_however_many_cards_resist_the_others_have_their_turn(
    sender: CardSender, monkeypatch: pytest.MonkeyPatch, resisted: int
) -> None:
    """In one of the next tries, where one has no time for them all, though for some tries all of them resisted."""
    sick, well = 18, 2
    addresses = (Address(kind=AddressKind.CHAT_ID, id="oc_team"),) * (sick + well)
    approval_id = f"many-{resisted}"
    made = await sender.planned(approval_id, addresses=addresses)
    sent = [(await sender.deliver(approval_id, place=place))["message_id"] for place in range(sick + well)]
    patch, told, tries = Feishu.patch, list[str](), 0

    async def patched(client: Feishu, message_id: str, card: str) -> None:
        if message_id in sent[:sick] or tries <= resisted:
            await asyncio.Event().wait()
        await patch(client, message_id, card)
        told.append(message_id)

    monkeypatch.setattr(Feishu, "patch", patched)
    activity = ActivityEnvironment()
    a_round = timedelta(seconds=1.5)  # of eight at a time
    activity.info = replace(activity.info, start_to_close_timeout=a_round, schedule_to_close_timeout=None)
    progress = Progress(approvers=made.approvers, approvals=(judged(CAT, made),))
    said = Revision(approval_id=approval_id, generation=1, progress=progress)
    async with asyncio.timeout(PATIENCE.total_seconds()):
        while len(told) < well:
            tries += 1
            with pytest.raises(ApplicationError):
                await activity.run(sender.cards.show, said)
    assert sorted(told) == sorted(sent[sick:])


async def test_that_newer_cards_follow_does_not_cover_the_end(
    sender: CardSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = Approvers(kind=Approvers.Kind.PEOPLE, people=(BEN, CAT), threshold=2)
    made = await sender.planned("covered", approvers=two)
    first = await sender.deliver("covered", progress=Progress(approvers=two))
    patch, waits, goes_on = Feishu.patch, asyncio.Event(), asyncio.Event()

    async def held_up(client: Feishu, message_id: str, card: str) -> None:
        if message_id == first["message_id"] and not waits.is_set():
            waits.set()
            await goes_on.wait()
        await patch(client, message_id, card)

    monkeypatch.setattr(Feishu, "patch", held_up)
    newer = Progress(approvers=two, stage=2, stages=2)
    following = asyncio.create_task(sender.deliver("covered", generation=2, progress=newer))
    await waits.wait()
    await sender.ended(made, judged=tuple(judged(who, made) for who in (BEN, CAT)), content="done")
    assert "Executed" in await sender.text(first)
    goes_on.set()
    await following
    assert "Executed" in await sender.text(first)


async def test_a_card_that_could_not_be_told_that_newer_ones_follow_is_told_later(
    sender: CardSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = Approvers(kind=Approvers.Kind.PEOPLE, people=(BEN, CAT), threshold=2)
    await sender.planned("later", approvers=two)
    first = await sender.deliver("later", progress=Progress(approvers=two))
    newer = Progress(approvers=two, stage=2, stages=2)
    patch = Feishu.patch

    async def away(*_: object) -> None:
        raise FeishuUnavailable("away")

    monkeypatch.setattr(Feishu, "patch", away)
    delivery = Delivery(approval_id="later", place=0, kind=CardKind.CALL, generation=2, progress=newer)
    delivered = await sender.cards.deliver(delivery)
    assert delivered.message_id
    assert delivered.leaves_older
    said = Revision(approval_id="later", progress=newer, generation=2)
    with pytest.raises(ApplicationError):
        await sender.cards.show(said)
    monkeypatch.setattr(Feishu, "patch", patch)
    await sender.cards.show(said)
    assert not buttons((await sender.shown(first["message_id"]))["content"])
    assert not (await sender.cards.deliver(delivery)).leaves_older


async def test_a_card_that_nobody_can_change_any_more_holds_up_nothing_though_it_was_followed(
    sender: CardSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = Approvers(kind=Approvers.Kind.PEOPLE, people=(BEN, CAT), threshold=2)
    made = await sender.planned("gone", approvers=two)
    first = await sender.deliver("gone", progress=Progress(approvers=two))
    patch = Feishu.patch

    async def followed_and_gone(client: Feishu, message_id: str, card: str) -> None:
        monkeypatch.setattr(Feishu, "patch", patch)
        await sender.deliver("gone", generation=2, progress=Progress(approvers=two, stage=2, stages=2))
        monkeypatch.setattr(Feishu, "patch", gone)
        await gone(client, message_id, card)

    async def gone(_client: Feishu, message_id: str, _card: str) -> None:
        assert message_id == first["message_id"]
        raise FeishuRefused(230011, "the message was recalled")

    monkeypatch.setattr(Feishu, "patch", followed_and_gone)
    said = Progress(approvers=two, approvals=(judged(BEN, made),), approved=1)
    await sender.cards.show(Revision(approval_id="gone", progress=said, generation=1))
    assert "further down" in await sender.text(first)


async def test_cards_of_the_next_stage_go_elsewhere_and_the_former_ones_say_so(sender: CardSender) -> None:
    made = await sender.planned("stages", addresses=(Address.of(BEN), Address.of(ANN)))
    places = [await sender.deliver("stages", place=place) for place in (0, 1)]
    third = await sender.deliver("stages", generation=2, place=0, address=Address.of(CAT))
    assert third["chat_id"] == "oc_p2p_operator"
    for message in places:
        assert "Others decide this now" in await sender.text(message)
    record = await sender.ledger.record("stages")
    assert record is not None
    assert {each.address for each in record.messages} == {Address.of(BEN), Address.of(ANN), Address.of(CAT)}
    await sender.ended(made, Status.EXPIRED)
    for message in (*places, third):
        assert "Nobody decided in time." in await sender.text(message)


async def test_an_edited_call_is_shown_anew_with_what_was_changed(sender: CardSender) -> None:
    made = await sender.planned("edited")
    first = await sender.deliver("edited")
    payload = canonical_payload("mark", {**ARGUMENTS, "note": "changed"})
    edit = Edit(
        by=BEN,
        proposed_payload=made.payload,
        proposed_payload_sha256=made.payload_sha256,
        payload=payload,
        payload_sha256=sha256(payload),
    )
    revised = made.model_copy(
        update={
            "payload": payload,
            "payload_sha256": sha256(payload),
            "edit": edit,
            "former_sha256": (made.payload_sha256,),
            "idempotency_key": "ns:approval:edited:2",
        }
    )
    stored = await sender.ledger.revise(revised, "event-1")
    former = Progress(approvers=made.approvers, approvals=(judged(CAT, made),), approved=1)
    before = await sender.text(first)
    of_former = {"progress": former, "payload_sha256": made.payload_sha256}
    await sender.cards.show(Revision(approval_id="edited", generation=1, **of_former))
    assert await sender.text(first) == before, "who approved the former call has not approved this one"
    late = await sender.text(await sender.deliver("edited", place=1, address=Address.of(BEN), **of_former))
    assert stored.payload_sha256 in late
    assert "Approved by" not in late
    second = await sender.deliver("edited", generation=2)
    assert "none → changed" in await sender.text(second)
    assert stored.payload_sha256 in await sender.text(second)
    assert "further down" in await sender.text(first)
    await sender.ended(stored, content="done", edit=edit)
    for message in (first, second):
        assert "Ran with changes by" in await sender.text(message)


async def test_a_result_is_asked_about_on_a_card_of_its_own(sender: CardSender) -> None:
    made = await sender.planned("result", permission=Permission(result=ResultReview.ALWAYS))
    call = await sender.deliver("result")
    await sender.ran(made, {"rows": 3})
    content = await sender.ledger.result("result")
    assert content is not None
    await sender.cards.show(Revision(approval_id="result", decided=judged(BEN, made), reviewing=True))
    assert "Its result waits to be released" in await sender.text(call)
    assert "It completed." in await sender.text(call)
    asked = await sender.deliver("result", kind=CardKind.RESULT)
    text = await sender.text(asked)
    assert "Release to the agent" in text
    assert sha256(content) in text
    await sender.cards.show(
        Revision(
            approval_id="result", progress=Progress(approvers=made.approvers, delegations=((BEN, ANN),)), generation=1
        )
    )
    assert "<at id=ou_requester></at>" in await sender.text(asked)
    assert "Its result waits to be released" in await sender.text(call)
    decisions = (judged(BEN, made), judged(CAT, made, "reject", Stage.RESULT, sha256(content)))
    await sender.ended(made, judged=decisions, withheld=True, withheld_reason="private")
    final = await sender.text(asked)
    assert "Withheld by <person id='ou_operator'" in final
    assert "callback" not in final
    assert "does not get its result" in await sender.text(call)
    record = await sender.ledger.record("result")
    assert record is not None
    assert {each.slot.kind for each in record.messages} == {MessageKind.CARD, MessageKind.RESULT}


async def test_a_large_result_and_a_large_call_each_have_their_file(sender: CardSender) -> None:
    made = await sender.planned("large", {"note": "x" * 60_000}, permission=Permission(result=ResultReview.ALWAYS))
    await sender.deliver("large")
    await sender.ran(made, ["row"] * 9000, ClaimState.FAILED)
    asked = await sender.deliver("large", kind=CardKind.RESULT)
    assert "Read the attached file" in await sender.text(asked)
    assert "it broke" in await sender.text(asked)
    files = [each for each in await sender.chat.messages("oc_team") if each["msg_type"] == "file"]
    names = [each["content"]["file_name"] for each in files]
    assert len([name for name in names if made.payload_sha256[:12] in name]) == 1
    assert len([name for name in names if "-result-" in name]) == 1


async def test_a_card_in_trouble_keeps_no_other_from_being_brought_up_to_date(sender: CardSender) -> None:
    sick, well = (Address(kind=AddressKind.OPEN_ID, id=who) for who in ("ou_approver", "ou_operator"))
    made = await sender.planned("one-sick", addresses=(sick, well))
    first, second = [await sender.deliver("one-sick", place=place) for place in (0, 1)]
    await sender.chat.misbehave({"on": "patch", "kind": "5xx", "match": {"message_id": first["message_id"]}})
    known = {"payload_sha256": made.payload_sha256, "idempotency_key": made.idempotency_key}
    ending = Outcome(approval_id="one-sick", status=Status.EXECUTED, **known)
    await sender.ledger.conclude(Conclusion(outcome=ending, entries=(), judged=(), closed_at=datetime.now(UTC)))
    assert not await sender.cards.finish("one-sick")
    assert buttons((await sender.shown(first["message_id"]))["content"])
    with pytest.raises(ApplicationError, match="internal error"):
        await sender.cards.show(Revision(approval_id="one-sick"))
    assert not buttons((await sender.shown(second["message_id"]))["content"])
    await sender.chat.behave()
    await until(lambda: sender.cards.finish("one-sick"))
    assert not buttons((await sender.shown(first["message_id"]))["content"])


async def test_a_try_has_ended_before_temporal_takes_it_for_lost(
    sender: CardSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await sender.planned("hanging")
    await sender.deliver("hanging")
    left = asyncio.Event()

    async def hangs(*_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    monkeypatch.setattr(Feishu, "patch", hangs)
    activity = ActivityEnvironment()
    activity.info = replace(activity.info, start_to_close_timeout=timedelta(seconds=1))
    with pytest.raises(ApplicationError, match="did not answer in time"):
        await activity.run(sender.cards.show, Revision(approval_id="hanging", decided=judged(BEN, made)))
    assert left.is_set()


@pytest.mark.parametrize(
    ("limits", "is_enough"),
    [
        ({"start_to_close_timeout": timedelta(seconds=20)}, True),
        ({"start_to_close_timeout": timedelta(seconds=20), "schedule_to_close_timeout": timedelta(seconds=31)}, False),
        ({"schedule_to_close_timeout": timedelta(seconds=60)}, True),
    ],
)
async def test_only_what_all_tries_have_together_is_spent_while_a_try_waits_for_a_worker(
    limits: dict[str, Any], is_enough: bool
) -> None:
    now = datetime.now(UTC)
    activity = ActivityEnvironment()
    scheduled = replace(activity.info, scheduled_time=now - timedelta(seconds=30), started_time=now)
    activity.info = replace(scheduled, **{"start_to_close_timeout": None, "schedule_to_close_timeout": None, **limits})

    async def left() -> bool:
        async with in_time():
            await asyncio.sleep(1)
        return True

    if is_enough:
        assert await activity.run(left)
    else:
        with pytest.raises(FeishuSilent):
            await activity.run(left)


async def test_a_card_is_sent_once_however_often_it_is_asked_for(sender: CardSender) -> None:
    await sender.planned("once", {"note": "y" * 60_000})
    first = await sender.deliver("once")
    before = len(await sender.chat.messages())
    again = await sender.deliver("once")
    assert again["message_id"] == first["message_id"]
    assert len(await sender.chat.messages()) == before


async def test_nothing_is_sent_for_what_has_ended(sender: CardSender) -> None:
    made = await sender.planned("over")
    await sender.ended(made, Status.CANCELLED)
    for kind in CardKind:
        delivered = await sender.cards.deliver(Delivery(approval_id="over", kind=kind))
        assert (delivered.message_id, delivered.refused) == (None, None)


async def test_a_remembered_decision_is_told_of_once_and_can_be_revoked_there(sender: CardSender) -> None:
    made = await sender.planned("granted")
    grant = Grant(
        grant_id="grant-1",
        scope=Remember.EXACT,
        tool="mark",
        payload_sha256=made.payload_sha256,
        requester=ANN,
        decision=DecisionKind.APPROVE,
        granted_by=BEN,
        approval_id="earlier",
        granted_at=NOW,
        expires_at=NOW + timedelta(days=7),
        manifest_sha256=MARK.shown_sha256,
        risk=Risk.MEDIUM,
    )
    made = await sender.planned("granted-2", grant=grant)
    before = len(await sender.chat.messages("oc_team"))
    await sender.ended(made, grant_id="grant-1", content="done")
    await sender.cards.show(Revision(approval_id="granted-2"))
    sent = (await sender.chat.messages("oc_team"))[before:]
    assert len(sent) == 1
    text = await sender.text(sent[0])
    assert "Nobody was asked:" in text
    assert '"revoke": "grant-1"' in text
    assert "approve" not in {each.get("name") for each in sent[0]["content"]["body"]["elements"]}


async def test_what_nobody_was_asked_about_without_a_grant_is_told_to_nobody(sender: CardSender) -> None:
    made = await sender.planned("auto")
    before = len(await sender.chat.messages())
    await sender.ended(made, content="done")
    assert len(await sender.chat.messages()) == before


async def test_those_who_are_called_in_are_named_once_it_is_their_turn(sender: CardSender) -> None:
    soon: dict[str, Any] = {"approvers": Approvers(), "escalate_to": (CAT,)}
    await sender.planned("early", escalate_at=datetime.now(UTC) - timedelta(seconds=1), **soon)
    await sender.planned("late", escalate_at=datetime.now(UTC) + timedelta(hours=1), **soon)
    called = Progress(approvers=Approvers(), called=(CAT,))
    assert "<at id=ou_operator></at>" not in await sender.text(await sender.deliver("early"))
    assert "<at id=ou_operator></at>" in await sender.text(await sender.deliver("late", progress=called)), "as it says"
