"""``leakgrid run``: plan, run what is open, land it, and say how it ended."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leakgrid.cache.cells import DoneCells
from leakgrid.collector import calm_collector
from leakgrid.jobs import guard
from leakgrid.jobs.gpu import IdentityChanged
from leakgrid.jobs.history import known_plan
from leakgrid.jobs.models import FREE
from leakgrid.jobs.plan import Plan
from leakgrid.outcomes import StoreError
from leakgrid.store.landed import is_landed

if TYPE_CHECKING:
    from leakgrid.jobs.progress import Progress
    from leakgrid.jobs.run import Run, RunReport
    from leakgrid.store.landing import Landing


@dataclass(frozen=True, slots=True)
class Ended:
    """A finished ``run`` command."""

    job: str
    exit_code: int


def run_job(path: Path, cache: Path, database: Path, *, quiet: bool, replanned: int = 0) -> Ended:
    """Run one job file to its end. Raises LeakgridError for what stops it whole.

    ``replanned`` counts how often a server turned out to be another than was planned for.
    """
    from leakgrid.jobs.jobfile import load_job

    began = time.monotonic()
    plan = Plan(load_job(path), cache=cache)
    done = DoneCells(cache)
    for notice in done.notices:
        print(f"leakgrid: {notice}", file=sys.stderr)
    todo = plan.count_todo(done)
    name = plan.job.name
    from leakgrid.store.landing import Landing

    if not todo and known_plan(cache, name) == plan.described()["plan_id"]:
        if not is_landed(cache, database):  # a run was killed, or its database was in use
            _land(Landing(cache, database), cache)
        seconds = time.monotonic() - began
        print(
            f"{name}: all {plan.cells:,} cells are done; 0 calls sent "
            f"({len(plan.items):,} items, {len(plan.columns)} columns, {seconds:.2f} s)"
        )
        return Ended(name, 0)
    from leakgrid.jobs.run import Run

    changed = False
    try:
        with Landing(cache, database) as landing:
            report = _execute(Run(plan, done, todo, cache, landing), quiet)
            _land(landing, cache)
    except* IdentityChanged as group:
        if replanned >= len(plan.job.specs):
            raise
        for error in leaves(group):
            print(f"leakgrid: {error}", file=sys.stderr)
        changed = True
    if changed:
        return run_job(path, cache, database, quiet=quiet, replanned=replanned + 1)
    _summary(plan, report)
    return Ended(name, report.exit_code)


def leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """All exceptions in a group, at any depth."""
    found: list[BaseException] = []
    for error in group.exceptions:
        found += leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


def _execute(run: Run, quiet: bool) -> RunReport:
    # Imported before the loop runs, so that no import ever holds it.
    import aiohttp  # noqa: F401

    from leakgrid.jobs.progress import Progress

    calm_collector()
    most_ms = float(os.environ.get(guard.VARIABLE, 0))
    if most_ms:
        return _guarded(run, Progress(quiet=quiet), most_ms / 1000)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_signals_kept(run.execute(Progress(quiet=quiet))))


async def _signals_kept(execution: Awaitable[RunReport]) -> RunReport:
    """The run; then signals do again what they did before it, and not what a loop leaves them."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return await execution
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed, else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _guarded(run: Run, progress: Progress, most_s: float) -> RunReport:
    """The run on asyncio's own loop; ends the process if a callback held the loop too long."""
    found: list[guard.Block] = []
    before = guard.install(most_s, found)
    try:
        report = asyncio.run(_signals_kept(run.execute(progress)))
    finally:
        guard.remove(before)
    if found:
        print(guard.told(found), file=sys.stderr)
        sys.exit(guard.EXIT_BLOCKED)
    return report


def _land(landing: Landing, cache: Path) -> None:
    try:
        landing.finish()
    except StoreError as error:
        # The cache has everything; a locked database is no reason to call the run failed.
        print(
            f"leakgrid: results are safe in {cache}, not yet in the database: {error}\n"
            "leakgrid: the same command again takes them in; it asks nothing twice",
            file=sys.stderr,
        )


def _summary(plan: Plan, report: RunReport) -> None:
    counts = report.counts
    marks = " (SIMULATED)" if any(column.simulated for column in plan.columns) else ""
    print(
        f"{plan.job.name}{marks}: {report.done:,} of {report.todo:,} open cells done, "
        f"{counts.sent:,} calls sent, {counts.from_cache + counts.joined:,} answered without "
        f"sending, {report.seconds:.1f} s"
    )
    for lane in report.lanes:
        outcomes = ", ".join(f"{name} {count:,}" for name, count in sorted(lane.outcomes.items()))
        free = plan.job.specs[lane.name].provider in FREE
        money = "no cost" if free else f"${lane.usd:.4f}"
        if lane.unpriced and not free:
            money += f", {lane.unpriced:,} calls without a known price"
        print(f"  {lane.name}: {outcomes or 'nothing sent'}; {money}")
    for line in report.told:
        print(f"leakgrid: {line}", file=sys.stderr)
