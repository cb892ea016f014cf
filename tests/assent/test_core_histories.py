"""The deciding core under random histories, beside a naive model written from the documents alone."""

from __future__ import annotations

from collections import Counter

import pytest

from assent import Identity
from assent.core.cards import Cards
from tests.support import question_histories
from tests.support.approval_histories import History, Violation, lived

_FIRST = 20_261_117
_SEEDS = 1000
"""Some hundred a second; `python -m tests.support.approval_histories` lives as many as one likes."""

_QUESTIONS = 200


@pytest.mark.parametrize("part", range(4))
def test_the_documents_and_the_core_agree_on_every_verdict(part: int) -> None:
    verdicts: Counter[str] = Counter()
    for seed in range(_FIRST + part, _FIRST + _SEEDS, 4):
        verdicts.update(str(verdict) for verdict in lived(seed).verdicts.values())
    usual = {"accepted", "forbidden", "tampered", "already_decided", "superseded", "expired", "invalid"}
    assert verdicts.keys() >= usual, "histories in which nothing happens prove nothing"


@pytest.mark.parametrize("part", range(2))
def test_decisions_that_wait_behind_others_are_judged_once_and_count_once(part: int) -> None:
    waited = 0
    for seed in range(_FIRST + part, _FIRST + _SEEDS // 2, 2):
        history = lived(seed, immediate=False)
        waited += any("asked outside" in line for line in history.log)
    assert waited > 10


def test_the_documents_and_the_core_agree_on_every_answer_to_a_question() -> None:
    verdicts: Counter[str] = Counter()
    for seed in range(_FIRST, _FIRST + _QUESTIONS):
        verdicts.update(verdict.value for verdict in question_histories.lived(seed).verdicts.values())
    assert verdicts.keys() >= {"accepted", "forbidden", "tampered", "already_decided", "expired", "invalid"}


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ("assent.core.questions.answering.flaws_in", ()),
        ("assent.core.questions.answering.flaws_in_line", ()),
        ("assent.core.questions.judging.is_unsigned", False),
        ("assent.core.questions.answering._too_late", None),
    ],
)
def test_a_core_that_takes_a_wrong_answer_is_found_out(
    monkeypatch: pytest.MonkeyPatch, where: str, what: object
) -> None:
    monkeypatch.setattr(where, lambda *_: what)
    with pytest.raises(question_histories.Violation):
        ask_many()


def ask_many() -> None:
    for seed in range(_QUESTIONS):
        question_histories.lived(seed)


def live_many() -> None:
    for seed in range(200):
        lived(seed)


def test_a_core_that_counts_somebody_twice_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assent.core.panel.Panel.has_approved", lambda self, actor: False)
    with pytest.raises(Violation):
        live_many()


def test_a_core_that_forgets_an_exclusion_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Identity, "may_be", lambda self, other: False)
    with pytest.raises(Violation):
        live_many()


def test_a_verdict_that_changes_is_found_out() -> None:
    history = History(3, immediate=True)
    history.live(10)
    judged = history.approval.notes.judged[0]
    history.verdicts[judged.event_id] = next(kind for kind in type(judged.verdict) if kind is not judged.verdict)
    with pytest.raises(Violation, match="changed"):
        history._check()


def test_a_card_that_a_former_run_left_half_sent_and_is_outdated_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    sending = Cards.sending

    def as_they_were(self: Cards, places: int, renewal: int, news: int, **how: bool) -> Cards:
        known = self.model_copy(update={"renewal": renewal}) if self.was_interrupted else self
        return sending(known, places, renewal, news, **how)

    monkeypatch.setattr(Cards, "sending", as_they_were)
    with pytest.raises(Violation, match="is not of renewal"):
        for_cards()


def for_cards() -> None:
    for seed in range(400):
        lived(seed, immediate=False)
