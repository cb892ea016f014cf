"""What Feishu demands of a card in JSON 2.0, as far as ours use it; written from its documentation."""

from __future__ import annotations

import json
import re
from typing import Any

MOST_BYTES = 30_000


MOST_ELEMENTS = 200


DEEPEST = 5


_TEXT = {"tag", "content", "i18n_content", "text_color", "text_size"}


_PROPERTIES = {
    "plain_text": _TEXT,
    "markdown": _TEXT - {"text_color"},
    "div": {"tag", "text"},
    "hr": {"tag"},
    "standard_icon": {"tag", "token", "size"},
    "text_tag": {"tag", "text", "color"},
    "column_set": {"tag", "columns", "background_style", "horizontal_spacing", "flex_mode"},
    "column": {"tag", "elements", "width", "weight", "padding", "vertical_spacing", "vertical_align"},
    "collapsible_panel": {"tag", "expanded", "header", "border", "padding", "elements"},
    "form": {"tag", "name", "elements"},
    "button": {"tag", "name", "type", "width", "text", "behaviors", "confirm", "form_action_type"},
    "input": {
        *("tag", "name", "input_type", "rows", "auto_resize", "max_rows", "max_length", "width", "required"),
        *("placeholder", "label", "label_position", "default_value"),
    },
    "select_static": {"tag", "name", "width", "required", "options", "initial_option", "placeholder"},
    "multi_select_static": {"tag", "name", "width", "required", "options", "placeholder"},
    "checker": {"tag", "name", "checked", "text"},
    "select_person": {"tag", "name", "width", "required", "placeholder"},
}


_OURS = re.compile(
    r"<at id=[A-Za-z0-9_-]{1,64}></at>"
    r"|<person id='[A-Za-z0-9_-]{1,64}' show_name=true show_avatar=true style='normal'></person>"
    r"|<local_datetime millisecond='-?\d+' format_type='(?:date_num|time)'></local_datetime>"
    r"|<text_tag color='[a-z]+'>|</text_tag>"
    r"|&#\d+;"
)


_OBEYED = re.compile(
    r"[<>\[\]`@~$|\\_{}=]|(?<!\*)\*(?!\*)|\*{3}|!\[|https?:|www\.|^\s*[#>+-]|^\s*\d+\.|&", re.MULTILINE
)


def check(text: str) -> dict[str, Any]:
    """The card, if it keeps every rule."""
    assert len(json.dumps(text, ensure_ascii=False).encode()) <= MOST_BYTES
    card: dict[str, Any] = json.loads(text)
    assert set(card) == {"schema", "config", "header", "body"}
    assert card["schema"] == "2.0"
    assert card["config"]["update_multi"] is True
    assert card["config"]["enable_forward"] is False
    assert set(card["header"]) <= {"template", "icon", "title", "subtitle", "text_tag_list"}
    assert set(card["body"]) == {"vertical_spacing", "elements"}
    tagged = [each for each in objects(card) if "tag" in each]
    assert len(tagged) <= MOST_ELEMENTS
    for each in tagged:
        assert set(each) <= _PROPERTIES[each["tag"]], each["tag"]
    assert _depth(card["body"]["elements"]) <= DEEPEST
    _check_forms(card)
    for markup in [*markdowns(card, "en_us"), *markdowns(card, "zh_cn"), *markdowns(card, None)]:
        assert not _OBEYED.search(_OURS.sub("x", markup)), markup
    return card


def _check_forms(card: dict[str, Any]) -> None:
    tags = ("button", "input", "form", "select_static", "select_person", "checker")
    named = [each["name"] for each in objects(card["body"]) if each.get("tag") in tags]
    assert len(named) == len(set(named))
    at_root = [each for each in card["body"]["elements"] if each["tag"] == "form"]
    assert len(at_root) == sum(each.get("tag") == "form" for each in objects(card))
    for form in at_root:
        assert any(each.get("form_action_type") == "submit" for each in objects(form))


def _depth(elements: list[dict[str, Any]]) -> int:
    inside = [each.get("elements") or each.get("columns") or [] for each in elements]
    return 1 + max((_depth(inner) for inner in inside if inner), default=0)


def objects(value: Any) -> list[dict[str, Any]]:
    """Every object within a card, but not what a button sends back."""
    found: list[dict[str, Any]] = []
    _gather(value, found)
    return found


def _gather(value: Any, found: list[dict[str, Any]]) -> None:
    if isinstance(value, dict):
        found.append(value)
        for name, each in value.items():
            if name != "value" and isinstance(each, (dict, list)):
                _gather(each, found)
    elif isinstance(value, list):
        for each in value:
            _gather(each, found)


def plain_texts(card: dict[str, Any], language: str | None = "en_us") -> list[str]:
    """What a reader of this language sees where nothing is markup."""
    return [_content(each, language) for each in objects(card) if each.get("tag") == "plain_text"]


def markdowns(card: dict[str, Any], language: str | None = "en_us") -> list[str]:
    """What the client of such a reader takes for markup."""
    return [_content(each, language) for each in objects(card) if each.get("tag") == "markdown"]


def _content(text: dict[str, Any], language: str | None) -> str:
    content: str = text.get("i18n_content", {}).get(language, text["content"])
    return content
