"""What an installation without all extras lacks, said in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from assent.errors import MissingExtra


@contextmanager
def needs(extra: str, what: str) -> Iterator[None]:
    """Around the import of what an extra brings: where it is not installed, MissingExtra says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "assent":
            raise
        raise MissingExtra(what, package, extra) from error
