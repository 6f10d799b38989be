"""What goes wrong with batches: by seeded coins at the configured rates, and by order.

Orders come over ``POST /batches/control`` and go before the coins. They are for tests that want
one fault at one step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leakgrid.providers.simulated.batch_settings import Batching
from leakgrid.providers.simulated.batch_store import Plan
from leakgrid.providers.simulated.planted import Coins, coin, digest

QUEUE_FULL = {
    "code": "token_limit_exceeded",
    "message": "Enqueued token limit reached (simulated fault).",
    "line": None,
}


@dataclass(slots=True, kw_only=True)
class Fault:
    """What the next ``times`` requests of a step meet.

    ``status`` with ``message``, ``code`` (OpenAI) or ``name`` (Google) is the answer, or the
    connection is hung up. ``after``: the request is carried out all the same.
    """

    step: str
    times: int = 1
    status: int = 500
    message: str = "The server had an error (simulated fault)."
    code: str | None = None
    name: str = "INTERNAL"
    after: bool = False
    hang_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOrder:
    """``do`` a line fault (see ``batch_settings``) to requests whose body contains a text.

    ``do`` may also be line_ and any status. ``times``: only when a request comes so many times.
    """

    contains: str
    do: str
    times: int | None = None


class Orders:
    """Decides for each request, batch and line what happens to it."""

    def __init__(self, seed: int, batching: Batching) -> None:
        self._seed, self._batching = seed, batching
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.requests: Counter[str] = Counter()
        self._faults: list[Fault] = []
        self._plans: list[Plan] = []
        self._lines: list[LineOrder] = []
        self._met: Counter[str] = Counter()
        self._made: Counter[str] = Counter()
        self._came: Counter[str] = Counter()
        self._line_met: Counter[str] = Counter()

    def take(self, told: Mapping[str, Any]) -> None:
        """Add orders: lists ``faults``, ``plans`` (one for each batch to come) and ``lines``.

        Raises TypeError for what is none.
        """
        faults = [Fault(**one) for one in told.get("faults", ())]
        plans = [Plan(**one) for one in told.get("plans", ())]
        lines = [LineOrder(**one) for one in told.get("lines", ())]
        self._faults += faults
        self._plans += plans
        self._lines += lines

    def step(self, step: str) -> Fault | None:
        """What this request of a step meets."""
        self.requests[step] += 1
        for fault in self._faults:
            if fault.step == step and fault.times > 0:
                fault.times -= 1
                return fault
        fails, lost = self._batching.fails.get(step, 0.0), self._batching.lost.get(step, 0.0)
        value = coin(self._seed, f"batch {step}", str(self.requests[step]).encode())
        if value >= fails + lost or self._met[step] >= self._batching.max_per_request:
            self._met[step] = 0
            return None
        self._met[step] += 1
        return Fault(step=step, after=value >= fails, hang_up=value >= fails)

    def plan(self, content: str, total: int) -> Plan:
        """How a new batch over a file with this content goes."""
        if self._plans:
            return self._plans.pop(0)
        self._made[content] += 1
        coins = Coins(self._seed, digest(content.encode(), str(self._made[content])))
        end = coins.dealt("batch end", self._batching.ends)
        if not end or self._met["end"] >= self._batching.max_per_request:
            self._met["end"] = 0
            return Plan()
        self._met["end"] += 1
        if end == "queue_full":
            return Plan(end="failed", errors=[QUEUE_FULL])
        if end == "expired":
            return Plan(end="expired", done=int(coins("batch done") * total))
        return {
            "stuck": Plan(end="never"),
            "early": Plan(early=True),
            "hidden": Plan(hidden=1),
            "torn": Plan(torn=True),
        }[end]

    def line(self, key: str, body: bytes) -> str:
        """The fault of one line, which is being carried out; empty for none."""
        came = self._came[key]
        self._came[key] += 1
        for order in self._lines:
            if order.contains.encode() in body and (order.times is None or came < order.times):
                return order.do
        if not any(self._batching.lines.values()):
            return ""
        # By the request and not by the custom_id, which knows of ports and hosts.
        coins = Coins(self._seed, digest(body, str(came)))
        fault = coins.dealt("batch line", self._batching.lines)
        if fault and self._line_met[key] < self._batching.max_per_request:
            self._line_met[key] += 1
            return fault
        return ""
