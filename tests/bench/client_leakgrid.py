"""leakgrid with everything on: keys, cache, fsynced journals, records, DuckDB.

Its cells make one call each, so that its work is that of the other clients.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import importlib
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from leakgrid.benchmarks.benchmark import Point
from leakgrid.cache.cells import DoneCells
from leakgrid.collector import calm_collector
from leakgrid.jobs.jobfile import Job
from leakgrid.jobs.models import ModelSpec
from leakgrid.jobs.plan import Plan
from leakgrid.jobs.progress import Progress
from leakgrid.jobs.run import Run
from leakgrid.lanes.values import Quota
from leakgrid.store.landing import Landing, peak_mb
from leakgrid.types import Ask, Call, Message, Record, Verdict
from tests.bench.work import SYSTEM, measured

NAP_SECONDS = 0.005
LANDING = (
    "duckdb.func", "pyarrow.compute", "pyarrow.json", "pyarrow.parquet",
    "leakgrid.providers.openai", "leakgrid.store.ingest", "leakgrid.store.landed",
    "leakgrid.store.landing",
)  # fmt: skip
"""All that a follower imports, and a run that lands without one."""

SENDING = ("aiohttp", "leakgrid.providers.azure", "leakgrid.store.live")


@dataclass(frozen=True, slots=True)
class Item:
    """One call's item."""

    id: str
    digest: bytes
    number: int


class OneCall:
    """A benchmark whose cell asks once."""

    version = "bench-1"

    def __init__(self, items: int) -> None:
        self.items = [
            Item(f"item-{number}", hashlib.blake2b(b"%d" % number, digest_size=16).digest(), number)
            for number in range(items)
        ]
        self._system = Message("system", SYSTEM)

    def texts(self, defence: str, condition: str) -> Any:
        return [SYSTEM, defence, condition]

    def attributes(self) -> list[tuple[str, str, str]]:
        return [(item.id, "secret", "health") for item in self.items]

    def facts(self) -> Mapping[str, Any]:
        """None."""
        return {}

    def example(self, call: Call) -> str | None:
        """Any will do."""
        return None

    def cues(self) -> Mapping[str, Mapping[str, str]]:
        return {}

    async def cell(self, ask: Ask, item: Item, point: Point) -> Record:
        number = item.number + point.sample * len(self.items)
        text = f"Message {number}: can you take shift {number % 97}?"
        answer = await ask(
            Call(
                model=point.model,
                messages=(self._system, Message("user", text)),
                sample=point.sample,
            )
        )
        verdict = Verdict(judge="none", attribute="", category="health", leaked=False)
        return Record(
            item=item.id,
            reply=answer.text,
            reply_outcome=answer.outcome,
            verdicts=(verdict,),
            calls=((("assistant", answer.key)),),
        )


PROVIDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("openai", {"api": "chat", "organization": "", "project": ""}),
    "responses": ("openai", {"api": "responses", "organization": "", "project": ""}),
    "azure": ("azure", {"api": "chat", "api_version": ""}),
    "gemini": ("gemini", {}),
}
"""What speaks to the stand-in: the provider of a job and its own options."""


def model(name: str, base_url: str, through: str = "chat", **quota: Any) -> ModelSpec:
    """A model at the stand-in."""
    provider, options = PROVIDERS[through]
    return ModelSpec(
        name=name, provider=provider, model=name, base_url=base_url, key_env="",
        params={"max_tokens": 300}, headers={}, price=None, quota=Quota(**quota),
        timeout_s=600.0, note="", options=options,
    )  # fmt: skip


def job(folder: Path, specs: list[ModelSpec], *, samples: int = 1, at_once: int = 512) -> Job:
    """A job over the stand-in's models."""
    return Job(
        path=folder / "bench.toml", home=folder, name="bench", benchmark="muppet",
        dataset=folder / "items", limit=None, samples=samples,
        models=tuple(spec.name for spec in specs), defences=("none",), conditions=("group",),
        judges=(), specs={spec.name: spec for spec in specs}, prompts=folder, budget_usd=None,
        cells_at_once=at_once, patience=1.0,
    )  # fmt: skip


