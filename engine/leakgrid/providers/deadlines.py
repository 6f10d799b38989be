"""Deadlines for calls in flight, without a timer for each.

All calls of a provider share one span, so their deadlines expire in the order they began: one
timer for the oldest is enough, however many are in flight.
"""

from __future__ import annotations

import asyncio


class Deadline:
    """One call's deadline: ``expired`` once its task was cancelled for being late."""

    __slots__ = ("at", "expired", "task")

    def __init__(self, at: float, task: asyncio.Task[object] | None) -> None:
        self.at = at
        self.task = task
        self.expired = False


class Deadlines:
    """Cancels the task of each call that is not over within ``seconds`` of its beginning."""

    __slots__ = ("_open", "_seconds", "_timer")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._open: dict[Deadline, None] = {}  # in the order begun
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> Deadline:
        """The clock starts now, for the running task."""
        loop = asyncio.get_running_loop()
        deadline = Deadline(loop.time() + self._seconds, asyncio.current_task())
        self._open[deadline] = None
        if self._timer is None:
            self._timer = loop.call_at(deadline.at, self._look)
        return deadline

    def end(self, deadline: Deadline) -> None:
        """The call is over, in time or not."""
        self._open.pop(deadline, None)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        late = []
        for deadline in self._open:
            if deadline.at > now:
                break
            late.append(deadline)
        for deadline in late:
            del self._open[deadline]
            if deadline.task is not None:
                deadline.expired = True
                deadline.task.cancel()
        first = next(iter(self._open), None)
        self._timer = None if first is None else loop.call_at(first.at, self._look)
