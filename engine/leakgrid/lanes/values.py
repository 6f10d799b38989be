"""What goes into a lane and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from leakgrid.providers.wire import Exchange, Provider, Reading
from leakgrid.value import value


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What the user says of a lane; None is unknown, and then the server's headers teach it.

    ``burst_s``: seconds of quota that an idle lane may send at once.
    """

    rpm: float | None = None
    tpm: float | None = None
    concurrency: int | None = None
    burst_s: float = 10.0


@value(frozen=True, slots=True)
class Parcel:
    """A body on its way, and what the lane must know of it to reserve and to learn.

    ``place``: of calls that wait, the lowest goes first.
    """

    provider: Provider
    body: bytes
    role: str = ""
    most_output: int | None = None
    sample: int = 0
    key: bytes = b""
    place: int = 0


@value(frozen=True, slots=True)
class Attempt:
    """One exchange and what it meant; ``usd`` is None where no price is known."""

    number: int
    exchange: Exchange
    reading: Reading
    usd: float | None
    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneStatistics:
    """A lane at this moment. Seconds, tokens and dollars since the run began.

    ``allowed_per_s``: calls a second that its quota allows, None where no quota is known.
    """

    name: str
    sent: int
    answered: int
    outcomes: Mapping[str, int]
    in_flight: int
    waiting: int
    limit: int
    gated_s: float
    input_tokens: int
    output_tokens: int
    usd: float
    unpriced: int
    latency_mean_s: float
    latency_p95_s: float
    tokens_per_byte: float
    allowed_per_s: float | None
    stopped: str


class Spending(Protocol):
    """Money that must be reserved before a call is sent."""

    def reserve(self, usd: float) -> bool:
        """Set ``usd`` aside; False when that would pass the budget."""

    def owe(self, usd: float) -> None:
        """Set aside what was ordered already, within the budget or not."""

    def settle(self, estimate: float, actual: float) -> None:
        """Replace a reservation by what was really charged."""

    @property
    def pending(self) -> bool:
        """Whether reservations are open that may still be given back."""

    def watch(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` when a refused reservation may now succeed."""

    @property
    def told(self) -> str:
        """The budget in words, for the message that ends the lane."""