class Lag(Progress):
    """Shows nothing, and notes how much too late a task of the same loop wakes up."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.late: list[float] = []

    async def show(self) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(NAP_SECONDS)
            self.late.append(time.perf_counter() - began - NAP_SECONDS)

    def quantile(self, share: float) -> float:
        """Seconds that ``share`` of the wake-ups were not later than."""
        return sorted(self.late)[int(share * (len(self.late) - 1))]


def start_cpu_s() -> float:
    """CPU seconds that a follower takes until it has imported what it needs."""
    before = children_cpu_s()
    subprocess.run([sys.executable, "-c", f"import {', '.join(LANDING)}"], check=True)
    return children_cpu_s() - before


def children_cpu_s() -> float:
    """CPU seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def warm_imports() -> None:
    """Import before the clock starts what the command imports lazily: so do the other clients."""
    for name in (*SENDING, *LANDING):
        importlib.import_module(name)


def main() -> None:
    """Run ``calls`` calls and print the measures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("base_url")
    parser.add_argument("calls", type=int)
    parser.add_argument("at_once", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--concurrency", type=int)
    parser.add_argument("--models", type=int, default=1)
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--lag", action="store_true")
    parser.add_argument("--through", choices=PROVIDERS, default="chat")
    parser.add_argument("--no-ingest", action="store_true")
    parser.add_argument("--profile", type=Path)
    given = parser.parse_args()
    cache, database = given.folder / "cache", given.folder / "bench.duckdb"
    quota = {"concurrency": given.concurrency} if given.concurrency else {}
    specs = [
        model(f"m{number}", given.base_url, given.through, **quota)
        for number in range(given.models)
    ]
    # A grid of a million calls has thousands of items, not a million of them.
    samples = max(given.samples, given.calls // given.models // 10_000)
    cells = job(given.folder, specs, samples=samples, at_once=given.at_once)
    progress = Lag() if given.lag else Progress(quiet=True)

    warm_imports()
    start = 0.0 if given.no_ingest else start_cpu_s()
    before = children_cpu_s()
    profiler: Any = None
    if given.profile:
        import cProfile

        profiler = cProfile.Profile()
        profiler.enable()
    with measured(given.calls) as more:
        plan = Plan(cells, OneCall(given.calls // given.models // samples))
        done = DoneCells(cache)
        todo = plan.count_todo(done)
        began = time.perf_counter()
        landing = None if given.no_ingest else Landing(cache, database)
        if todo:
            run = Run(plan, done, todo, cache, landing)
            calm_collector()
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                report = runner.run(run.execute(progress))
            more["run_s"] = time.perf_counter() - began
            more["sent"], more["failed"] = report.counts.sent, report.open
            more["from_cache"] = report.counts.from_cache
        if isinstance(progress, Lag):
            more["lag_p99_ms"] = progress.quantile(0.99) * 1000
            more["lag_max_ms"] = progress.quantile(1.0) * 1000
        more["run_peak_mb"] = peak_mb()
        if landing is not None:
            began = time.perf_counter()
            followed = landing.followed
            landed = landing.finish()
            more["ingest_s"] = time.perf_counter() - began
            more["ingest_rows"] = sum(landed.rows.values())
            more["ingest_peak_mb"] = landed.peak_mb
        # What it costs is everything, also the work of children, but for imports, which nobody's
        # numbers have; what it holds is one process.
        more["children_cpu_s"] = children_cpu_s() - before
        if landing is not None and followed:
            more["children_cpu_s"] -= start
        more["peak_mb"] = max(peak_mb(), more.get("ingest_peak_mb", 0.0))
    if profiler is not None:
        profiler.disable()
        profiler.dump_stats(given.profile)


if __name__ == "__main__":
    main()
