"""The catalogues: the same texts in both languages, each replaceable, and every mistake named."""

from __future__ import annotations

from pathlib import Path

import pytest

import cards
from assent import reasons
from assent.contracts.decision import VerdictKind
from assent.contracts.manifest import Risk
from assent.contracts.ruling import RulingKind
from assent.contracts.status import Status
from cards import Showing, Wording, card
from cards.wording import Both, Template, _ours
from tests.support.cards import plan

EN, ZH = _ours("en.toml"), _ours("zh-CN.toml")


def written(directory: Path, text: str, name: str = "en.toml") -> Path:
    (directory / name).write_text(text, encoding="utf-8")
    return directory


def test_both_languages_have_the_same_texts_with_the_same_placeholders() -> None:
    assert EN.keys() == ZH.keys()
    assert {key: text.placeholders for key, text in EN.items()} == {key: text.placeholders for key, text in ZH.items()}


def test_every_state_risk_and_verdict_has_its_texts() -> None:
    wanted = {f"state.{each}" for each in Status} | {f"line.{each}" for each in Status}
    wanted |= {f"risk.{each}" for each in Risk}
    wanted |= {f"toast.{each}" for each in VerdictKind if each is not VerdictKind.ACCEPTED}
    for settled in (RulingKind.EXECUTED, RulingKind.NOT_EXECUTED):
        wanted |= {f"{table}.settled_{settled}" for table in ("state", "line", "toast")}
    for ended in (Status.EXECUTED, Status.FAILED, Status.FROZEN):
        wanted |= {f"line.result_{ended}", f"line.reviewing_{ended}"}
    wanted |= {f"line.grant_{what}" for what in ("tool", "exact", "rejected", "revoked")}
    wanted |= {f"{table}.{state}" for table in ("state", "line") for state in ("denied", "reviewing", "withheld")}
    wanted |= {f"reason.{name}" for name in reasons.ALL}
    assert wanted <= EN.keys()
    assert {key for key in EN if key.startswith("reason.")} <= wanted
    for name, reason in reasons.ALL.items():
        assert EN[f"reason.{name}"].placeholders <= reason.placeholders, name


def test_no_text_is_left_over() -> None:
    source = "".join(file.read_text() for file in Path(cards.__file__).parent.glob("*.py"))
    generic = ("state.", "line.", "risk.", "toast.", "span.", "reason.", "question.", "flaw.")
    assert [key for key in EN if not key.startswith(generic) and f'"{key}"' not in source.replace("'", '"')] == []


def test_one_text_can_be_replaced_without_the_others(tmp_path: Path) -> None:
    wording = Wording.load(written(tmp_path, '[card]\napprove = "Go ahead"\ntitle = "May I {tool}?"\n'))
    shown = card(Showing(plan=plan()), wording)
    assert "Go ahead" in shown
    assert "May I send_invoice?" in shown
    assert "同意" in shown
    assert "是否执行 send_invoice？" in shown
    assert "Go ahead" not in card(Showing(plan=plan()), Wording.load(None))


def test_braces_can_be_written(tmp_path: Path) -> None:
    wording = Wording.load(written(tmp_path, '[card]\nanyone = "{{anyone}}"\n', "zh-CN.toml"))
    assert wording("card.anyone") == Both("Anyone in this chat", "{anyone}")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[card]\napprov = "x"\n', "there is no text 'card.approv'"),
        ('[card]\ntitle = "Run it?"\n', "card.title lacks the placeholder {tool}"),
        ('[card]\ntitle = "{tool} {who}"\n', "card.title has the unknown placeholder {who}"),
        ('[card]\napprove = "{x}"\n', "it takes none"),
        ('[card]\ntitle = "{tool.__class__}"\n', "card.title: {tool.__class__} is not a plain placeholder"),
        ('[card]\ntitle = "{tool!r}"\n', "not a plain placeholder"),
        ('[card]\ntitle = "{tool:>99999999}"\n', "not a plain placeholder"),
        ('[card]\ntitle = "{}"\n', "not a plain placeholder"),
        ('[card]\ntitle = "{tool"\n', "card.title: "),
        ("[card]\napprove = 1\n", "card.approve is not a text"),
        ('[card]\napprove = " "\n', "card.approve is not a text"),
        ('approve = "x"\n', "approve stands outside any table"),
        ("[card\n", "cannot be read as TOML"),
    ],
)
def test_a_mistake_is_named_with_the_file_and_what_to_do(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is looked at below
        Wording.load(written(tmp_path, text))
    assert str(tmp_path / "en.toml") in str(caught.value)
    assert complaint in str(caught.value)


def test_a_directory_without_texts_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"neither en\.toml nor zh-CN\.toml"):
        Wording.load(tmp_path)
    with pytest.raises(ValueError, match="no such directory"):
        Wording.load(tmp_path / "absent")


def test_what_fills_a_placeholder_is_not_looked_into() -> None:
    assert Template("a {x} b").fill({"x": "{y} {x.__class__} %s"}) == "a {y} {x.__class__} %s b"


@pytest.mark.parametrize(
    ("text", "value", "filled"),
    [
        ("是否执行 {x}？", "send_invoice", "是否执行 send_invoice？"),
        ("是否执行 {x}？", "“退款”", "是否执行“退款”？"),
        ("{x} 已处理", "李雷", "李雷已处理"),
        ("{x} 已处理", "Li Lei", "Li Lei 已处理"),
        ("由 {x} 处理", "李 雷", "由李 雷处理"),
        ("由 {x} 处理", "李 Lei", "由李 Lei 处理"),
        ("由 {x} 处理", "", "由  处理"),
        ("{x} **已处理**", "李雷", "李雷 **已处理**"),
        ("{x} {x}", "李雷", "李雷 李雷"),
        ("Decided by {x} here", "李雷", "Decided by 李雷 here"),
    ],
)
def test_no_space_stands_between_chinese_letters(text: str, value: str, filled: str) -> None:
    assert Template(text).fill({"x": value}) == filled


def test_bold_chinese_ends_where_markdown_sees_it() -> None:
    """Behind a full-width mark two asterisks close nothing unless the line ends or a space follows."""
    for key, text in ZH.items():
        parts = text.fill(dict.fromkeys(text.placeholders, "x")).split("**")
        for before, after in zip(parts[1::2], parts[2::2], strict=True):
            assert before[-1] not in "，。：；、？！" or not after or after[0] == " ", key
