"""The page that Temporal's UI shows of an approval."""

from __future__ import annotations

import json
from collections.abc import Mapping

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from assent.contracts import Settlement, State
    from assent.messages import Examined, FrozenCall, Sight

_MOST_CHARACTERS = 8000


def details(state: State) -> str:
    """An approval as a Markdown page; sensitive arguments stay masked."""
    rows = {
        "Tool": state.tool,
        "Status": state.status or state.phase,
        "Requester": state.requester,
        "Approvals": _approvals(state),
        "Decided by": state.decided_by,
        "Reason": state.reason,
        "Changed by": state.edit.by if state.edit else None,
        "Rule": state.rule.name if state.rule else None,
        "Remembered decision": state.grant_id,
        "Warnings": " · ".join(state.warnings) or None,
        "Risk": state.risk,
        "Deadline": state.deadline.isoformat(timespec="seconds") if state.deadline else None,
        "Payload": state.payload_sha256[:12] if state.payload_sha256 else None,
    }
    page = "\n".join(_table(rows)) + "\n"
    if state.payload:
        arguments = json.loads(state.payload)["arguments"]
        shown = {name: "•••" if name in state.sensitive else value for name, value in arguments.items()}
        text = json.dumps(shown, ensure_ascii=False, indent=2).replace("`", "ˋ")
        page += f"\n```json\n{text[:_MOST_CHARACTERS]}\n```\n"
    return page


def _approvals(state: State) -> str | None:
    """How far the approvers have come, where more than one is needed."""
    found = state.progress
    if found is None or (found.stages == 1 and found.approvers.threshold == 1):
        return None
    people = ", ".join(str(judged.actor) for judged in found.approvals)
    stage = f"stage {found.stage} of {found.stages}, " if found.stages > 1 else ""
    return f"{stage}{found.approved} of {found.approvers.threshold}" + (f": {people}" if people else "")


def review_page(frozen: FrozenCall, examined: Examined, settled: Settlement | None) -> str:
    """A frozen call as a Markdown page: what was approved, what is known, and what can be done."""
    call = frozen.call
    if settled:
        who = settled.settled_by or "its own probe"
        head = f"**{_cell(call.tool)}** is settled: **{settled.kind}**, by {_cell(who)}. {_cell(settled.reason or '')}"
    else:
        head = f"**{_cell(call.tool)}** was begun, and **whether it took effect is not known**. Do not repeat it."
    rows = {
        "Approval": call.approval_id,
        "Also waiting": _also_waiting(examined),
        "Payload": f"{call.payload_sha256[:12]}…",
        "Requester": call.requester,
        "Approved by": frozen.decided_by,
        "Risk": frozen.risk,
        "Frozen since": frozen.frozen_at.isoformat(timespec="seconds"),
        "What is known": frozen.error,
        "Probed": f"{frozen.probes} times" if frozen.has_probe else "there is no probe",
    }
    page = [head, "", *_table(rows), "", "### What the ledger says", ""]
    for sight in examined.sights:
        page += [*_table(_sight_rows(sight)), ""]
        page += [
            f"- **It ended after all**, at {late.at}: {late.state} {_cell(late.content or late.error or '')}"
            for late in sight.late
        ]
    if settled is None and not all(sight.body_ended for sight in examined.sights):
        page += ["", "**The worker that ran it is not known to be dead: the call may still take effect.**"]
    return "\n".join(page)


def _also_waiting(examined: Examined) -> str | None:
    """The other approvals that get the answer; of many, some."""
    others = max(examined.waiting - 1, len(examined.joined))
    names = ", ".join(examined.joined)
    return (f"{others}: {names}, …" if others > len(examined.joined) else names) or None


def _sight_rows(sight: Sight) -> dict[str, object]:
    return {
        "Consent": sight.consent,
        "State": sight.state,
        "Attempt": sight.attempt,
        "Worker": sight.worker,
        "Began": sight.began_at,
        "Ended": sight.ended_at,
        "Error": sight.error,
        "The tool's code": "has ended" if sight.body_ended else "is not known to have ended",
    }


def _table(rows: Mapping[str, object]) -> list[str]:
    return [
        "| | |",
        "|---|---|",
        *(f"| {name} | {_cell(value)} |" for name, value in rows.items() if value is not None),
    ]


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")[:500]
