"""The client for code without asyncio: the same methods, blocking."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from assent.client.client import Assent
from assent.client.door import Approval, AskedQuestion, FrozenReview, ToolDescription
from assent.client.files import Files
from assent.client.handle import ApprovalHandle
from assent.client.policy import PolicyOverrides
from assent.client.question import QuestionHandle
from assent.contracts.answers import AnswerVerdict, QuestionOutcome
from assent.contracts.asking import QuestionState
from assent.contracts.audit import AuditRecord
from assent.contracts.decision import DecisionKind, Verdict
from assent.contracts.files import FileSummary
from assent.contracts.grants import Grant, RevokedKind
from assent.contracts.identity import Identity
from assent.contracts.outcome import Outcome
from assent.contracts.policy import Override
from assent.contracts.ruling import Ruled, RulingKind, Settlement
from assent.contracts.state import PendingItem, State

_Result = TypeVar("_Result")


class SyncAssent:
    """`Assent`, blocking. One thread of its own does the talking; any number of threads may ask."""

    def __init__(self, gate: Assent, background: _Background) -> None:
        self._gate = gate
        self._background = background

    @classmethod
    def connect(cls, url: str | None = None, **options: Any) -> Self:
        """Connect as `Assent.connect` does, with the same options."""
        background = _Background()
        try:
            return cls(background.run(Assent.connect(url, **options)), background)
        except BaseException:
            background.stop()
            raise

    @property
    def policy(self) -> SyncPolicyOverrides:
        """What holds for tools for a while, beside the operator's file; only over Temporal."""
        return SyncPolicyOverrides(self._gate.policy, self._background)

    def request(self, tool: str, arguments: dict[str, Any], **asked: Any) -> SyncApproval:
        """Ask a person to let a tool call run; takes what `Assent.request` takes."""
        handle = self._background.run(self._gate.request(tool, arguments, **asked))
        return SyncApproval(handle, self._background)

    def request_many(
        self, calls: Sequence[Mapping[str, Any]], *, requester: Identity, **shared: Any
    ) -> list[SyncApproval]:
        """Ask for several calls together; takes what `Assent.request_many` takes."""
        handles = self._background.run(self._gate.request_many(calls, requester=requester, **shared))
        return [SyncApproval(handle, self._background) for handle in handles]

    def call(self, tool: str, arguments: dict[str, Any], **asked: Any) -> Outcome:
        """Ask and wait: `request(…)` and `outcome()` in one."""
        return self._background.run(self._gate.call(tool, arguments, **asked))

    def approval(self, approval_id: str) -> SyncApproval:
        """Attach to an approval that was asked for before."""
        return SyncApproval(self._gate.approval(approval_id), self._background)

    def approvals(self, *, status: str | None = None, thread_id: str | None = None, limit: int = 100) -> list[Approval]:
        """The approvals that are still known, open ones first, then the newest; by status or phase."""

        async def listed() -> list[Approval]:
            lines = self._gate.approvals(status=status, thread_id=thread_id, limit=limit)
            return [approval async for approval in lines]

        return self._background.run(listed())

    def ask(self, questions: Any, *, requester: Identity, **asked: Any) -> SyncQuestion:
        """Ask a person something; takes what `Assent.ask` takes."""
        handle = self._background.run(self._gate.ask(questions, requester=requester, **asked))
        return SyncQuestion(handle, self._background)

    def question(self, question_id: str) -> SyncQuestion:
        """Attach to a question that was asked before."""
        return SyncQuestion(self._gate.question(question_id), self._background)

    def questions(
        self, *, status: str | None = None, thread_id: str | None = None, limit: int = 100
    ) -> list[AskedQuestion]:
        """The questions that are still known, open ones first, then the newest."""

        async def listed() -> list[AskedQuestion]:
            lines = self._gate.questions(status=status, thread_id=thread_id, limit=limit)
            return [question async for question in lines]

        return self._background.run(listed())

    def frozen(self, *, limit: int = 100) -> list[FrozenReview]:
        """The frozen calls, the newest first: nobody knows whether they took effect."""

        async def listed() -> list[FrozenReview]:
            return [review async for review in self._gate.frozen(limit=limit)]

        return self._background.run(listed())

    def inbox(self, actor: Identity, *, thread_id: str | None = None) -> list[PendingItem | QuestionState]:
        """What waits for this person: calls to decide and results to release, then questions; the oldest first."""

        async def listed() -> list[PendingItem | QuestionState]:
            return [state async for state in self._gate.inbox(actor, thread_id=thread_id)]

        return self._background.run(listed())

    def grants(self) -> list[Grant]:
        """The decisions that were remembered, including those that expired or were revoked."""

        async def listed() -> list[Grant]:
            return [grant async for grant in self._gate.grants()]

        return self._background.run(listed())

    def revoke(self, grant_id: str, *, actor: Identity) -> RevokedKind:
        """Stop a remembered decision from counting."""
        return self._background.run(self._gate.revoke(grant_id, actor=actor))

    @property
    def files(self) -> SyncFiles:
        """What people shared with the bot."""
        return SyncFiles(self._gate.files, self._background)

    def tools(self) -> list[ToolDescription]:
        """The tools that can be asked for, by name."""
        return self._background.run(self._gate.tools())

    def close(self) -> None:
        """Close the connections; what was asked for goes on."""
        if self._background.is_running:
            self._background.run(self._gate.close())
            self._background.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SyncFiles:
    """What a person shared with the bot, blocking."""

    def __init__(self, files: Files, background: _Background) -> None:
        self._files = files
        self._background = background

    def recent(self, requester: Identity, limit: int = 10) -> list[FileSummary]:
        """A person's files that can be used now, the newest first."""
        return self._background.run(self._files.recent(requester, limit))

    def get(self, requester: Identity, file_id: str) -> FileSummary | None:
        """One of them; None if there is none, it has expired or is somebody else's."""
        return self._background.run(self._files.get(requester, file_id))


