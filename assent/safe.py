"""Untrusted text made safe to look at, on cards, on Temporal's page and in a terminal.

Nothing in it can hide, reorder what stands beside it, pass for other letters, or become markup. Whatever is written
out stands as `⟦U+202E⟧`; a bracket of that kind in the text itself is written out too, so that two different texts
never look the same.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from enum import Enum, auto
from functools import lru_cache

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
_RUN = re.compile(r"[^\W_]+")
_ENGLISH = re.compile(r"[A-Za-z]")
_PLAIN = re.compile(r"[A-Za-z0-9]")
_LATIN = re.compile("[\u00aa-\u01bf\u01c4-\u024f\u0259\u02b0-\u02cf\u02d1-\u02ff\u1e00-\u1eff\u2126\u212b]")
"""Latin letters with whatever languages put on them, and signs that are always written beside them."""
_EASTERN = re.compile(
    "[\u1100-\u11ff\u2e80-\u2fdf\u3005-\u318f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\ua4cf\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\uff66-\uffdc\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)
"""Chinese, Japanese and Korean, which stand beside Latin words without a space, and look like none."""
_COMMON = re.compile(
    "[\u0370-\u03ff\u1f00-\u1fff\u0400-\u052f\u1c80-\u1c8f\u2de0-\u2dff\ua640-\ua69f\u0531-\u058f"  # Greek to Armenian
    "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u0900-\u109f\u10a0-\u10ff\u1200-\u139f\u1780-\u18af]"  # to Mongolian
)
"""Scripts of many people: their words may stand beside Latin ones, and their letters not inside of those."""
_POINTS = frozenset("\u2024\u2044\u2215\u29f8\u2571\u2236\ua789\u02d0\u02f8\u205a\u2216\u29f5\u0589\u05c3\ua4f8")
"""What looks like a dot, a slash or a colon, and is none. Those of full width are Chinese, and look so."""
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
_OFTEN = 200
"""So many characters have what is written over and over: labels, names, sentences of ours."""
_ISOLATED, _ISOLATION_ENDS = "\u2068", "\u2069"


def visible(text: str) -> str:
    """The text with whatever could deceive written out; line breaks and tabs stay."""
    return "\n".join(one_line(line, keep="\t") for line in text.split("\n")) if "\n" in text else one_line(text, "\t")


def one_line(text: str, keep: str = "") -> str:
    """The text on one line, with line breaks written out as well."""
    if text.isascii() and (text.isprintable() or all(c.isprintable() or c in keep for c in text)):
        return text
    return (_often if len(text) <= _OFTEN else _of_this_card)(text, keep)


def _on_one_line(text: str, keep: str) -> str:
    unseen = {c for c in set(text) if _is_unseen(c) and (c not in keep or _HIDING.match(c))}
    joints = {match.start() for match in _JOINT.finditer(text)}
    named = _piled(text) | _alike(text)
    if joints or named:
        shown = "".join(
            _named(c) if at in named or (c in unseen and at not in joints) else c for at, c in enumerate(text)
        )
    else:
        shown = text.translate({ord(c): _named(c) for c in unseen})
    return _BACKWARDS.sub(lambda match: f"{_ISOLATED}{match[0]}{_ISOLATION_ENDS}", shown)


_often = lru_cache(2048)(_on_one_line)
_of_this_card = lru_cache(8)(_on_one_line)
"""The few long texts of a card are asked for several times while it is drawn."""


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


@lru_cache(4096)
def _is_unseen(character: str) -> bool:
    return not (character.isprintable() or character == "\u3000") or _HIDING.match(character) is not None


@lru_cache(4096)
def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Me")


def _named(character: str) -> str:
    return f"⟦U+{ord(character):04X}⟧"


def _piled(text: str) -> set[int]:
    """Where marks are piled on marks, so high that they cover the lines above."""
    marks = {c for c in set(text) if _is_mark(c)}
    found: set[int] = set()
    height = 0
    for at, character in enumerate(text if marks else ""):
        height = height + 1 if character in marks else 0
        if height > _MOST_MARKS:
            found.add(at)
    return found


class _Odd(Enum):
    """What is odd about a character, in a token that also holds Latin letters or digits."""

    LETTER = auto()
    """It is a form of a Latin letter or digit, or of a script that hardly anybody writes: odd in any such token."""
    COMMON = auto()
    """It belongs to a script that many write: odd within a Latin word."""
    DIGIT = auto()
    """A digit of another script: odd within a number or a word."""
    POINT = auto()
    """It passes for a point: odd beside Latin letters."""


@lru_cache(4096)
def _oddity(character: str) -> _Odd | None:
    if character in _POINTS:
        return _Odd.POINT
    plain = unicodedata.normalize("NFKC", character)
    if "\ufe50" <= character <= "\ufe6b":
        return _Odd.POINT if plain.isascii() else None
    kind = unicodedata.category(character)
    if kind[0] not in "LN" or kind == "No" or _LATIN.match(character) or _EASTERN.match(character):
        return None
    if kind == "Nd" and not plain.isascii():
        return _Odd.DIGIT
    return _Odd.COMMON if _COMMON.match(character) else _Odd.LETTER


def _alike(text: str) -> set[int]:
    """Where characters pass for others: in a Latin word, or beside one where they are not what they seem."""
    odd = {c: oddity for c in set(text) if not c.isascii() and (oddity := _oddity(c))}
    if not (odd and _PLAIN.search(text)):
        return set()
    found: set[int] = set()
    for token in _TOKEN.finditer(text):
        if not _PLAIN.search(token[0]) or odd.keys().isdisjoint(token[0]):
            continue
        has_letters = _ENGLISH.search(token[0]) is not None
        always = {_Odd.LETTER, _Odd.POINT} if has_letters else {_Odd.LETTER}
        found |= {at for at, c in enumerate(token[0], token.start()) if odd.get(c) in always}
        found |= _digits(token, odd)
        found |= _words(token, odd) if has_letters else set()
    return found


def _digits(token: re.Match[str], odd: Mapping[str, _Odd]) -> set[int]:
    """Where digits of another script stand in a number or a word."""
    return {
        at
        for run in _RUN.finditer(token.string, token.start(), token.end())
        if _PLAIN.search(run[0])
        for at, c in enumerate(run[0], run.start())
        if odd.get(c) is _Odd.DIGIT
    }


def _words(token: re.Match[str], odd: Mapping[str, _Odd]) -> set[int]:
    """Where letters of another script stand in a Latin word, or make a word that could be read as one."""
    found: set[int] = set()
    for word in _WORD.finditer(token.string, token.start(), token.end()):
        if _ENGLISH.search(word[0]):
            found |= {at for at, c in enumerate(word[0], word.start()) if odd.get(c) is _Odd.COMMON and _is_no_guest(c)}
        elif all(c in _ALIKE for c in word[0]):
            found |= set(range(word.start(), word.end()))
    return found


def _is_no_guest(character: str) -> bool:
    """Whether a letter does not belong in a Latin word; Greek ones do, unless they look Latin: `Δt`, `kΩ`."""
    return character in _ALIKE or not _GREEK.match(character)
