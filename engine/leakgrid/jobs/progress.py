"""How far a run is: a live display on a terminal, one line every ten seconds elsewhere."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any, TextIO

from leakgrid.jobs.models import FREE
from leakgrid.lanes.values import LaneStatistics

if TYPE_CHECKING:
    from leakgrid.jobs.run import Run

GOOD = frozenset({"answer", "refusal", "truncated"})

LINE_SECONDS = 10.0
DISPLAY_SECONDS = 0.25


class Progress:
    """Shows the run that ``watch`` was given. ``quiet`` shows nothing."""

    def __init__(self, *, quiet: bool = False, out: TextIO | None = None) -> None:
        self._quiet = quiet
        self._out = out or sys.stderr
        self._run: Run | None = None
        self._began = time.monotonic()
        if not quiet and self._out.isatty():
            # Imported before the loop runs, so that its import never holds it.
            import rich.live
            import rich.table  # noqa: F401

    def watch(self, run: Run) -> None:
        """Start the clock on this run."""
        self._run = run
        self._began = time.monotonic()

    async def show(self) -> None:
        """Show until cancelled."""
        if self._quiet or self._run is None:
            return
        if self._out.isatty():
            await self._display(self._run)
        else:
            while True:
                await asyncio.sleep(LINE_SECONDS)
                print(self.line(self._run), file=self._out, flush=True)

    def line(self, run: Run) -> str:
        """Everything that matters in one line, without control characters."""
        seconds = time.monotonic() - self._began
        finished = run.done + run.open + run.skipped
        lanes = run.lanes()
        sent = sum(lane.sent for lane in lanes)
        parts = [
            f"{finished:,}/{run.todo:,} cells",
            f"{sent:,} calls sent ({sent / max(seconds, 1e-9):.0f}/s)",
            f"${sum(lane.usd for lane in lanes):.2f}"
            + (" and calls without a known price" if self._unpriced(run, lanes) else ""),
            f"left {eta(finished, run.todo, seconds)}",
        ]
        for lane in lanes:
            trouble = self._trouble(lane)
            told = f" ({trouble})" if trouble else ""
            parts.append(f"{lane.name}: {lane.in_flight} in flight{told}")
        return " | ".join(parts)

    async def _display(self, run: Run) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self._out)
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while True:
                live.update(self._table(run), refresh=True)
                await asyncio.sleep(DISPLAY_SECONDS)

    def _table(self, run: Run) -> Any:
        from rich.table import Table

        seconds = time.monotonic() - self._began
        finished = run.done + run.open + run.skipped
        table = Table(
            title=f"{run.plan.job.name}: {finished:,} of {run.todo:,} cells, "
            f"left {eta(finished, run.todo, seconds)}",
            title_justify="left",
        )
        counted = ("answered", "in flight", "waiting", "per s", "quota", "p95", "$", "left")
        for name in ("lane", *counted):
            table.add_column(name, justify="left" if name == "lane" else "right")
        table.add_column("trouble")
        cells = run.cells_by_model()
        for lane in run.lanes():
            rate = lane.answered / max(seconds, 1e-9)
            share = "" if lane.allowed_per_s is None else f"{rate / lane.allowed_per_s:.0%}"
            table.add_row(
                lane.name,
                f"{lane.answered:,}",
                f"{lane.in_flight}/{lane.limit}",
                f"{lane.waiting:,}",
                f"{rate:.1f}",
                share,
                f"{lane.latency_p95_s:.2f} s",
                self._money(run, lane),
                eta(*cells.get(lane.name, (0, 0)), seconds),
                lane.stopped or self._trouble(lane),
            )
        return table

    def _unpriced(self, run: Run, lanes: tuple[LaneStatistics, ...]) -> bool:
        specs = run.plan.job.specs
        return any(lane.unpriced and specs[lane.name].provider not in FREE for lane in lanes)

    def _trouble(self, lane: LaneStatistics) -> str:
        """Attempts that ended in no result, by outcome."""
        counts = sorted(lane.outcomes.items())
        return ", ".join(f"{name} {count}" for name, count in counts if name not in GOOD)

    def _money(self, run: Run, lane: LaneStatistics) -> str:
        """Dollars so far; what has no known price is never shown as zero."""
        if run.plan.job.specs[lane.name].provider in FREE:
            return "free"
        return f"{lane.usd:.3f}" + (" + unpriced" if lane.unpriced else "")


def eta(finished: int, total: int, seconds: float) -> str:
    """The time left at the pace so far, as words."""
    if not finished:
        return "unknown"
    left = int((total - finished) * seconds / finished)
    if left < 60:
        return f"{left} s"
    if left < 3600:
        return f"{left // 60} min {left % 60} s"
    return f"{left // 3600} h {left % 3600 // 60} min"
