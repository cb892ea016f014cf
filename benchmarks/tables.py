"""What was measured, as tables. Nothing here is computed from anything that was not measured in this run."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.ledgers import COMMIT, STATEMENT, STEPS, PerFlow
from benchmarks.measure import OWN, Latency, Pace

_console = Console(width=120, highlight=False)

Rounds = Sequence[dict[str, Pace]]


def progress(text: str) -> None:
    _console.print(f"[dim]{text}[/dim]")


def show_pace(names: Sequence[str], rounds: Rounds, latencies: dict[str, Latency], events: dict[str, int]) -> None:
    """Rate, ratio and latency; each row that follows adds something to the row before it."""
    table = _table(
        "flows per second: median (and each round)", "flow", "per second", "of bare", "ms per flow", "added ms"
    )
    table.add_column("click to body p50", justify="right")
    table.add_column("p99", justify="right")
    table.add_column("events", justify="right")
    bare, above = names[0], 0.0
    for name in names:
        rates = [paces[name].rate for paces in rounds]
        ratio = median(paces[name].rate / paces[bare].rate for paces in rounds)
        each = median(1000 / rate for rate in rates)
        table.add_row(
            name,
            f"{median(rates):.1f} ({' '.join(f'{rate:.0f}' for rate in rates)})",
            f"{ratio:.2f}",
            f"{each:.1f}",
            f"{each - above:+.1f}" if above else "",
            f"{latencies[name].p50:.1f} ms",
            f"{latencies[name].p99:.1f} ms",
            str(events[name]),
        )
        above = each if name != names[-2] else above
    _console.print(table)


def show_processor(names: Sequence[str], rounds: Rounds) -> None:
    """Where the processor's time goes."""
    processes = [process for process in rounds[0][names[0]].cpu if process != OWN]
    table = _table(
        "processor time per flow, ms (median of rounds; the workers and the client share one process)",
        "flow",
        OWN,
        *processes,
    )
    for name in names:
        row = [median(paces[name].cpu[process] for paces in rounds) for process in (OWN, *processes)]
        table.add_row(name, *(f"{used:.1f}" for used in row))
    _console.print(table)


def show_ledgers(ledgers: dict[str, PerFlow], fsync: float) -> None:
    """What an approval asks of its ledger while nothing else runs."""
    table = _table("the ledger's part of one approval, ms, one at a time", "step", *ledgers)
    for step in STEPS:
        table.add_row(step, *(f"{times[step][1]:.1f}" for times in ledgers.values()))
    table.add_section()
    table.add_row("together", *(f"{sum(times[step][1] for step in STEPS):.1f}" for times in ledgers.values()))
    for name in (STATEMENT, COMMIT):
        table.add_row(
            f"of it {name}s", *(f"{times[name][0]:.1f} in {times[name][1]:.1f}" for times in ledgers.values())
        )
    _console.print(table)
    _console.print(f"Appending one page to a file and making it durable takes {fsync:.2f} ms on this disk (median).")


def _table(title: str, first: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    return table
