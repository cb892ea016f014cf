"""The agents that may come in: their tokens, by hash, and how far each reaches."""

from __future__ import annotations

import hashlib
import hmac
import re
import tomllib
import unicodedata
from collections.abc import Iterable
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import unquote, urlsplit

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from assent.contracts.identity import Identity
from assent.contracts.quotas import AgentLimits
from assent.contracts.request import CallbackUrl
from assent.contracts.values import Id

ANYONE = "*"


def _plain(name: str) -> str:
    if not name.isprintable():
        raise ValueError("a name is one line of printable characters")
    return name


def _person(text: str) -> str:
    if text != ANYONE:
        Identity.parse(text)
    return text


_CHAT = "chat:"


def _asked(text: str) -> str:
    return text if text.startswith(_CHAT) and text != _CHAT else _person(text)


_MOST_DECODED = 3
"""How often a path may be decoded before nothing is left to decode."""


class Agent(BaseModel):
    """One token: who shows it, and what it may do."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: Annotated[Id, Field(max_length=48), AfterValidator(_plain)]
    """What the audit calls the agent; the proof `token:NAME` must fit an id in any script."""
    principal: Annotated[Id, Field(max_length=48), AfterValidator(_plain)] = ""
    """The agent whose token it is, its name where none is given. Two tokens of one agent, while one takes the other's
    place, are the same principal: neither decides or settles what was asked for with the other."""
    expires_at: AwareDatetime | None = None
    """From when on it opens nothing."""
    sha256: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
    """The hash of the token, in hex; the token itself is kept by the agent alone."""
    tools: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Which tools it may ask for, as patterns such as `send_*`."""
    on_behalf_of: Annotated[tuple[Annotated[str, AfterValidator(_person)], ...], Field(strict=False)] = ()
    """For whom it may act, such as `open_id:ou_1`, or `open_id:ou_1,union_id:on_1` for one person with two ids."""
    may_ask: Annotated[tuple[Annotated[str, AfterValidator(_asked)], ...] | None, Field(strict=False)] = None
    """Whom it may ask questions: people, and the members of chats such as `chat:oc_1`; by default those for whom it may
    act."""
    may_decide: bool = False
    """Whether it may tell what a person decided; never about what it asked for itself."""
    may_settle: bool = False
    """Whether it may tell what an operator found out of a frozen call; never of one that it asked for itself."""
    may_bridge: bool = False
    """Whether it may tell running programs what people answered, and ask for hosts that own their processes."""
    may_read_policy: bool = False
    """Whether it may read the operator's policy, and all that the tools say of themselves."""
    may_list_files: bool = False
    """Whether it may know which files those shared for whom it may act; never what is in them."""
    chats: Annotated[tuple[Id, ...], Field(strict=False)] = (ANYONE,)
    """The chats that it may ask in, by their ids: what it names is what rules and remembered decisions go by."""
    callbacks: Annotated[tuple[CallbackUrl, ...], Field(strict=False)] = ()
    """The beginnings of the addresses where it may be called back."""
    requests_per_minute: Annotated[int, Field(ge=1)] = 600
    """How often it may ask anything, with all tokens of its principal together."""
    pending: Annotated[int, Field(ge=0)] = 100
    """How many of its principal's approvals may be open."""
    bytes_per_day: Annotated[int, Field(ge=0)] = 100_000_000
    """How much its principal may have stored within a day."""
    tenant_key: str = ""
    """The installation's tenant, not a key of the file: meant where an identity names none."""

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        return {"principal": given.get("name"), **given} if isinstance(given, dict) else given

    @property
    def limits(self) -> AgentLimits:
        return AgentLimits(pending=self.pending, bytes_per_day=self.bytes_per_day)

    def has_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and now >= self.expires_at

    def may_ask_for(self, tool: str) -> bool:
        return any(fnmatchcase(tool, pattern) for pattern in self.tools)

    def may_ask_in(self, chat_id: str) -> bool:
        return not self.is_bound_to_chats or chat_id in self.chats

    @property
    def is_bound_to_chats(self) -> bool:
        """Whether it may ask in certain chats alone."""
        return ANYONE not in self.chats

    @property
    def people(self) -> frozenset[str] | None:
        """The typed ids of all for whom it may act; None if that is anyone."""
        if ANYONE in self.on_behalf_of:
            return None
        return frozenset(key for person in self._persons() for key in person.keys)

    def may_act_for(self, person: Identity) -> bool:
        """Whether it may speak for *person*. Every id must be known: one that is not might be somebody else's."""
        if ANYONE in self.on_behalf_of:
            return True
        meant = person.within(self.tenant_key)
        return any(meant.tenant_key == known.tenant_key and meant.keys <= known.keys for known in self._persons())

    @property
    def asks(self) -> tuple[str, ...]:
        """Whom it may ask questions."""
        return self.on_behalf_of if self.may_ask is None else self.may_ask

    def may_ask_person(self, person: Identity) -> bool:
        """Whether it may ask *person* questions. Every id must be known."""
        meant = person.within(self.tenant_key)
        known = (Identity.parse(text).within(self.tenant_key) for text in self.asks if _names_person(text))
        return ANYONE in self.asks or any(
            meant.tenant_key == each.tenant_key and meant.keys <= each.keys for each in known
        )

    def may_ask_members(self, chat_id: str) -> bool:
        """Whether whoever belongs to this chat may be asked."""
        return ANYONE in self.asks or f"{_CHAT}{chat_id}" in self.asks

    def speaks_for(self, person: Identity) -> bool:
        """Whether *person* is certainly one of those for whom it may act."""
        meant = person.within(self.tenant_key)
        return ANYONE in self.on_behalf_of or any(meant.is_same_person(known) for known in self._persons())

    def may_see(self, tool: str, requester: Identity) -> bool:
        """Whether an approval is one that it might have asked for."""
        return self.may_ask_for(tool) and self.speaks_for(requester)

    def may_be_called_back_at(self, url: str) -> bool:
        """Whether an address lies under one of those it may name, read as strictly as any server might."""
        if not url.isascii() or not url.isprintable() or any(c in url for c in ' \\\\"<>^`{|}'):
            return False
        if _may_climb(urlsplit(url).path):
            return False
        return any(_lies_under(url, beginning) for beginning in self.callbacks)

    def _persons(self) -> Iterable[Identity]:
        return (Identity.parse(text).within(self.tenant_key) for text in self.on_behalf_of if text != ANYONE)


