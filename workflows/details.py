"""The page that Temporal's UI shows of an approval."""

from __future__ import annotations

import json

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from assent.contracts import State

_MOST_CHARACTERS = 8000


def details(state: State) -> str:
    """An approval as a Markdown page; sensitive arguments stay masked."""
    rows = {
        "Tool": state.tool,
        "Status": state.status or state.phase,
        "Requester": state.requester,
        "Decided by": state.decided_by,
        "Reason": state.reason,
        "Risk": state.risk,
        "Deadline": state.deadline.isoformat(timespec="seconds") if state.deadline else None,
        "Payload": state.payload_sha256[:12] if state.payload_sha256 else None,
    }
    table = "\n".join(f"| {name} | {_cell(value)} |" for name, value in rows.items() if value is not None)
    page = f"| | |\n|---|---|\n{table}\n"
    if state.payload:
        arguments = json.loads(state.payload)["arguments"]
        shown = {name: "•••" if name in state.sensitive else value for name, value in arguments.items()}
        text = json.dumps(shown, ensure_ascii=False, indent=2).replace("`", "ˋ")
        page += f"\n```json\n{text[:_MOST_CHARACTERS]}\n```\n"
    return page


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")[:500]
