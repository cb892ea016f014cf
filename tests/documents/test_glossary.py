"""The glossary and the code say the same words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import pytest

from assent.contracts.decision import DecisionKind, VerdictKind
from assent.contracts.permission import Execution, ResultReview
from assent.contracts.ruling import RuledKind, RulingKind
from assent.contracts.status import Phase, Status
from assent.types import Risk
from ledger import ClaimState
from tests.support.environment import ROOT

_ROW = re.compile(r"^\| \*\*(.+?)\*\* \| (.+) \|$", re.MULTILINE)
GLOSSARY = dict(_ROW.findall((ROOT / "docs" / "glossary.md").read_text()))
ROOMS = ("assent", "workflows", "activities", "cards", "ledger", "workers")

RIDDLES = ("Docket", "Shelf", "Bench", "Sheet", "Face", "Standing", "Sight", "Ear", "Desk", "House", "Hall", "Nursery")
"""Names that said what their author thought of, and not what the thing does."""


def modules(*folders: str) -> Iterable[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def defined(folders: Iterable[str]) -> dict[str, str]:
    """Every class and function, by where it is."""
    found = {}
    for path in modules(*folders):
        for name in re.findall(r"^\s*(?:class|def|async def) (\w+)", path.read_text(), re.MULTILINE):
            found[f"{path.relative_to(ROOT)}:{name}"] = name
    return found


def test_each_word_stands_once_and_in_order() -> None:
    words = [word for word, _ in _ROW.findall((ROOT / "docs" / "glossary.md").read_text())]
    assert words == sorted(set(words))


@pytest.mark.parametrize(
    ("word", "kinds"),
    [
        ("phase", Phase),
        ("claim", ClaimState),
        ("verdict", VerdictKind),
        ("ruling", RulingKind),
        ("ruling", RuledKind),
        ("permission", Execution),
        ("permission", ResultReview),
        ("risk", Risk),
        ("decision", DecisionKind),
    ],
)
def test_the_glossary_names_every_kind_there_is(word: str, kinds: type[StrEnum]) -> None:
    missing = [kind for kind in kinds if not re.search(rf"\b{re.escape(kind)}\b", GLOSSARY[word])]
    assert missing == []


def test_the_number_of_statuses_is_right() -> None:
    numbers = ("eight", "nine", "ten", "eleven")
    assert f"in one of {numbers[len(Status) - 8]} words" in GLOSSARY["status"]


@pytest.mark.parametrize(
    "word", ["approval", "awaited", "claim", "core", "deciders", "grant", "ledger", "panel", "review"]
)
def test_the_words_of_the_design_are_explained(word: str) -> None:
    assert word in GLOSSARY


def test_no_riddle_has_come_back() -> None:
    named = defined((*ROOMS, "tests", "benchmarks"))
    assert {where for where, name in named.items() if name.strip("_") in RIDDLES} == set()


def test_only_frozen_calls_are_settled() -> None:
    """What puts an ending on record concludes, or records."""
    settles = {where for where, name in defined(ROOMS).items() if name.strip("_") in ("settle", "Settled", "settling")}
    about_reviews = re.compile(r"review|frozen|settl|handle|sync|client/door|api/door|temporal/door|ruling|cli/")
    assert settles
    assert {where for where in settles if not about_reviews.search(where.partition(":")[0])} == set()
