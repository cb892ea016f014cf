"""What the service itself gives as a reason, sentence by sentence.

Agents, the audit and the command line read these sentences as they are. Cards and toasts recognise them and say them in
the reader's language: each has a text `reason.…` in both (`cards/texts`). What people, agents and tools say is passed
on unchanged.
"""

from __future__ import annotations

import re
from string import Formatter


class Reason:
    """A sentence with `{placeholders}`."""

    def __init__(self, text: str) -> None:
        self.text = text
        parts = list(Formatter().parse(text))
        self.placeholders = frozenset(name for _, name, _, _ in parts if name)
        groups = (re.escape(literal) + (f"(?P<{name}>.*)" if name else "") for literal, name, _, _ in parts)
        self._pattern = re.compile("".join(groups), re.DOTALL)

    def __call__(self, **values: object) -> str:
        return self.text.format(**values)

    def values(self, said: str) -> dict[str, str] | None:
        """What fills the placeholders, if this is what was said."""
        found = self._pattern.fullmatch(said)
        return found.groupdict() if found else None


# A decision that cannot be taken

CHANGED = Reason("arguments were changed in the form: approve with these changes, or put them back")
TOO_FEW = Reason(
    "too few people would be left who can approve: leave it to somebody who is not an approver of this call yet"
)
NEEDED_LATER = Reason(
    "you are needed in a later stage, and everybody counts once: let somebody else approve this stage"
)
DECISION_TOO_LARGE = Reason("a decision may hold at most {bytes} bytes and some depth, including an edit's arguments")
OTHERS_FIRST = Reason("other decisions are being checked, and no more can wait behind them: decide again in a moment")
NO_ROOM = Reason("the ledger is out of reach, and too much is already waiting to be recorded: decide again in a while")
EDITED_TOO_OFTEN = Reason("its arguments were changed {count} times: have it proposed anew")
OTHER_COMPANY = Reason("it can be left only to somebody of this company: leave tenant_key out")
PASSED_ON_TOO_OFTEN = Reason("it was left to others {count} times: somebody has to decide it")
WHOM_TO_PASS_TO = Reason("name somebody else to leave it to: neither yourself nor the person who asked for the call")
NOTHING_TO_EDIT = Reason("there is nothing to edit in a result")
NO_PLAN = Reason("the ledger holds no plan for this approval")
EDIT_WITHOUT_ARGUMENTS = Reason("an edit needs arguments")
UNCHANGED = Reason("nothing was changed; approve the call as it is")
EDIT_TOO_LARGE = Reason("the proposed and the changed call together hold more than {bytes} bytes; propose it anew")
TOOL_CHANGED = Reason("the tool changed after the call was shown; propose it anew")
UNKNOWN_TOOL = Reason("no worker has published a tool named {tool}")
NO_FEISHU = Reason("the members of a chat decide this, and this service talks to no Feishu")
REQUESTER_UNKNOWN = Reason("requester: who {person} is could not be found out. {why}")
TWO_PEOPLE = Reason("requester: its ids are not all of one person, as Feishu says; name the requester by one of them")
CHAT_UNKNOWN = Reason("reply_to: which chat the message is in could not be found out. {why}")
NO_SUCH_FILE = Reason(
    "files: {file_id}: there is no such file of the requester's, or it has expired; ask them to send it again"
)
FILE_NOT_TO_BE_HAD = Reason("files: {file_id} cannot be fetched: {why}")
BYTES_ARE_GONE = Reason("the bytes of {file_id} are no longer kept; propose the call anew")
OTHER_BYTES = Reason("the bytes of {file_id} are not those that were approved")
TOO_MANY_FILES = Reason("files: the call names {count} files, the limit is {most}")
NO_FEISHU_FOR_FILES = Reason("files: this service talks to no Feishu, so it cannot fetch what people shared there")
MESSAGE_ELSEWHERE = Reason(
    "reply_to: that message is not in the chat that chat_id names; leave one of them out, or correct it"
)
OWN_TOOL_STAYS = Reason("name: which of its tools the agent calls cannot be changed; reject the call instead")
OWN_CALL_TOO_LARGE = Reason(
    "the agent's call holds more than {bytes} bytes; keep the large part elsewhere, and name it"
)


# What is wrong with an argument

NO_SUCH_FIELD = Reason("there is no such field")
ONE_OF_THE_OFFERED = Reason("choose one of the values that are offered")
WHOLE_NUMBER = Reason("write a whole number, in digits only")
NUMBER = Reason("write a number, such as 12 or 0.5")
BEYOND_EXACT = Reason("a whole number beyond 2^53 is not exact in JSON")
NUMBER_TOO_LARGE = Reason("the number is too large")
TOO_MANY_DIGITS = Reason("the number has more digits than JSON carries exactly")
NOT_JSON = Reason("this is not JSON: {what}")
JSON_TOO_DEEP = Reason("the JSON is nested too deeply")
JSON_TOO_MANY = Reason("the JSON holds more than {count} values")
NAMED_TWICE = Reason("this name is given twice; which one is meant?")
LONE_SURROGATE = Reason("a lone surrogate is not text; send the bytes in an encoding such as base64")
NOT_EXACT = Reason("an integer beyond 2^53 is not exact in JSON; send it as a string")
NESTED_TOO_DEEP = Reason("nested deeper than {count} levels; flatten it, or send it as a string")


# Why a call may not run

