"""What all contracts are made of: texts and ids that can be stored, and the frozen model."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints


def _storable(text: str) -> str:
    if not text.isprintable() and any((c < " " and c not in "\t\n\r") or "\ud800" <= c <= "\udfff" for c in text):
        raise ValueError("control characters and lone surrogates cannot be stored")
    return text


def _short(text: str) -> str:
    if len(text.encode()) > 200:  # with its prefix it still fits Temporal's narrowest column
        raise ValueError("an id holds at most 200 bytes")
    if any(c in "\t\n\r" for c in text):
        raise ValueError("an id is one line")
    return text


Text = Annotated[str, StringConstraints(strict=True, max_length=4000), AfterValidator(_storable)]
"""Words of a person or an agent that every database can keep."""


Id = Annotated[str, StringConstraints(strict=True, min_length=1), AfterValidator(_storable), AfterValidator(_short)]
"""The name of something, short enough for every index."""


def _no_retry(text: str) -> str:
    if text.startswith("question/"):
        raise ValueError("an id that begins with question/ names a question")
    if text.rpartition("#")[1] and text.rpartition("#")[2].isdigit():
        raise ValueError("an id that ends in # and a number names a retry of another approval")
    return text


ApprovalId = Annotated[Id, AfterValidator(_no_retry)]
"""The name of an approval: the consent to try its call again is named after it."""


class Frozen(BaseModel):
    """A value: parsed once, never changed. Unknown fields of a newer version are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Surface(StrEnum):
    """The door a message came through."""

    CLIENT = "client"
    COMMAND_LINE = "command_line"
    TEMPORAL = "temporal"
    FEISHU = "feishu"
    HTTP = "http"
    PROBE = "probe"
    """Nobody's: a tool's own probe found it out."""
    POLICY = "policy"
    """Nobody's: the operator's policy says so."""
