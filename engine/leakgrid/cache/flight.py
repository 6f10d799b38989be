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
        self._open: dict[bytes, asyncio.Future[Answer]] = {}
        self._led = 0
        self._joined = 0

    def find(self, key: bytes) -> asyncio.Future[Answer] | None:
        """The answer to come of an identical call, or None if the caller must lead."""
        future = self._open.get(key)
        if future is not None:
            self._joined += 1
        return future

    def lead(self, key: bytes) -> asyncio.Future[Answer]:
        """Open a flight; the leader must close it with ``land`` or ``fail``."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[key] = future
        self._led += 1
        return future

    def land(self, key: bytes, answer: Answer) -> None:
        """Give the answer to all who joined."""
        self._open.pop(key).set_result(answer)

    def fail(self, key: bytes, error: BaseException) -> None:
        """Give the error to all who joined; without any it is only the leader's."""
        future = self._open.pop(key)
        if isinstance(error, asyncio.CancelledError):
            future.cancel()
        else:
            future.set_exception(error)
            future.exception()  # mark as seen: the leader raises it itself

    def statistics(self) -> FlightStatistics:
        """Counts since the start."""
        return FlightStatistics(self._led, self._joined, len(self._open))
