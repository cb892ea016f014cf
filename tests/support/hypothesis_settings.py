"""How properties are tested where other tests take the processor: by what holds, not by how long it takes."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

_BY_CHANCE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
"""What depends on the machine, and on how large the first examples happen to be; neither says anything of the code."""
unhurried = settings(deadline=None, max_examples=60, suppress_health_check=_BY_CHANCE)
