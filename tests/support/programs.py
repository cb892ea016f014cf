"""Programs that tests run: each appends every line that it reads to a file, which counts what was truly written."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from assent import program_tool

PROMPTS = """#!/bin/sh
# Asks three times, one of them a choice; every line that is read is counted outside.
counter=$1
ask() {
  echo "NEED_USER_INPUT $1"
  IFS= read -r line || { echo "no answer"; exit 3; }
  printf '%s\\n' "$line" >> "$counter"
}
echo 'PROGRESS {"summary": "It begins"}'
options='["staging", {"value": "production", "label": "Production"}]'
where='"interaction_request_id": "where", "answer_type": "choice", "prompt": "Where to?", "summary": "Release 2.4"'
ask "{$where, \\"options\\": $options}"
ask '{"interaction_request_id": "who", "answer_type": "text", "prompt": "Who is told?"}'
ask '{"answer_type": "text", "prompt": "Anything else?"}'
echo "done: a secret of the transcript"
"""
"""Three prompts."""

MANY = """#!/bin/sh
counter=$1; most=$2; n=0
while [ $n -lt $most ]; do
  n=$((n + 1))
  echo 'NEED_USER_INPUT {"interaction_request_id": "q'$n'", "answer_type": "text", "prompt": "Line '$n'?"}'
  IFS= read -r line || exit 3
  printf '%s\\n' "$line" >> "$counter"
done
"""


def script(folder: Path, text: str, name: str = "program.sh") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def lines(counter: Path) -> list[str]:
    """What the program truly read."""
    return counter.read_text().splitlines() if counter.exists() else []


_SHORT = timedelta(seconds=30)

prompted = program_tool(
    "prompted", ["sh", "{script}", "{counter}"], failure_codes=[3], timeout=_SHORT, description="Asks at prompts."
)
prompted_by_anyone = program_tool(
    "prompted_by_anyone", ["sh", "{script}", "{counter}"], failure_codes=[3], timeout=_SHORT, approvers="anyone"
)
prompted_often = program_tool(
    "prompted_often",
    ["sh", "{script}", "{counter}", "{most}"],
    parameters={"most": int},
    failure_codes=[3],
    timeout=timedelta(minutes=2),
)
programmed = program_tool(
    "programmed", ["sh", "{script}"], failure_codes=[3], timeout=timedelta(seconds=2), max_output=100_000
)
talkative = program_tool("talkative", ["sh", "{script}"], returns_output=True, timeout=_SHORT)
absent = program_tool("absent", ["/no/such/program", "{target}"])

ALL = (prompted, prompted_by_anyone, prompted_often, programmed, talkative, absent)
