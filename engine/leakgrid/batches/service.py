"""What a provider's batch service must offer, in words that all of them share.

Services are blocking (they wrap the official SDKs), so they run in threads: see ``aside``.
"""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import enum
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from leakgrid.outcomes import Outcome
from leakgrid.providers.wire import Exchange

MOST_REQUESTS = 50_000

T = TypeVar("T")


class State(enum.Enum):
    """Where a batch stands: it runs, it ended with whatever output there is, or never ran."""

    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch as its service describes it.

    ``status`` is the service's own word. ``outputs`` are ids of result files. ``trouble`` says
    why a FAILED batch never ran: ``quota`` (too much is queued), else as an error would be read.
    """

    id: str
    state: State
    status: str
    outputs: tuple[str, ...] = ()
    trouble: Outcome = Outcome.INVALID
    error: str = ""

    @property
    def whole(self) -> bool:
        """Whether every request should have a result line."""
        return self.status in ("completed", "JOB_STATE_SUCCEEDED")


@dataclass(frozen=True, slots=True)
class Result:
    """One result line: the request's key, and its exchange; None if it was never carried out."""

    key: str
    exchange: Exchange | None


class Trouble(Exception):
    """A request to the service failed. ``unsure``: it may have been carried out all the same."""

    def __init__(
        self, outcome: Outcome, told: str, *, wait_s: float | None = None, unsure: bool = False
    ) -> None:
        super().__init__(told)
        self.outcome = outcome
        self.wait_s = wait_s
        self.unsure = unsure


class Service(Protocol):
    """One account's batch service for one model and one wire format. All methods block.

    Every method but ``line``, ``parse`` and ``close`` raises Trouble.
    """

    most_requests: int
    most_bytes: int

    def line(self, key: str, body: bytes) -> bytes:
        """The line of one request in an input file, newline included."""

    def parse(self, line: bytes) -> Result:
        """What one line of a result file says. Raises ValueError where it is none."""

    def find_file(self, name: str, size: int) -> str | None:
        """The id of a whole input file uploaded earlier under ``name``, or None."""

    def upload(self, path: Path, name: str) -> str:
        """Upload an input file; its id."""

    def create(self, file: str, intent: str) -> Batch:
        """Start a batch over an uploaded file, marked with our intent's id."""

    def find(self, intent: str, since: float) -> Batch | None:
        """The batch that carries our intent's id, if one does that has not FAILED.

        ``since``: seconds since 1970 when the intent was written.
        """

    def status(self, batch: str) -> Batch:
        """The batch at this moment."""

    def cancel(self, batch: str) -> None:
        """Ask the service to stop; what is done so far can still be fetched."""

    def results(self, batch: Batch, into: Path) -> None:
        """Write all result lines of an ENDED batch into one file."""

    def close(self) -> None:
        """Let its connections go."""


async def aside(function: Callable[..., T], *args: Any) -> T:
    """``function(*args)`` in a thread that nobody waits for when the run is left.

    An executor's threads would hold up Ctrl-C until an upload of 200 MB is through.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def finish(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def work() -> None:
        result: T | None = None
        failed: BaseException | None = None
        try:
            result = function(*args)
        except BaseException as error:
            failed = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: the run was left
            loop.call_soon_threadsafe(finish, result, failed)

    # threading.Thread would hold the loop until the new thread has had the processor.
    _thread.start_new_thread(work, ())
    return await future