def _names_person(text: str) -> bool:
    return text != ANYONE and not text.startswith(_CHAT)


def _may_climb(path: str) -> bool:
    """Whether some server could read a path as one that leads up, decoding it once or more, or by its own lights."""
    decoded = path
    for _ in range(_MOST_DECODED):
        before, decoded = decoded, unquote(decoded)
        if decoded == before:
            break
    else:
        return True
    plain = unicodedata.normalize("NFKC", decoded)
    if not plain.isprintable() or "\ufffd" in plain or "%" in plain:
        return True
    segments = re.split(r"[/\\]", plain)
    # What stands behind a semicolon is no part of a segment for some; dots and spaces at its end are none for others.
    return any("." in name and not name.strip(". ") for name in (each.partition(";")[0] for each in segments))


def _lies_under(url: str, beginning: str) -> bool:
    asked, allowed = urlsplit(url), urlsplit(beginning)
    if (asked.scheme, asked.hostname, asked.port) != (allowed.scheme, allowed.hostname, allowed.port):
        return False
    if asked.path == allowed.path:
        return True
    return asked.path.startswith(allowed.path if allowed.path.endswith("/") else f"{allowed.path}/")


class Tokens:
    """All tokens of an installation, as their file holds them."""

    def __init__(self, agents: Iterable[Agent]) -> None:
        self._agents = tuple(agents)

    @classmethod
    def load(cls, path: Path, tenant_key: str = "") -> Self:
        """Read the file. A ValueError says in one sentence what is wrong with it, and where."""
        try:
            found = tomllib.loads(path.read_text("utf-8"))
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not TOML: {error}") from None
        entries = found.pop("token", [])
        if found or not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            unknown = ", ".join(found) or "token"
            raise ValueError(f"{path}: {unknown} is not expected at the top; each token is a table [[token]]")
        if not entries:
            raise ValueError(f"{path} holds no [[token]]; `assent token NAME` prints one")
        agents = [_agent(entry, tenant_key, f"{path}, [[token]] number {n}") for n, entry in enumerate(entries, 1)]
        for field in ("name", "sha256"):
            values = [getattr(agent, field) for agent in agents]
            if repeated := next((value for value in values if values.count(value) > 1), None):
                raise ValueError(f"{path}: two tokens have the {field} {repeated!r}")
        return cls(agents)

    def find(self, token: str) -> Agent | None:
        """Whose token it is. All are compared, each in constant time: how long it takes tells nothing."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
        found = None
        for agent in self._agents:
            if hmac.compare_digest(agent.sha256, digest):
                found = agent
        return found


def _agent(entry: dict[str, object], tenant_key: str, where: str) -> Agent:
    named = f"{where} ({entry['name']!r})" if isinstance(entry.get("name"), str) else where
    if "tenant_key" in entry:
        raise ValueError(f"{named}: tenant_key: not a key of a token; name it in on_behalf_of")
    try:
        return Agent.model_validate({**entry, "tenant_key": tenant_key})
    except ValidationError as error:
        flaws = "; ".join(
            f"{'.'.join(map(str, e['loc']))}: {'not a key of a token' if e['type'] == 'extra_forbidden' else e['msg']}"
            for e in error.errors(include_input=False)
        )
        raise ValueError(f"{named}: {flaws}") from None
