"""Faults injected from outside into real processes: the matrix of docs/faults.md, and random schedules of the same."""
