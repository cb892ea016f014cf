"""What a call is, in one line: nothing that matters is left out of it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from assent.contracts.manifest import Risk
from assent.contracts.presentation import Presentation, Words
from cards import Showing, card
from cards.headline import headline
from tests.support.cards import WORDING, built, buttons, plan, said

REFUND = {"ship_back_to": None, "amount": "12.50", "currency": "EUR", "order": "A-17", "note": "", "reason": "broken"}
READ = Presentation(
    title=Words(en="Refund an order", zh="退款"),
    labels={"amount": Words(en="Amount", zh="金额")},
    summary=Words(en="Refund {amount} {currency} for order {order}", zh="订单 {order} 退款 {amount} {currency}"),
    order=tuple(REFUND),
    decimals=("amount",),
)


def about(arguments: dict[str, Any], **read: Any) -> str:
    return headline(plan(arguments, presentation=Presentation(order=tuple(arguments), **read))).about.en


def test_the_tool_says_it_in_the_reader_s_language() -> None:
    shown = built(Showing(plan=plan(REFUND, tool="refund_order", presentation=READ, risk=Risk.HIGH)))
    assert shown["header"]["title"]["i18n_content"] == {"en_us": "Run “Refund an order”?", "zh_cn": "是否执行“退款”？"}
    line = {"en_us": "Refund 12.50 EUR for order A-17", "zh_cn": "订单 A-17 退款 12.50 EUR"}
    assert shown["header"]["subtitle"]["i18n_content"] == line
    for language, text in line.items():
        assert text in shown["config"]["summary"]["i18n_content"][language]
        assert text in buttons(shown)["approve"]["confirm"]["text"]["i18n_content"][language]
    assert "**Amount**" in said(shown)
    assert "**金额**" in said(shown, "zh_cn")
    assert "Tool: refund_order" in said(shown)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (REFUND, 'amount: "12.50" · currency: EUR · order: A-17'),
        ({"to": ["a@x.org", "b@x.org"], "subject": "Hello"}, "to: a@x.org, b@x.org · subject: Hello"),
        (
            {"a": 1, "b": None, "amount": 5, "currency": "EUR", "to": "x", "customer": "y"},
            "amount: 5 · currency: EUR · to: x · customer: y",
        ),
        ({"recipient": {"iban": "DE1"}, "toName": "Ann"}, "recipient.iban: DE1 · toName: Ann"),
        (
            {"note": "x", "payment": {"amount": 12, "currency": "EUR", "to": "b"}},
            "payment.amount: 12 · payment.currency: EUR · payment.to: b",
        ),
        ({"subject": "a", "body": "b", "title": "c", "bcc": "eve"}, "subject: a · title: c · bcc: eve"),
        ({"name": "a", "id": "b", "path": "c", "emails": ["d"]}, "name: a · path: c · emails: d"),
        ({"to": ["ann@example.org"] * 500}, "to: ann@example.org, ann@example.org (+498)"),
        ({"to": ["a, b", "c"]}, 'to: "a, b", c'),
        ({"to": "–", "amount": 5}, 'to: "–" · amount: 5'),
        ({"zeta": 1, "alpha": 2}, "zeta: 1 · alpha: 2"),
        ({"note": None}, ""),
    ],
)
def test_without_its_word_nothing_that_matters_is_dropped(arguments: dict[str, Any], line: str) -> None:
    assert about(arguments) == line


LONG = {"payee": "A" * 60, "address": "B" * 60, "account": "C" * 60, "amount": 9000, "currency": "USD"}


def test_what_is_long_makes_room_for_what_matters() -> None:
    of = headline(plan(LONG, tool="t" * 100, presentation=Presentation(order=tuple(LONG))))
    for line in (*of.about, *of.call):
        assert line.endswith("amount: 9000 · currency: USD")
        assert len(line) <= 200
        assert "payee: AAAAAAA" in line
    many = {f"recipient_{n}": "x" * 30 for n in range(40)}
    assert re.search(r"recipient_2: xxxxxxx….* \(\+\d+\)$", about(many))


def test_no_value_passes_for_another_argument() -> None:
    assert about({"to": "bob · amount: 1.00", "amount": 9000}) == 'to: "bob · amount: 1.00" · amount: 9000'
    cut = about({"to": f"bob · amount: 1.00 {'x' * 60}", "amount": 9000})
    assert cut.startswith('to: "bob · amount: 1.00 ')
    assert cut.endswith('…" · amount: 9000')


@pytest.mark.parametrize(
    ("summary", "line"),
    [
        ("Send {text} to {to}", 'Send "hi to alice" to bob'),
        ("Send “{text}” to {to}", "Send “hi to alice” to bob"),
        ("Send it", "Send it · to: bob · text: hi to alice"),
    ],
)
def test_no_value_passes_for_the_tool_s_own_words(summary: str, line: str) -> None:
    assert about({"to": "bob", "text": "hi to alice"}, summary=Words(en=summary, zh=summary)) == line


def test_a_value_cannot_end_the_quotes_around_it() -> None:
    said_so = Words(en='Send "{text}" to {to}', zh="x {to} {text}")
    assert about({"to": "bob", "text": 'hi" to alice "'}, summary=said_so) == r'Send "hi\" to alice \"" to bob'


def test_a_long_summary_says_its_last_word() -> None:
    said_so = Words(en=f"{'Pay ' * 40}{{amount}} to {{to}}", zh="{amount} {to}")
    head = headline(plan({"amount": 5, "to": "x" * 90}, presentation=Presentation(summary=said_so)))
    assert head.call.en.endswith("5 to xxxxxxx…")


def test_a_title_cannot_turn_the_line_around() -> None:
    head = headline(plan({}, presentation=Presentation(title=Words(en="Pay \u202eabc", zh="x\u2028y"))))
    assert head.title == ("Pay ⟦U+202E⟧abc", "x⟦U+2028⟧y")


def test_a_call_of_the_agent_s_own_reads_like_any_other() -> None:
    call = {"name": "wire", "arguments": {"to": "bob", "amount": 5, "note": None}}
    head = headline(plan(call, tool="agent_call", is_consent_only=True))
    assert head.call.en == "agent_call:wire · amount: 5 · to: bob"


def test_decimals_stand_without_quotes_and_texts_of_digits_with_them() -> None:
    assert about({"amount": "12.50", "to": "007"}, decimals=("amount",)) == 'amount: 12.50 · to: "007"'
    rows = said(built(Showing(plan=plan({"amount": "12.50", "code": "12.50"}, presentation=READ))))
    assert {"12.50", '"12.50"'} <= set(rows.split("\n"))


def test_the_order_is_the_signature_s_everywhere() -> None:
    shown = json.loads(card(Showing(plan=plan(REFUND, presentation=READ)), WORDING))
    rows = [each for each in json.dumps(shown, ensure_ascii=False).split('"') if each.startswith("**")]
    places = [rows.index(name) for name in ("**ship&#95;back&#95;to**", "**Amount**", "**currency**", "**order**")]
    assert places == sorted(places)


def test_what_would_run_stands_at_the_button_with_its_warnings_in_the_question() -> None:
    asked = plan(REFUND, presentation=READ, risk=Risk.HIGH, warnings=("This customer was refunded twice.",))
    shown = built(Showing(plan=asked))
    elements = shown["body"]["elements"]
    place = next(n for n, each in enumerate(elements) if each.get("name") == "approve")
    assert "Refund&#32;12&#46;50&#32;EUR&#32;for&#32;order&#32;A&#45;17" in elements[place - 1]["content"]
    assert "High risk" in elements[place - 1]["content"]
    assert "This customer was refunded twice." in elements[place]["confirm"]["text"]["content"]


def test_a_sensitive_argument_stays_hidden_in_the_summary() -> None:
    secret = Presentation(summary=Words(en="Log in with {api_key}", zh="用 {api_key} 登录"))
    line = headline(plan({"api_key": "hunter2-hunter2"}, presentation=secret)).about
    assert "hunter2" not in line.en + line.zh


def test_one_long_warning_hides_no_other() -> None:
    asked = plan(REFUND, presentation=READ, risk=Risk.HIGH, warnings=("long " * 100, "Refunded twice.", *"abcdef"))
    question = buttons(built(Showing(plan=asked)))["approve"]["confirm"]["text"]["content"]
    assert "⚠ Refunded twice." in question
    assert question.endswith("⚠ d\n⚠ +2")
