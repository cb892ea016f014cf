"""Reading what a workflow is sent: handlers accept anything and never raise, or one bad message would keep it from the
next good one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from pydantic import BaseModel, ValidationError

    from assent import sizes

Said = TypeVar("Said", bound=BaseModel)


def read(kind: type[Said], said: Sequence[Any], *, most: int | None = None) -> Said | None:
    """The one message that was sent; None if that is not what was meant, or cannot be written down again.

    most: how many bytes it may have.
    """
    try:
        (message,) = said
        found = kind.model_validate(message)
        size = sizes.size(found)
    except (ValidationError, ValueError, TypeError, RecursionError):
        return None
    return None if most is not None and size > most else found
