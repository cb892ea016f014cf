"""Plans written by hand: each shows one way in which a guarantee was once broken."""

from __future__ import annotations

from tests.world.plans import Asked, Blow, End, Fault, Look, Plan, Said, Script

_FIRST = Asked(at=0.0, decided_after=0.5)
_PAYS = Script(lasts=1.0, effect_at=0.5)
_PAYS_AND_RAISES = Script(lasts=1.0, effect_at=0.5, end=End.RAISES)
_FAILS = Script(lasts=0.5, effect_at=None, end=End.FAILS)
_RAISES = Script(lasts=1.0, effect_at=None, end=End.RAISES)

STORIES = {
    "a retry that fails after a first attempt that took effect": Plan(
        seed=1,
        tool="safe",
        asked=(_FIRST,),
        scripts=(_PAYS_AND_RAISES, _PAYS_AND_RAISES, _FAILS),
        said=(Said(1.0, "retry"),),
        calm=True,
    ),
    "a first attempt that goes on in its thread while the second has ended": Plan(
        seed=3,
        tool="safe_probed",
        asked=(_FIRST,),
        scripts=(Script(lasts=40.0, effect_at=35.0), _RAISES),
        calm=True,
    ),
    "a body that takes effect and ends between the probe's look and its answer": Plan(
        seed=4,
        tool="probed",
        asked=(_FIRST, Asked(at=40.0, decided_after=0.5)),
        scripts=(Script(lasts=17.0, effect_at=16.5, end=End.RAISES), _PAYS),
        looks=(Look("unknown", 0.0, 0.0), Look("honest", 0.0, 9.0)),
        calm=True,
    ),
    "a probe whose clock is two hours ahead": Plan(
        seed=5,
        tool="flying",
        asked=(_FIRST, Asked(at=60.0, decided_after=0.5)),
        scripts=(Script(lasts=0.5, effect_at=100.0, end=End.RAISES), _PAYS),
        faults=(Fault(5.0, Blow.KILL, 0, 2000.0), Fault(5.0, Blow.KILL, 1, 0.0)),
        wrong_clocks=(0.0, 7200.0),
        calm=True,
    ),
    "a healthy call that outlasts the time in which another of its key may begin": Plan(
        seed=6,
        tool="slow",
        asked=(_FIRST, Asked(at=5.0, decided_after=0.5)),
        scripts=(Script(lasts=140.0, effect_at=130.0),),
        said=(Said(1.0, "not_executed"),),
        calm=True,
    ),
    "a call that waits for its key while the policy comes to deny it": Plan(
        seed=7,
        tool="slow",
        asked=(_FIRST, Asked(at=1.0, decided_after=0.5)),
        scripts=(Script(lasts=8.0, effect_at=None), _PAYS),
        faults=(Fault(5.0, Blow.DENY),),
        calm=True,
    ),
    "a review that is terminated while another approval waits for its answer": Plan(
        seed=8,
        tool="plain",
        asked=(_FIRST, Asked(at=10.0, decided_after=0.5)),
        scripts=(_PAYS_AND_RAISES,),
        faults=(Fault(20.0, Blow.TERMINATE_REVIEW),),
        calm=True,
    ),
    "an executed call whose approval is reset and rejected while the ledger is out of reach": Plan(
        seed=9,
        tool="plain",
        asked=(_FIRST,),
        scripts=(_PAYS,),
        faults=(Fault(1.8, Blow.RESET_REJECTED), Fault(2.6, Blow.CUT_APPROVALS, lasts=120.0)),
        calm=True,
    ),
    "a retry that is promised by a review which is terminated": Plan(
        seed=10,
        tool="safe",
        asked=(_FIRST,),
        scripts=(_PAYS_AND_RAISES, _PAYS_AND_RAISES, _PAYS),
        faults=(Fault(5.53, Blow.TERMINATE_REVIEW),),
        said=(Said(1.0, "retry"),),
        calm=True,
    ),
}
"""What each of them must not do any more; on the version that these were found in, each does."""
