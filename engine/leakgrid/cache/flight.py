"""Single-flight: identical calls in flight are sent once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from leakgrid.types import Answer


@dataclass(frozen=True, slots=True)
class FlightStatistics:
    """Calls that led (were looked up or sent) and calls that joined one in flight."""

    led: int
    joined: int
    open: int


class Flights:
    """The calls that somebody is already asking, by request key."""

    __slots__ = ("_joined", "_led", "_open")

    def __init__(self) -> None:
        # A future is made only when somebody joins: most calls fly alone.
        self._open: dict[bytes, asyncio.Future[Answer] | None] = {}
        self._led = 0
        self._joined = 0

    def find(self, key: bytes) -> asyncio.Future[Answer] | None:
        """The answer to come of an identical call, or None if the caller must lead."""
        if key not in self._open:
            return None
        self._joined += 1
        future = self._open[key]
        if future is None:
            future = self._open[key] = asyncio.get_running_loop().create_future()
        return future

    def lead(self, key: bytes) -> None:
        """Open a flight; the leader must close it with ``land`` or ``fail``."""
        self._open[key] = None
        self._led += 1

    def land(self, key: bytes, answer: Answer) -> None:
        """Give the answer to all who joined."""
        future = self._open.pop(key)
        if future is not None and not future.done():
            future.set_result(answer)

    def fail(self, key: bytes, error: BaseException) -> None:
        """Give the error to all who joined; without any it is only the leader's."""
        future = self._open.pop(key)
        if future is None or future.done():
            return
        if isinstance(error, asyncio.CancelledError):
            future.cancel()
        else:
            future.set_exception(error)
            future.exception()  # mark as seen: the leader raises it itself

    def statistics(self) -> FlightStatistics:
        """Counts since the start."""
        return FlightStatistics(self._led, self._joined, len(self._open))
