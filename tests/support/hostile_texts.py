"""Texts that attack whoever shows them."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from hypothesis import strategies as st

from assent.contracts.plan import Plan
from assent.payload import sha256
from tests.support.card_rules import check, markdowns, plain_texts
from tests.support.cards import plan

ATTACKS = [
    "<at id=all></at>",
    "<at ids=all,ou_1></at>",
    "<at email=all@example.com></at>",
    "</font><at id='all'></at>",
    "[click me](https://evil.example)",
    "https://evil.example www.evil.example",
    "<a href='https://evil.example'>x</a>",
    "<link icon='chat_outlined' url='https://evil.example'>x</link>",
    "![image](img_v2_1)",
    "```\n</code>\n<at id=all></at>\n```",
    "`code` **bold** ~~gone~~ :DONE: $x$ | a | b |",
    "# heading\n> quote\n- item\n1. one\n---\n    code",
    "<local_datetime millisecond='0'></local_datetime><person id='ou_1'></person>",
    "<font color='red'>red</font><text_tag color='red'>x</text_tag><number_tag>1</number_tag>",
    "&lt;at id=all&gt; &#60;at id=all&#62; &amp;",
    "safe\u202egnp.exe\u2066\u2069\u200b\u200d\ufeff\u00ad\u2028\u2029",
    "null\x00 bell\x07 escape\x1b[2J return\rover",
    "blank \u3164\u115f\u2800\U000e0041 pile " + "z" + "\u0301" * 30,
    '{"tag": "button"} \\" \\u003cat id=all\\u003e',
    "{name} {0} {name.__class__} %s {{",
    "⟦U+202E⟧ 🙂 👨‍👩‍👧 ❤️ ع عربي עברית हिन्दी 中文",
    "x" * 100_000,
    "<" * 100_000,
    "\u200b" * 40_000,
    "行" * 40_000,
]


TEXT = st.one_of(st.sampled_from(ATTACKS[:-4]), st.text(max_size=60), st.text(min_size=200, max_size=2000))


UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


JOINS_EMOJI = "\u200d\ufe0f"


ISOLATES = "\u2068\u2069"
"""What keeps right-to-left letters from turning what stands beside them."""


def storable(text: str) -> str:
    return "".join(c for c in text if c in "\t\n\r" or c >= " ").encode("utf-8", "ignore").decode()


def asked(arguments: dict[str, Any], **fields: Any) -> Plan:
    """A plan with any JSON at all as its payload, as only a tool without a schema could have it."""
    payload = json.dumps({"arguments": arguments, "files": {}, "tool": "send"}, ensure_ascii=False)
    return plan(payload=payload, payload_sha256=sha256(payload.encode("utf-8", "replace")), **fields)


def kept(text: str) -> dict[str, Any]:
    """A card which keeps every rule, also the simulator's, and hides nothing."""
    from simulator.cards import check_card

    shown = check_card(check(text))
    for text in [*plain_texts(shown), *plain_texts(shown, "zh_cn"), *markdowns(shown), *markdowns(shown, "zh_cn")]:
        unseen = {c for c in text if unicodedata.category(c) in UNSEEN and c not in "\n\t" + JOINS_EMOJI + ISOLATES}
        assert not unseen, unseen
        assert text.count(ISOLATES[0]) == text.count(ISOLATES[1]), text
    return shown
