"""Names that live in Temporal's history and in its UI. They are persisted data: change none of them."""

from __future__ import annotations

import hashlib

APPROVALS_QUEUE = "assent-approvals"
"""Where workflows and their own activities run."""
OUTBOUND_QUEUE = "assent-outbound"
"""Where cards and announcements wait for a Feishu or an agent that does not answer; they hold up nothing else."""
TOOLS_QUEUE = "assent-tools"
"""Where a tool runs that names no queue of its own."""

AGENT_CALL = "agent_call"
"""The built-in tool for calls that an agent makes itself: consent is all there is to it."""

APPROVAL = "Approval"
FROZEN_REVIEW = "FrozenReview"
RECORDING = "Recording"
RECALL = "Recall"
ANNOUNCING = "Announcing"
SHOW_SETTLED = "ShowSettled"
BUNDLE = "Bundle"
INBOX_REPLY = "InboxReply"
REDRAWING = "Redrawing"
QUESTION = "Question"
SHOW_ANSWERED = "ShowAnswered"
RECEIVE_FILES = "ReceiveFiles"
WARNING = "Warning"
RUN = "Run"

PREPARE = "prepare"
RESOLVE = "resolve"
EXECUTE = "execute"
PROBE = "probe"
WARN = "warn"
CLOSE_CLAIM = "close_claim"
WRITE_AUDIT = "write_audit"
RECORD = "record_ending"
RECALL_RECORD = "recall"
DELIVER = "deliver"
SHOW = "show"
ANNOUNCE = "announce"
EXAMINE = "examine"
RULE = "rule"
TELL = "tell"
SHOW_REVIEW = "show_review"
WEIGH = "weigh"
REMEMBER = "remember"
RELEASE = "release"
DELIVER_BUNDLE = "deliver_bundle"
SHOW_BUNDLE = "show_bundle"
REPLY_INBOX = "reply_inbox"
PREPARE_QUESTION = "prepare_question"
DELIVER_QUESTION = "deliver_question"
SHOW_QUESTION = "show_question"
RECORD_ANSWER = "record_answer"
OPEN_QUESTIONS = "open_questions"
REGISTER_FILES = "register_files"
ANSWER_FILES = "answer_files"
OFFER_LINE = "offer_line"
CLAIM_LINE = "claim_line"
WRITE_LINE = "write_line"
CONFIRM_LINE = "confirm_line"
CLOSE_LINE = "close_line"
SHOW_RUN = "show_run"

DECIDE = "decide"
ANSWER = "answer"
ASKING = "asking"
CANCEL = "cancel"
SUPERSEDE = "supersede"
JOIN = "join"
PROGRESS = "progress"
NEWS = "news"
CARDED = "carded"
EXAMINED = "examined"
SETTLE_REVIEW = "settle"
STATE = "state"
VERDICT = "verdict"

LATE_CARDS = "late-cards"
DOUBTED_CARDS = "doubted-cards"
RESISTING_BUNDLES = "resisting-bundles"
"""The patches: what workflows that began before them do not do."""

APPROVAL_MEMO = "assent_approval_id"
FROZEN_AT_MEMO = "assent_frozen_at"
REQUEST_HASH_MEMO = "assent_request_sha256"

STATUS_ATTRIBUTE = "AssentStatus"
TOOL_ATTRIBUTE = "AssentTool"
REQUESTER_ATTRIBUTE = "AssentRequester"
THREAD_ATTRIBUTE = "AssentThread"
RISK_ATTRIBUTE = "AssentRisk"


def review_summary(tool: str) -> str:
    return f"{tool}: did it happen?"[:190]


def approval_workflow(approval_id: str) -> str:
    return f"approval/{approval_id}"


_QUESTION_PREFIX = "question/"


def question_workflow(question_id: str) -> str:
    """Its workflow, and what a question is called where approvals are called by their ids: audits, messages, inboxes.

    No approval's id begins so.
    """
    return f"{_QUESTION_PREFIX}{question_id}"


def question_of(record: str) -> str | None:
    """The question that is called so, if it is one."""
    return record.removeprefix(_QUESTION_PREFIX) if record.startswith(_QUESTION_PREFIX) else None


def run_workflow(run_id: str) -> str:
    """The workflow that shows how far a run is, and what it is called where messages are kept."""
    return f"run/{run_id}"


def run_queue(unique: str) -> str:
    """Where one worker is reached, which alone holds the pipes to the programs that it runs."""
    return f"assent-run-{unique}"


def show_answered_workflow(question_id: str, unique: str) -> str:
    return f"show-answered/{question_id}/{unique}"


def review_workflow(idempotency_key: str) -> str:
    return f"frozen/{hashlib.sha256(idempotency_key.encode()).hexdigest()}"


def show_settled_workflow(approval_id: str, unique: str) -> str:
    return f"show-settled/{approval_id}/{unique}"


def announcing_workflow(approval_id: str) -> str:
    return f"announcing/{approval_id}"


def bundle_workflow(bundle_id: str) -> str:
    return f"bundle/{bundle_id}"


def warning_workflow(unique: str) -> str:
    return f"warning/{unique}"


def recording_workflow(approval_id: str, unique: str) -> str:
    return f"recording/{approval_id}/{unique}"


def redrawing_workflow(approval_id: str, unique: str) -> str:
    return f"redrawing/{approval_id}/{unique}"


def inbox_reply_workflow(message_id: str) -> str:
    """One answer for one message, however often the platform tells of it."""
    return f"inbox-reply/{message_id}"


def receive_files_workflow(message_id: str) -> str:
    """One for each message, however often and by whichever way the platform tells of it."""
    return f"receive-files/{message_id}"
