"""The files that a call would get: what each is called, what it is, and a look at it where Feishu can show one."""

from __future__ import annotations

from typing import Any

from assent.contracts.plan import Plan
from assent.payload import argument_values, payload_files, short_hash
from assent.safe import one_line, shortened
from cards.elements import Element, div, markdown, plain
from cards.safe import size
from cards.wording import Wording

_NAME_CHARACTERS = 120
_MOST_PREVIEWS = 4
"""How many pictures a card shows; the names and hashes of all files stand there."""


def files_of(plan: Plan, wording: Wording, *, with_previews: bool = False) -> list[Element]:
    """The files of a plan's call; nothing where it has none."""
    files = payload_files(plan.payload)
    if not files:
        return []
    hidden = hidden_files(plan)
    elements: list[Element] = [markdown(wording("files.shared", count=str(len(files))), text_size="notation")]
    pictures = 0
    for file_id, said in files.items():
        name = wording("files.hidden") if file_id in hidden else shortened(one_line(said["name"]), _NAME_CHARACTERS)
        described = wording(
            "files.described",
            type=shortened(one_line(said["media_type"]), 60),
            size=size(said["size"]),
            hash=short_hash(said["sha256"]),
        )
        elements += [div(name), div(described, text_color="grey")]
        preview = plan.previews.get(file_id) if with_previews and file_id not in hidden else None
        if preview and pictures < _MOST_PREVIEWS:
            pictures += 1
            elements.append(_picture(preview, said["name"]))
    return elements


def hidden_files(plan: Plan) -> frozenset[str]:
    """The files that a sensitive argument names: nobody sees what they are called, nor what is in them."""
    files = payload_files(plan.payload)
    masked = [value for name, value in argument_values(plan.payload).items() if name in plan.sensitive]
    return frozenset(file_id for file_id in files if any(_names(value, file_id) for value in masked))


def _names(value: Any, file_id: str) -> bool:
    if isinstance(value, dict):
        return any(_names(item, file_id) for item in value.values())
    if isinstance(value, list):
        return any(_names(item, file_id) for item in value)
    return bool(value == file_id)


def _picture(key: str, name: str) -> Element:
    alt = plain(shortened(one_line(name), _NAME_CHARACTERS))
    return {"tag": "img", "img_key": key, "alt": alt, "scale_type": "fit_horizontal", "preview": True}
