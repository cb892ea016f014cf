"""What people see of an approval that several decide about: its cards as they change."""

from __future__ import annotations

from typing import Any

from assent import ApprovalHandle, Identity
from tests.conftest import OPERATOR
from tests.support.feishu_service import APPROVER, REQUESTER, FeishuService, buttons
from tests.support.waiting import until

TEAM = "oc_team"


def rules(**said: str) -> str:
    return "[[rule]]\nname = 'test'\n" + "\n".join(f"{key} = {value}" for key, value in said.items())


def named(*people: Identity) -> str:
    """These people, as a rule names them."""
    return "[" + ", ".join(f'"open_id:{person.open_id}"' for person in people) + "]"


def two_of(*people: Identity, **more: str) -> str:
    return rules(approvers=f"{{people = {named(*people)}, threshold = 2}}", ttl="'60s'", **more)


def two_stages() -> str:
    """Two people approve, and after them a third."""
    first = f"{{people = {named(APPROVER, REQUESTER)}, threshold = 2}}"
    return rules(approvers=f"[{first}, {{people = {named(OPERATOR)}}}]")


async def members(feishu: FeishuService, chat_id: str, *people: Identity) -> None:
    answer = await feishu.chat.http.put(
        f"/api/chats/{chat_id}/members", json={"members": [person.open_id for person in people]}
    )
    answer.raise_for_status()


async def all_cards(feishu: FeishuService, handle: ApprovalHandle, count: int) -> list[dict[str, Any]]:
    """All cards of the call, once there are so many."""

    async def there() -> list[dict[str, Any]] | None:
        found = await feishu.chat.cards(handle.id)
        return found if len(found) == count else None

    return await until(there)


async def revisions(feishu: FeishuService, card: dict[str, Any]) -> list[Any]:
    """Every version of a card, in order."""
    answer = await feishu.chat.http.get(f"/api/messages/{card['message_id']}")
    found: list[Any] = answer.raise_for_status().json()["revisions"]
    return found


async def says(feishu: FeishuService, card: dict[str, Any], words: str) -> None:
    """Wait until this card says this."""

    async def says_so() -> bool:
        return words in str((await revisions(feishu, card))[-1])

    await until(says_so)


async def has_no_buttons(feishu: FeishuService, card: dict[str, Any]) -> bool:
    return not buttons((await revisions(feishu, card))[-1])
