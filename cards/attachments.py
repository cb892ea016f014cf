"""The file that is sent before a card which could not hold the whole call."""

from __future__ import annotations

import re

from assent.contracts.plan import Plan
from assent.payload import short_hash
from assent.safe import one_line, visible
from cards.arguments import arguments_of
from cards.building import left_out
from cards.hiding import hidden_call
from cards.safe import LONGEST_ADDRESS
from cards.showing import File, Showing
from cards.wording import Both, Wording


def overflow(plan: Plan, wording: Wording) -> File | None:
    """The complete call as a text file, if the pending card cannot hold all of it."""
    if not left_out(Showing(plan=plan, twin_url=LONGEST_ADDRESS, reminder=True), wording):
        return None
    tool = re.sub(r"[^A-Za-z0-9_-]+", "-", plan.tool).strip("-")[:40] or "call"
    return File(name=f"{tool}-{short_hash(plan.payload_sha256)}.txt", data=_text(plan, wording).encode())


def _text(plan: Plan, wording: Wording) -> str:
    plan = hidden_call(plan)
    parts = [
        both(wording("file.title")),
        both(wording("file.note")),
        section(wording("file.tool"), one_line(plan.subject)),
        section(wording("file.approval"), one_line(plan.approval_id)),
        section(wording("file.payload"), plan.payload_sha256),
        section(wording("file.warnings"), visible("\n".join(plan.warnings))) if plan.warnings else "",
        section(wording("file.description"), visible(plan.description)) if plan.description else "",
        section(wording("file.reason"), visible(plan.request_reason)) if plan.request_reason else "",
        f"== {both(wording('file.arguments'))} ==",
        *(_argument(each.name, each.text, each.masked, wording) for each in arguments_of(plan)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def section(label: Both, text: str) -> str:
    return f"== {both(label)} ==\n{barred(text)}"


def _argument(name: str, text: str, masked: bool, wording: Wording) -> str:
    shown = both(wording("file.masked")) if masked else text
    return f"-- {one_line(name)} --\n{barred(shown)}"


def barred(text: str) -> str:
    """Every line behind a bar, so that none can be taken for a heading."""
    return "\n".join(f"| {line}" for line in text.split("\n"))


def both(text: Both) -> str:
    return text.en if text.en == text.zh else f"{text.en} / {text.zh}"
