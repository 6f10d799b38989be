"""``ask`` as a cell uses it: what was asked must stand in the cell's record."""

from __future__ import annotations

from leakgrid.outcomes import KEPT
from leakgrid.types import Answer, Ask, Call


class Noted:
    """An ``ask`` that keeps its answers, and (role, request key) of its calls, in order."""

    def __init__(self, ask: Ask) -> None:
        self.answers: list[Answer] = []
        self.calls: list[tuple[str, str]] = []
        self._ask = ask

    async def __call__(self, call: Call) -> Answer:
        answer = await self._ask(call)
        self.answers.append(answer)
        self.calls.append((call.role, answer.key))
        return answer

    @property
    def settled(self) -> bool:
        """Whether no call failed in a way that the next run should try again."""
        return all(answer.outcome in KEPT for answer in self.answers)

    @property
    def simulated(self) -> bool:
        """Whether any answer came from a simulation."""
        return any(answer.simulated for answer in self.answers)
