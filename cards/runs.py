"""The message that says how far a run is: one small card, changed as it goes on."""

from __future__ import annotations

from assent.contracts.runs import RunShowing
from assent.safe import one_line, shortened
from cards.elements import Element, div, plain, row, to_json
from cards.framing import framed
from cards.wording import Wording

_NAME_CHARACTERS = 120


def run_card(showing: RunShowing, wording: Wording) -> str:
    """The summary of a run, as card JSON 2.0."""
    start, news = showing.start, showing.news
    summary = one_line(news.summary or "")
    state = wording("run.done" if news.has_ended else "run.active")
    header: Element = {
        "template": "grey" if news.has_ended else "wathet",
        "icon": {"tag": "standard_icon", "token": "time_outlined"},
        "title": plain(wording("run.progress_title", tool=shortened(one_line(start.tool), _NAME_CHARACTERS))),
        "text_tag_list": [
            {"tag": "text_tag", "text": plain(wording("run.tag")), "color": "neutral"},
            {"tag": "text_tag", "text": plain(state), "color": "neutral" if news.has_ended else "wathet"},
        ],
    }
    body = [div(summary)]
    if news.exit_code is not None:
        body.append(row(wording("run.exit_code"), div(str(news.exit_code))))
    return to_json(framed(wording("question.preview", question=summary, state=state), header, body))
