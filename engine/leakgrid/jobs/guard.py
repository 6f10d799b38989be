"""A guard for tests: it notices every callback that keeps the event loop from its work.

Switched on by the environment variable LEAKGRID_GUARD_MS (milliseconds), for a whole run on
asyncio's own loop. A callback is to blame for its own processor time, and for time in which nobody
works (it sleeps, or waits for a disk). It is not to blame for waiting for a processor that other
processes have, for the work of other threads, or for the collection of garbage in a process that
never froze its heap, as a run does.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from dataclasses import dataclass
from typing import Any, Literal

VARIABLE = "LEAKGRID_GUARD_MS"
EXIT_BLOCKED = 70
IDLE = 4
"""Times the limit that a callback may stand still: a busy disk takes its time for a small file."""


@dataclass(frozen=True, slots=True)
class Block:
    """A callback that took too long."""

    what: str
    wall_s: float
    cpu_s: float


class _Collections:
    """Seconds that whole garbage collections have taken so far."""

    def __init__(self) -> None:
        self.seconds = self._began = 0.0

    def __call__(self, phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        if info["generation"] < 2:
            return
        if phase == "start":
            self._began = time.perf_counter()
        else:
            self.seconds += time.perf_counter() - self._began


def install(most_s: float, found: list[Block], *, collections_count: bool = True) -> Any:
    """Watch all callbacks of all asyncio loops; returns what ``remove`` wants back."""
    before = asyncio.events.Handle._run
    collections = _Collections()
    if not collections_count:
        gc.callbacks.append(collections)

    def watched(self: Any) -> None:
        queued, aside, others = _queued(), collections.seconds, time.process_time()
        wall, cpu = time.perf_counter(), time.thread_time()
        before(self)
        wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
        aside = collections.seconds - aside
        wall, cpu = wall - aside, cpu - aside
        if wall <= most_s:
            return
        others = max(0.0, time.process_time() - others - aside - cpu)
        idle = wall - (_queued() - queued) - others - cpu
        if cpu > most_s or idle > IDLE * most_s:
            found.append(Block(repr(self), wall, cpu))

    asyncio.events.Handle._run = watched  # type: ignore[method-assign]
    return before, collections


def remove(installed: Any) -> None:
    """Stop watching."""
    before, collections = installed
    asyncio.events.Handle._run = before  # type: ignore[method-assign]
    if collections in gc.callbacks:
        gc.callbacks.remove(collections)


def told(found: list[Block]) -> str:
    """The blocks as text, longest first."""
    lines = (
        f"  {block.wall_s * 1000:.0f} ms ({block.cpu_s * 1000:.0f} ms of processor): {block.what}"
        for block in sorted(found, key=lambda block: -block.wall_s)
    )
    return "the event loop was blocked:\n" + "\n".join(lines)


def _queued() -> float:
    """Seconds that this thread has waited for a processor so far; 0 where no one tells."""
    descriptor = getattr(_own, "descriptor", None)
    if descriptor is None:
        try:
            descriptor = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            descriptor = -1
        _own.descriptor = descriptor
    if descriptor < 0:
        return 0.0
    return int(os.pread(descriptor, 100, 0).split()[1]) / 1e9


_own = threading.local()
