"""What was measured, as tables. Nothing here is computed from anything that was not measured in this run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median, quantiles

from rich.console import Console
from rich.table import Table

from benchmarks import callbacks
from benchmarks.footprints import PYTHON, Footprint
from benchmarks.ledgers import COMMIT, STATEMENT, STEPS, PerFlow
from benchmarks.measure import OWN, History, Latency, Pace
from benchmarks.resident import Resident
from benchmarks.sick import HEALTHY, MOST_SLOWED, ROUNDS, SICK, SLOW, Times, p95, slowed

_console = Console(width=132, highlight=False)

Rounds = Sequence[dict[str, Pace]]


def progress(text: str) -> None:
    _console.print(f"[dim]{text}[/dim]")


def show_pace(
    over: Mapping[str, str | None], rounds: Rounds, latencies: Mapping[str, Latency], histories: Mapping[str, History]
) -> None:
    """Rate, ratio and latency. *over* has each flow in order, and the one that it adds something to."""
    table = _table(
        "flows per second: median (and each round)", "flow", "per second", "of bare", "ms per flow", "added ms"
    )
    table.add_column("decision to body p50", justify="right")
    table.add_column("p99", justify="right")
    table.add_column("processor", justify="right")
    table.add_column("events", justify="right")
    table.add_column("KB", justify="right")
    bare, *_ = over
    for name, base in over.items():
        rates = [paces[name].rate for paces in rounds]
        ratio = median(paces[name].rate / paces[bare].rate for paces in rounds)
        added = median(1000 / paces[name].rate - 1000 / paces[base].rate for paces in rounds) if base else None
        table.add_row(
            name,
            f"{median(rates):.1f} ({' '.join(f'{rate:.0f}' for rate in rates)})",
            f"{ratio:.2f}",
            f"{median(1000 / rate for rate in rates):.1f}",
            f"{added:+.1f}" if added is not None else "",
            *((f"{latencies[name].p50:.1f} ms", f"{latencies[name].p99:.1f} ms") if name in latencies else ("", "")),
            f"× {median(paces[name].cpu[OWN] / paces[bare].cpu[OWN] for paces in rounds):.2f}",
            *_kept(histories.get(name)),
        )
    _console.print(table)
    _console.print("Processor: of the process that asks, decides and works. KB: what Temporal keeps of one flow.")


def _kept(history: History | None) -> tuple[str, str]:
    return (str(history.events), f"{history.bytes / 1000:.1f}") if history else ("", "")


def show_beside(
    what: str,
    waited: str,
    over: Mapping[str, str | None],
    rounds: Rounds,
    waits: dict[str, Latency],
    histories: Mapping[str, History],
) -> None:
    """Flows beside what they are compared with. *over* has each in order, and that one.

    what: what they are.
    waited: from what to what the waits were.
    """
    table = _table(f"{what}, per second: median (and each round)", "flow", "per second")
    for column in ("ratio", "added ms", "processor", f"{waited} p50", "p99", "events", "KB"):
        table.add_column(column, justify="right")
    for name, base in over.items():
        rates = [paces[name].rate for paces in rounds]
        over_base = [(paces[name], paces[base]) for paces in rounds] if base else []
        ratio = median(own.rate / other.rate for own, other in over_base) if base else 1
        added = median(1000 / own.rate - 1000 / other.rate for own, other in over_base) if base else 0
        spent = median(own.processor / other.processor for own, other in over_base) if base else 1
        table.add_row(
            name,
            f"{median(rates):.1f} ({' '.join(f'{rate:.0f}' for rate in rates)})",
            f"{ratio:.2f} of {base}" if base else "",
            f"{added:+.1f}" if base else "",
            f"× {spent:.2f}" if base else "",
            f"{waits[name].p50:.1f} ms",
            f"{waits[name].p99:.1f} ms",
            *_kept(histories[name]),
        )
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
        table.add_row(step, *(f"{times[step][1]:.1f}" if times[step][0] else "" for times in ledgers.values()))
    table.add_section()
    table.add_row("together", *(f"{sum(times[step][1] for step in STEPS):.1f}" for times in ledgers.values()))
    for name in (STATEMENT, COMMIT):
        table.add_row(
            f"of it {name}s", *(f"{times[name][0]:.1f} in {times[name][1]:.1f}" for times in ledgers.values())
        )
    _console.print(table)
    _console.print(f"Appending one page to a file and making it durable takes {fsync:.2f} ms on this disk (median).")


def show_callbacks(names: Sequence[str], rounds: callbacks.Rounds) -> None:
    """Callbacks beside a bare endpoint, and where the processor's time goes meanwhile."""
    processes = list(rounds[0][names[0]].cpu)
    title = (
        f"callbacks per second with {callbacks.CLICKERS} clickers: median (and each round); processor ms per callback"
    )
    table = _table(title, "what is called", "per second", "of bare", "p50", "p99", "late", *processes)
    for name in names:
        done = [bursts[name] for bursts in rounds]
        waited = [each for burst in done for each in burst.milliseconds]
        ratio = median(bursts[name].rate / bursts[names[0]].rate for bursts in rounds)
        table.add_row(
            name,
            f"{median(burst.rate for burst in done):.0f} ({' '.join(f'{burst.rate:.0f}' for burst in done)})",
            f"{ratio:.3f}",
            f"{median(waited):.0f} ms",
            f"{quantiles(waited, n=100, method='inclusive')[98]:.0f} ms",
            f"{sum(burst.late for burst in done) / len(waited):.0%}",
            *(f"{median(burst.cpu[process] for burst in done):.1f}" for process in processes),
        )
    _console.print(table)
    _console.print("Late: told that the click was received, because what became of it was not known in time.")


