"""The bot's answer to files that somebody sent: what they are called, and until when they can be used."""

from __future__ import annotations

from collections.abc import Sequence

from assent.contracts.files import ReceivedFile
from assent.safe import one_line, shortened
from cards.elements import Element, div, local_time, markdown, plain, row, to_json
from cards.framing import framed
from cards.wording import Both, Wording

_NAME_CHARACTERS = 120
_UNNAMED = {
    "image": "files_kind.image",
    "audio": "files_kind.audio",
    "video": "files_kind.video",
    "file": "files_kind.file",
}


def received_card(files: Sequence[ReceivedFile], wording: Wording) -> str:
    """What was taken, as card JSON 2.0."""
    said = wording("files.received" if len(files) == 1 else "files.received_many", count=str(len(files)))
    elements: list[Element] = [div(_named(file, wording)) for file in files]
    until = min((file.expires_at for file in files if file.expires_at), default=None)
    lasts = markdown(local_time(until)) if until else div(wording("files.never"))
    elements.append(row(wording("files.until"), lasts))
    elements.append(div(wording("files.hint"), text_color="grey"))
    header: Element = {
        "template": "blue",
        "icon": {"tag": "standard_icon", "token": "file-link-docx_outlined"},
        "title": plain(said),
    }
    return to_json(framed(said, header, elements))


def _named(file: ReceivedFile, wording: Wording) -> Both | str:
    if file.name == file.kind and file.kind in _UNNAMED:
        return wording(_UNNAMED[file.kind])
    return shortened(one_line(file.name), _NAME_CHARACTERS)
