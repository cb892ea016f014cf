"""Reading what the HTTP API answers."""

from __future__ import annotations

from typing import TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from assent.errors import AssentError

_Answer = TypeVar("_Answer", bound=BaseModel)


def read(response: httpx.Response, answer: type[_Answer]) -> _Answer:
    """An answer as its model."""
    try:
        return answer.model_validate_json(response.content)
    except ValidationError as error:
        address = response.url.copy_with(query=None)
        raise AssentError(
            f"{address} answered, but not as Assent does; check the address and both versions."
        ) from error
