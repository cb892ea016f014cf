"""What an agent is told of an approval, and what is kept from it."""

from __future__ import annotations

from datetime import UTC, datetime

from assent.contracts.decision import DecisionKind, Judged, Stage, VerdictKind
from assent.contracts.state import State
from assent.contracts.status import Phase
from tests.conftest import ME
from workers.api_context import told
from workers.tokens import Agent


def test_an_agent_does_not_learn_the_hash_of_a_withheld_result_from_who_decided() -> None:
    about = Judged(
        event_id="e",
        delivery_id=None,
        kind=DecisionKind.REJECT,
        actor=ME,
        verdict=VerdictKind.ACCEPTED,
        received_at=datetime.now(UTC),
        stage=Stage.RESULT,
        payload_sha256="f" * 64,
    )
    state = State(approval_id="a", phase=Phase.CLOSED, tool="t", requester=ME, asked_by="agent", decisions=(about,))
    assert "f" * 64 not in told(Agent(name="agent", sha256="0" * 64), state).model_dump_json()
