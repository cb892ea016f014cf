"""What a running program says on lines of its standard output: that it needs an answer, or how far it is."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, StringConstraints, ValidationError, model_validator

from assent import strict_json
from assent.contracts.questions import MOST_OPTIONS, Option, Question, QuestionKind
from assent.contracts.request import DEFAULT_TTL, MAX_TTL
from assent.contracts.runs import MOST_SUMMARY, AnswerType, RequestId
from assent.contracts.values import Frozen, Text
from assent.safe import one_line, shortened

_NEED, _PROGRESS = "NEED_USER_INPUT", "PROGRESS"


def summarised(text: str) -> str:
    """Words as a conversation is shown them: one line, no longer than a summary."""
    return shortened(one_line(text), MOST_SUMMARY)


def _option(given: Any) -> Any:
    return {"value": given} if isinstance(given, str) else given


Summary = Annotated[str, BeforeValidator(lambda given: summarised(given) if isinstance(given, str) else given)]


class Need(Frozen):
    """`NEED_USER_INPUT`: a program waits for a line."""

    interaction_request_id: RequestId | None = None
    answer_type: AnswerType
    prompt: Annotated[Text, StringConstraints(min_length=1, max_length=2000)]
    options: Annotated[tuple[Annotated[Option, BeforeValidator(_option)], ...], Field(max_length=MOST_OPTIONS)] = ()
    summary: Summary | None = None
    expires_in: Annotated[float, Field(gt=0, le=MAX_TTL.total_seconds())] | None = None
    """Seconds."""

    @model_validator(mode="after")
    def _can_be_answered(self) -> Self:
        self.question()  # says what is wrong with it
        return self

    def question(self) -> Question:
        """What people are asked."""
        is_choice = self.answer_type is AnswerType.CHOICE
        kind = QuestionKind.CHOICE if is_choice else QuestionKind.TEXT
        return Question(prompt=self.prompt, kind=kind, options=self.options)

    @property
    def ttl(self) -> timedelta:
        return DEFAULT_TTL if self.expires_in is None else timedelta(seconds=self.expires_in)

    def answered(self, value: str) -> str:
        """What the conversation is told of an answer: an option by its name, and never one's own words."""
        chosen = next((option.text for option in self.options if option.value == value), "✓")
        return summarised(f"{shortened(one_line(self.prompt), 100)} {chosen}")


class Progress(Frozen):
    """`PROGRESS`: how far a program is."""

    summary: Summary


class Unreadable(Frozen):
    """A line that begins like one of these, and is none."""

    problem: str


def read_line(line: str) -> Need | Progress | Unreadable | None:
    """What a line of output says; None of an ordinary one."""
    word, *rest = line.split(maxsplit=1) or ("",)
    if word not in (_NEED, _PROGRESS):
        return None
    kind: type[Need] | type[Progress] = Need if word == _NEED else Progress
    try:
        return kind.model_validate(strict_json.parse("".join(rest).encode()))
    except ValidationError as error:
        return Unreadable(problem=f"{word}: {'.'.join(map(str, error.errors()[0]['loc']))} is not valid")
    except ValueError:
        return Unreadable(problem=f"{word}: what follows is no JSON object")
