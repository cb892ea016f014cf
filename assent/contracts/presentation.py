"""How a tool wants its calls to be read by people."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Self

from pydantic import Field

from assent.contracts.values import Frozen

_LANGUAGES = {"en": "en", "zh": "zh", "zh-CN": "zh"}
_MOST_CHARACTERS = 200


class Words(Frozen):
    """What a tool's author wrote for people, in English and in Chinese."""

    en: str
    zh: str

    @classmethod
    def of(cls, said: str | Mapping[str, str], name: str) -> Self:
        """One text for both, or one for each of `en` and `zh`. Raises ValueError that names what is wrong.

        name: what it is called in what is raised.
        """
        given = {"en": said} if isinstance(said, str) else dict(said)
        if not given or any(language not in _LANGUAGES for language in given):
            raise ValueError(f"{name}: say it as one text, or for each of en and zh")
        for text in given.values():
            if not isinstance(text, str) or not text.strip() or "\n" in text or len(text) > _MOST_CHARACTERS:
                raise ValueError(f"{name}: it is one line of at most {_MOST_CHARACTERS} characters")
        texts = {_LANGUAGES[language]: text.strip() for language, text in given.items()}
        only = next(iter(texts.values()))
        return cls(en=texts.get("en", only), zh=texts.get("zh", only))


class Presentation(Frozen):
    """How the calls of a tool are read: what it is called, what its arguments are, and what a call says in one line."""

    title: Words | None = None
    labels: dict[str, Words] = Field(default_factory=dict)
    """What an argument is called, by its name."""
    summary: Words | None = None
    """One line, in which `{name}` stands for an argument."""
    order: tuple[str, ...] = ()
    """The arguments, as the tool declares them one after the other."""
    decimals: tuple[str, ...] = ()
    """Those that are decimal numbers, written as text so that they stay exact."""

    command: tuple[str, ...] = ()
    """The argument vector of a program, in which `{name}` stands for an argument."""

    def sorted(self, names: Mapping[str, object]) -> list[str]:
        """Arguments in the order in which the tool declares them; others, which there should not be, at the end."""
        declared = [name for name in self.order if name in names]
        return declared + [name for name in names if name not in self.order]


def placeholders(summary: str) -> list[str]:
    """The arguments that a summary names. Raises ValueError for anything but plain names in braces."""
    found = []
    for _, name, spec, conversion in Formatter().parse(summary):
        if name is None:
            continue
        if spec or conversion or not name.isidentifier():
            raise ValueError(f"{{{name}}} is not the name of an argument; write {{{{ for a brace")
        found.append(name)
    return found
