"""Refusals as the platform words them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False)
class Refused(Exception):
    """A call is answered with a business code."""

    code: int
    message: str
    status: int = 400
    headers: dict[str, str] = field(default_factory=dict)


def invalid_parameter(detail: str) -> Refused:
    return Refused(230001, f"Your request contains an invalid request parameter, ext={detail}")


def bad_card(inner_code: int, detail: str) -> Refused:
    return Refused(230099, f"Failed to create card content, ext=ErrCode: {inner_code}; ErrMsg: {detail}; ")


def too_often(wait: float) -> Refused:
    """The limit of one recipient or one message."""
    return Refused(230020, f"This operation triggers the frequency limit, ext=again in {wait:.2f} s")


def app_too_often(wait: float) -> Refused:
    """The limit of the whole app, which says how long to wait."""
    reset = str(max(1, round(wait + 0.5)))
    return Refused(99991400, "request trigger frequency limit", 429, {"x-ogw-ratelimit-reset": reset})


def bad_token() -> Refused:
    message = "Invalid access token for authorization. Please make a test attempt with a new access token."
    return Refused(99991663, message)