def show_sick(without: Times, beside: Times) -> None:
    """Healthy approvals beside chats that do not answer."""
    title = (
        f"{HEALTHY} healthy approvals, {ROUNDS} times, on PostgreSQL with cards; "
        f"of {SICK} sick chats one half answers after {SLOW:.0f} s, the other not at all"
    )
    table = _table(title, "beside them", "request to card p50", "p95", "click to outcome p50", "p95")
    for name, times in (("nothing", without), (f"{SICK} approvals in sick chats", beside)):
        spread = [(median(each), p95(each)) for each in (times.to_card, times.to_outcome)]
        table.add_row(name, *(f"{value:.0f} ms" for pair in spread for value in pair))
    _console.print(table)
    cards, outcomes = p95(beside.to_card) / p95(without.to_card), slowed(without, beside)
    _console.print(
        f"p95 beside the sick ones: click to outcome × {outcomes:.2f} (at most {MOST_SLOWED:g}), "
        f"request to card × {cards:.2f}."
    )


def show_footprints(footprints: Mapping[str, Footprint]) -> None:
    """What each process has loaded before it does anything."""
    table = _table("imports in a fresh process (medians)", "process", "ms", "processor ms", "times bare", "peak MB")
    table.add_column("modules", justify="right")
    bare = footprints[PYTHON]
    for name, seen in footprints.items():
        table.add_row(
            name,
            f"{1000 * seen.seconds:.0f}",
            f"{1000 * seen.cpu:.0f}",
            f"{seen.cpu / bare.cpu:.1f}",
            f"{seen.megabytes:.0f}",
            str(seen.modules),
        )
    _console.print(table)


def show_memory(title: str, seen: Mapping[str, Resident]) -> None:
    """What processes had resident while something happened to them."""
    table = _table(f"{title}, MB", "process", "before", "peak", "after", "grown by", "/healthz meanwhile")
    for name, own in seen.items():
        sizes = (own.before, own.peak, own.after, own.grown)
        health = (
            f"{own.health.answered} of {own.health.asked}, slowest {own.health.slowest:.1f} s" if own.health else "–"
        )
        table.add_row(name, *(f"{size / 1e6:.0f}" for size in sizes), health)
    _console.print(table)


def _table(title: str, first: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    return table
