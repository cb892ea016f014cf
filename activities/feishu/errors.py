"""What Feishu's answers mean: the whole table of error codes, and the errors they become.

FeishuError
├── FeishuRefused       definite: it did not happen, and never will as asked
└── FeishuUnavailable   try again later; if the answer was lost, whether it happened is not known
    └── FeishuSilent    it did not answer in time, now or lately
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NoReturn

from pydantic import ValidationError

from assent.contracts.values import Frozen
from assent.errors import AssentError

TOKEN_REFUSED = frozenset({99991663, 99991664, 99991665})
"""The access token is no longer taken: a new one may be."""

TRY_AGAIN: Mapping[int, str] = {
    99991400: "the app sends too fast",
    230020: "the chat or the message is written to too fast",
    11232: "the company's messages are too many right now",
    11233: "the chat's messages are too many right now",
    230049: "the same message is still being sent",
    1500: "internal error",
    2200: "internal error",
    5000: "internal error",
    99991663: "the access token is not taken",
    99991664: "the access token is not taken",
    99991665: "the access token is not taken",
}
"""Codes that may end well when tried again."""

REFUSED: Mapping[int, str] = {
    230001: "the request has an invalid field",
    230002: "the bot is not in the chat",
    230006: "the app has no bot; enable it in the developer console and publish the app",
    230011: "the message was recalled",
    230013: "the person is outside the range of people who may use the app",
    230018: "the chat's settings do not let the bot write",
    230022: "the content was held back as sensitive",
    230025: "the content is too long for one message",
    230027: "the app lacks a permission it needs",
    230028: "the content did not pass the company's audit",
    230029: "the person has left the company",
    230031: "the message is older than 14 days and can no longer be changed",
    230034: "the receiver does not exist",
    230035: "the bot may not write in this chat",
    230053: "the person has stopped the bot from writing to them",
    230099: "the card is not valid",
    230110: "the message was deleted",
    232009: "the chat was dissolved",
    99991403: "the app's calls of this month are used up",
    99991672: "the app lacks a permission it needs",
    99992361: "the person's open_id belongs to another app",
}
"""Codes that are final, and what they mean."""

_LONGEST_WAIT = 3600.0
_LONGEST_DETAIL = 200


class FeishuError(AssentError):
    """Feishu did not do what it was asked."""


class FeishuRefused(FeishuError):
    """Feishu refused for good: it did not happen, and never will as asked.

    code: Feishu's number; 0 where this side refused to ask at all.
    meaning: why, in plain English.
    """

    def __init__(self, code: int, meaning: str, detail: str = "") -> None:
        number = f" ({code})" if code else ""
        super().__init__(f"Feishu refused{number}: {meaning}" + (f" [{detail}]" if detail else ""))
        self.code = code
        self.meaning = meaning


class FeishuUnavailable(FeishuError):
    """Feishu cannot do it now, or its answer was lost: try again, with the same `uuid` where there is one.

    retry_after: how many seconds to wait, where that is known.
    """

    def __init__(self, problem: str, *, retry_after: float | None = None) -> None:
        super().__init__(f"Feishu is unavailable: {problem}")
        self.retry_after = retry_after


class FeishuSilent(FeishuUnavailable):
    """Feishu did not answer in time, now or lately: trying again soon would only keep others waiting."""


class Answer(Frozen):
    """What every JSON answer says."""

    code: int
    msg: str | None = None


def check(status: int, headers: Mapping[str, str], body: bytes) -> None:
    """Raise what an answer means, unless it means success."""
    answer = _read(status, headers, body)
    if answer.code == 0 and status < 300:
        return
    wait = told_to_wait(headers)
    if answer.code in TRY_AGAIN:
        raise FeishuUnavailable(f"{TRY_AGAIN[answer.code]} ({answer.code})", retry_after=wait)
    if status == 429 or status >= 500 or answer.code == 0:
        raise FeishuUnavailable(f"it answered with HTTP {status} (code {answer.code})", retry_after=wait)
    detail = safe(answer.msg or "")
    # A code we do not know came with a reasoned refusal in JSON: trying the same again would be refused again.
    raise FeishuRefused(answer.code, REFUSED.get(answer.code) or detail or "it gives no reason", detail)


def code_of(body: bytes) -> int | None:
    """The code of an answer, if it can be read."""
    try:
        return Answer.model_validate_json(body).code
    except ValidationError:
        return None


def unreadable(status: int, headers: Mapping[str, str]) -> NoReturn:
    """Somebody answered, but not in Feishu's way: whether it happened is not known."""
    wait = told_to_wait(headers)
    raise FeishuUnavailable(f"the answer cannot be read (HTTP {status})", retry_after=wait) from None


def told_to_wait(headers: Mapping[str, str]) -> float | None:
    """How many seconds an answer asks us to wait."""
    for name in ("x-ogw-ratelimit-reset", "retry-after"):
        seconds = _seconds(headers.get(name, ""))
        if seconds is not None:
            return min(max(seconds, 0.0), _LONGEST_WAIT)
    return None


def safe(text: str) -> str:
    """Words of the other side, short and harmless enough for a log and a reason."""
    line = "".join(c if c.isprintable() else " " for c in text[: _LONGEST_DETAIL * 2])
    line = " ".join(line.split())
    return line if len(line) <= _LONGEST_DETAIL else f"{line[: _LONGEST_DETAIL - 1]}…"


def _read(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    try:
        return Answer.model_validate_json(body)
    except ValidationError:
        unreadable(status, headers)


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return None
    return seconds if math.isfinite(seconds) else None
