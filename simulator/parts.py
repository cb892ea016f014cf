"""What the components of a card have in common: lengths, texts, icons, and what a click does."""

from __future__ import annotations

from typing import Any

from simulator.shapes import (
    Check,
    Reading,
    array,
    boolean,
    color,
    element_id,
    integer,
    keyed,
    like,
    mapping,
    markdown_text,
    one_of,
    string,
    struct,
    tagged,
    text_size,
    words,
)

LOCALES = words("zh_cn en_us zh_hk zh_tw ja_jp id_id vi_vn th_th pt_br es_es ko_kr de_de fr_fr it_it ru_ru ms_my")
TEMPLATES = words("blue wathet turquoise green yellow orange red carmine violet purple indigo grey default")
_TAG_COLORS = words("neutral blue turquoise lime orange violet indigo wathet green yellow red purple carmine")

locale = one_of(*LOCALES)
i18n = keyed(string, locale)
spacing = like(r"small|medium|large|extra_large|\d{1,2}px", "small, medium, large, extra_large or 0px to 99px")
_margin = like(r"-?\d{1,2}(px)?( -?\d{1,2}(px)?){0,3}", "one to four lengths such as 4px")
padding = like(r"\d{1,2}(px)?( \d{1,2}(px)?){0,3}", "one to four lengths such as 4px")
width = like(r"default|fill|auto|\d+px", "default, fill, auto or a length in px")
radius = like(r"\d+(px|%)", "a length such as 8px or 50%")
horizontal = one_of("left", "center", "right")
vertical = one_of("top", "center", "bottom")
_direction = one_of("vertical", "horizontal")

ids: dict[str, Check] = {"tag": string, "element_id": element_id}
placed: dict[str, Check] = {**ids, "margin": _margin}
arranged: dict[str, Check] = {
    "direction": _direction,
    "horizontal_spacing": spacing,
    "vertical_spacing": spacing,
    "horizontal_align": horizontal,
    "vertical_align": vertical,
    "padding": padding,
}


# Texts and icons

text_style: dict[str, Check] = {
    "text_size": text_size,
    "text_align": horizontal,
    "text_color": color,
    "lines": integer(1, 100),
}
plain_text = struct({**ids, **text_style, "content": string, "i18n_content": i18n}, "content")
lark_md = struct(
    {**ids, **text_style, "content": markdown_text, "i18n_content": keyed(markdown_text, locale)}, "content"
)
plain = tagged({"plain_text": plain_text})
text = tagged({"plain_text": plain_text, "lark_md": lark_md})

_icon_properties: dict[str, Check] = {"tag": string, "token": string, "color": color, "img_key": string}
_standard_icon = struct(_icon_properties, "token")
_custom_icon = struct(_icon_properties, "img_key")
icon = tagged({"standard_icon": _standard_icon, "custom_icon": _custom_icon})
_sized = {**_icon_properties, "size": like(r"\d+px \d+px", "two lengths such as 16px 16px")}
sized_icon = tagged({"standard_icon": struct(_sized, "token"), "custom_icon": struct(_sized, "img_key")})
_text_tag = struct({**ids, "text": plain, "color": one_of(*_TAG_COLORS)}, "text")
text_tags = array(tagged({"text_tag": _text_tag}))

# What a click does

_urls: dict[str, Check] = {"android_url": string, "ios_url": string, "pc_url": string}
multi_url = struct({"url": string, **_urls})


def behavior(value: Any, reading: Reading, path: str) -> None:
    kind = value.get("type") if isinstance(value, dict) else None
    shape = _BEHAVIORS.get(str(kind), _BEHAVIORS["callback"])
    shape(value, reading, path)


def _callback_value(value: Any, reading: Reading, path: str) -> None:
    if not isinstance(value, str):
        mapping(value, reading, path)


_BEHAVIORS: dict[str, Check] = {
    "callback": struct({"type": one_of("callback", "open_url"), "value": _callback_value}, "type", "value"),
    "open_url": struct({"type": string, "default_url": string, **_urls}, "type"),
}
_confirm = struct({"title": plain, "text": plain}, "title", "text")
clickable: dict[str, Check] = {"behaviors": array(behavior), "confirm": _confirm}
disableable: dict[str, Check] = {"disabled": boolean, "disabled_tips": plain, "hover_tips": plain}
named: dict[str, Check] = {**placed, **clickable, "name": string, "required": boolean, "disabled": boolean}

_option = struct({"text": plain, "icon": icon, "value": string}, "value")
choice: dict[str, Check] = {
    **named,
    "type": one_of("default", "text"),
    "placeholder": plain,
    "width": width,
    "options": array(_option),
}
picker: dict[str, Check] = {**named, "placeholder": plain, "width": width}
