"""The quota scenarios of the peers' study (5.3), in virtual time: 20,000 calls, the same each time.

A server with 5,000 requests and 2 million tokens a minute and a 10 s burst; a call takes 0.4 s
and 12 ms a token. The ideal time is what the scarcer quota allows, with the burst for free.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import orjson
import pytest

from leakgrid.lanes.lane import Lane
from leakgrid.lanes.values import Parcel, Quota
from leakgrid.providers.wire import Exchange
from tests.fakes import Scripted, error
from tests.virtual_time import run

RPM, TPM, BURST_S = 5000.0, 2_000_000.0, 10.0
CALLS = 20_000

pytestmark = pytest.mark.may_block  # 20,000 calls are made at one moment, by the test


class QuotaServer(Scripted):
    """Token buckets as OpenAI describes them, with its headers; charges the real tokens."""

    def __init__(self, *, charge_rejected: bool = False, gate_until: float = 0.0) -> None:
        super().__init__(lambda number, now: error(500))
        self.requests = RPM * BURST_S / 60
        self.tokens = TPM * BURST_S / 60
        self.at = 1000.0
        self.charge_rejected = charge_rejected
        self.gate_until = gate_until
        self.served = self.rejected = self.charged = 0
        self.last = 0.0

    def _refill(self, now: float) -> None:
        span, self.at = now - self.at, now
        self.requests = min(RPM * BURST_S / 60, self.requests + span * RPM / 60)
        self.tokens = min(TPM * BURST_S / 60, self.tokens + span * TPM / 60)

    async def exchange(self, body: bytes) -> Exchange:
        now = asyncio.get_running_loop().time()
        self._refill(now)
        if now < self.gate_until:
            self.rejected += 1
            await asyncio.sleep(0.05)
            return error(429, headers={"retry-after": str(self.gate_until - now)}, seconds=0.05)
        output = int(body[:6])
        cost = len(body) // 4 + output
        if self.requests < 1 or self.tokens < cost:
            self.rejected += 1
            if self.charge_rejected:
                self.requests = max(0.0, self.requests - 1)
            wait = max((1 - self.requests) / RPM, (cost - self.tokens) / TPM) * 60
            await asyncio.sleep(0.05)
            return error(429, headers={"retry-after-ms": str(int(wait * 1000) + 1)}, seconds=0.05)
        self.requests -= 1
        self.tokens -= cost
        self.served += 1
        self.last = now
        self.charged += cost
        headers = {
            "x-ratelimit-limit-requests": str(int(RPM)),
            "x-ratelimit-remaining-requests": str(int(self.requests)),
            "x-ratelimit-limit-tokens": str(int(TPM)),
            "x-ratelimit-remaining-tokens": str(int(self.tokens)),
        }
        seconds = 0.4 + 0.012 * output
        await asyncio.sleep(seconds)
        usage = {"prompt_tokens": len(body) // 4, "completion_tokens": output}
        choice = {"message": {"content": "x"}, "finish_reason": "stop"}
        answer = orjson.dumps({"choices": [choice], "usage": usage})
        return Exchange(200, headers, answer, seconds)


def bodies(tokens: int) -> list[bytes]:
    """Bodies of about ``tokens`` tokens a call; the first six digits say how long the answer is."""
    rng = random.Random(5)
    made = []
    for _ in range(CALLS):
        output = max(20, int(rng.lognormvariate(5.3, 0.5)))
        size = max(100, int(rng.gauss(tokens, tokens / 8))) * 4
        made.append(b"%06d" % output + b"x" * (size - 6))
    return made


async def drain(lane: Lane, server: Scripted, work: list[bytes]) -> float:
    """Send everything; the virtual seconds it took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.TaskGroup() as group:
        dispatcher = group.create_task(lane.dispatch())
        sending = (lane.send(Parcel(server, body, "assistant", 1000)) for body in work)
        await asyncio.gather(*sending)
        dispatcher.cancel()
    return loop.time() - began


def share_of_ideal(server: QuotaServer, quota: Quota, work: list[bytes]) -> float:
    """The ideal time over the time until the last call was let in (its answer takes its own)."""

    async def main() -> None:
        await drain(Lane("lane", quota=quota), server, work)

    run(main())
    by_tokens = (server.charged - TPM * BURST_S / 60) / (TPM / 60)
    by_requests = (CALLS - RPM * BURST_S / 60) / (RPM / 60)
    return max(by_tokens, by_requests) / (server.last - 1000.0)


@pytest.mark.parametrize("tokens", [550, 150], ids=["tokens bind", "requests bind"])
@pytest.mark.parametrize(
    "quota", [Quota(), Quota(rpm=RPM, tpm=TPM)], ids=["told nothing", "told the quota"]
)
def test_a_quota_is_used_and_hardly_ever_run_into(quota: Quota, tokens: int) -> None:
    server = QuotaServer()
    share = share_of_ideal(server, quota, bodies(tokens))
    assert server.served == CALLS
    assert share >= 0.97, share
    assert server.rejected < 0.01 * CALLS, server.rejected


@pytest.mark.parametrize(
    "quota", [Quota(), Quota(rpm=RPM, tpm=TPM)], ids=["told nothing", "told the quota"]
)
def test_a_server_that_charges_rejected_calls_costs_no_more(quota: Quota) -> None:
    server = QuotaServer(charge_rejected=True)
    share = share_of_ideal(server, quota, bodies(150))
    assert share >= 0.95, share
    assert server.rejected < 0.01 * CALLS, server.rejected


def test_a_lane_that_is_gated_for_a_minute_costs_another_nothing() -> None:
    work = bodies(550)[:6000]

    async def alone() -> float:
        return await drain(Lane("free", quota=Quota()), QuotaServer(), work)

    async def together() -> tuple[float, float]:
        gated = QuotaServer(gate_until=1060.0)
        async with asyncio.TaskGroup() as group:
            free = group.create_task(drain(Lane("free", quota=Quota()), QuotaServer(), work))
            slow = group.create_task(drain(Lane("gated", quota=Quota()), gated, work))
        return free.result(), slow.result()

    base: Any = run(alone())
    free, slow = run(together())
    assert free <= base * 1.02
    # And the gated one does its work when it may.
    assert slow <= 60 + base * 1.05 + 5


def test_the_order_of_arrival_is_kept_for_large_calls_too() -> None:
    """Small calls do not starve a large one that waits for tokens."""
    large = b"000020" + b"x" * 4 * 200_000
    small = [b"000020" + b"x" * 400] * 2000
    finished: list[int] = []

    async def main() -> None:
        server = QuotaServer()
        lane = Lane("lane", quota=Quota(rpm=RPM, tpm=TPM))

        async def one(number: int, body: bytes) -> None:
            await lane.send(Parcel(server, body, "assistant", 20))
            finished.append(number)

        async with asyncio.TaskGroup() as group:
            dispatcher = group.create_task(lane.dispatch())
            work = [*small[:200], large, *small[200:]]
            await asyncio.gather(*(one(number, body) for number, body in enumerate(work)))
            dispatcher.cancel()

    run(main())
    assert finished.index(200) < 700
