"""Several servers of one model: one prompt's calls stay together, and no server is missed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest

from leakgrid.outcomes import InputError, Outcome
from leakgrid.providers.replicas import ALWAYS, PREFIX_BYTES, Replicas, prefix_of
from leakgrid.providers.wire import Exchange
from tests.fakes import Behaviour, Scripted, reply
from tests.virtual_time import run

UNREACHED = Exchange(0, {}, b"", 0.0, "no connection", sent=False)
LOST = Exchange(0, {}, b"", 0.0, "reset")


def fine(number: int, now: float) -> Exchange:
    return reply(seconds=0.1)


def body(prompt: str, last: str = "ask") -> bytes:
    messages = [{"role": "system", "content": prompt}, {"role": "user", "content": last}]
    return orjson.dumps({"messages": messages, "model": "m"})


def replicas(*behaviours: Behaviour) -> tuple[Replicas, list[Scripted]]:
    servers = [Scripted(behaviour) for behaviour in behaviours]
    named = [(f"http://gpu-{n}:8000/v1", one) for n, one in enumerate(servers)]
    return Replicas(named), servers


def went_to(servers: list[Scripted]) -> list[int]:
    return [len(one.times) for one in servers]


def in_time(steps: Callable[[], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await steps()

    return run(main())


def test_calls_with_one_prefix_go_to_one_server() -> None:
    async def steps() -> None:
        for prompt in range(40):
            one, servers = replicas(fine, fine, fine)
            for number in range(5):
                await one.exchange(body(f"group {prompt}", f"probe {number}"))
            assert sorted(went_to(servers)) == [0, 0, 5]

    in_time(steps)


def test_prefixes_are_spread_evenly() -> None:
    async def steps() -> list[int]:
        one, servers = replicas(fine, fine, fine, fine)
        for prompt in range(400):
            await one.exchange(body(f"group {prompt}"))
        return went_to(servers)

    assert all(70 <= count <= 130 for count in in_time(steps))


def test_a_server_that_joins_takes_prefixes_and_moves_no_other() -> None:
    async def home(names: int) -> dict[int, int]:
        found = {}
        for prompt in range(200):
            one, servers = replicas(*[fine] * names)
            await one.exchange(body(f"group {prompt}"))
            found[prompt] = went_to(servers).index(1)
        return found

    async def steps() -> None:
        three, four = await home(3), await home(4)
        moved = Counter(four[prompt] for prompt in three if three[prompt] != four[prompt])
        assert set(moved) == {3} and 25 <= moved[3] <= 80

    in_time(steps)


def test_one_prefix_for_all_still_uses_every_server() -> None:
    async def steps() -> None:
        one, servers = replicas(fine, fine, fine)
        await asyncio.gather(*(one.exchange(body("the same", str(n))) for n in range(90)))
        assert all(10 <= server.most_in_flight <= 40 for server in servers), went_to(servers)
        few, servers = replicas(fine, fine, fine)
        await asyncio.gather(*(few.exchange(body("the same", str(n))) for n in range(ALWAYS)))
        assert sorted(went_to(servers)) == [0, 0, ALWAYS], "a handful stays together"

    in_time(steps)


@pytest.mark.may_block
def test_a_server_that_cannot_be_reached_is_passed_over_and_found_again() -> None:
    async def steps() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()

        def down_for_a_minute(number: int, now: float) -> Exchange:
            return UNREACHED if now < began + 60 else reply(seconds=0.1)

        one, servers = replicas(down_for_a_minute, fine)
        prompts = [f"group {number}" for number in range(20)]
        while loop.time() < began + 60:
            for prompt in prompts:
                exchange = await one.exchange(body(prompt))
                assert exchange.status == 200, "no call is lost"
        asked_while_down = sum(moment < began + 60 for moment in servers[0].times)
        assert 3 <= asked_while_down <= 8, "now and then, and ever more seldom"
        await asyncio.sleep(40)
        before = went_to(servers)
        for prompt in prompts:
            await one.exchange(body(prompt))
        after = went_to(servers)
        assert after[0] - before[0] >= 4, "its own prefixes are back"

    in_time(steps)


def test_a_call_that_may_have_arrived_is_not_sent_twice_at_once() -> None:
    async def steps() -> None:
        one, servers = replicas(lambda number, now: LOST, lambda number, now: LOST)
        exchange = await one.exchange(body("x"))
        assert exchange is LOST and sum(went_to(servers)) == 1
        assert one.read(exchange).outcome is Outcome.TRANSIENT
        await one.exchange(body("x"))
        assert went_to(servers) == [1, 1], "the next attempt goes elsewhere"

    in_time(steps)


def test_all_down_is_told_and_tried_again() -> None:
    async def steps() -> None:
        one, servers = replicas(*[lambda number, now: UNREACHED] * 3)
        assert await one.exchange(body("x")) is UNREACHED
        assert went_to(servers) == [1, 1, 1]
        assert await one.exchange(body("x")) is UNREACHED
        assert went_to(servers) == [2, 2, 2], "a run must not hang on servers at rest"

    in_time(steps)


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_gateway_without_its_server_rests_too(status: int) -> None:
    async def steps() -> None:
        one, servers = replicas(lambda number, now: reply(status, b"{}", seconds=0.1), fine)
        for number in range(40):
            await one.exchange(body(f"group {number}"))
        assert went_to(servers)[0] <= 4 and went_to(servers)[1] >= 36

    in_time(steps)


def test_an_ordinary_error_is_no_reason_to_leave() -> None:
    async def steps() -> None:
        one, servers = replicas(*[lambda number, now: reply(400, b"{}", seconds=0.1)] * 2)
        for number in range(6):
            await one.exchange(body("x", str(number)))
        assert sorted(went_to(servers)) == [0, 6]

    in_time(steps)


def test_only_servers_that_are_alike_are_one_model() -> None:
    first, second = Scripted(fine), Scripted(fine)
    second.identity = "another"
    with pytest.raises(InputError, match=r"identity.*two models"):
        Replicas([("http://a/v1", first), ("http://b/v1", second)])
    with pytest.raises(InputError, match="at least one"):
        Replicas([])
    one = Replicas([("http://a/v1", first)])
    assert (one.name, one.kind, one.identity) == (first.name, first.kind, first.identity)


def test_the_prefix_is_what_comes_before_the_last_message() -> None:
    assert prefix_of(body("p", "one")) == prefix_of(body("p", "two")) != prefix_of(body("q", "one"))
    alone = [orjson.dumps({"messages": [{"role": "user", "content": one}]}) for one in ("a", "b")]
    assert prefix_of(alone[0]) != prefix_of(alone[1])
    long = "shared " * 1000
    assert prefix_of(body(long + "x")) == prefix_of(body(long + "y"))
    assert len(prefix_of(body(long))) == PREFIX_BYTES
    assert prefix_of(b'{"input":"x"}') == b'{"input":"x"}'
    assert prefix_of(b"no json") == b"no json"
