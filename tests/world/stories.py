"""Plans written by hand: each shows one way in which a guarantee was once broken."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.world.plans import (
    Answered,
    Asked,
    Blow,
    End,
    Fault,
    Look,
    Needed,
    Plan,
    Ran,
    Said,
    Script,
)

_FIRST = Asked(at=0.0, decided_after=0.5)
_PAYS = Script(lasts=1.0, effect_at=0.5)
_PAYS_AND_RAISES = Script(lasts=1.0, effect_at=0.5, end=End.RAISES)
_FAILS = Script(lasts=0.5, effect_at=None, end=End.FAILS)
_RAISES = Script(lasts=1.0, effect_at=None, end=End.RAISES)
_SILENT = Look("unknown", 0.0, 0.0)


@dataclass(frozen=True)
class Story:
    plan: Plan
    shows: tuple[str, ...]
    """What has to be seen, in this order, or it is another story: a change of timing would let it pass unnoticed."""

    def untold(self, notes: Iterable[str]) -> list[str]:
        """What was not seen in its turn."""
        rest = list(self.shows)
        for note in notes:
            if rest and rest[0] in note:
                rest.pop(0)
        return rest


STORIES = {
    "a retry that fails after a first attempt that took effect": Story(
        Plan(
            seed=1,
            tool="safe",
            asked=(_FIRST,),
            scripts=(_PAYS_AND_RAISES, _PAYS_AND_RAISES, _FAILS),
            said=(Said(1.0, "retry"),),
            calm=True,
        ),
        (
            "TOLD a0: frozen",
            "RULED retry: retrying",
            "body 2 of a0#1 says that it failed",
            "SETTLED a0: executed, by a person",
        ),
    ),
    "a first attempt that goes on in its thread while the second has ended": Story(
        Plan(
            seed=3,
            tool="safe_probed",
            asked=(_FIRST,),
            scripts=(Script(lasts=40.0, effect_at=35.0), _RAISES),
            calm=True,
        ),
        (
            "body 0 of a0 begins",
            "body 1 of a0 raises",
            "sees nothing",
            "TOLD a0: frozen",
            "sees nothing",
            "EFFECT of body 0",
            "sees the effect",
            "SETTLED a0: executed, by nobody",
        ),
    ),
    "a body that takes effect and ends between the probe's look and its answer": Story(
        Plan(
            seed=4,
            tool="probed",
            asked=(_FIRST, Asked(at=40.0, decided_after=0.5)),
            scripts=(Script(lasts=17.0, effect_at=16.5, end=End.RAISES), _PAYS),
            looks=(Look("unknown", 0.0, 0.0), Look("honest", 0.0, 9.0)),
            calm=True,
        ),
        (
            "TOLD a0: frozen",
            "sees nothing: Look(answer='honest'",
            "EFFECT of body 0",
            "body 0 of a0 raises",
            "answers what it saw: honest",
            "sees the effect",
            "SETTLED a0: executed, by nobody",
            "TOLD a1: replayed",
        ),
    ),
    "a probe whose clock is two hours ahead": Story(
        Plan(
            seed=5,
            tool="flying",
            asked=(_FIRST, Asked(at=60.0, decided_after=0.5)),
            scripts=(Script(lasts=0.5, effect_at=100.0, end=End.RAISES), _PAYS),
            faults=(Fault(5.0, Blow.KILL, 0, 2000.0), Fault(5.0, Blow.KILL, 1, 0.0)),
            wrong_clocks=(0.0, 7200.0),
            calm=True,
        ),
        (
            "body 0 of a0 raises",
            "TOLD a0: frozen",
            "tools 1, +7200 s, sees nothing: Look(answer='honest'",
            "begin a1: report",
            "TOLD a1: frozen",
            "EFFECT of body 0",
            "SETTLED a0: executed, by nobody",
        ),
    ),
    "a healthy call that outlasts the time in which another of its key may begin": Story(
        Plan(
            seed=6,
            tool="slow",
            asked=(_FIRST, Asked(at=5.0, decided_after=0.5)),
            scripts=(Script(lasts=140.0, effect_at=130.0),),
            said=(Said(1.0, "not_executed"),),
            calm=True,
        ),
        (
            "body 0 of a0 begins",
            "begin a1: wait",
            "body 0 of a0 says that it is done",
            "TOLD a0: executed",
            "begin a1: report",
            "TOLD a1: replayed",
        ),
    ),
    "a call that waits for its key while the policy comes to deny it": Story(
        Plan(
            seed=7,
            tool="slow",
            asked=(_FIRST, Asked(at=1.0, decided_after=0.5)),
            scripts=(Script(lasts=8.0, effect_at=None), _PAYS),
            faults=(Fault(5.0, Blow.DENY),),
            calm=True,
        ),
        (
            "begin a1: wait",
            "the policy denies the tool",
            "body 0 of a0 says that it failed",
            "TOLD a1: failed (the operator's rule 'stop'",
        ),
    ),
    "a review that is terminated while another approval waits for its answer": Story(
        Plan(
            seed=8,
            tool="plain",
            asked=(_FIRST, Asked(at=10.0, decided_after=0.5)),
            scripts=(_PAYS_AND_RAISES,),
            faults=(Fault(20.0, Blow.TERMINATE_REVIEW),),
            calm=True,
        ),
        (
            "TOLD a0: frozen",
            "the review is joined",
            "TOLD a1: frozen",
            "FrozenReview is terminated",
            "the review is opened with a0",
            "SETTLED a1: executed, by a person",
        ),
    ),
    "an executed call whose approval is reset and rejected while the ledger is out of reach": Story(
        Plan(
            seed=9,
            tool="plain",
            asked=(_FIRST,),
            scripts=(_PAYS,),
            faults=(Fault(1.8, Blow.RESET_REJECTED), Fault(2.6, Blow.CUT_APPROVALS, lasts=120.0)),
            calm=True,
        ),
        (
            "EFFECT of body 0",
            "body 0 of a0 says that it is done",
            "the approvals worker is cut off",
            "reject a0",
            "reaches the ledger again",
            "TOLD a0: executed",
        ),
    ),
    "a retry that is promised by a review which is terminated": Story(
        Plan(
            seed=10,
            tool="safe",
            asked=(_FIRST,),
            scripts=(_PAYS_AND_RAISES, _PAYS_AND_RAISES, _PAYS),
            faults=(
                Fault(5.0, Blow.KILL, 0, 20.0),
                Fault(5.0, Blow.KILL, 1, 20.0),
                Fault(10.0, Blow.TERMINATE_REVIEW),
            ),
            said=(Said(1.0, "retry"),),
            calm=True,
        ),
        (
            "RULED retry: retrying",
            "FrozenReview is terminated",
            "the review is opened with a0",
            "begin a0#1: run",
            "body 2 of a0#1 says that it is done",
            "SETTLED a0: executed",
            "nothing goes wrong any more",
        ),
    ),
    "an approval that joins between the ruling and the review's close": Story(
        Plan(
            seed=11,
            tool="probed",
            asked=(_FIRST, Asked(at=10.0, decided_after=0.5)),
            scripts=(_PAYS_AND_RAISES,),
            looks=(_SILENT, _SILENT, Look("unknown", 0.0, 5.0), _SILENT, _SILENT),
            faults=(Fault(14.53, Blow.CUT_APPROVALS, lasts=10.0),),
            said=(Said(12.0, "executed"),),
            calm=True,
        ),
        (
            "TOLD a0: frozen",
            "begin a1: report",
            "SETTLED a0: executed, by a person",
            "the approvals worker is cut off",
            "the review is joined",
            "reaches the ledger again",
            "the review is closed",
        ),
    ),
    "an approval that is terminated while others ask in its conversation": Story(
        Plan(
            seed=12,
            tool="plain",
            asked=(
                Asked(at=0.0, decided_after=0.5, decision="none", scope="other", thread="one"),
                Asked(at=20.0, decided_after=0.5, scope="other", thread="one", when_pending="fail"),
                Asked(at=60.0, decided_after=0.5, scope="other", thread="one", when_pending="fail"),
            ),
            scripts=(_PAYS,),
            faults=(Fault(10.0, Blow.TERMINATE),),
            calm=True,
        ),
        (
            "Approval is terminated",
            "REFUSED a1: the conversation is busy",
            "TOLD a0: cancelled",
            "sweeper has swept",
            "TOLD a2: executed",
        ),
    ),
    "a worker that leaves while the code of a call goes on beyond its time": Story(
        Plan(
            seed=13,
            tool="plain",
            asked=(_FIRST,),
            scripts=(Script(lasts=25.0, effect_at=20.0),),
            faults=(Fault(14.0, Blow.DRAIN, 0), Fault(14.0, Blow.DRAIN, 1)),
            calm=True,
        ),
        (
            "TOLD a0: frozen",
            "drained",
            "EFFECT of body 0",
            "body 0 of a0 says that it is done",
            "has left",
            "SETTLED a0: executed, by a person",
        ),
    ),
    "a sweeper of another namespace that meets a call whose review is gone": Story(
        Plan(
            seed=14,
            tool="plain",
            asked=(_FIRST,),
            scripts=(_PAYS_AND_RAISES,),
            faults=(Fault(20.0, Blow.TERMINATE_REVIEW),),
            calm=True,
        ),
        (
            "TOLD a0: frozen",
            "FrozenReview is terminated",
            "the sweeper of another namespace has swept",
            "the review is opened with a0",
            "SETTLED a0: executed, by a person",
        ),
    ),
    "a program's question that is reset after its line was read, and before anybody knows": Story(
        Plan(
            seed=41238,
            tool="plain",
            asked=(),
            scripts=(),
            runs=(
                Ran(
                    at=1.0,
                    holder="client",
                    needs=(
                        Needed(
                            ttl=5.0,
                            answers=(Answered(after=0.3, says="production"),),
                            reset_after=3.6,
                            dies="written",
                            is_said_again=False,
                        ),
                    ),
                ),
            ),
            calm=True,
        ),
        ("LINE of run0:input-0: production", "run0:input-0 has ended: cancelled (write: unknown)"),
    ),
    "somebody else who asks for the same call in the same scope": Story(
        Plan(
            seed=15,
            tool="plain",
            asked=(_FIRST, Asked(at=10.0, decided_after=0.5, requester="you")),
            scripts=(_PAYS, _PAYS),
            calm=True,
        ),
        ("TOLD a0: executed", "begin a1: run", "EFFECT of body 1", "TOLD a1: executed"),
    ),
    "somebody of whom nobody can say whether they asked for the same call before": Story(
        Plan(
            seed=16,
            tool="plain",
            asked=(_FIRST, Asked(at=10.0, decided_after=0.5, requester="me by another id")),
            scripts=(_PAYS, _PAYS),
            calm=True,
        ),
        ("TOLD a0: executed", "approve a1", "TOLD a1: failed (the same call was begun in this scope"),
    ),
}
"""What each of them must not do any more; on the version that these were found in, each does."""
