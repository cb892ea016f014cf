"""`python -m benchmarks.inbox`: what an inbox costs where 20 approvals are mine, alone and among 5000 that are not."""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from statistics import median

from temporalio.testing import ActivityEnvironment

from activities.feishu.client import Feishu
from activities.inbox import InboxActivities
from assent import Identity
from assent.client.client import Assent
from assent.contracts.approvers import Approvers
from assent.contracts.inbox import Enquiry
from assent.contracts.request import Request
from assent.temporal.door import TemporalDoor
from benchmarks.servers import own_directory, own_temporal
from cards import Wording
from ledger import Ledger, Reader
from tests.support import policies
from tests.support.feishu_service import REQUESTER, open_feishu_service
from tests.support.web import TENANT, Web

MINE, OTHERS, LOOKS = 20, 4980, 15
NOBODY = Approvers(kind=Approvers.Kind.PEOPLE, people=(Identity(open_id="ou_somebody_else"),))
ME = REQUESTER.within(TENANT)


async def pending_of_others(ledger: Ledger, count: int) -> None:
    """Approvals that wait for somebody else, as the ledger knows them."""
    now = datetime.now(UTC)
    for _ in range(count):
        approval_id = uuid.uuid4().hex
        plan = policies.plan(approval_id=approval_id, approvers=NOBODY, deadline=now + timedelta(hours=1))
        request = Request(approval_id=approval_id, tool=plan.tool, arguments={}, requester=plan.requester)
        await ledger.register(request, plan, None, now=now, open_until=now + timedelta(hours=2))


async def took(look: Callable[[], Awaitable[int]]) -> float:
    """How many milliseconds one look takes, in the middle of some; each must find what is mine."""
    times = []
    for _ in range(LOOKS):
        began = time.perf_counter()
        found = await look()
        times.append((time.perf_counter() - began) * 1000)
        assert found == MINE, f"{found} listed"
    return median(times)


async def main() -> None:
    with own_directory() as directory, own_temporal(namespaces=1) as temporal:
        async with AsyncExitStack() as stack:
            feishu = await open_feishu_service(stack, await temporal.client("default"), directory)
            service = feishu.service
            for _ in range(MINE):
                await (await feishu.ask(directory, "mark", requester=REQUESTER)).state()
            web = Web(service, directory)
            gate = Assent(TemporalDoor(service.client, Reader(service.ledger)))
            client = Feishu.of(service.settings)
            assert client is not None
            stack.push_async_callback(client.close)
            bot = InboxActivities(service.ledger, client, Wording.load(None), service.settings)
            sent: list[str] = []

            async def send(*given: object, **_: object) -> None:
                sent.append(str(given[-1]))

            client.send = send  # type: ignore[assignment]  # Feishu's own time is not measured

            async def over_temporal() -> int:
                return len([state async for state in gate.inbox(ME)])

            async def over_http() -> int:
                async with web.http("approver") as http:
                    answer = await http.get("/v1/inbox", params={"actor": f"open_id:{ME.open_id}"})
                return len(answer.json()["waiting"])

            async def by_the_bot() -> int:
                await ActivityEnvironment().run(bot.reply_inbox, Enquiry(sender=ME, message_id="om_1"))
                return MINE if f"{MINE} waiting" in sent[-1] else -1

            ways = {"client, command line": over_temporal, "GET /v1/inbox": over_http, "the bot": by_the_bot}
            alone = {name: await took(look) for name, look in ways.items()}
            await pending_of_others(service.ledger, OTHERS)
            among = {name: await took(look) for name, look in ways.items()}
    print(f"| inbox of {MINE} | alone | among {MINE + OTHERS:,} | ratio |\n|---|---|---|---|")
    for name in ways:
        print(f"| {name} | {alone[name]:.0f} ms | {among[name]:.0f} ms | {among[name] / alone[name]:.2f} |")


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
