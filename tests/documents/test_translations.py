"""The Chinese documents follow their originals: the same sections, code, commands, tables and links."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from assent.types import VerdictKind
from tests.support.documents import FEISHU, README, ROOT, commands, rows, section, snippets, without_code

PAIRS = {README: ROOT / "README.zh-CN.md", FEISHU: ROOT / "docs" / "feishu.zh-CN.md"}
pairs = pytest.mark.parametrize(("original", "translation"), PAIRS.items(), ids=[path.name for path in PAIRS])


def sections(document: Path) -> list[tuple[int, str]]:
    """The level of each heading, and what stands under it; code blocks left out."""
    parts = re.split(r"^(#+) .*\n", without_code(document), flags=re.MULTILINE)
    return [(len(marks), words) for marks, words in zip(parts[1::2], parts[2::2], strict=True)]


def paragraphs(words: str) -> list[str]:
    """Its paragraphs, list items and rows of tables."""
    return [each for each in re.split(r"\n\n+|\n(?= *(?:-|\d\.|\|) *)", words.strip()) if each.strip()]


def codes(words: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", words))


def tables(words: str) -> list[list[list[str]]]:
    """The rows of each table, and the cells of each row."""
    found = re.findall(r"(?:^ *\|.*\|\n?)+", words, re.MULTILINE)
    return [[line.strip().strip("|").split("|") for line in table.splitlines()] for table in found]


def links(words: str) -> Counter[str]:
    """Where it leads, as the original would say it: without the parts of a page, whose names are translated."""
    found = (target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", words))
    return Counter(target.replace(".zh-CN.md", ".md").replace(".zh.png", ".en.png") for target in found if target)


def meaning(language: str, code: str) -> Any:
    """What a snippet says to a machine: comments and the texts of a configuration are for people."""
    if language == "python":
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
        return ast.dump(compile(code, "snippet", "exec", flags=flags))
    if language == "toml":
        return re.sub(r'"[^"]*"', '""', str(_keys(tomllib.loads(code))))
    return code


def _keys(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _keys(value) for key, value in found.items()}
    return [_keys(each) for each in found] if isinstance(found, list) else type(found).__name__


@pairs
def test_sections_are_the_same(original: Path, translation: Path) -> None:
    assert [level for level, _ in sections(original)] == [level for level, _ in sections(translation)]
    for (_, said), (_, translated) in zip(sections(original), sections(translation), strict=True):
        assert [codes(each) for each in paragraphs(said)] == [codes(each) for each in paragraphs(translated)]


@pairs
def test_commands_and_snippets_are_the_same(original: Path, translation: Path) -> None:
    assert list(commands(original)) == list(commands(translation))
    for language in ("python", "toml", "json"):
        said, translated = (list(snippets(language, document)) for document in (original, translation))
        assert [meaning(language, each.code) for each in said] == [meaning(language, each.code) for each in translated]


@pairs
def test_tables_are_the_same(original: Path, translation: Path) -> None:
    for (_, said), (_, translated) in zip(sections(original), sections(translation), strict=True):
        assert len(tables(said)) == len(tables(translated))
        for one, other in zip(tables(said), tables(translated), strict=True):
            assert [len(row) for row in one] == [len(row) for row in other]
            for row, its in zip(one, other, strict=True):
                assert [codes(cell) for cell in row] == [codes(cell) for cell in its]
                assert [bool(cell.strip()) for cell in row] == [bool(cell.strip()) for cell in its]


@pairs
def test_links_lead_to_the_same(original: Path, translation: Path) -> None:
    assert original.name in links(translation.read_text())
    names = {original.name, f"docs/{FEISHU.name}"}  # each leads to the other, and to both guides to Feishu
    there, here = links(original.read_text()), links(translation.read_text())
    assert {target: count for target, count in there.items() if target not in names} == {
        target: count for target, count in here.items() if target not in names
    }


@pairs
def test_one_word_stands_for_one_thing(original: Path, translation: Path) -> None:
    """As on cards: 同意 is given, a 管理员 writes the policy, 值班人员 settle."""
    assert original != translation
    assert re.findall("批准|复核|运维|运营|至多", without_code(translation)) == []


def test_what_people_read_on_cards_is_quoted_as_they_read_it() -> None:
    texts = tomllib.loads((ROOT / "cards" / "texts" / "zh-CN.toml").read_text())
    chinese = PAIRS[FEISHU]
    shown = {state for states in rows(chinese, "卡片上的内容") for state in states.split("、")}
    assert shown == set(texts["state"].values())  # English says Waiting of a call and of a result
    told = rows(chinese, "点击之后的提示")
    assert told.keys() == set(VerdictKind)
    for verdict, (sentence,) in told.items():
        for key in ("approved", "rejected") if verdict == "accepted" else (verdict,):
            assert texts["toast"][key] in sentence
    assert texts["toast"]["not_recorded"] in section(chinese, "点击之后的提示")
    assert texts["toast"]["not_in_time"] in section(chinese, "值班人员的卡片")
