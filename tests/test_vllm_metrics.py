"""A lane steered by vLLM's metrics: as many calls as the server runs, no more and no fewer."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from leakgrid.lanes.lane import Lane
from leakgrid.lanes.values import Parcel, Quota
from leakgrid.providers import vllm_metrics
from leakgrid.providers.vllm_metrics import Load, fetch_load, next_limit, read_load, steer, together
from leakgrid.providers.wire import Exchange
from tests.fakes import GOOD, Scripted, reply
from tests.virtual_time import run

TEXT = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 7.0
vllm:num_requests_running{engine="1",model_name="m"} 5.0
vllm:num_requests_waiting{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 3.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 6000.0
vllm:prefix_cache_queries_created{engine="0",model_name="m"} 1.79e+09
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 4.5e+03
vllm:num_preemptions_total{engine="0",model_name="m"} 2.0
vllm:external_prefix_cache_hits_total{engine="0",model_name="m"} 99.0
process_cpu_seconds_total 12.5
"""


def test_all_engines_are_read_together() -> None:
    load = read_load(TEXT)
    assert load == Load(
        running=12, waiting=3, cache=0.75, preemptions=2, prefix_queries=6000, prefix_hits=4500
    )
    assert load.hit_rate == 0.75
    later = Load(prefix_queries=8000, prefix_hits=4500)
    assert later.since(load) == 0.0 and load.since(load) is None
    assert Load().hit_rate is None


def test_older_names_are_read_and_other_texts_are_not() -> None:
    older = TEXT.replace("kv_cache", "gpu_cache").replace("prefix_cache", "gpu_prefix_cache")
    assert read_load(older) == read_load(TEXT)
    assert read_load("process_cpu_seconds_total 12.5\n") is None
    assert read_load("<html>not found</html>") is None


def test_replicas_count_as_one_server() -> None:
    one, two = Load(running=3, cache=0.2, prefix_queries=10), Load(running=4, cache=0.9, waiting=1)
    assert together([one, two]) == Load(running=7, waiting=1, cache=0.9, prefix_queries=10)


IDLE = Load(running=10)
QUEUED = Load(running=10, waiting=30)


@pytest.mark.parametrize(
    ("limit", "wanting", "now", "before", "limit_next"),
    [
        (40, True, IDLE, IDLE, 50.0),
        (2, True, IDLE, IDLE, 3.0),
        (40, False, IDLE, IDLE, 40),
        (40, True, Load(running=10, cache=0.95), IDLE, 40),
        (40, True, QUEUED, IDLE, 40),  # a burst that may be gone by the next look
        (40, True, QUEUED, QUEUED, 32.0),
        (13, True, QUEUED, QUEUED, 12.0),  # never below what runs
        (2, True, QUEUED, QUEUED, 2),  # a queue that is not ours
        (40, True, Load(running=10, waiting=2), QUEUED, 40),
        (40, True, Load(preemptions=5), Load(preemptions=4), 32.0),
        (1, True, Load(preemptions=5), Load(preemptions=4), 1.0),
    ],
)
def test_each_look_at_the_server_has_one_consequence(
    limit: int, wanting: bool, now: Load, before: Load, limit_next: float
) -> None:
    assert next_limit(limit, wanting, now, before) == limit_next


class Engine(Scripted):
    """A server that runs ``room`` calls of ``seconds`` each at once; the rest wait in it."""

    def __init__(self, room: int, seconds: float) -> None:
        super().__init__(lambda number, now: reply())
        self.room = asyncio.Semaphore(room)
        self.most = room
        self.seconds = seconds
        self.inside = self.running = self.answered = 0
        self.most_inside = 0

    async def exchange(self, body: bytes) -> Exchange:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        async with self.room:
            self.running += 1
            await asyncio.sleep(self.seconds)
            self.running -= 1
        self.inside -= 1
        self.answered += 1
        return Exchange(200, {}, GOOD, self.seconds)

    def load(self) -> Load:
        return Load(running=self.running, waiting=self.inside - self.running)


def steered(
    monkeypatch: pytest.MonkeyPatch, engine_of: Any, seconds: float, quota: Quota | None = None
) -> tuple[Engine, list[int]]:
    """Keep a lane busy for ``seconds`` of virtual time; gives the engine and the limits seen."""

    async def main() -> tuple[Engine, list[int]]:
        engine: Engine = engine_of()

        async def fetched(session: Any, url: str) -> Load:
            return engine.load()

        monkeypatch.setattr(vllm_metrics, "fetch_load", fetched)
        lane = Lane("lane", quota=quota or Quota())
        limits: list[int] = []

        async def call() -> None:
            while True:
                await lane.send(Parcel(engine, b"{}"))

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(lane.dispatch())]
            session: Any = None
            tasks.append(
                group.create_task(
                    steer(
                        lane,
                        session,
                        "u",
                        seen=lambda load: limits.append(lane.statistics().limit),
                    )
                )
            )
            tasks += [group.create_task(call()) for _ in range(800)]
            await asyncio.sleep(seconds)
            for task in tasks:
                task.cancel()
        return engine, limits

    return run(main())


@pytest.mark.may_block
@pytest.mark.parametrize("room", [4, 60, 300])
def test_a_lane_finds_what_its_server_runs(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    engine, limits = steered(monkeypatch, lambda: Engine(room, 2.0), 120)
    settled = limits[-60:]
    assert all(0.7 * room <= limit <= 1.4 * room + 3 for limit in settled), settled
    # After the first 20 s the server was all but never short of work.
    assert engine.answered >= 0.9 * room * (120 - 20) / 2.0


@pytest.mark.may_block
def test_a_fixed_concurrency_is_not_steered(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, limits = steered(monkeypatch, lambda: Engine(50, 2.0), 30, Quota(concurrency=7))
    assert set(limits) == {7} and engine.most_inside == 7


def test_metrics_are_fetched_from_beside_the_api() -> None:
    async def main() -> list[Load | None]:
        async def metrics(request: web.Request) -> web.Response:
            return web.Response(text=TEXT)

        app = web.Application()
        app.router.add_get("/metrics", metrics)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            async with aiohttp.ClientSession() as session:
                found = [await fetch_load(session, f"{url}/v1/")]
                found.append(await fetch_load(session, f"{url}/other/v1"))
                found.append(await fetch_load(session, "http://127.0.0.1:1/v1"))
                return found
        finally:
            await runner.cleanup()

    assert asyncio.run(main()) == [read_load(TEXT), None, None]


def test_a_server_that_does_not_tell_leaves_the_limit_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Silent(Engine):
        def load(self) -> Any:
            return None

    async def fetched(session: Any, url: str) -> None:
        return None

    async def main() -> int:
        monkeypatch.setattr(vllm_metrics, "fetch_load", fetched)
        lane = Lane("lane", quota=Quota())
        session: Any = None
        async with asyncio.TaskGroup() as group:
            steering = group.create_task(steer(lane, session, "u"))
            await asyncio.sleep(30)
            steering.cancel()
        return lane.statistics().limit

    assert run(main()) == 32
