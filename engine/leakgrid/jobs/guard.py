"""A guard for tests: it notices every callback that keeps the event loop from its work.

Switched on by the environment variable LEAKGRID_GUARD_MS (milliseconds), for a whole run on
asyncio's own loop. A callback that the operating system put aside for another process is not
to blame, so then only its processor time counts.
"""

from __future__ import annotations

import asyncio
import resource
import time
from dataclasses import dataclass
from typing import Any

VARIABLE = "LEAKGRID_GUARD_MS"
EXIT_BLOCKED = 70


@dataclass(frozen=True, slots=True)
class Block:
    """A callback that took too long."""

    what: str
    wall_s: float
    cpu_s: float


def install(most_s: float, found: list[Block]) -> Any:
    """Watch all callbacks of all asyncio loops; returns what ``remove`` wants back."""
    before = asyncio.events.Handle._run

    def watched(self: Any) -> None:
        switches = _put_aside()
        wall, cpu = time.perf_counter(), time.thread_time()
        before(self)
        wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
        if wall > most_s and (cpu > most_s or _put_aside() == switches):
            found.append(Block(repr(self), wall, cpu))

    asyncio.events.Handle._run = watched  # type: ignore[method-assign]
    return before


def remove(before: Any) -> None:
    """Stop watching."""
    asyncio.events.Handle._run = before  # type: ignore[method-assign]


def told(found: list[Block]) -> str:
    """The blocks as text, longest first."""
    lines = (
        f"  {block.wall_s * 1000:.0f} ms ({block.cpu_s * 1000:.0f} ms of processor): {block.what}"
        for block in sorted(found, key=lambda block: -block.wall_s)
    )
    return "the event loop was blocked:\n" + "\n".join(lines)


def _put_aside() -> int:
    return resource.getrusage(_WHO).ru_nivcsw


_WHO = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