class SyncPolicyOverrides:
    """`PolicyOverrides`, blocking."""

    def __init__(self, policy: PolicyOverrides, background: _Background) -> None:
        self._policy = policy
        self._background = background

    def override(self, tool: str, **said: Any) -> Override:
        """Override what a tool says of itself; takes what `PolicyOverrides.override` takes."""
        return self._background.run(self._policy.override(tool, **said))

    def overrides(self) -> list[Override]:
        """The overrides that are in force."""
        return self._background.run(self._policy.overrides())


class SyncApproval:
    """One approval, blocking: wait for it, look at it, decide it, withdraw it."""

    def __init__(self, handle: ApprovalHandle, background: _Background) -> None:
        self.id = handle.id
        self._handle = handle
        self._background = background

    def outcome(self) -> Outcome:
        """Wait until the approval has ended, through restarts of the service."""
        return self._background.run(self._handle.outcome())

    def state(self) -> State:
        """The approval's current state."""
        return self._background.run(self._handle.state())

    def decide(self, kind: DecisionKind | str, *, actor: Identity, payload_sha256: str | None, **said: Any) -> Verdict:
        """Decide on exactly the payload with that hash; takes what `ApprovalHandle.decide` takes."""
        return self._background.run(self._handle.decide(kind, actor=actor, payload_sha256=payload_sha256, **said))

    def result(self, *, actor: Identity) -> Any:
        """The result that waits to be released, for *actor* who decides about it; None if none waits."""
        return self._background.run(self._handle.result(actor=actor))

    def cancel(self, reason: str | None = None, *, actor: Identity | None = None) -> None:
        """Withdraw the request. Does nothing once somebody has decided."""
        self._background.run(self._handle.cancel(reason, actor=actor))

    def content(self) -> Any:
        """The whole result, however large; waits for it like `outcome()`."""
        return self._background.run(self._handle.content())

    def settle(self, kind: RulingKind | str, *, operator: Identity, reason: str, **said: Any) -> Ruled:
        """Say what became of this approval's frozen call; takes what `ApprovalHandle.settle` takes."""
        return self._background.run(self._handle.settle(kind, operator=operator, reason=reason, **said))

    def settlement(self) -> Settlement:
        """Wait until this approval's frozen call is settled."""
        return self._background.run(self._handle.settlement())

    def audit(self) -> list[AuditRecord]:
        """What the audit says of this approval."""
        return self._background.run(self._handle.audit())


class SyncQuestion:
    """One question, blocking: wait for its answer, look at it, answer it, withdraw it."""

    def __init__(self, handle: QuestionHandle, background: _Background) -> None:
        self.id = handle.id
        self._handle = handle
        self._background = background

    def answer(self) -> QuestionOutcome:
        """Wait until the question has ended, through restarts of the service."""
        return self._background.run(self._handle.answer())

    def state(self) -> QuestionState:
        """The question's current state."""
        return self._background.run(self._handle.state())

    def respond(
        self, answers: Mapping[str, Any], *, actor: Identity, questions_sha256: str | None, **said: Any
    ) -> AnswerVerdict:
        """Answer exactly the questions with that hash; takes what `QuestionHandle.respond` takes."""
        return self._background.run(
            self._handle.respond(answers, actor=actor, questions_sha256=questions_sha256, **said)
        )

    def cancel(self, reason: str | None = None, *, actor: Identity | None = None) -> None:
        """Withdraw the question. Does nothing once somebody has answered."""
        self._background.run(self._handle.cancel(reason, actor=actor))

    def audit(self) -> list[AuditRecord]:
        """What the audit says of this question."""
        return self._background.run(self._handle.audit())


class _Background:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        started: concurrent.futures.Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = (
            concurrent.futures.Future()
        )
        self._thread = threading.Thread(target=self._serve, args=(started,), name="assent", daemon=True)
        self._thread.start()
        self._loop, self._stopping = started.result()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        if not self.is_running:
            work.close()
            raise RuntimeError("this client was closed; connect again")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise RuntimeError("this client was closed while it waited; connect again") from None
        except BaseException:  # Ctrl-C ends the waiting, and the work that it waited for
            future.cancel()
            raise

    def stop(self) -> None:
        """End the thread; whoever still waits is told."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    @staticmethod
    def _serve(started: concurrent.futures.Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
        async def until_stopped() -> None:
            stopping = asyncio.Event()
            started.set_result((asyncio.get_running_loop(), stopping))
            await stopping.wait()

        asyncio.run(until_stopped())
