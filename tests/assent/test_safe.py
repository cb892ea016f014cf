"""What others write, made safe to look at: on cards, on Temporal's page, in a terminal, by one function."""

from __future__ import annotations

import re
import unicodedata
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.safe import markdown, markdown_start, one_line, shortened, visible
from tests.support.counting import calls
from tests.support.hypothesis_settings import unhurried

FSI, PDI = "\u2068", "\u2069"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        # direction
        ("a\u202eb", "a⟦U+202E⟧b"),
        ("\u2066a\u2069", "⟦U+2066⟧a⟦U+2069⟧"),
        ("\u200f\u061c", "⟦U+200F⟧⟦U+061C⟧"),
        ("pay אבג 500 to bob", f"pay {FSI}אבג{PDI} 500 to bob"),
        ("שלום עולם 12", f"{FSI}שלום עולם{PDI} 12"),
        ("/בית/usr/قاعدة/bin", f"/{FSI}בית{PDI}/usr/{FSI}قاعدة{PDI}/bin"),
        # variation selectors
        ("a\ufe0f", "a⟦U+FE0F⟧"),
        ("1\ufe0f", "1⟦U+FE0F⟧"),
        ("1\ufe0f\u20e3", "1\ufe0f\u20e3"),
        ("∀\ufe0f", "∀⟦U+FE0F⟧"),
        ("❤\ufe0f", "❤\ufe0f"),
        ("❤\ufe0e", "❤⟦U+FE0E⟧"),
        ("葛\U000e0100", "葛⟦U+E0100⟧"),
        ("a\U000e0041\U000e007f", "a⟦U+E0041⟧⟦U+E007F⟧"),
        # joiners
        ("a\u200db", "a⟦U+200D⟧b"),
        ("∀\u200d∃", "∀⟦U+200D⟧∃"),
        ("क\u094d\u200dष", "क\u094d⟦U+200D⟧ष"),
        ("👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧"),
        ("🏳\ufe0f\u200d🌈", "🏳\ufe0f\u200d🌈"),
        ("👨\u200d", "👨⟦U+200D⟧"),
        ("👍🏽", "👍🏽"),
        # piles of marks
        ("e\u0301", "e\u0301"),
        ("e" + "\u0301" * 5, "e\u0301\u0301\u0301⟦U+0301⟧⟦U+0301⟧"),
        ("z" + "\u0488" * 4, "z\u0488\u0488\u0488⟦U+0488⟧"),
        ("ก" + "\u0e49" * 5, "ก\u0e49\u0e49\u0e49⟦U+0E49⟧⟦U+0E49⟧"),
        ("हिन्दी ไทยที่ Việt", "हिन्दी ไทยที่ Việt"),
        # other scripts in a word
        ("p\u0430ypal.com", "p⟦U+0430⟧ypal.com"),
        ("\u0430\u0440\u0440\u04cf\u0435.com", "⟦U+0430⟧⟦U+0440⟧⟦U+0440⟧⟦U+04CF⟧⟦U+0435⟧.com"),
        ("g\u03bf\u03bfgle", "g⟦U+03BF⟧⟦U+03BF⟧gle"),
        ("\u0391dmin", "⟦U+0391⟧dmin"),
        ("\u054fend", "⟦U+054F⟧end"),
        ("Δt = 5 μm, kΩ", "Δt = 5 μm, kΩ"),
        ("оплатить счёт INV-7", "оплатить счёт INV-7"),
        ("отчёт.pdf", "отчёт.pdf"),
        ("Καλημέρα, Bob", "Καλημέρα, Bob"),
        ("中文 mixed 文字abc かな", "中文 mixed 文字abc かな"),
        ("g\u2c9f\u2c9fgle.com", "g⟦U+2C9F⟧⟦U+2C9F⟧gle.com"),
        ("\ua4d0ank", "⟦U+A4D0⟧ank"),
        ("p\u0251ypal", "p⟦U+0251⟧ypal"),
        ("\U0001d5c9aypal", "⟦U+1D5C9⟧aypal"),
        ("\uff50aypal", "⟦U+FF50⟧aypal"),
        ("\u217cogin", "⟦U+217C⟧ogin"),
        ("g\u101d\u101dgle", "g⟦U+101D⟧⟦U+101D⟧gle"),
        ("example\u2024com", "example⟦U+2024⟧com"),
        ("a\u2215b", "a⟦U+2215⟧b"),
        ("https\ufe55//a", "https⟦U+FE55⟧//a"),
        ("\u09ea00 EUR", "⟦U+09EA⟧00 EUR"),
        ("1\uff100 EUR", "1⟦U+FF10⟧0 EUR"),
        # and what people write
        ("请支付（USD 100）：给Bob，谢谢！", "请支付（USD 100）：给Bob，谢谢！"),
        ("价格￥100，共3％；见①a、②b", "价格￥100，共3％；见①a、②b"),
        ("比例3∶1 第Ⅱ章 ＡＢＣ公司 ２０２６年", "比例3∶1 第Ⅱ章 ＡＢＣ公司 ２０２６年"),
        ("カタカナABC ｶﾀｶﾅabc 한국어abc 々〇x", "カタカナABC ｶﾀｶﾅabc 한국어abc 々〇x"),
        ("naïve Łódź Đorđe ơn İstanbul ə Oʻahu 1º m² 5µm", "naïve Łódź Đorđe ơn İstanbul ə Oʻahu 1º m² 5µm"),
        ("চট্টগ্রাম ৪০০ ไทย-Thai क्षेत्र:a", "চট্টগ্রাম ৪০০ ไทย-Thai क्षेत्र:a"),
        # as before
        ("zero\u200bwidth", "zero⟦U+200B⟧width"),
        ("blank\u3164\u2800", "blank⟦U+3164⟧⟦U+2800⟧"),
        ("line\nbreak\ttab", "line\nbreak\ttab"),
        ("over\rwritten \x1b[2J\x7f", "over⟦U+000D⟧written ⟦U+001B⟧[2J⟦U+007F⟧"),
        ("⟦U+202E⟧", "⟦U+27E6⟧U+202E⟧"),
        ("全角　空格", "全角　空格"),
    ],
)
def test_what_could_deceive_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_on_one_line_breaks_are_written_out_too() -> None:
    assert one_line("a\nb\tc") == "a⟦U+000A⟧b⟦U+0009⟧c"


