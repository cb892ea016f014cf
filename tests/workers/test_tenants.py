"""One company is served: a tenant that is not the installation's makes nobody another person."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from assent import Identity
from tests.support import servers
from tests.support.feishu_service import REQUESTER, FeishuService, open_feishu_service
from tests.support.policies import rule
from tests.support.tools import marks
from tests.support.web import Web

ELSEWHERE = {"open_id": "ou_requester", "tenant_key": "elsewhere"}
QUERY = "open_id:ou_requester,tenant_key:elsewhere"
FOUR_EYES = rule(
    'approvers = [{people = ["open_id:ou_requester", "open_id:ou_approver"], exclude_requester = true}]',
    name="four-eyes",
)


@pytest.fixture
async def feishu(tmp_path: Path, temporal_address: str, namespaces: Iterator[str]) -> AsyncIterator[FeishuService]:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        yield await open_feishu_service(stack, client, tmp_path)


async def test_an_exclusion_is_not_evaded_by_naming_another_tenant(feishu: FeishuService, tmp_path: Path) -> None:
    async with feishu.service.policy(FOUR_EYES):
        outcome = await (await feishu.ask(tmp_path, requester=Identity(**ELSEWHERE), chat_id="oc_team")).outcome()
    assert outcome.status == "failed"
    assert outcome.reason == "requester: tenant_key is not the one of this installation; leave it out"
    assert (await feishu.chat.messages(), marks(tmp_path / "marks")) == ([], 0)


async def test_the_installations_own_tenant_may_be_named(feishu: FeishuService, tmp_path: Path) -> None:
    handle = await feishu.ask(tmp_path, requester=REQUESTER.within("tenant_1"))
    assert (await feishu.decided(handle)).status == "executed"


async def test_nobody_of_another_tenant_is_called_in(feishu: FeishuService, tmp_path: Path) -> None:
    handle = await feishu.ask(tmp_path)
    state = await handle.state()
    stranger = Identity(open_id="ou_x", tenant_key="elsewhere")
    verdict = await handle.decide(
        "delegate", actor=REQUESTER, payload_sha256=state.payload_sha256, delegate_to=stranger
    )
    assert verdict.kind == "invalid"
    assert (await feishu.decided(handle)).status == "executed"


async def test_nobody_decides_as_somebody_of_another_tenant_whom_a_rule_names(
    feishu: FeishuService, tmp_path: Path
) -> None:
    theirs = rule(f'approvers = [{{people = ["{QUERY}"]}}]', name="theirs")
    async with feishu.service.policy(theirs):
        handle = await feishu.ask(tmp_path, chat_id="oc_team")
        state = await handle.state()
        verdict = await handle.decide("approve", actor=Identity(**ELSEWHERE), payload_sha256=state.payload_sha256)
    assert verdict.kind == "forbidden"


async def test_another_tenant_is_refused_at_the_agents_door(feishu: FeishuService, tmp_path: Path) -> None:
    web = Web(feishu.service, tmp_path)
    call = {"tool": "mark", "arguments": {"path": str(tmp_path / "marks")}}
    ours = {**call, "requester": {"open_id": "ou_requester"}}
    theirs = {**call, "requester": ELSEWHERE}
    decision: dict[str, Any] = {"decision": "approve", "payload_sha256": "0" * 64, "actor": {"open_id": "ou_requester"}}
    ruling = {"ruling": "executed", "operator": ELSEWHERE, "reason": "It is there."}
    async with web.http("agent") as http, web.http("console") as console:
        made = (await http.post("/v1/approvals", json=ours)).json()["approval_id"]
        path = f"/v1/approvals/{made}"
        answers = [
            await http.post("/v1/approvals", json=theirs),
            await http.post("/v1/bundles", json={"calls": [ours, theirs]}),
            await http.post(f"{path}/cancel", json={"actor": ELSEWHERE}),
            await console.post(f"{path}/decide", json={**decision, "actor": ELSEWHERE}),
            await console.post(f"{path}/decide", json={**decision, "decision": "delegate", "delegate_to": ELSEWHERE}),
            await console.post(f"/v1/frozen/{made}/settle", json=ruling),
            await console.get("/v1/inbox", params={"actor": QUERY}),
            await console.get(f"{path}/result", params={"actor": QUERY}),
            await console.delete("/v1/grants/g_1", params={"actor": QUERY}),
        ]
        assert [answer.status_code for answer in answers] == [422] * len(answers)
        said = [answer.json()["detail"] for answer in answers]
        assert set(said) == {"tenant_key: this is not the tenant of this installation; leave it out"}
        assert (await http.get(path)).json()["phase"] == "pending"
