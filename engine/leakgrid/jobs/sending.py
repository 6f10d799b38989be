"""What a run and a measurement of judges have in common: a name, a budget, and ways to ask."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from leakgrid.cache.answers import AnswerCache
from leakgrid.cache.spent import spent_usd
from leakgrid.jobs.asking import Asker
from leakgrid.jobs.budget import Budget
from leakgrid.jobs.plan import Plan
from leakgrid.jobs.routes import Ways, open_ways
from leakgrid.outcomes import LaneStopped, Outcome


def new_run() -> str:
    """The name of a run: when it began, and a piece of chance."""
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.urandom(3).hex()}"


@contextlib.asynccontextmanager
async def open_asking(
    plan: Plan,
    models: Iterable[str],
    cache: Path,
    answers: AnswerCache,
    run: str,
    *,
    batch: bool = True,
) -> AsyncIterator[tuple[Ways, Asker]]:
    """Ways to ``models`` within what is left of the job's budget, and the ``ask`` over them.

    Failed attempts are kept in ``answers`` under ``run``. Arguments and errors are otherwise
    those of ``open_ways``.
    """
    job = plan.job
    budget = None
    if job.budget_usd is not None:
        budget = Budget(job.budget_usd, await asyncio.to_thread(spent_usd, cache, job.name))

    def failed(lane: Any, parcel: Any, attempt: Any) -> None:
        asker.note_failed(lane, parcel, attempt)

    async with open_ways(plan, models, cache, budget=budget, on_failed=failed, batch=batch) as ways:
        asker = Asker(ways.routes, answers, job=job.name, run=run)
        yield ways, asker


def stop_lanes(ways: Ways, why: str) -> None:
    """No lane sends another call; those in flight may end."""
    for lane in ways.lanes:
        lane.stop(LaneStopped(lane.name, Outcome.TRANSIENT, why))
