"""A Feishu to test against: the simulator on a free port, with a service whose cards go there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI, Request, Response
from temporalio.client import Client

import simulator
from assent import ApprovalHandle, Decision, Identity, Outcome
from assent.contracts.values import Surface
from assent.tls import trusted
from assent.types import DecisionKind, Remember, Stage
from ledger import MessageKind, Slot
from tests.conftest import Service, new_database, open_service
from tests.support.patience import PATIENCE
from tests.support.simulated_feishu import served
from tests.support.waiting import until

APP: dict[str, Any] = {
    "app_id": "cli_assent",
    "app_secret": "secret",
    "encrypt_key": "encrypt-key",
    "verification_token": "verification-token",
    "tenant_key": "tenant_1",
}
REQUESTER, APPROVER, OUTSIDER = (Identity(open_id=f"ou_{who}") for who in ("requester", "approver", "outsider"))


def settings_of(url: str) -> dict[str, Any]:
    """The settings of a service whose Feishu is at *url*."""
    return {f"feishu_{name}": value for name, value in APP.items()} | {"feishu_domain": url}


class Chat:
    """What people see and do in the simulated Feishu."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.AsyncClient(
            base_url=url, timeout=60, limits=httpx.Limits(keepalive_expiry=2), verify=trusted()
        )

    async def messages(self, chat_id: str | None = None) -> list[dict[str, Any]]:
        answer = await self.http.get("/api/messages", params={"chat_id": chat_id} if chat_id else {})
        found: list[dict[str, Any]] = answer.raise_for_status().json()["messages"]
        return found

    async def cards(self, approval_id: str, kind: MessageKind = MessageKind.CARD) -> list[dict[str, Any]]:
        """The messages of one approval, in the order they were sent."""
        own = {
            Slot(approval_id=approval_id, kind=kind, generation=generation, place=place).uuid
            for generation in range(1, 5)
            for place in range(5)
        }
        return [message for message in await self.messages() if message["uuid"] in own]

    async def card(self, approval_id: str) -> dict[str, Any]:
        """The first card of an approval, once it is there."""

        async def there() -> dict[str, Any] | None:
            return next(iter(await self.cards(approval_id)), None)

        return await until(there)

    async def final(self, approval_id: str, word: str = "") -> dict[str, Any]:
        """The card once nobody can click on it any more."""

        async def buttonless() -> dict[str, Any] | None:
            found = await self.cards(approval_id)
            return found[0] if found and not buttons(found[0]["content"]) and word in str(found[0]) else None

        return await until(buttonless)

    async def click(
        self, message: dict[str, Any], decision: str, person: Identity = REQUESTER, *, reason: str | None = None
    ) -> dict[str, Any]:
        """Press a button of a card as it is now."""
        button = buttons(message["content"])[decision]
        form = {"reason": reason or ""} if decision == "reject" else None
        return await self.force(message, button["behaviors"][0]["value"], person, name=button.get("name"), form=form)

    async def force(
        self,
        message: dict[str, Any],
        value: object,
        person: Identity = REQUESTER,
        *,
        name: str | None = None,
        form: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Send a click with any value, as a forged client could."""
        click = {"message_id": message["message_id"], "open_id": person.open_id, "value": value, "force": True}
        if name:
            click |= {"name": name}
        if form is not None:
            click |= {"form_value": form}
        answer = await self.http.post("/api/clicks", json=click)
        result: dict[str, Any] = answer.raise_for_status().json()
        return result

    async def misbehave(self, *faults: dict[str, Any]) -> None:
        (await self.http.put("/api/faults", json=list(faults))).raise_for_status()

    async def behave(self) -> None:
        (await self.http.delete("/api/faults")).raise_for_status()


def buttons(card: Any) -> dict[str, dict[str, Any]]:
    """The buttons of a card that send something, by the decision they stand for."""
    if isinstance(card, list):
        return {key: button for item in card for key, button in buttons(item).items()}
    if not isinstance(card, dict):
        return {}
    found = {key: button for value in card.values() for key, button in buttons(value).items()}
    for behaviour in card.get("behaviors", ()):
        if behaviour.get("type") == "callback":
            value = behaviour["value"]
            kind = value.get("decision") or value.get("ruling") or next(iter(set(value) - {"assent", "on"}))
            found[f"{kind}_{value['remember']}" if value.get("remember") else kind] = card
    return found


@asynccontextmanager
async def simulated(callback_url: str = "", **given: Any) -> AsyncIterator[Chat]:
    """The simulator as one platform of its own."""
    settings = simulator.Settings(**APP, callback_url=callback_url, **given)
    async with served(simulator.create_app(settings)) as url:
        chat = Chat(url)
        try:
            yield chat
        finally:
            await chat.http.aclose()


@dataclass
class FeishuService:
    """A service whose cards go to a simulated Feishu. Nobody carries clicks back: tests bring them."""

    service: Service
    chat: Chat

    async def ask(self, directory: Path, tool: str = "mark", **asked: Any) -> ApprovalHandle:
        arguments = {"path": str(directory / "marks"), **asked.pop("arguments", {})}
        asked.setdefault("requester", REQUESTER)
        return await self.service.gate.request(tool, arguments, **asked)

    async def decided(self, handle: ApprovalHandle, kind: str = "approve") -> Outcome:
        """Decided by another door than the card."""
        return await self.service.decided(handle, kind, actor=REQUESTER)

    async def click(
        self,
        handle: ApprovalHandle,
        message: dict[str, Any],
        kind: str = "approve",
        who: Identity = REQUESTER,
        *,
        patience: timedelta = PATIENCE,
        proof: str = "feishu-signature",
    ) -> str:
        """What the webhook makes of a click on a message."""
        value = buttons(message["content"])[kind]["behaviors"][0]["value"]
        decision = Decision(
            approval_id=value["approval_id"],
            kind=DecisionKind(value["decision"]),
            payload_sha256=value["payload_sha256"],
            actor=who.within("tenant_1"),
            event_id=f"{handle.id}:{kind}:{who}:{message['message_id']}",
            delivery_id="1",
            message_id=message["message_id"],
            stage=Stage(value["stage"]),
            remember=Remember(value["remember"]) if "remember" in value else None,
            chat_id=message["chat_id"],
            surface=Surface.FEISHU,
            proof=proof,
        )
        return (await handle.submit(decision, answer_within=patience)).kind.value


async def open_feishu_service(stack: AsyncExitStack, client: Client, directory: Path, **settings: Any) -> FeishuService:
    chat = await stack.enter_async_context(simulated(limits=False))
    url = await new_database("sqlite", directory)
    more = {**settings_of(chat.url), "callback_secret": "callback-secret", "operators_chat": "oc_ops"}
    return FeishuService(await open_service(stack, client, url, **more, **settings), chat)


class Agent:
    """An agent that is told of outcomes."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.told: list[tuple[dict[str, str], bytes]] = []
        self.app = FastAPI()
        self.app.post("/hook")(self._hook)

    async def _hook(self, request: Request) -> Response:
        self.told.append((dict(request.headers), await request.body()))
        return Response(status_code=self.answers.pop(0) if self.answers else 204)
