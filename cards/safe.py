"""What of others a card shows, made safe for it: texts, people, addresses."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, quote, urlsplit

from assent.contracts.identity import Identity
from assent.safe import markdown

_MENTIONABLE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_URL = 2000
LONGEST_ADDRESS = "https://example.com/".ljust(_MAX_URL, "x")
"""What takes as much room as any address can."""


def fitting(text: str, most_bytes: int) -> str:
    """As much of a text as *most_bytes* hold on one line, however much of it has to be written out."""
    kept = text[:most_bytes]
    while kept and len(markdown(kept).encode()) > most_bytes:
        kept = kept[: len(kept) * 2 // 3]
    return kept if len(kept) == len(text) else f"{kept}…"


def size(count: int) -> str:
    """A number of bytes as people read it."""
    if count < 1000:
        return f"{count} B"
    return f"{count / 1000:.1f} KB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def person_id(person: Identity) -> str | None:
    """The id by which a card can name this person, if there is one that is certainly only an id."""
    for found in (person.open_id, person.user_id, person.union_id):
        if found and found != "all" and _MENTIONABLE.fullmatch(found):
            return found
    return None


def web_address(url: str) -> tuple[str, str] | None:
    """An http(s) address in ASCII and the host it leads to, or nothing when it is not plainly one."""
    if len(url) > _MAX_URL or not url.isprintable() or any(c in " \\<>\"'`" for c in url):
        return None
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode()
        port = parts.port
    except (ValueError, UnicodeError):
        return None
    if parts.scheme not in ("http", "https") or not re.fullmatch(r"[a-z0-9.-]+|[0-9a-f:.]+", host):
        return None
    if parts.username is not None or parts.password is not None:
        return None
    place = (f"[{host}]" if ":" in host else host) + (f":{port}" if port is not None else "")
    address = SplitResult(parts.scheme, place, _ascii(parts.path), _ascii(parts.query), _ascii(parts.fragment)).geturl()
    return (address, place) if len(address) <= _MAX_URL else None


def _ascii(part: str) -> str:
    return quote(part, safe="!#$%&'()*+,/:;=?@[]~")
