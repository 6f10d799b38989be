"""leakgrid's whole Run over lanes with quotas: when was each lane's last call answered?"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path

import uvloop

from leakgrid.cache.cells import DoneCells
from leakgrid.collector import calm_collector
from leakgrid.jobs.plan import Plan
from leakgrid.jobs.progress import Progress
from leakgrid.jobs.run import Run
from tests.bench.client_leakgrid import OneCall, job, model
from tests.bench.work import measured

LOOK_SECONDS = 0.02


class Watch(Progress):
    """Shows nothing, and notes when each lane has answered all its calls."""

    def __init__(self, calls: int) -> None:
        super().__init__(quiet=True)
        self.finished: dict[str, float] = {}
        self._calls = calls

    async def show(self) -> None:
        began = time.perf_counter()
        while self._run is not None:
            for lane in self._run.lanes():
                if lane.answered >= self._calls and lane.name not in self.finished:
                    self.finished[lane.name] = time.perf_counter() - began
            await asyncio.sleep(LOOK_SECONDS)


def main() -> None:
    """Send ``calls`` calls to each of the named models and print when each was through.

    Nothing is said of quotas or concurrency: the server's headers have to teach the lanes.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("base_url")
    parser.add_argument("calls", type=int, help="of each model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="+")
    given = parser.parse_args()
    cells = job(given.folder, [model(name, given.base_url) for name in given.models])
    cache, watch = given.folder / "cache", Watch(given.calls)
    with measured(given.calls * len(given.models)) as more:
        plan = Plan(cells, OneCall(given.calls))
        done = DoneCells(cache)
        run = Run(plan, done, plan.count_todo(done), cache)
        calm_collector()
        began = time.perf_counter()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            report = runner.run(run.execute(watch))
        more["run_s"] = time.perf_counter() - began
        more["failed"] = report.open
        for lane in report.lanes:
            more[f"{lane.name}_s"] = watch.finished.get(lane.name, more["run_s"])
            more[f"{lane.name}_429"] = lane.outcomes.get("quota", 0)


if __name__ == "__main__":
    main()
