"""Two people, one scope, one conversation: neither gets, stops or hears of anything of the other's."""

from __future__ import annotations

from pathlib import Path

import pytest

from assent import ApprovalHandle, ConversationBusy, Identity
from tests.conftest import ME, OPERATOR, Service
from tests.support.tools import marks

OTHER = Identity(open_id="ou_other", union_id="on_other")


def own(service: Service, tmp_path: Path) -> str:
    return f"{tmp_path.name}-{service.client.namespace}"


async def ask(service: Service, path: Path, who: Identity, tool: str = "mark", **asked: str) -> ApprovalHandle:
    return await service.gate.request(tool, {"path": str(path)}, requester=who, **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("scope", ["message_id", "idempotency_scope"])
async def test_a_result_never_crosses_from_one_person_to_another(service: Service, tmp_path: Path, scope: str) -> None:
    path, named = tmp_path / "marks", {scope: own(service, tmp_path)}
    mine = await service.decided(await ask(service, path, ME, **named))
    theirs = await service.decided(await ask(service, path, OTHER, **named), actor=OTHER)
    again = await service.decided(await ask(service, path, ME, **named))
    assert [outcome.status for outcome in (mine, theirs, again)] == ["executed", "executed", "replayed"]
    assert again.content == mine.content != theirs.content
    assert marks(path) == 2
    assert mine.idempotency_key == again.idempotency_key != theirs.idempotency_key


async def test_who_cannot_be_told_apart_is_refused_with_what_to_do(service: Service, tmp_path: Path) -> None:
    path, scope = tmp_path / "marks", own(service, tmp_path)
    first = await ask(service, path, Identity(open_id="ou_me"), idempotency_scope=scope)
    assert (await service.decided(first, actor=ME)).status == "executed"
    by_user_id = Identity(user_id="me")
    second = await ask(service, path, by_user_id, idempotency_scope=scope)
    outcome = await service.decided(second, actor=by_user_id)
    assert (outcome.status, marks(path)) == ("failed", 1)
    assert "ask with another scope" in (outcome.reason or "")
    assert first.id not in outcome.model_dump_json()


async def test_the_twin_of_somebody_elses_frozen_call_ends_without_their_name(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "marks"
    frozen = await ask(service, path, OTHER, "raises")
    assert (await service.decided(frozen, actor=OTHER)).status == "frozen"
    twin = await ask(service, path, ME, "raises")
    outcome = await service.decided(twin)
    plan = await service.ledger.plan(twin.id)
    assert plan is not None
    assert (plan.frozen_twin, plan.another_is_frozen) == (None, True)
    assert (outcome.status, marks(path)) == ("failed", 1)
    assert "somebody else's identical call" in (outcome.reason or "")
    told = (await twin.state()).model_dump_json() + outcome.model_dump_json() + plan.model_dump_json()
    assert frozen.id not in told
    assert "ou_other" not in told
    await frozen.settle("not_executed", operator=OPERATOR, reason="nothing arrived")


async def test_a_conversation_is_a_persons_own(service: Service, tmp_path: Path) -> None:
    path, thread = tmp_path / "marks", own(service, tmp_path)
    mine = await ask(service, path, ME, thread_id=thread)
    theirs = await ask(service, path, OTHER, thread_id=thread, when_pending="supersede")
    theirs_again = await ask(service, path, OTHER, thread_id=thread, when_pending="supersede")
    assert (await theirs.outcome()).status == "superseded"
    assert (await mine.state()).phase == "pending", "nobody else's request takes its place"
    with pytest.raises(ConversationBusy, match=mine.id):
        await ask(service, path, ME, thread_id=thread, when_pending="fail")
    with pytest.raises(ConversationBusy) as busy:
        await ask(service, path, OTHER, thread_id=thread, when_pending="fail")
    assert busy.value.pending == theirs_again.id
    await mine.cancel()
    assert (await mine.outcome()).status == "cancelled"
