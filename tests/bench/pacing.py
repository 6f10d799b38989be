"""``python -m tests.bench.pacing``: asyncio-throttle against the lane's own bucket.

Both pace the same lane at 30,000 requests a minute (10 s of them may go at once) for 15,000
calls of 0.4 s. The throttle has exactly one waiter.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp
import orjson
import uvloop
from asyncio_throttle.throttler import Throttler

from leakgrid.lanes.lane import Lane
from leakgrid.lanes.values import Parcel, Quota
from leakgrid.providers.openai import ChatCompletions
from tests.bench.standin import Standin, standin

RPM, BURST_S, CALLS, LATENCY_S = 30_000, 10.0, 15_000, 0.4


async def seconds(server: Standin, throttle: Any) -> float:
    """How long all calls take, paced by ``throttle`` or by the lane itself."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        provider = ChatCompletions(
            name="m", kind="openai", model="m", base_url=server.base_url, session=session,
            identity="i", params={},
        )  # fmt: skip
        lane = Lane("m", quota=Quota() if throttle else Quota(rpm=RPM, burst_s=BURST_S))
        async with asyncio.TaskGroup() as group:
            dispatcher = group.create_task(lane.dispatch())
            began = time.perf_counter()
            sending = []
            for number in range(CALLS):
                if throttle is not None:
                    await throttle.acquire()
                body = orjson.dumps({"model": "m", "messages": [{"content": str(number)}]})
                sending.append(group.create_task(lane.send(Parcel(provider, body, "", 20))))
            await asyncio.gather(*sending)
            took = time.perf_counter() - began
            dispatcher.cancel()
    return took


def main() -> None:
    """Measure both and print their shares of the ideal time."""
    ideal = (CALLS - RPM * BURST_S / 60) / (RPM / 60) + LATENCY_S
    throttle = Throttler(rate_limit=int(RPM * BURST_S / 60), period=BURST_S)
    for name, pacer in (("asyncio-throttle", throttle), ("the lane's own bucket", None)):
        with standin(latency_ms=LATENCY_S * 1000, rpm=RPM, burst_s=BURST_S) as server:
            took = uvloop.run(seconds(server, pacer))
            rejected = server.stats()["rejected"]
        print(
            f"{name}: {ideal / took:.0%} of the ideal ({took:.1f} s for {ideal:.1f} s), "
            f"{rejected} calls rejected"
        )


if __name__ == "__main__":
    main()
