"""A tool's result as bytes that can be stored, and as a preview that fits into history."""

from __future__ import annotations

import json
import math
from typing import Any

from pydantic_core import to_jsonable_python

from assent import sizes
from assent.contracts.execute import Report, ReportKind
from assent.contracts.values import Frozen
from assent.payload import sha256

MAX_INLINE_BYTES = 64 * 1024
"""Results up to this size travel whole; larger and very deep ones as a preview and a reference."""
PREVIEW_CHARACTERS = 4000
MAX_STORED_BYTES = 64 * 1024 * 1024
"""Results beyond this size are kept only as far as they fit."""
MAX_ERROR_CHARACTERS = 2000


class Content(Frozen):
    """A result in the form that is stored: JSON in ASCII, which every database can keep."""

    data: bytes
    note: str | None = None
    """What could not be kept."""

    @classmethod
    def of(cls, value: Any) -> Content:
        """Serialise anything; what has no JSON form is described instead."""
        try:
            data = _ascii_json(_portable(to_jsonable_python(value)))
        except Exception as error:  # the result's own code may raise anything
            described = {"type": type(value).__name__, "repr": describe(value)}
            return cls(data=_ascii_json(described), note=f"the result has no JSON form: {describe(error)}")
        if len(data) > MAX_STORED_BYTES:
            start = data[:PREVIEW_CHARACTERS].decode()
            return cls(data=_ascii_json(start), note=f"the result holds {len(data)} bytes; only its start was kept")
        return cls(data=data)

    def report(self, kind: ReportKind, authorize_url: str | None = None, reason: str | None = None) -> Report:
        """What is told of this content: all of it, or a preview with its size and hash."""
        truncated = len(self.data) > MAX_INLINE_BYTES or not sizes.travels(self.data)
        return Report(
            kind=kind,
            content=self.data[:PREVIEW_CHARACTERS].decode() if truncated else json.loads(self.data),
            truncated=truncated,
            content_bytes=len(self.data),
            content_sha256=sha256(self.data),
            authorize_url=authorize_url,
            reason=reason or self.note,
        )


def _portable(value: Any) -> Any:
    """JSON that every reader takes: numbers that JSON lacks as text, and no half characters."""
    match value:
        case str():
            return portable_text(value)
        case float() if not math.isfinite(value):
            return str(value)
        case list():
            return [_portable(item) for item in value]
        case dict():
            return {portable_text(str(key)): _portable(item) for key, item in value.items()}
        case _:
            return value


def portable_text(text: str) -> str:
    """The text with lone surrogates replaced, which neither UTF-8 nor a database can carry."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _ascii_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def describe(value: object) -> str:
    """A bounded description of any object, even of one whose own description fails."""
    try:
        text = f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else repr(value)
    except Exception as error:  # the object's own code may raise anything
        text = f"{type(value).__name__} (its description raised {type(error).__name__})"
    text = text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
    return text if len(text) <= MAX_ERROR_CHARACTERS else text[:MAX_ERROR_CHARACTERS] + "…"


def storable(text: str | None) -> str | None:
    """A bounded text that every database takes."""
    return None if text is None else portable_text(text).replace("\x00", "\\x00")[:MAX_ERROR_CHARACTERS]
