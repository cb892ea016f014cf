"""Where the repository is, and the environment of a process under test."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]


def worker_environment(**more: str) -> dict[str, str]:
    """The environment of a process under test: nothing of the developer's own Temporal or Assent settings."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ASSENT_", "TEMPORAL_"))}
    clean.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes need not compile the same modules each
    return {**clean, "PYTHONUNBUFFERED": "1", **more}
