"""The page that Temporal's UI shows of an approval."""

from __future__ import annotations

import json
from collections.abc import Mapping

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from assent.contracts.asking import QuestionState
    from assent.contracts.presentation import Presentation
    from assent.contracts.review import Examined, FrozenCall, SeenAttempt
    from assent.contracts.ruling import Settlement
    from assent.contracts.state import State
    from assent.masking import MASK, Mask
    from assent.payload import short_hash
    from assent.safe import markdown, visible

_BEGINNING, _END = 6000, 2000
"""Characters of a call that the page shows; of a longer one the beginning and the end."""
_CELL = 500
_CELL_END = 100


def details(state: State) -> str:
    """An approval as a Markdown page: exactly what would run, but for the sensitive arguments."""
    mask = Mask(state.payload, state.sensitive, state.edit.proposed_payload if state.edit else None)
    rows = {
        "Tool": state.tool,
        "Status": state.status or state.phase,
        "Requester": state.requester,
        "Approvals": _approvals(state),
        "Decided by": state.decided_by,
        "Reason": mask.text(state.reason) if state.reason else None,
        "Changed by": state.edit.by if state.edit else None,
        "Rule": state.rule.name if state.rule else None,
        "Remembered decision": state.grant_id,
        "Warnings": " · ".join(state.warnings) or None,
        "Risk": state.risk,
        "Deadline": state.deadline.isoformat(timespec="seconds") if state.deadline else None,
        "Payload": short_hash(state.payload_sha256) if state.payload_sha256 else None,
    }
    page = "\n".join(_table(rows)) + "\n"
    if state.payload:
        arguments = json.loads(state.payload)["arguments"]
        order = state.presentation.sorted(arguments)
        shown = {name: MASK if name in state.sensitive else arguments[name] for name in order}
        page += "\n" + _call(json.dumps(shown, ensure_ascii=False, indent=2), state.approval_id)
    return page


def question_page(state: QuestionState) -> str:
    """A question as a Markdown page: what is asked, of whom, and how it stands; not what was answered."""
    rows = {
        "Status": state.status,
        "Requester": state.requester,
        "Asked by": state.asked_by,
        "Tool": state.tool,
        "Answered by": state.answered_by,
        "Reason": state.ended_because,
        "Deadline": state.deadline.isoformat(timespec="seconds") if state.deadline else None,
        "Questions": state.questions_sha256,
    }
    asked = [question.model_dump(mode="json", exclude_defaults=True) for question in state.questions]
    return "\n".join(_table(rows)) + "\n\n" + _block(json.dumps(asked, ensure_ascii=False, indent=2))


def _call(text: str, approval_id: str) -> str:
    """A call, or its beginning and end with a word about what lies between. JSON holds no line of backticks alone."""
    if len(text) <= _BEGINNING + _END:
        return _block(text)
    between = len(text) - _BEGINNING - _END
    note = (
        f"**{between:,} characters of the call are not shown here**, between what is above and what is below. "
        f"The whole: on its card, or with assent show {markdown(approval_id)}."
    )
    return "\n".join([_block(text[:_BEGINNING]), note, "", _block(text[-_END:])])