TOOL_DENIES = Reason("the tool {tool} lets nobody run it")
RULE_DENIES_BECAUSE = Reason("the operator's rule {rule} does not allow it: {why}")
RULE_DENIES = Reason("the operator's rule {rule} does not allow it")
OVERRIDE_DENIES_BECAUSE = Reason("an operator's override does not allow it: {why}")
OVERRIDE_DENIES = Reason("an operator's override does not allow it")
RULE_IN_DOUBT = Reason(
    "whether the operator's rule {rule} applies cannot be said ({why}), and it would make a difference, so it is "
    "denied; name the requester by these ids, and the chat"
)
RULE_BROKEN = Reason(
    "the operator's rule {rule} cannot be applied ({why}), so it is denied; let the condition ask first whether a "
    "value is there, as in has(arguments.x) && …"
)
DENIED = Reason("it is denied")
SINCE_MUST_ASK = Reason("{since}: a person must be asked ({how}), and nobody was")
SINCE_RISKIER = Reason("{since}: its risk was {was} when it was decided, and is {now}")
SINCE_REVIEWED = Reason("{since}: its result must be reviewed ({how})")
SINCE_OTHERS_DECIDE = Reason("{since}: those who approved it are not those, or not as many, who must")
APPROVED_BY_TOO_FEW = Reason("{count} of {needed} have approved it")
GRANT_UNKNOWN = Reason("the remembered decision {grant} is not known; propose the call anew")
GRANT_WAS_REVOKED = Reason("the remembered decision {grant} was revoked; propose the call anew")
GRANT_EXPIRED = Reason("the remembered decision {grant} has expired; propose the call anew")
GRANT_DOES_NOT_COUNT = Reason("the remembered decision {grant} does not count for this call; propose the call anew")
NO_PLAN_TO_RUN = Reason("the ledger holds no plan for what would run")
NOT_WHAT_WAS_APPROVED = Reason("what would run is not what was approved")
ARGUMENTS_REFUSED = Reason("invalid arguments: {why}")
KEY_TAKEN = Reason("the idempotency key stands for another payload")


# What became of a call

TOO_LATE = Reason("it could not begin in time")
NOT_ENDED = Reason("an attempt began and its end was never recorded")
EARLIER_ATTEMPT = Reason("another attempt of the same call may have taken effect")
OTHER_UNKNOWN = Reason("approval {approval} began the same call, and its outcome is not known")
OTHER_RUNS = Reason("approval {approval} runs the same call")
ANOTHER_RUNS = Reason("another approval runs the same call")
LATER_ATTEMPT_RUNS = Reason("a later attempt runs the call")
PLACES_TAKEN = Reason("half of this worker's places are taken by tools that ask")
PROBE_CANNOT_ASK = Reason("a probe cannot ask")
WORKER_LEAVES = Reason("this worker is leaving, or is not wanted any more")
NOTHING_RUN = Reason("nothing was run under this consent")
NOT_BEGUN = Reason("it was not begun")
NO_TOOL_HERE = Reason("this worker has no tool named {tool}")
ANOTHER_VERSION = Reason("this worker has another version of {tool} than the one that was shown")
LEDGER_OUT_OF_REACH = Reason("the ledger is out of reach ({why})")
TIMED_OUT = Reason("the tool did not end within {seconds} seconds")
RETURNED_WORK = Reason("the tool returned a {kind}: what it would do was not done")
ATTEMPT_UNKNOWN = Reason("the outcome of this attempt is unknown")
UNRECORDED = Reason("the tool ended ({state}), and the ledger could not record it")
ENDED_WITH = Reason("the tool ended with {outcome}")
RESULT_REFUSED = Reason("the ledger refused to keep the result")
ADDRESS_NOT_KEPT = Reason("the tool's authorize_url could not be kept")
RESULT_CUT = Reason("the result holds {bytes} bytes; only its start was kept")
RESULT_NOT_JSON = Reason("the result has no JSON form: {why}")
PROBE_COULD_NOT_TELL = Reason("the probe could not tell: {why}")
PROBE_UNCLEAR = Reason("the probe answered unclearly: {why}")
PROBE_EXECUTED = Reason("the probe answered executed")
PROBE_NOT_EXECUTED = Reason("the probe answered not_executed")
PROBE_UNKNOWN = Reason("the probe answered unknown")
NO_ANSWER_HEARD = Reason("the activity ended without an answer: {why}; the worker was last heard of at {time}")
NO_ANSWER_BECAUSE = Reason("the activity ended without an answer: {why}")
NO_ANSWER = Reason("the activity ended without an answer")
RETRY_UNNEEDED = Reason(
    "the retry that {person} asked for was not made: the call turned out to be executed before it began"
)
ENDED_OUTSIDE = Reason("the approval was ended from outside while the call ran")


# How an approval ended

NOT_SAID = Reason("Feishu could not say in time who asks, or in which chat; nobody was asked")
NO_MEMBERS = Reason("Feishu could not say who belongs to the chat")
NO_CARD = Reason("its card could not be delivered before the deadline")
CARD_REFUSED = Reason("the card could not be delivered: {why}")
WITHDRAWN = Reason("it was withdrawn")
CANCELLED_IN_TEMPORAL = Reason("cancelled in Temporal")
GONE_IN_TEMPORAL = Reason("its workflow was {how} in Temporal before it had ended")
REFUSED_BEFORE = Reason("it was refused, and whoever asked was told so")
UNDECIDED = Reason("nobody decided about it in time")
NOT_RELEASED_HERE = Reason("nobody has released it for this approval")


ALL: dict[str, Reason] = {name.lower(): each for name, each in list(globals().items()) if isinstance(each, Reason)}
"""Every one of them, by the name of its text."""


def known(said: str) -> tuple[str, dict[str, str]] | None:
    """The name of the text that says the same, and what fills it; None of what others said."""
    found = ((name, each.values(said)) for name, each in ALL.items())
    return next(((name, values) for name, values in found if values is not None), None)
