"""Untrusted text made safe to look at, on cards, on Temporal's page and in a terminal.

Nothing in it can hide, reorder what stands beside it, pass for other letters, or become markup. Whatever is written
out stands as `⟦U+202E⟧`; a bracket of that kind in the text itself is written out too, so that two different texts
never look the same.
"""

from __future__ import annotations

import re
import unicodedata

_ENTITIES = {ord(c): f"&#{ord(c)};" for c in "&<>~-!*/\\[]()#:+\"'`$_|@.={}^%"}
"""For every character that Markdown could obey, Feishu's or any other."""
_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef"
"""Letters, marks and symbols that leave no ink, although Unicode calls them printable."""
_HIDING = re.compile(f"[{_BLANK}⟦]")
_PICTURE = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa"
    "\u24c2\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
"""What is a picture, or becomes one with U+FE0F behind it."""
_JOINT = re.compile(
    rf"(?<=[{_PICTURE}])\ufe0f|(?<=[#*0-9])\ufe0f(?=\u20e3)"
    rf"|(?<=[{_PICTURE}])\u200d(?=[{_PICTURE}])|(?<=[{_PICTURE}]\ufe0f)\u200d(?=[{_PICTURE}])"
)
"""What makes one picture of several characters."""
_MOST_MARKS = 3
"""How many marks a letter carries in any language that people write by hand."""
_WORD = re.compile(r"[^\W\d_]+")
_TOKEN = re.compile(r"\S+")
_ENGLISH = re.compile(r"[A-Za-z]")
_FOREIGN = re.compile("[\u0370-\u03ff\u0400-\u052f\u0531-\u058f\u13a0-\u13ff\uab70-\uabbf\u1d00-\u1d2b\ua640-\ua69f]")
"""Greek, Cyrillic, Armenian and Cherokee letters, some of which look just like Latin ones."""
_ALIKE = frozenset(
    "аеіјорсуѕхһӏԁԛԝѵүѴѲАВЕІЈКМНОРЅСТУХҮԌԜ"  # Cyrillic
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαγικνορτυχϲϳ"  # Greek
    "օսցհոԼՏՍՕյ"  # Armenian
)
_GREEK = re.compile("[\u0370-\u03ff]")
_RIGHT_TO_LEFT = (
    "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff"  # Hebrew, Arabic and their kin
)
_BACKWARDS = re.compile(rf"[{_RIGHT_TO_LEFT}](?:[{_RIGHT_TO_LEFT}\u0300-\u036f ]*[{_RIGHT_TO_LEFT}\u0300-\u036f])?")
_ISOLATED, _ISOLATION_ENDS = "\u2068", "\u2069"


def visible(text: str) -> str:
    """The text with whatever could deceive written out; line breaks and tabs stay."""
    return "\n".join(one_line(line, keep="\t") for line in text.split("\n")) if "\n" in text else one_line(text, "\t")


def one_line(text: str, keep: str = "") -> str:
    """The text on one line, with line breaks written out as well."""
    if text.isascii() and (text.isprintable() or all(c.isprintable() or c in keep for c in text)):
        return text
    unseen = {c for c in set(text) if not (c.isprintable() or c in keep or c == "\u3000") or _HIDING.match(c)}
    joints = {match.start() for match in _JOINT.finditer(text)}
    named = _piled(text) | _alike(text)
    if joints or named:
        shown = "".join(
            _named(c) if at in named or (c in unseen and at not in joints) else c for at, c in enumerate(text)
        )
    else:
        shown = text.translate({ord(c): _named(c) for c in unseen})
    return _BACKWARDS.sub(lambda match: f"{_ISOLATED}{match[0]}{_ISOLATION_ENDS}", shown)


def shortened(text: str, most: int) -> str:
    """At most *most* characters of a text, for places where the whole is shown elsewhere."""
    if len(text) <= most:
        return text
    kept = text[: most - 1].rstrip()
    return kept + _ISOLATION_ENDS * (kept.count(_ISOLATED) - kept.count(_ISOLATION_ENDS)) + "…"


def markdown(text: str) -> str:
    """The text on one line, as entities wherever Markdown could take it for markup."""
    return one_line(text).translate(_ENTITIES)


def markdown_start(text: str, most_bytes: int) -> str:
    """The same, or as much of it as fits into so many bytes."""
    shown, size = one_line(text), 0
    for at, character in enumerate(shown):
        size += len(character.translate(_ENTITIES).encode())
        if size > most_bytes:
            return shortened(shown, max(1, at - 2)).translate(_ENTITIES)
    return shown.translate(_ENTITIES)


def _named(character: str) -> str:
    return f"⟦U+{ord(character):04X}⟧"


def _piled(text: str) -> set[int]:
    """Where marks are piled on marks, so high that they cover the lines above."""
    marks = {c for c in set(text) if unicodedata.category(c) in ("Mn", "Me")}
    found: set[int] = set()
    height = 0
    for at, character in enumerate(text if marks else ""):
        height = height + 1 if character in marks else 0
        if height > _MOST_MARKS:
            found.add(at)
    return found


def _alike(text: str) -> set[int]:
    """Where letters of another script stand in a Latin word, or make a word beside one that is not what it seems."""
    if not (_FOREIGN.search(text) and _ENGLISH.search(text)):
        return set()
    found: set[int] = set()
    for token in _TOKEN.finditer(text):
        if not _ENGLISH.search(token[0]):
            continue
        for word in _WORD.finditer(text, token.start(), token.end()):
            if _ENGLISH.search(word[0]):
                found |= {word.start() + at for at, c in enumerate(word[0]) if _passes(c)}
            elif all(c in _ALIKE for c in word[0]):
                found |= set(range(word.start(), word.end()))
    return found


def _passes(character: str) -> bool:
    """Whether a letter does not belong in a Latin word; Greek ones do, unless they look Latin: `Δt`, `kΩ`."""
    if not _FOREIGN.match(character):
        return False
    return character in _ALIKE or not _GREEK.match(character)
