"""How properties are tested where other tests take the processor: by what holds, not by how long it takes."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

unhurried = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
