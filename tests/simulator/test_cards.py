"""Which cards the simulated platform takes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from simulator.cards import check_card
from simulator.errors import Refused
from tests.support.simulated_feishu import button, card, form, text

_TEXT = {"tag": "plain_text", "content": "x", "i18n_content": {"zh_cn": "甲", "en_us": "x"}}
_ICON = {"tag": "standard_icon", "token": "chat_outlined", "color": "grey"}
_REASON = {"tag": "input", "name": "reason", "input_type": "multiline_text", "rows": 2, "max_length": 500}

EVERYTHING: dict[str, Any] = {
    "schema": "2.0",
    "config": {
        "update_multi": True,
        "enable_forward": False,
        "enable_forward_interaction": False,
        "width_mode": "fill",
        "summary": {"content": "Approval", "i18n_content": {"zh_cn": "审批", "en_us": "Approval"}},
        "locales": ["zh_cn", "en_us"],
        "use_custom_translation": True,
        "streaming_mode": False,
        "style": {
            "text_size": {"tiny": {"default": "notation", "pc": "notation", "mobile": "normal"}},
            "color": {"mine": {"light_mode": "rgba(5,157,178,0.52)", "dark_mode": "rgba(78,23,108,0.49)"}},
        },
    },
    "card_link": {"url": "https://example.com", "pc_url": "", "ios_url": "", "android_url": ""},
    "header": {
        "title": _TEXT,
        "subtitle": _TEXT,
        "template": "wathet",
        "icon": _ICON,
        "text_tag_list": [{"tag": "text_tag", "text": _TEXT, "color": "carmine"}],
        "i18n_text_tag_list": {"en_us": [{"tag": "text_tag", "text": _TEXT, "color": "neutral"}]},
        "padding": "12px 8px 12px 8px",
    },
    "body": {
        "direction": "vertical",
        "vertical_spacing": "medium",
        "padding": "12px",
        "elements": [
            {
                "tag": "markdown",
                "element_id": "intro",
                "content": "**hi** <at id=ou_approver></at> &lt;at id=all&gt;",
                "i18n_content": {"zh_cn": "**嗨**"},
                "text_size": "tiny",
                "text_align": "left",
                "icon": _ICON,
                "margin": "0px 0px -4px 0px",
            },
            {"tag": "div", "text": {**_TEXT, "text_size": "heading", "text_color": "mine", "lines": 2}, "icon": _ICON},
            {"tag": "div", "text": {"tag": "lark_md", "content": "**x**"}},
            {"tag": "hr"},
            {"tag": "img", "img_key": "img_v3_x", "alt": text("x"), "preview": True, "corner_radius": "8px"},
            {"tag": "person", "user_id": "ou_approver", "size": "small", "style": "capsule"},
            {"tag": "person_list", "persons": [{"id": "ou_approver"}], "lines": 1, "drop_invalid_user_id": True},
            {"tag": "chart", "chart_spec": {"type": "bar"}, "aspect_ratio": "4:3"},
            {
                "tag": "table",
                "page_size": 5,
                "row_height": "low",
                "header_style": {"bold": True, "lines": 1},
                "columns": [{"name": "a", "display_name": "A", "data_type": "text", "width": "auto"}],
                "rows": [{"a": "1"}],
            },
            {
                "tag": "column_set",
                "flex_mode": "bisect",
                "horizontal_spacing": "8px",
                "columns": [
                    {
                        "tag": "column",
                        "width": "weighted",
                        "weight": 1,
                        "vertical_align": "center",
                        "elements": [button({"go": 1}, type="primary_filled", size="medium", width="fill", icon=_ICON)],
                    }
                ],
            },
            {
                "tag": "collapsible_panel",
                "expanded": False,
                "background_color": "grey-50",
                "header": {
                    "title": {"tag": "plain_text", "content": "more"},
                    "vertical_align": "center",
                    "icon": {**_ICON, "size": "16px 16px"},
                    "icon_position": "follow_text",
                    "icon_expanded_angle": -180,
                },
                "border": {"color": "grey", "corner_radius": "5px"},
                "vertical_spacing": "8px",
                "padding": "8px 8px 8px 8px",
                "elements": [{"tag": "markdown", "content": "inside"}],
            },
            {
                "tag": "interactive_container",
                "has_border": True,
                "border_color": "grey",
                "behaviors": [{"type": "open_url", "default_url": "https://example.com"}],
                "elements": [{"tag": "markdown", "content": "tap"}],
            },
            button("a string", confirm={"title": text("Sure?"), "text": text("Really")}, disabled_tips=text("no")),
            {"tag": "select_static", "options": [{"text": text("A"), "value": "a"}], "placeholder": text("?")},
            {"tag": "select_person", "options": [{"value": "ou_approver"}]},
            {"tag": "date_picker", "initial_date": "2026-01-01", "placeholder": text("day")},
            {"tag": "picker_time", "initial_time": "10:00"},
            {"tag": "checker", "text": text("done"), "overall_checkable": True, "checked": False},
            {"tag": "overflow", "options": [{"text": text("more"), "value": "more"}]},
            {
                "tag": "form",
                "name": "rejection",
                "direction": "vertical",
                "elements": [
                    {**_REASON, "label": text("Why"), "label_position": "left", "required": False},
                    {"tag": "multi_select_static", "name": "many", "options": [{"text": text("A"), "value": "a"}]},
                    button({"decision": "reject"}, name="reject", type="danger", form_action_type="submit"),
                ],
            },
        ],
    },
}


def refusal(offered: Any) -> Refused:
    with pytest.raises(Refused) as refused:
        check_card(offered)
    return refused.value


def test_a_card_with_everything_documented_is_taken() -> None:
    assert check_card(copy.deepcopy(EVERYTHING)) == EVERYTHING


def test_a_tag_of_the_old_cards_is_named_in_the_refusal() -> None:
    refused = refusal(card({"tag": "action", "actions": []}))
    assert refused.code == 230099
    assert "ErrCode: 200861; ErrMsg: unsupported tag action;" in refused.message


@pytest.mark.parametrize(
    ("offered", "about"),
    [
        (card(invented=1), "unknown property invented"),
        (card({"tag": "markdown", "content": "x", "href": {}}), "unknown property href"),
        (card({**button({}), "value": {"a": 1}}), "unknown property value"),
        (card({"tag": "div", "text": text("x"), "fields": []}), "unknown property fields"),
        (card({"tag": "div", "text": {"tag": "plain_text", "content": "x", "i18n": {}}}), "unknown property i18n"),
        (card(config={"update_multi": True, "wide_screen_mode": True}), "unknown property wide_screen_mode"),
        (card(header={"title": text("x"), "template": "pink"}), "template must be one of"),
        (card(header={"template": "red"}), "lacks the property title"),
        (card({"tag": "note", "elements": []}), "unsupported tag note"),
        (card({"tag": "plain_text", "content": "x"}), "unsupported tag plain_text"),
        (card(config={"update_multi": False}), "update_multi"),
        (card(schema="1.0"), "schema"),
        (card({"tag": "markdown", "content": "x", "i18n_content": {"klingon": "x"}}), "must be one of zh_cn"),
        (card({"tag": "markdown", "content": "x", "text_size": "huge"}), "no text size"),
        (card({"tag": "markdown", "content": "x", "margin": "1em"}), "margin must be"),
        (card({"tag": "markdown", "content": "x", "element_id": "1st"}), "element_id"),
        (card({**_REASON, "max_length": 1001}), "max_length must be a whole number from 1 to 1000"),
        (card(button({}, type="huge")), "type must be one of"),
        (card(button(1)), "value must be an object"),
        (card({"tag": "button", "behaviors": [{"type": "explode"}]}), "behaviors[0]"),
        (card(form()["elements"][0]), "form_action_type outside a form"),
        (card({"tag": "multi_select_static", "options": []}), "may stand in a form only"),
        (card({"tag": "form", "name": "f", "elements": [_REASON]}), "form_action_type submit"),
        (
            card({"tag": "form", "elements": [button({}, name="b", form_action_type="submit")]}),
            "lacks the property name",
        ),
        (card(form({"tag": "input"})), "must have a name"),
        (card(form(_REASON, _REASON)), "the name reason is used twice"),
        (card(form(_REASON), button({}, name="reason")), "the name reason is used twice"),
        (card(*[{"tag": "table", "columns": [{"name": "a"}]}] * 6), "table number over limit"),
    ],
)
def test_what_is_not_documented_is_refused(offered: dict[str, Any], about: str) -> None:
    refused = refusal(offered)
    assert refused.code == 230099
    assert about in refused.message


@pytest.mark.parametrize("inner", ["form", "table"])
def test_a_form_and_a_table_stand_at_the_root_only(inner: str) -> None:
    element = form(_REASON) if inner == "form" else {"tag": "table", "columns": [{"name": "a"}]}
    panel = {"tag": "collapsible_panel", "header": {"title": text("x")}, "elements": [element]}
    assert f"{inner} may stand at the root" in refusal(card(panel)).message


@pytest.mark.parametrize(
    "mention",
    ["<at id=all></at>", "<at id='all'></at>", '<AT  id = "all" >x</at>', "<at user_id=all>", "<at ids=all></at>"],
)
def test_mentioning_everyone_in_markdown_fails_the_whole_card(mention: str) -> None:
    for hidden in (
        {"tag": "markdown", "content": mention},
        {"tag": "div", "text": {"tag": "lark_md", "content": mention}},
    ):
        assert "mentions everyone" in refusal(card(hidden)).message
    translated = {"tag": "markdown", "content": "x", "i18n_content": {"en_us": mention}}
    assert "mentions everyone" in refusal(card(translated)).message
    check_card(card({"tag": "div", "text": text(mention)}))


def test_two_hundred_elements_is_the_most() -> None:
    # The header's title counts, and so does each text.
    full = card(*[{"tag": "hr"}] * 199)
    check_card(full)
    full["body"]["elements"].append({"tag": "hr"})
    assert "exceeds the limit of 200" in refusal(full).message


def test_five_levels_is_the_deepest() -> None:
    def nested(levels: int) -> dict[str, Any]:
        element: dict[str, Any] = {"tag": "markdown", "content": "deep"}
        for _ in range(levels - 1):
            element = {"tag": "interactive_container", "elements": [element]}
        return card(element)

    check_card(nested(5))
    assert "deeper than 5" in refusal(nested(6)).message
