"""Calls a second and CPU a call, against the bare loop and against peers, on one server."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.bench.children import NotMeasuredError, client, folder, peers, say, told
from tests.bench.standin import Standin, standin
from tests.bench.table import Row, missing, row

BARE_WORKERS, AT_ONCE, SCREENED = 100, 512, 0.4

WAYS: dict[str, tuple[tuple[str, ...], ...]] = {
    "openai": (
        ("client_openai", "20", "--transport", "aiohttp"),
        ("client_openai", "100", "--transport", "aiohttp"),
        ("client_openai", "20", "--transport", "httpx"),
    ),
    "litellm": (
        ("client_litellm", "100", "--provider", "openai"),
        ("client_litellm", "20", "--provider", "aiohttp_openai"),
        ("client_litellm", "100", "--provider", "aiohttp_openai"),
    ),
    "inspect": (
        ("client_inspect", "100"),
        ("client_inspect", "100", "--uvloop"),
        ("client_inspect", "100", "--no-log-samples"),
    ),
}
"""The ways in which each peer is run; the fastest counts."""


CLIENTS = ("responses", "azure", "gemini")


@dataclass(frozen=True, slots=True)
class Size:
    """Calls of leakgrid and the bare loop, of leakgrid beside a peer, of each peer; pairs of runs.

    ``through``: calls through each of leakgrid's other clients.
    """

    calls: int
    beside: int
    peers: dict[str, int]
    pairs: int
    through: int = 10_000


USUAL = Size(50_000, 50_000, {"openai": 3_000, "litellm": 1_500, "inspect": 400}, 5)
QUICK = Size(10_000, 10_000, {"openai": 1_000, "litellm": 500, "inspect": 100}, 1)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two clients that ran one right after the other, so that they met the same machine."""

    other: Any
    own: Any

    @property
    def pace(self) -> float:
        """How many times as many calls a second as the other."""
        return pace(self.own) / pace(self.other)

    @property
    def cpu(self) -> float:
        """How many times the CPU per call of the other."""
        return cpu_us(self.own) / cpu_us(self.other)


def measure(size: Size) -> Iterator[Row]:
    """Every row of this part."""
    with standin() as server:
        say(f"throughput: {size.calls:,} calls, {size.pairs} pairs of the bare loop and leakgrid")

        def bare() -> Any:
            return client("client_bare", server.base_url, size.calls, BARE_WORKERS, timeout=120)

        try:
            found = pairs(bare, lambda: leakgrid(server, size.calls), size.pairs)
            share = 100 * statistics.median(pair.pace for pair in found)
            best = max(pace(pair.own) for pair in found)
            peak = max(pair.own["peak_mb"] for pair in found)
            words = f"{share:.0f} % ({spread([100 * pair.pace for pair in found])}; "
            yield row("bare", share, f"{words}best {best:,.0f} calls/s; {peak:.0f} MB)")
            times = statistics.median(pair.cpu for pair in found)
            least = min(cpu_us(pair.own) for pair in found)
            words = (
                f"{times:.2f} × ({spread([pair.cpu for pair in found], 2)}; least {least:.0f} µs)"
            )
            yield row("cpu", times, words)
        except Exception as error:  # one broken measure is no reason to lose the others
            for name in ("bare", "cpu"):
                yield missing(name, told(error))
        say(f"throughput: {', '.join(CLIENTS)}, {size.through:,} calls each, beside chat")
        try:
            yield through(server, size)
        except Exception as error:
            yield missing("providers", told(error))
        for name, ways in WAYS.items():
            say(f"throughput: {name}, {size.peers[name]:,} calls")
            try:
                yield against(name, server, size, ways)
            except Exception as error:
                yield missing(name, told(error))


def against(name: str, server: Standin, size: Size, ways: tuple[tuple[str, ...], ...]) -> Row:
    """A peer's row: its fastest way in pairs with leakgrid."""
    calls = size.peers[name]
    way = fastest(server, ways, int(calls * SCREENED))
    found = pairs(
        lambda: peer(server, way, calls), lambda: leakgrid(server, size.beside), size.pairs
    )
    times = statistics.median(pair.pace for pair in found)
    best = max((pair.other for pair in found), key=pace)
    words = f"{times:.1f} × ({spread([pair.pace for pair in found], 1)}; "
    words += f"it: {pace(best):,.0f} calls/s, {cpu_us(best):,.0f} µs CPU a call)"
    return row(name, times, words)


def through(server: Standin, size: Size) -> Row:
    """The row of the clients that speak other wire formats; the slowest counts."""
    shares = {}
    for client_name in CLIENTS:
        found = pairs(
            lambda: leakgrid(server, size.through),
            partial(leakgrid, server, size.through, "--through", client_name),
            size.pairs,
        )
        shares[client_name] = 100 * statistics.median(pair.pace for pair in found)
    words = ", ".join(f"{name} {share:.0f} %" for name, share in shares.items())
    return row("providers", min(shares.values()), words)


def pairs(other: Callable[[], Any], own: Callable[[], Any], count: int) -> list[Pair]:
    """Pairs of runs; every second one the other way round."""
    found = []
    for number in range(count):
        if number % 2:
            mine = own()
            found.append(Pair(other(), mine))
        else:
            theirs = other()
            found.append(Pair(theirs, own()))
    return found


def leakgrid(server: Standin, calls: int, *more: str) -> Any:
    """One run with everything on in a new folder."""
    with folder() as home:
        found = client("client_leakgrid", server.base_url, calls, AT_ONCE, home, *more, timeout=240)
    if found["sent"] != calls:
        raise NotMeasuredError(f"leakgrid sent {found['sent']:,} of {calls:,} calls")
    return found


def peer(server: Standin, way: tuple[str, ...], calls: int) -> Any:
    """One run of a peer in one of its ways."""
    module, workers, *more = way
    return client(module, server.base_url, calls, workers, *more, python=peers(), timeout=90)


def fastest(server: Standin, ways: tuple[tuple[str, ...], ...], calls: int) -> tuple[str, ...]:
    """The fastest of a peer's ways; raises NotMeasuredError when none works."""
    found, failed = {}, NotMeasuredError("there is no way to run it")
    for way in ways:
        try:
            found[way] = pace(peer(server, way, calls))
        except NotMeasuredError as error:
            say(f"  {error}")
            failed = error
    if not found:
        raise failed
    return max(found, key=lambda way: found[way])


def spread(numbers: list[float], digits: int = 0) -> str:
    """From the least to the most, in words."""
    return f"{min(numbers):.{digits}f} to {max(numbers):.{digits}f}"


def pace(result: Any) -> float:
    """Calls per second of wall time."""
    return float(result["calls"] / result["wall_s"])


def cpu_us(result: Any) -> float:
    """Microseconds of CPU per call."""
    return float(result["cpu_s"] / result["calls"] * 1e6)
