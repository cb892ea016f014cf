"""A tool with a field of every kind."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Literal

from pydantic import BaseModel

from assent.arguments.schema import complete
from assent.tools.definition import Registry, tool


class Line(BaseModel):
    item: str
    count: int = 1


@tool(registry=Registry())
def order(
    to: str,
    day: date,
    amount: Decimal,
    kind: Literal["standard", "express"],
    lines: list[Line],
    note: str | None = None,
    priority: Literal["low", "high"] | None = None,
    copies: int = 1,
    weight: float = 1.5,
    urgent: bool = False,
    limit: int | None = None,
    key: str = "secret",
    either: int | str = 3,
) -> None:
    """Order something."""


SCHEMA = order.manifest.parameters


ARGUMENTS = complete(
    SCHEMA,
    {
        "to": "acme",
        "day": "2026-03-15",
        "amount": "120.00",
        "kind": "standard",
        "lines": [{"item": "Travel"}],
    },
)
