"""Quotas, live: how much of the ideal time a lane uses that nobody has tuned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.bench.children import NotMeasuredError, client, folder, peers, say, told
from tests.bench.standin import Standin, standin
from tests.bench.table import Row, missing, row

RPM, TPM, BURST_S, PAUSE_S = 5_000, 2_000_000, 10.0, 15.0
OUTPUT_TOKENS = 230


@dataclass(frozen=True, slots=True)
class Size:
    """How much of the scenario is run: the quota's rate times ``faster``, its burst shorter."""

    calls: int
    faster: float
    latency_ms: float
    ms_per_token: float
    gated_calls: int
    gate_s: float
    pool_s: float

    def settings(self, share: float = 1.0) -> dict[str, Any]:
        """The stand-in's settings; ``share`` of the rate for each of several lanes."""
        return {
            "rpm": RPM * self.faster * share,
            "tpm": TPM * self.faster * share,
            "burst_s": BURST_S / self.faster,
            "latency_ms": self.latency_ms,
            "ms_per_token": self.ms_per_token,
            "output_tokens": OUTPUT_TOKENS,
            "charge_rejected": False,
            "gate_model": "",
            "gate_s": 0,
        }


FULL = Size(20_000, 1.0, 400, 12.0, 5_000, 60.0, 90.0)
USUAL = Size(20_000, 11.0, 400, 2.0, 5_000, 15.0, 20.0)
QUICK = Size(5_000, 11.0, 400, 2.0, 1_500, 4.0, 5.0)


def ideal_s(stats: dict[str, Any], calls: int) -> float:
    """The least time in which the server can have answered: the burst, the rate, one latency."""
    given = stats["settings"]
    per_call = stats["tokens"] / stats["answered"]
    burst_s = given["burst_s"]
    requests = calls / (given["rpm"] / 60) - burst_s
    tokens = calls * per_call / (given["tpm"] / 60) - burst_s
    latency = (given["latency_ms"] + given["ms_per_token"] * given["output_tokens"]) / 1000
    return float(max(requests, tokens, 0.0) + latency)


def measure(size: Size) -> Iterator[Row]:
    """Every row of this part."""
    with standin() as server:
        steps: tuple[tuple[tuple[str, ...], Callable[[], Iterator[Row]]], ...] = (
            (("quota", "rejected"), lambda: uncharged(server, size)),
            (("charged",), lambda: charged(server, size)),
            (("gated",), lambda: beside(server, size)),
            (("pool",), lambda: pools(server, size)),
        )
        for names, step in steps:
            try:
                yield from step()
            except Exception as error:  # one broken measure is no reason to lose the others
                for name in names:
                    yield missing(name, told(error))


def uncharged(server: Standin, size: Size) -> Iterator[Row]:
    """One lane; a rejected call costs nothing."""
    share, rejected, ideal, wall = bound(server, size, charged=False)
    words = f"{share:.1f} % ({wall:.1f} s, ideal {ideal:.1f} s"
    if size.calls < 20_000:
        words += f"; {size.calls:,} calls"
    if size.faster != 1:
        words += f"; {size.faster:g} × the quota, 1/{size.faster:g} of the burst"
    yield row("quota", share, words + ")")
    yield row("rejected", rejected, f"{rejected:.2f} %")


def charged(server: Standin, size: Size) -> Iterator[Row]:
    """One lane; a rejected call uses up request quota."""
    share, rejected, ideal, wall = bound(server, size, charged=True)
    words = f"{share:.1f} % ({wall:.1f} s, ideal {ideal:.1f} s; 429s {rejected:.2f} %)"
    yield row("charged", share, words)


def beside(server: Standin, size: Size) -> Iterator[Row]:
    """Two lanes, of which one is gated."""
    alone, both = gated(server, size)
    loss = 100 * (both / alone - 1)
    words = f"{loss:.1f} % ({alone:.1f} s alone, {both:.1f} s; gate {size.gate_s:g} s)"
    yield row("gated", loss, words, whole=size.gate_s >= 60)


def pools(server: Standin, size: Size) -> Iterator[Row]:
    """What others do."""
    yield row("pool", 0, "; ".join(pool(server, size, at_once) for at_once in (50, 500)))


def bound(server: Standin, size: Size, *, charged: bool) -> tuple[float, float, float, float]:
    """Share of the ideal time and of 429s in per cent, ideal and real seconds."""
    say(f"quota: one lane, {size.calls:,} calls, rejected calls {'' if charged else 'not '}charged")
    server.set(**{**size.settings(), "charge_rejected": charged})
    timeout = 60 + 4 * size.calls / (TPM / 750 / 60 * size.faster)
    with folder() as home:
        result = client("client_lanes", server.base_url, size.calls, home, "m0", timeout=timeout)
    stats = server.stats()
    if stats["answered"] < size.calls or result["failed"]:
        raise NotMeasuredError(f"only {stats['answered']:,} of {size.calls:,} calls were answered")
    ideal = ideal_s(stats, size.calls)
    wall = float(result["run_s"])
    return 100 * ideal / wall, 100 * stats["rejected"] / size.calls, ideal, wall


def gated(server: Standin, size: Size) -> tuple[float, float]:
    """Seconds until lane m1 was through: alone, and beside a lane that is gated."""
    say(f"quota: two lanes, {size.gated_calls:,} calls each, one gated for {size.gate_s:g} s")
    timeout = 60 + size.gate_s + 8 * size.gated_calls / (TPM / 750 / 60 * size.faster)
    seconds = []
    for models in (["m1"], ["m0", "m1"]):
        server.set(**{**size.settings(0.5), "gate_model": "m0", "gate_s": size.gate_s})
        with folder() as home:
            result = client(
                "client_lanes", server.base_url, size.gated_calls, home, *models, timeout=timeout
            )
        seconds.append(float(result["m1_s"]))
    return seconds[0], seconds[1]


def pool(server: Standin, size: Size, at_once: int) -> str:
    """What share of the quota a fixed pool used, in words."""
    say(f"quota: the usual pool, {at_once} at once, {size.pool_s:g} s")
    server.set(**size.settings())
    result = client(
        "client_pool", server.base_url, size.calls, at_once, PAUSE_S / size.faster, size.pool_s,
        python=peers(), timeout=size.pool_s + 60,
    )  # fmt: skip
    stats = server.stats()
    ideal = ideal_s(stats, result["calls"])
    share = 100 * ideal / result["wall_s"]
    return f"{at_once} at once {share:.0f} % (429s {stats['rejected']:,})"