def _block(text: str) -> str:
    return f"````json\n{visible(text)}\n````\n"


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
    mask = Mask(frozen.call.payload, frozen.sensitive, frozen.proposed_payload)
    frozen, examined = mask.frozen(frozen), mask.examined(examined)
    settled = mask.settlement(settled) if settled else None
    call = frozen.call
    if settled:
        who = settled.settled_by or "its own probe"
        head = f"**{_cell(call.tool)}** is settled: **{settled.kind}**, by {_cell(who)}. {_cell(settled.reason or '')}"
    else:
        head = f"**{_cell(call.tool)}** was begun, and **whether it took effect is not known**. Do not repeat it."
    rows = {
        "Approval": call.approval_id,
        "Idempotency key": call.idempotency_key,
        "Also waiting": _also_waiting(examined),
        "Payload": f"{short_hash(call.payload_sha256)}…",
        "Requester": call.requester,
        "Approved by": frozen.decided_by,
        "Risk": frozen.risk,
        "Frozen since": frozen.frozen_at.isoformat(timespec="seconds"),
        "What is known": frozen.error,
        "Probed": f"{frozen.probes} times" if frozen.has_probe else "there is no probe",
    }
    page = [head, "", *_table(rows), "", "### What was approved", "", _arguments(frozen)]
    page += ["### What the ledger says", ""]
    for seen in examined.attempts:
        page += [*_table(_attempt_rows(seen)), ""]
        page += [
            f"- **It ended after all**, at {late.at}: {_cell(late.state)} {_cell(late.content or late.error or '')}"
            for late in seen.late
        ]
    if settled is None:
        page += _to_do(frozen, examined)
    return "\n".join(page)


def _arguments(frozen: FrozenCall) -> str:
    """The arguments, the sensitive ones masked."""
    arguments = json.loads(frozen.call.payload)["arguments"]
    order = Presentation(order=frozen.order).sorted(arguments)
    shown = {name: MASK if name in frozen.sensitive else arguments[name] for name in order}
    return _call(json.dumps(shown, ensure_ascii=False, indent=2), frozen.call.approval_id)


def _to_do(frozen: FrozenCall, examined: Examined) -> list[str]:
    """What an operator does now, with the input of the update, ready to be pasted."""
    retry = examined.may_retry(frozen)
    page = ["", "### What to do", ""]
    if examined.may_go_on:
        page += ["**The worker that ran it is not known to be dead: the call may still take effect.**", ""]
    page += [
        "1. Look into the system that it would have changed: did it happen? Search for the idempotency key.",
        "2. If it did not happen, make sure that it no longer can.",
        "3. Send the update `settle` to this workflow, with this as its input; say who you are and how you know it:",
        "",
        _block(_update_input(frozen, examined)),
        "`kind` is `executed`, `not_executed`" + (" or `retry`." if retry else "; it cannot be tried again."),
        "`content` is the result, if it was executed; leave it out otherwise.",
    ]
    if retry:
        page.append("For a retry, add `payload_hash`: the first 12 characters of the payload's hash.")
    return page


def _update_input(frozen: FrozenCall, examined: Examined) -> str:
    said = {
        "kind": "…",
        "operator": {"open_id": "ou_…"},
        "reason": "…",
        "content": None,
        "payload_sha256": frozen.call.payload_sha256,
        "retries": examined.retries,
    }
    return json.dumps(said, ensure_ascii=False, indent=2)


def _also_waiting(examined: Examined) -> str | None:
    """The other approvals that get the answer; of many, some."""
    others = max(examined.waiting - 1, len(examined.joined))
    names = ", ".join(examined.joined)
    return (f"{others}: {names}, …" if others > len(examined.joined) else names) or None


def _attempt_rows(seen: SeenAttempt) -> dict[str, object]:
    return {
        "Consent": seen.consent,
        "State": seen.state,
        "Attempt": seen.attempt,
        "Worker": seen.worker,
        "Began": seen.began_at,
        "Ended": seen.ended_at,
        "Error": seen.error,
        "The tool's code": "has ended" if seen.body_ended else "is not known to have ended",
    }


def _table(rows: Mapping[str, object]) -> list[str]:
    return [
        "| | |",
        "|---|---|",
        *(f"| {name} | {_cell(value)} |" for name, value in rows.items() if value is not None),
    ]


def _cell(value: object) -> str:
    text = str(value).replace("\n", " ")
    if len(text) <= _CELL:
        return markdown(text)
    left_out = len(text) - _CELL + _CELL_END
    return markdown(f"{text[: _CELL - _CELL_END]} … ({left_out:,} characters are not shown) … {text[-_CELL_END:]}")