@given(one=st.text(max_size=40), other=st.text(max_size=40))
@unhurried
def test_different_texts_never_look_the_same(one: str, other: str) -> None:
    assert (visible(one) == visible(other)) == (one == other)


@given(st.text(st.sampled_from("aа\u05d0\u0628\u0301\ufe0f\u200d👨1\u20e3 \n⟦\u202e\u2068"), max_size=30))
@unhurried
def test_nothing_that_hides_or_turns_is_left(text: str) -> None:
    shown = visible(text)
    assert not {"\u202e", "\u0301" * 4} & {*shown, *(shown[n : n + 4] for n in range(len(shown)))}
    assert shown.count(FSI) == shown.count(PDI)
    for at, c in enumerate(shown):
        if unicodedata.bidirectional(c) in ("R", "AL"):
            assert shown.rfind(FSI, 0, at) > shown.rfind(PDI, 0, at), "right-to-left letters stand in an isolate"
        if c == "\u200d":
            assert shown[at - 1] in "👨\ufe0f"
            assert shown[at + 1] == "👨"


@given(st.text("אب ab", min_size=1, max_size=40), st.integers(2, 20))
@unhurried
def test_what_is_shortened_ends_its_isolates(text: str, most: int) -> None:
    shown = shortened(one_line(text), most)
    assert shown.count(FSI) == shown.count(PDI)
    assert len(shown) <= most + 1


@pytest.mark.parametrize(
    "text", ["[a](http://b)", "<b>", "**a**", "`a`", "| a |", "# a", "&lt;", "a_b", "~~a~~", "![a](b)", "http://a.b"]
)
def test_in_markdown_it_stays_text(text: str) -> None:
    assert not set(markdown(text)) & set("<>*`|[]()_~!:/.")


@pytest.mark.parametrize("text", ["a" * 300, "_" * 300, "订" * 300, "א" * 300, "a\u202e" * 300, "short_one", ""])
def test_the_start_of_a_text_fits_and_breaks_no_entity(text: str) -> None:
    shown = markdown_start(text, 380)
    assert len(shown.encode()) <= 380
    assert shown.count(FSI) == shown.count(PDI)
    assert not set(re.sub(r"&#\d+;", "", shown)) & set("&#;_⟦" if "\u202e" not in text else "&#;_")
    assert (shown == markdown(text)) is (len(markdown(text).encode()) <= 380)


def test_what_passes_for_latin_costs_what_the_text_weighs() -> None:
    """Every character is looked at a fixed number of times, however tokens and words are cut."""

    for shape in ("p\u0430", "a \u0430 ", "\uff50-a", "\u09ea0.", "\u0430.a", "x\u2024"):
        once, twice = (calls(partial(one_line, shape * count)) for count in (2000, 4000))
        assert twice <= 2.2 * once + 100, shape
