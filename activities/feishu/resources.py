"""Which files a message carries, as Feishu writes its content."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from assent.contracts.files import SharedResource

_MOST = 20
"""How many files of one message are taken."""


def resources_of(message_type: object, content: object) -> tuple[SharedResource, ...]:
    """The files of a message; none of one that cannot be read."""
    try:
        said = json.loads(content) if isinstance(content, str) else None
    except ValueError:
        return ()
    found: dict[str, SharedResource] = {}
    for values in _named(message_type, said) if isinstance(said, dict) else ():
        try:
            resource = SharedResource.model_validate(values)
        except ValidationError:
            continue
        found.setdefault(resource.key, resource)
    return tuple(found.values())[:_MOST]


def _named(message_type: object, said: dict[str, Any]) -> Iterator[dict[str, Any]]:
    match message_type:
        case "image":
            yield {"kind": "image", "key": said.get("image_key")}
        case "file" | "audio":
            yield {"kind": message_type, "key": said.get("file_key"), "name": said.get("file_name") or None}
        case "media":
            yield {"kind": "video", "key": said.get("file_key"), "name": said.get("file_name") or None}
        case "post":
            yield from _in_post(said.get("content"))


def _in_post(lines: object) -> Iterator[dict[str, Any]]:
    for line in lines if isinstance(lines, list) else ():
        for element in line if isinstance(line, list) else ():
            if isinstance(element, dict) and element.get("tag") == "img":
                yield {"kind": "image", "key": element.get("image_key")}
            elif isinstance(element, dict) and element.get("tag") == "media":
                yield {"kind": "video", "key": element.get("file_key")}
