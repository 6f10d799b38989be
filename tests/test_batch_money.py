"""What batches cost is reserved, charged once and given back, however they end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from leakgrid.batches.drive import Batches
from leakgrid.batches.lane import BatchLane
from leakgrid.cache.answers import AnswerCache
from leakgrid.jobs.asking import Asker, Route
from leakgrid.jobs.budget import Budget
from leakgrid.lanes.lane import Lane
from leakgrid.lanes.values import Quota
from leakgrid.outcomes import LaneStopped, Outcome, Parked
from leakgrid.providers.openai import ChatCompletions
from leakgrid.types import Call, Message
from tests.batch_service import Running, running
from tests.batch_world import BATCH, ONLINE, QUICK, World, service_of

pytest.importorskip("openai", reason="the extra 'openai' is not installed")


@pytest.fixture
def service() -> Iterator[Running]:
    with running() as one:
        yield one


def leave_one_out(folder: Path, service: Running) -> None:
    """A run that is left while its batch is out."""
    service.control(plans=[{"end": "never"}])

    async def main() -> None:
        task = asyncio.create_task(World(folder, service.port).run([["a"], ["b"]]))
        while not service.state()["batches"]:  # noqa: ASYNC110  the service is another process
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_batches_that_come_in_together_are_each_charged_once(
    tmp_path: Path, service: Running
) -> None:
    small = service_of("openai", service.port)
    small.most_requests = 3
    budget = Budget(100.0)
    world = World(tmp_path, service.port, service=small, spending=budget)
    assert len(asyncio.run(world.run([[f"t{number}"] for number in range(12)]))) == 12
    assert len(service.state()["batches"]) == 4
    assert budget.spent_usd == pytest.approx(world.lane.statistics().usd)
    assert not budget.pending


def test_a_batch_of_an_earlier_run_is_charged_whatever_the_budget_says_now(
    tmp_path: Path, service: Running
) -> None:
    leave_one_out(tmp_path, service)
    service.control(polls=2)
    budget = Budget(1.0, spent_usd=0.9999)
    world = World(tmp_path, service.port, spending=budget)
    assert len(asyncio.run(world.run([["a"], ["b"]]))) == 2
    cost = world.lane.statistics().usd
    assert cost > 0
    assert budget.spent_usd == pytest.approx(0.9999 + cost)


def test_a_lane_that_stops_with_a_batch_out_keeps_nobody_waiting_for_its_money(
    tmp_path: Path, service: Running
) -> None:
    service.control(
        plans=[{"end": "never"}],
        faults=[{"step": "status", "times": 99, "status": 401, "code": "invalid_api_key"}],
    )

    async def main() -> LaneStopped:
        async with AnswerCache(tmp_path) as cache, aiohttp.ClientSession() as session:

            def provider(name: str) -> ChatCompletions:
                return ChatCompletions(
                    name=name, kind="openai", model=name, session=session, identity="",
                    base_url=f"http://127.0.0.1:{service.port}/v1",
                    params={"max_tokens": 100}, key="k",
                )  # fmt: skip

            def long(model: str) -> Call:
                return Call(model=model, messages=(Message("user", "q" * 900),))

            budget = Budget(0.001)
            batch = BatchLane(
                "b", folder=tmp_path / "batches" / "b", job="j", provider=provider("b"),
                service=service_of("openai", service.port), price=BATCH, spending=budget,
                pace=QUICK,
            )  # fmt: skip
            online = Lane("o", quota=Quota(), price=ONLINE, spending=budget)
            routes = {"b": Route(provider("b"), batch), "o": Route(provider("o"), online)}
            asker = Asker(routes, cache, job="j", run="r")
            batches = Batches([batch])
            async with asyncio.TaskGroup() as group:
                serving = [group.create_task(lane.dispatch()) for lane in (online, batch)]
                await batches.begin(group, cache, "r")
                with pytest.raises(Parked):
                    await asker.ask(long("b"))
                await batches.submit()
                await batches.wait(1)
                with pytest.raises(LaneStopped) as told:
                    async with asyncio.timeout(20):
                        await asker.ask(long("o"))
                await batches.rest(finished=False)
                for task in serving:
                    task.cancel()
            return told.value

    assert asyncio.run(main()).outcome is Outcome.EXHAUSTED
