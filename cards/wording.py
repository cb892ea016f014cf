"""Everything a person reads, from one catalogue per language that a user can replace text by text."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from string import Formatter
from typing import NamedTuple, Self

_OURS = Path(__file__).parent / "texts"
_FILES = ("en.toml", "zh-CN.toml")
_PLACEHOLDER = re.compile(r"[a-z_]+")
_WIDE = re.compile(r"[“”\u2e80-\u9fff\uff00-\uffef]")
"""Chinese characters and marks: no space stands between two of them."""


class Both(NamedTuple):
    """One text in both languages."""

    en: str
    zh: str

    def __add__(self, other: object) -> Both:
        if not isinstance(other, Both):
            return NotImplemented
        return Both(self.en + other.en, self.zh + other.zh)


class Template:
    """A text with `{placeholders}` for names only: of what fills them nothing is read but the first and last letter.

    A space beside a placeholder parts Chinese from other letters, and is left out between two Chinese ones.
    """

    def __init__(self, text: str) -> None:
        self._parts: list[tuple[str, str | None]] = []
        for literal, field, spec, conversion in Formatter().parse(text):
            if field is not None and (spec or conversion or not _PLACEHOLDER.fullmatch(field)):
                raise ValueError(f"{{{field}}} is not a plain placeholder")
            self._parts.append((literal, field))
        self.placeholders = frozenset(field for _, field in self._parts if field is not None)

    def fill(self, values: Mapping[str, str]) -> str:
        """The text with every placeholder filled."""
        filled, value = "", ""
        for literal, field in self._parts:
            filled += literal[1:] if _is_needless(value[-1:], literal[:2]) else literal
            if field is None:
                continue
            value = values[field]
            filled = (filled[:-1] if _is_needless(value[:1], literal[:-3:-1]) else filled) + value
        return filled


def _is_needless(letter: str, beside: str) -> bool:
    """Whether *beside* begins with a space that only parts one Chinese letter from another."""
    return bool(beside[:1] == " " and _WIDE.match(letter) and _WIDE.match(beside[1:]))


class Wording:
    """The texts of cards, toasts and attached files in English and Chinese."""

    def __init__(self, en: Mapping[str, Template], zh: Mapping[str, Template]) -> None:
        self._en = en
        self._zh = zh

    @classmethod
    def load(cls, directory: Path | None = None) -> Self:
        """Our texts, with those of the files `en.toml` and `zh-CN.toml` in *directory* in their place."""
        catalogues = [_ours(name) for name in _FILES]
        if directory is None:
            return cls(*catalogues)
        if not directory.is_dir():
            raise ValueError(f"{directory}: there is no such directory of texts; create it, or unset ASSENT_TEXTS.")
        files = [directory / name for name in _FILES]
        if not any(file.exists() for file in files):
            raise ValueError(
                f"{directory}: it holds neither {_FILES[0]} nor {_FILES[1]}; add one, or unset ASSENT_TEXTS."
            )
        return cls(*(_overridden(ours, file) for ours, file in zip(catalogues, files, strict=True)))

    def __call__(self, key: str, **values: str | Both) -> Both:
        """The text of *key* in both languages; a value may differ by language, too."""
        if not values:
            return Both(self._en[key].fill({}), self._zh[key].fill({}))
        en = {name: value.en if isinstance(value, Both) else value for name, value in values.items()}
        zh = {name: value.zh if isinstance(value, Both) else value for name, value in values.items()}
        return Both(self._en[key].fill(en), self._zh[key].fill(zh))


@cache
def _ours(name: str) -> Mapping[str, Template]:
    return _read(_OURS / name)


def _overridden(ours: Mapping[str, Template], file: Path) -> Mapping[str, Template]:
    if not file.exists():
        return ours
    theirs = _read(file)
    for key, template in theirs.items():
        if key not in ours:
            raise ValueError(
                f"{file}: there is no text {key!r}; remove it, or correct its name as in {_OURS / file.name}."
            )
        known = ours[key].placeholders
        if unknown := sorted(template.placeholders - known):
            raise ValueError(f"{file}: {key} has the unknown placeholder {_braced(unknown)}; {_allowed(known)}")
        if missing := sorted(known - template.placeholders):
            raise ValueError(f"{file}: {key} lacks the placeholder {_braced(missing)}; {_allowed(known)}")
    return {**ours, **theirs}


def _read(file: Path) -> Mapping[str, Template]:
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ValueError(f"{file}: it cannot be read as TOML in UTF-8 ({error}); correct it.") from error
    templates: dict[str, Template] = {}
    for table, texts in tables.items():
        if not isinstance(texts, dict):
            raise ValueError(f"{file}: {table} stands outside any table; put it under one such as [card].")
        for name, text in texts.items():
            templates[f"{table}.{name}"] = _template(file, f"{table}.{name}", text)
    return templates


def _template(file: Path, key: str, text: object) -> Template:
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{file}: {key} is not a text; write it in quotation marks.")
    try:
        return Template(text)
    except ValueError as error:
        raise ValueError(f"{file}: {key}: {error}; write {{name}} for a placeholder and {{{{ for a brace.") from error


def _braced(names: list[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names)


def _allowed(known: frozenset[str]) -> str:
    return f"it takes exactly {_braced(sorted(known))}." if known else "it takes none."
