"""Untrusted text made safe to show: nothing in it can hide, reorder, or become markup."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, quote, urlsplit

from assent.contracts import Identity

_MARKUP = re.compile(r"[&<>~\-!*/\\\[\]()#:+\"'`$_|@.={}^%]")
"""Every character that card markdown could obey, and a few more that other dialects do."""
_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef"
"""Letters, marks and symbols that leave no ink, although Unicode calls them printable."""
_SUSPECT = re.compile(rf"[{_BLANK}⟦]|(?<=[\u0300-\u036f]{{3}})[\u0300-\u036f]")
"""Printable, yet not to be shown as it is: blanks, our own bracket, and marks piled on marks."""
_EMOJI = "[\u203c-\u3299\U0001f000-\U0001faff]"
_JOINED = re.compile(
    rf"(?<=[\u203c-\u3299\U0001f000-\U0001faff#*0-9])\ufe0f|(?<=\ufe0f)\u200d(?={_EMOJI})|(?<={_EMOJI})\u200d(?={_EMOJI})"
)
"""What makes one emoji of several characters."""
_MENTIONABLE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_URL = 2000
LONGEST_ADDRESS = "https://example.com/".ljust(_MAX_URL, "x")
"""What takes as much room as any address can."""


def visible(text: str) -> str:
    """The text with whatever is invisible written out, as `⟦U+202E⟧`; line breaks and tabs stay."""
    return "\n".join(one_line(line, keep="\t") for line in text.split("\n")) if "\n" in text else one_line(text, "\t")


def one_line(text: str, keep: str = "") -> str:
    """The text on one line, with line breaks written out as well."""
    if text.isprintable() and (text.isascii() or not _SUSPECT.search(text)):
        return text
    joints = {match.start() for match in _JOINED.finditer(text)}
    piled = {match.start() for match in _SUSPECT.finditer(text)}
    return "".join(
        c if at in joints or c in keep or c == "\u3000" or (c.isprintable() and at not in piled) else _named(c)
        for at, c in enumerate(text)
    )


def _named(character: str) -> str:
    return f"⟦U+{ord(character):04X}⟧"


def markdown(text: str) -> str:
    """The text on one line, as entities wherever card markdown could take it for markup."""
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", one_line(text))


def shortened(text: str, most: int) -> str:
    """At most *most* characters of a text, for places where the whole is shown elsewhere."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


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
