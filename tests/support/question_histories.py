"""Random histories of one question, lived by the core and, beside it, by a naive model of what the documents say.

`python -m tests.support.question_histories 10000` lives so many; a second number is the seed of the first.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from datetime import timedelta
from typing import Any

from assent.contracts.answers import Answer
from assent.contracts.approvers import Approvers
from assent.contracts.decision import VerdictKind
from assent.contracts.deliver import Delivered
from assent.contracts.identity import Identity
from assent.contracts.questions import Question, QuestionRequest
from assent.contracts.runs import AnswerType, AskingRun, RunHolder
from assent.contracts.signals import Withdrawal
from assent.contracts.weigh import Weighed
from assent.core import questions
from assent.core.questions import Opened, Unopened
from tests.support import naive_question as naive
from tests.support.questions import ALL, DEADLINE, NOW, WHERE, WHY, answer_to, question_plan

PEOPLE = tuple(Identity(open_id=f"ou_{name}") for name in ("asker", "ann", "ben", "cho"))
ASKER = PEOPLE[0]
STRANGER = Identity(open_id="ou_stranger")
_TEXTS = ("staging", "production", "web", "api", "jobs", "moon", " web ", "because", "", "  ", "x" * 21, "a\nb", "\x07")
_FITTING: dict[str, naive.Given] = {"where": "staging", "sure": True, "why": "because", "parts": ("web", "jobs")}
_MINUTES = (DEADLINE - NOW) / timedelta(minutes=1)


class Violation(AssertionError):
    """The core disagrees with the model, or takes something back."""


class History:
    """One question, as both see it."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self.seed, self.minute, self.log = seed, 0.0, list[str]()
        draw = self._draw
        self._is_run = draw.random() < 0.3
        asked: tuple[Question, ...] = (draw.choice((WHERE, WHY)),) if self._is_run else _some(draw)
        approvers = draw.choice(
            (Approvers(), Approvers.of(PEOPLE[1:3]), Approvers(kind=Approvers.Kind.CHAT, chat_id="oc_1"))
        )
        may = {Approvers.Kind.REQUESTER: {ASKER}, Approvers.Kind.PEOPLE: {*approvers.people}}.get(approvers.kind)
        known: dict[str, Any] = {"run": _run(), "question_id": _run().question_id} if self._is_run else {}
        self.plan = question_plan(*asked, approvers=approvers, requester=ASKER, **known)
        self.naive = naive.Naive(
            naive.Config(
                questions=tuple(_plain(each) for each in asked),
                shown=self.plan.questions_sha256,
                people=frozenset(str(each) for each in may) if may is not None else None,
                members=frozenset(map(str, PEOPLE)),
                cards=frozenset({"om_1"}),
                deadline=_MINUTES,
                is_run=self._is_run,
                question=self.plan.question_id,
            )
        )
        self.question = self._opened()
        self.verdicts: dict[str, VerdictKind] = {}

    def _opened(self) -> Opened:
        request = QuestionRequest(
            question_id=self.plan.question_id, questions=self.plan.questions, requester=self.plan.requester
        )
        question, _ = questions.send(questions.open_with(Unopened(request=request), self.plan, NOW))
        return questions.arrive(question, Delivered(message_id="om_1"), NOW)

    def live(self, steps: int) -> None:
        for _ in range(steps):
            self.minute += self._draw.choice((0.0, 0.1, 1.0, 3.0))
            now = NOW + timedelta(minutes=self.minute)
            match self._draw.choices(("answer", "withdraw", "expire", "carried"), (20, 1, 1, 2))[0]:
                case "answer":
                    self._answer()
                case "withdraw":
                    self.naive.happen("withdraw", self.minute)
                    self.question = questions.withdraw(self.question, Withdrawal(), now)
                case "expire":
                    self.naive.happen("expire", self.minute)
                    self.question = questions.expire(self.question, now)
                case _:
                    self.question = questions.resume(Opened.model_validate_json(self.question.model_dump_json()))
            self._check()

    def _answer(self) -> None:
        draw, now = self._draw, NOW + timedelta(minutes=self.minute)
        given = self._said()
        self.naive.happen(
            "answer",
            self.minute,
            naive.Said(
                event_id=given.event_id,
                actor=str(given.actor),
                answers=dict(given.answers),
                shown=str(given.questions_sha256),
                received=((given.received_at or now) - NOW) / timedelta(minutes=1),
                question=given.question_id,
                message=given.message_id,
                is_signed=given.proof != "feishu-token",
            ),
        )
        self.log.append(f"{self.minute:.1f}: {given.event_id} by {given.actor}: {dict(given.answers)}")
        self.question = questions.answer(self.question, given, now)
        while (asking := self.question.asking) is not None:
            outsiders = () if asking.actor in PEOPLE else (asking.actor,)
            self.question = questions.weighed(self.question, asking, Weighed(outsiders=outsiders), now)
        if draw.random() < 0.1:
            self.question = questions.answer(self.question, given, now)  # the same again

    def _said(self) -> Answer:
        draw = self._draw
        answers = {question.id: each for question in self.plan.questions if (each := self._given(question)) is not None}
        if draw.random() < 0.05:
            answers["other"] = "web"
        wrong = draw.choice(
            (*({},) * 8, {"questions_sha256": "2" * 64}, {"message_id": "om_9"}, {"question_id": "q-9"})
        )
        received = self.minute + draw.choice((0.0, 0.0, -1.0, -30.0, 5.0))
        return answer_to(
            self.plan,
            answers,
            **{
                "actor": draw.choice((*PEOPLE, STRANGER)),
                "event_id": f"e{draw.randrange(30)}",
                "received_at": NOW + timedelta(minutes=received),
                "message_id": draw.choice((None, "om_1")),
                "proof": draw.choice(("feishu-signature", "feishu-connection", "feishu-token")),
                **wrong,
            },
        )

    def _given(self, question: Question) -> naive.Given | None:
        draw = self._draw
        if draw.random() < 0.6:  # mostly what fits
            return _FITTING[question.id]
        several = tuple(draw.choice(_TEXTS) for _ in range(draw.randint(0, 3)))
        choices: tuple[naive.Given | None, ...] = (None, True, False, draw.choice(_TEXTS), draw.choice(_TEXTS), several)
        return draw.choice(choices)

    def _check(self) -> None:
        found = {each.event_id: each.verdict for each in self.question.notes.judged}
        if any(found.get(event_id) != verdict for event_id, verdict in self.verdicts.items()):
            raise self._wrong("a verdict was changed")
        self.verdicts = found
        expected = self.naive.verdicts()
        if {name: verdict.value for name, verdict in found.items()} != expected:
            odd = {name: (found.get(name), verdict) for name, verdict in expected.items() if found.get(name) != verdict}
            raise self._wrong(f"the core and the documents disagree: {odd}")
        ending = self.question.ending
        if (ending.status.value if ending else "pending") != self.naive.status:
            raise self._wrong(f"it is {ending}, and by the documents {self.naive.status}")
        if (dict(ending.answers) if ending and ending.answers is not None else None) != self.naive.answers:
            raise self._wrong(f"it was answered {ending}, and by the documents {self.naive.answers}")

    def _wrong(self, what: str) -> Violation:
        return Violation("\n".join([what, f"seed {self.seed}: {self.naive.config}", *self.log]))


def _some(draw: random.Random) -> tuple[Question, ...]:
    return tuple(each for each in ALL if draw.random() < 0.6) or (WHERE,)


def _plain(question: Question) -> naive.Asked:
    return naive.Asked(
        id=question.id,
        kind=question.kind.value,
        options=tuple(option.value for option in question.options),
        multi_select=question.multi_select,
        allow_input=question.allow_input,
        required=question.required,
        max_length=question.max_length,
    )


def _run() -> AskingRun:
    return AskingRun(
        run_id="run-1",
        holder=RunHolder.WORKER,
        tool="rebuild",
        tool_session_id="a-1",
        interaction_request_id="where",
        answer_type=AnswerType.TEXT,
    )


def lived(seed: int, steps: int = 20) -> History:
    history = History(seed)
    history.live(steps)
    return history


if __name__ == "__main__":
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    began, verdicts = time.monotonic(), Counter[str]()
    for seed in range(first, first + count):
        verdicts.update(verdict.value for verdict in lived(seed).verdicts.values())
    print(f"{count} histories of questions in {time.monotonic() - began:.0f} s: {dict(verdicts)}")
