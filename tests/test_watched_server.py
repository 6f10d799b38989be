"""Calls at a server that died wait for its death to be told, and use up no attempts meanwhile."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from leakgrid.jobs import watched
from leakgrid.jobs.watched import Watched
from leakgrid.lanes.lane import Lane
from leakgrid.lanes.values import Parcel, Quota
from leakgrid.outcomes import LaneStopped, Outcome, ServerDown
from leakgrid.providers.wire import Exchange, Reading

LOST = Exchange(0, {}, b"", 0.0, "no connection", sent=False)
GOOD = Exchange(200, {}, b"{}", 0.0)


class Scripted:
    """A provider that gives these exchanges, the last one for ever."""

    name = kind = model = family = identity = "scripted"
    simulated = False

    def __init__(self, *exchanges: Exchange) -> None:
        self.left = list(exchanges)
        self.asked = 0

    def body(self, call: object) -> dict[str, object]:
        return {}

    async def exchange(self, body: bytes) -> Exchange:
        self.asked += 1
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]

    def read(self, exchange: Exchange) -> Reading:
        outcome = Outcome.ANSWER if exchange.status == 200 else Outcome.TRANSIENT
        return Reading(outcome=outcome, error=exchange.fault)


def test_a_dead_server_costs_each_call_one_attempt() -> None:
    scripted = Scripted(LOST)

    async def main() -> str:
        lane = Lane("m", quota=Quota(), patience=0.0)
        gone = asyncio.Event()
        provider = Watched(scripted, gone)
        calls = [asyncio.create_task(lane.send(Parcel(provider, b"{}"))) for _ in range(3)]
        await asyncio.sleep(0.05)
        assert not any(call.done() for call in calls)
        lane.stop(ServerDown("m", Outcome.TRANSIENT, "it died"))
        gone.set()
        told = []
        for call in calls:
            with contextlib.suppress(LaneStopped):
                await call
            told.append(str(call.exception()))
        assert len(set(told)) == 1
        return told[0]

    assert asyncio.run(main()) == "it died"
    assert scripted.asked == 3


def test_a_server_that_lives_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "VERDICT_S", 0.01)
    scripted = Scripted(LOST, GOOD)

    async def main() -> Outcome:
        lane = Lane("m", quota=Quota(), patience=0.0)
        parcel = Parcel(Watched(scripted, asyncio.Event()), b"{}")
        return (await lane.send(parcel)).reading.outcome

    assert asyncio.run(main()) is Outcome.ANSWER
    assert scripted.asked == 2
