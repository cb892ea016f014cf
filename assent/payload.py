"""What exactly would run, as bytes: the canonical payload, its hash and the keys made from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import rfc8785

from assent.errors import InvalidRequest, Unhashable

MAX_PAYLOAD_BYTES = 256 * 1024
"""The largest canonical payload that can be asked for."""
MAX_VALUES = 10_000
"""How many values arguments may hold: each is looked at some dozen times, by every process on the way."""
MAX_DEPTH = 64
"""How deep arguments may nest."""
MAX_EXACT_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader agrees on."""

SHORT_HASH = 12
"""How many characters of a hash people are shown, and type."""

Place = str | int
"""One step from a value to one within it: a name or a position."""


def canonical_json(value: Any) -> bytes:
    """RFC 8785 canonical JSON of *value*, refusing whatever that standard cannot carry exactly."""
    return _write(value).encode() if _refuse_within(value, []) else rfc8785.dumps(value)


_write = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode
"""What Python writes by itself, ten times as fast, and to the letter the same where there are neither floats nor names
beyond U+FFFF, which the standard writes and sorts in ways of its own."""


def canonical_payload(
    tool: str, arguments: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
) -> str:
    """The canonical text of one call: what is shown, hashed, stored and parsed again to run.

    files: what is known of the bytes of each file that the arguments name: media_type, name, sha256 and size.
    """
    text = canonical_json({"arguments": arguments, "files": dict(files), "tool": tool})
    if len(text) > MAX_PAYLOAD_BYTES:
        raise InvalidRequest(
            f"the call holds {len(text)} bytes, the limit is {MAX_PAYLOAD_BYTES}; "
            "store the large part elsewhere and pass a reference to it."
        )
    if (values := _count(arguments) - 1) > MAX_VALUES:
        raise InvalidRequest(
            f"the call holds {values} values, the limit is {MAX_VALUES}; "
            "store the large part elsewhere and pass a reference to it, or send it as a string."
        )
    return text.decode()


def _count(value: Any) -> int:
    """How many values there are, with this one."""
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count, inside))


def argument_values(payload: str) -> dict[str, Any]:
    """The arguments of a canonical payload."""
    arguments: dict[str, Any] = json.loads(payload)["arguments"]
    return arguments


def payload_files(payload: str) -> dict[str, dict[str, Any]]:
    """What a canonical payload says of the files that its arguments name, by their ids."""
    files: dict[str, dict[str, Any]] = json.loads(payload)["files"]
    return files


def payload_arguments(payload: str) -> bytes:
    """The arguments of a canonical payload, as JSON for a strict parser."""
    return json.dumps(argument_values(payload)).encode()


def short_hash(digest: str) -> str:
    """A hash as people read it."""
    return digest[:SHORT_HASH]


def sha256(text: str | bytes) -> str:
    """The hex SHA-256 of a text."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


CALLERS_SCOPE = "caller:"


def scope_of(*, approval_id: str, message_id: str | None, scope: str | None) -> str:
    """Within what the same call runs once: what the caller says, else one message, else one approval."""
    if scope is not None:
        return f"{CALLERS_SCOPE}{scope}"
    return f"message:{message_id}" if message_id is not None else f"approval:{approval_id}"


def scope_key(namespace: str, scope: str, payload_sha256: str) -> str:
    """What all have in common who ask for one call in one scope, whoever they are."""
    return f"{namespace}:{scope}:{payload_sha256}"


def idempotency_key(namespace: str, scope: str, requester: str, payload_sha256: str) -> str:
    """The key under which one payload runs at most once.

    requester: the person's canonical id.
    """
    return f"{namespace}:{scope}:{requester}:{payload_sha256}"


def alias_keys(
    namespace: str, payload_sha256: str, *, key: str | None, message_id: str | None, event_id: str | None
) -> tuple[str, ...]:
    """What else a call is known by: its caller's key, which stands for one payload; a message and an event, of which
    each may bring several calls, and no call twice.
    """
    brought = {"message": message_id, "event": event_id}
    return (
        *([f"{namespace}:key:{key}"] if key is not None else []),
        *(scope_key(namespace, f"{kind}:{by}", payload_sha256) for kind, by in brought.items() if by is not None),
    )


def refuse_inexact(value: Any) -> None:
    """Raise Unhashable, with the path, for what canonical JSON cannot carry exactly."""
    _refuse_within(value, [])


def _refuse_within(value: Any, place: list[Place]) -> bool:
    """Whether Python's own JSON of the value is the canonical one; raises where there is none."""
    # The path is written down only where something is wrong: one per value would cost far more than the values.
    if len(place) > MAX_DEPTH:
        raise Unhashable.at(place, f"nested deeper than {MAX_DEPTH} levels; flatten it, or send it as a string")
    match value:
        case None | bool():
            return True
        case str():
            _refuse_surrogates(value, place)
            return type(value) is str
        case int():
            if abs(value) > MAX_EXACT_INTEGER:
                raise Unhashable.at(place, "an integer beyond 2^53 is not exact in JSON; send it as a string")
            return type(value) is int
        case float():
            if value != value or value in (float("inf"), float("-inf")):
                raise Unhashable.at(place, f"{value} is not a JSON number; send it as a string")
            return False
        case list():
            are_plain = type(value) is list
            for index, item in enumerate(value):
                are_plain &= _refuse_at(index, item, place)
            return are_plain
        case dict():
            are_plain = type(value) is dict
            for key, item in value.items():
                if not isinstance(key, str):
                    raise Unhashable.at(place, f"the key {key!r} is not a string; send it as a string")
                _refuse_surrogates(key, place)
                are_plain &= type(key) is str and (key.isascii() or max(key) <= "\uffff")
                are_plain &= _refuse_at(key, item, place)
            return are_plain
        case tuple() | set() | frozenset():
            raise Unhashable.at(place, f"{type(value).__name__} is not a JSON value; send it as a list")
        case _:
            raise Unhashable.at(place, f"{type(value).__name__} is not a JSON value; send it as a string")


def _refuse_at(step: Place, item: Any, place: list[Place]) -> bool:
    if len(place) < MAX_DEPTH and (item is None or (type(item) is str and item.isascii())):
        return True  # as most are
    place.append(step)
    is_plain = _refuse_within(item, place)
    place.pop()
    return is_plain


def _refuse_surrogates(text: str, place: list[Place]) -> None:
    if str.isascii(text):
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        problem = "a lone surrogate is not text; send the bytes in an encoding such as base64"
        raise Unhashable.at(place, problem) from None
