"""The components of a card in JSON 2.0, each with the properties that the documentation gives it."""

from __future__ import annotations

from typing import Any

from simulator.parts import (
    TEMPLATES,
    arranged,
    behavior,
    choice,
    clickable,
    disableable,
    horizontal,
    i18n,
    icon,
    ids,
    lark_md,
    locale,
    multi_url,
    named,
    padding,
    picker,
    placed,
    plain,
    plain_text,
    radius,
    sized_icon,
    spacing,
    text,
    text_style,
    text_tags,
    vertical,
    width,
)
from simulator.shapes import (
    Check,
    Reading,
    anything,
    array,
    boolean,
    color,
    deeper,
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

_action = struct({"multi_url": multi_url, "behaviors": array(behavior)})
_header_style = struct(
    {
        "text_align": horizontal,
        "text_size": text_size,
        "background_style": one_of("grey", "none"),
        "text_color": color,
        "bold": boolean,
        "lines": integer(1, 100),
    }
)
_table_column = struct(
    {
        "name": string,
        "display_name": string,
        "i18n_display_name": i18n,
        "data_type": one_of("text", "lark_md", "options", "number", "persons", "date", "markdown"),
        "width": like(r"auto|\d+px|\d+%", "auto or a length"),
        "vertical_align": vertical,
        "horizontal_align": horizontal,
        "format": struct({"symbol": string, "precision": integer(0, 10), "separator": boolean}),
        "date_format": string,
    },
    "name",
)
_panel_header = struct(
    {
        "title": tagged(
            {
                "plain_text": plain_text,
                "lark_md": lark_md,
                "markdown": struct(
                    {
                        **ids,
                        **text_style,
                        "content": markdown_text,
                        "i18n_content": keyed(markdown_text, locale),
                    },
                    "content",
                ),
            }
        ),
        "background_color": color,
        "vertical_align": vertical,
        "padding": padding,
        "position": one_of("top", "bottom"),
        "width": like(r"fill|auto|auto_when_fold|\d+px", "fill, auto, auto_when_fold or a length in px"),
        "icon": sized_icon,
        "icon_position": one_of("left", "right", "follow_text"),
        "icon_expanded_angle": integer(-180, 180),
    },
    "title",
)


def _inside(value: Any, reading: Reading, path: str) -> None:
    """The components within a container; which of them may stand there is a matter of `cards.py`."""
    elements(value, reading, path)


_elements = deeper(_inside)

COMPONENTS: dict[str, Check] = {
    "markdown": struct(
        {
            **placed,
            "content": markdown_text,
            "i18n_content": keyed(markdown_text, locale),
            "text_size": text_size,
            "text_align": horizontal,
            "icon": icon,
        },
        "content",
    ),
    "div": struct({**placed, "text": text, "icon": icon, "width": width}),
    "hr": struct(placed),
    "img": struct(
        {
            **placed,
            "img_key": string,
            "i18n_img_key": i18n,
            "alt": plain,
            "title": text,
            "corner_radius": radius,
            "scale_type": one_of("crop_center", "fit_horizontal", "crop_top"),
            "size": string,
            "transparent": boolean,
            "preview": boolean,
        },
        "img_key",
    ),
    "img_combination": struct(
        {
            **placed,
            "combination_mode": one_of("double", "triple", "bisect", "trisect"),
            "combination_transparent": boolean,
            "corner_radius": radius,
            "img_list": array(struct({"img_key": string}, "img_key")),
        },
        "combination_mode",
        "img_list",
    ),
    "person": struct(
        {
            **placed,
            "user_id": string,
            "size": one_of("extra_small", "small", "medium", "large"),
            "show_avatar": boolean,
            "show_name": boolean,
            "style": one_of("normal", "capsule"),
        },
        "user_id",
    ),
    "person_list": struct(
        {
            **placed,
            "persons": array(struct({"id": string}, "id")),
            "size": one_of("extra_small", "small", "medium", "large"),
            "show_avatar": boolean,
            "show_name": boolean,
            "drop_invalid_user_id": boolean,
            "lines": integer(1, 100),
            "icon": icon,
        },
        "persons",
    ),
    "chart": struct(
        {
            **placed,
            "chart_spec": mapping,
            "aspect_ratio": one_of("1:1", "2:1", "4:3", "16:9"),
            "color_theme": string,
            "preview": boolean,
            "height": like(r"auto|[1-9]\d{0,2}px", "auto or 1px to 999px"),
        },
        "chart_spec",
    ),
    "table": struct(
        {
            **placed,
            "page_size": integer(1, 10),
            "row_height": like(r"low|middle|medium|high|auto|\d+px", "low, middle, high, auto or a length"),
            "row_max_height": like(r"\d+px", "a length in px"),
            "freeze_first_column": boolean,
            "header_style": _header_style,
            "columns": array(_table_column, most=50),
            "rows": array(keyed(anything)),
        },
        "columns",
    ),
    "column_set": struct(
        {
            **placed,
            "flex_mode": one_of("none", "stretch", "flow", "bisect", "trisect"),
            "horizontal_spacing": spacing,
            "horizontal_align": horizontal,
            "background_style": color,
            "action": _action,
            "columns": deeper(
                array(
                    tagged(
                        {
                            "column": struct(
                                {
                                    **placed,
                                    **arranged,
                                    "background_style": color,
                                    "width": like(r"auto|weighted|\d+px", "auto, weighted or a length in px"),
                                    "weight": integer(1, 5),
                                    "action": _action,
                                    "elements": _elements,
                                },
                            )
                        }
                    )
                )
            ),
        },
        "columns",
    ),
    "form": struct({**placed, **arranged, "name": string, "elements": _elements}, "name", "elements"),
    "interactive_container": struct(
        {
            **placed,
            **arranged,
            **clickable,
            **disableable,
            "name": string,
            "width": like(r"fill|auto|\d+px", "fill, auto or a length in px"),
            "height": like(r"auto|\d+px", "auto or a length in px"),
            "background_style": color,
            "has_border": boolean,
            "border_color": color,
            "corner_radius": radius,
            "elements": _elements,
        },
        "elements",
    ),
    "collapsible_panel": struct(
        {
            **placed,
            **arranged,
            "expanded": boolean,
            "background_color": color,
            "header": _panel_header,
            "border": struct({"color": color, "corner_radius": radius}),
            "elements": _elements,
        },
        "header",
        "elements",
    ),
    "button": struct(
        {
            **placed,
            **clickable,
            **disableable,
            "type": one_of(
                *words("default primary danger text primary_text danger_text primary_filled danger_filled laser")
            ),
            "size": one_of("tiny", "small", "medium", "large"),
            "width": width,
            "text": plain,
            "icon": icon,
            "name": string,
            "form_action_type": one_of("submit", "reset"),
        }
    ),
    "input": struct(
        {
            **named,
            "placeholder": plain,
            "default_value": string,
            "width": width,
            "max_length": integer(1, 1000),
            "input_type": one_of("text", "multiline_text", "password"),
            "show_icon": boolean,
            "rows": integer(1, 100),
            "auto_resize": boolean,
            "max_rows": integer(1, 100),
            "label": plain,
            "label_position": one_of("top", "left"),
        }
    ),
    "overflow": struct(
        {
            **placed,
            **clickable,
            "width": width,
            "options": array(struct({"text": plain, "multi_url": multi_url, "value": string}, "text")),
        },
        "options",
    ),
    "select_static": struct({**choice, "initial_option": string, "initial_index": integer(0, 1000)}, "options"),
    "multi_select_static": struct({**choice, "selected_values": array(string)}, "options"),
    "select_person": struct({**choice, "initial_option": string}),
    "multi_select_person": struct({**choice, "selected_values": array(string)}),
    "date_picker": struct({**picker, "initial_date": string}),
    "picker_time": struct({**picker, "initial_time": string}),
    "picker_datetime": struct({**picker, "initial_datetime": string}),
    "select_img": struct(
        {
            **named,
            **disableable,
            "multi_select": boolean,
            "layout": one_of("stretch", "bisect", "trisect"),
            "aspect_ratio": one_of("1:1", "16:9", "4:3"),
            "can_preview": boolean,
            "style": one_of("laser", "normal"),
            "options": array(struct({"img_key": string, "value": string, **disableable}, "img_key", "value")),
        },
        "options",
    ),
    "checker": struct(
        {
            **named,
            **disableable,
            "checked": boolean,
            "text": text,
            "overall_checkable": boolean,
            "button_area": struct(
                {
                    "pc_display_rule": one_of("always", "on_hover"),
                    "buttons": array(deeper(lambda *seen: tagged({"button": COMPONENTS["button"]})(*seen)), most=3),
                }
            ),
            "checked_style": struct({"show_strikethrough": boolean, "opacity": anything}),
            "padding": padding,
        }
    ),
}
elements = array(tagged(COMPONENTS))

# The card around them

_print = struct({"default": anything, "android": anything, "ios": anything, "pc": anything})
_config = struct(
    {
        "update_multi": boolean,
        "enable_forward": boolean,
        "enable_forward_interaction": boolean,
        "width_mode": one_of("default", "compact", "fill"),
        "summary": struct({"content": string, "i18n_content": i18n}),
        "locales": array(locale),
        "use_custom_translation": boolean,
        "streaming_mode": boolean,
        "streaming_config": struct(
            {
                "print_frequency_ms": _print,
                "print_step": _print,
                "print_strategy": one_of("fast", "delay"),
            }
        ),
        "style": struct(
            {
                "text_size": keyed(struct({"default": text_size, "pc": text_size, "mobile": text_size})),
                "color": keyed(struct({"light_mode": color, "dark_mode": color})),
            }
        ),
    }
)
_header = struct(
    {
        "title": text,
        "subtitle": text,
        "template": one_of(*TEMPLATES),
        "icon": icon,
        "text_tag_list": text_tags,
        "i18n_text_tag_list": keyed(text_tags, locale),
        "padding": padding,
    },
    "title",
)
CARD = struct(
    {
        "schema": one_of("2.0"),
        "config": _config,
        "card_link": multi_url,
        "header": _header,
        "body": struct({**arranged, "elements": deeper(elements)}),
    },
    "schema",
)
