"""Calls a second and CPU a call, against the bare loop and against peers, on one server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.bench.children import NotMeasuredError, client, folder, peers, say, told
from tests.bench.standin import Standin, standin
from tests.bench.table import Row, missing, row

BARE_WORKERS, AT_ONCE, RUNS = 100, 512, 2

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


@dataclass(frozen=True, slots=True)
class Size:
    """Calls of leakgrid and the bare loop, and of each peer."""

    calls: int
    peers: dict[str, int]


USUAL = Size(40_000, {"openai": 5_000, "litellm": 2_000, "inspect": 500})
QUICK = Size(10_000, {"openai": 1_500, "litellm": 600, "inspect": 150})


def measure(size: Size) -> Iterator[Row]:
    """Every row of this part."""
    with standin() as server:
        say(f"throughput: {size.calls:,} calls, the bare loop and leakgrid by turns")
        try:
            bare, own = by_turns(server, size.calls)
        except NotMeasuredError as error:
            for name in ("bare", "cpu", *WAYS):
                yield missing(name, told(error))
            return
        share = 100 * pace(own) / pace(bare)
        words = f"{share:.0f} % ({pace(own):,.0f} of {pace(bare):,.0f} calls/s"
        yield row("bare", share, f"{words}; {own['peak_mb']:.0f} MB)")
        times = cpu_us(own) / cpu_us(bare)
        words = f"{times:.2f} × ({cpu_us(own):.0f} and {cpu_us(bare):.0f} µs)"
        yield row("cpu", times, words)
        for name, ways in WAYS.items():
            say(f"throughput: {name}, {size.peers[name]:,} calls")
            try:
                yield against(name, own, best_of(server, ways, size.peers[name]))
            except NotMeasuredError as error:
                yield missing(name, told(error))


def by_turns(server: Standin, calls: int) -> tuple[Any, Any]:
    """The better of two runs of the bare loop and of leakgrid, in the order A B B A."""
    runs: dict[str, list[Any]] = {"bare": [], "own": []}
    for which in ("bare", "own", "own", "bare"):
        if which == "bare":
            found = client("client_bare", server.base_url, calls, BARE_WORKERS, timeout=120)
        else:
            with folder() as home:
                found = client(
                    "client_leakgrid", server.base_url, calls, AT_ONCE, home, timeout=240
                )
            if found["sent"] != calls:
                raise NotMeasuredError(f"leakgrid sent {found['sent']:,} of {calls:,} calls")
        runs[which].append(found)
    return max(runs["bare"], key=pace), max(runs["own"], key=pace)


def best_of(server: Standin, ways: tuple[tuple[str, ...], ...], calls: int) -> Any:
    """The fastest of a peer's ways; raises NotMeasuredError when none works."""
    python = peers()
    found, failed = [], NotMeasuredError("there is no way to run it")
    for module, workers, *more in ways:
        try:
            found.append(
                client(module, server.base_url, calls, workers, *more, python=python, timeout=90)
            )
        except NotMeasuredError as error:
            say(f"  {error}")
            failed = error
    if not found:
        raise failed
    return max(found, key=pace)


def against(name: str, own: Any, peer: Any) -> Row:
    """A peer's row: the ratio of paces, with its own pace and CPU."""
    times = pace(own) / pace(peer)
    words = f"{times:.1f} × (it: {pace(peer):,.0f} calls/s, {cpu_us(peer):,.0f} µs CPU a call)"
    return row(name, times, words)


def pace(result: Any) -> float:
    """Calls per second of wall time."""
    return float(result["calls"] / result["wall_s"])


def cpu_us(result: Any) -> float:
    """Microseconds of CPU per call."""
    return float(result["cpu_s"] / result["calls"] * 1e6)
