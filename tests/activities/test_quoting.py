"""What a tool that fails says of its files, without what is in them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities import quoting
from activities.quoting import unquoted


def hidden(text: str, held: bytes, directory: Path) -> str:
    path = directory / "held"
    path.write_bytes(held)
    return unquoted(text, [path])


@pytest.mark.parametrize("before", range(0, 20, 3))
def test_what_is_quoted_is_hidden_and_the_rest_is_said(before: int, tmp_path: Path) -> None:
    held = b"x" * before + b"IBAN DE89 3704 0044" + b"y" * 40
    assert hidden("ValueError: no 'IBAN DE89 3704 0044' here", held, tmp_path) == "ValueError: no '•••' here"
    assert hidden("ValueError: no such account", held, tmp_path) == "ValueError: no such account"


def test_small_files_are_looked_for_as_a_whole(tmp_path: Path) -> None:
    assert hidden("KeyError: 'hunter2', hunter2", b"hunter2", tmp_path) == "KeyError: '•••', •••"
    assert hidden("KeyError: 'a'", b"a", tmp_path) == "KeyError: 'a'"
    assert hidden("KeyError: 'a'", b"", tmp_path) == "KeyError: 'a'"


def test_what_is_alike_everywhere_is_hidden_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(quoting, "_MOST_LOOKS", 100)
    assert hidden("E: " + " " * 12 + "|", b" " * 10_000, tmp_path) == "•••"
    assert unquoted("E: text", [tmp_path / "no such file"]) == "•••"


@given(st.binary(min_size=16, max_size=200), st.data())
def test_no_long_part_of_a_file_stands_in_what_is_told(held: bytes, data: st.DataObject) -> None:
    text = held.decode("latin-1").encode("ascii", "ignore").decode()
    held = text.encode()
    start = data.draw(st.integers(0, max(0, len(text) - 1)))
    quoted = text[start : start + data.draw(st.integers(16, 60))]
    with tempfile.TemporaryDirectory() as directory:
        told = hidden(f"Error: {quoted}.", held, Path(directory))
    assert len(quoted) < 16 or quoted not in told
