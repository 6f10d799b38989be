"""How far a run is: a live display on a terminal, one line every ten seconds elsewhere."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from leakgrid.jobs.run import Run

LINE_SECONDS = 10.0
DISPLAY_SECONDS = 0.25


class Progress:
    """Shows the run that ``watch`` was given. ``quiet`` shows nothing."""

    def __init__(self, *, quiet: bool = False, out: TextIO | None = None) -> None:
        self._quiet = quiet
        self._out = out or sys.stderr
        self._run: Run | None = None
        self._began = time.monotonic()

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
            f"${sum(lane.usd for lane in lanes):.2f}",
            f"left {eta(finished, run.todo, seconds)}",
        ]
        for lane in lanes:
            trouble = {
                name: count
                for name, count in lane.outcomes.items()
                if name not in ("answer", "refusal", "truncated")
            }
            told = ", ".join(f"{name} {count}" for name, count in sorted(trouble.items()))
            told = f" ({told})" if told else ""
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
        for name in ("lane", "answered", "in flight", "waiting", "per s", "p95", "trouble", "$"):
            table.add_column(name, justify="left" if name in ("lane", "trouble") else "right")
        for lane in run.lanes():
            trouble = sum(
                count
                for name, count in lane.outcomes.items()
                if name not in ("answer", "refusal", "truncated")
            )
            table.add_row(
                lane.name,
                f"{lane.answered:,}",
                f"{lane.in_flight}/{lane.limit}",
                f"{lane.waiting:,}",
                f"{lane.answered / max(seconds, 1e-9):.1f}",
                f"{lane.latency_p95_s:.2f} s",
                lane.stopped or (f"{trouble:,}" if trouble else ""),
                f"{lane.usd:.3f}" + (" + unpriced" if lane.unpriced else ""),
            )
        return table


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
