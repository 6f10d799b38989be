"""Money: reserved before a call is sent, settled after, for all lanes of a run together."""

from __future__ import annotations

from collections.abc import Callable


class Budget:
    """At most ``limit_usd`` for a job, ``spent_usd`` of it in earlier runs."""

    def __init__(self, limit_usd: float, spent_usd: float = 0.0) -> None:
        self.limit_usd = limit_usd
        self.spent_usd = spent_usd
        self._reserved = 0.0
        self._open = 0
        self._refused = False
        self._watchers: list[Callable[[], None]] = []

    def reserve(self, usd: float) -> bool:
        """Set ``usd`` aside; False when that would pass the budget."""
        if self.spent_usd + self._reserved + usd > self.limit_usd:
            self._refused = True
            return False
        self._reserved += usd
        self._open += 1
        return True

    def owe(self, usd: float) -> None:
        """Set aside what was ordered already, within the budget or not."""
        self._reserved += usd
        self._open += 1

    def settle(self, estimate: float, actual: float) -> None:
        """Replace a reservation by what was really charged."""
        self._reserved -= estimate
        self._open -= 1
        self.spent_usd += actual
        if self._refused:
            self._refused = False
            for wake in self._watchers:
                wake()

    @property
    def pending(self) -> bool:
        """Whether reservations are open that may still be given back."""
        return self._open > 0

    def watch(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` when a refused reservation may now succeed."""
        self._watchers.append(wake)

    @property
    def told(self) -> str:
        """The budget in words, for the message that ends a lane."""
        return (
            f"the next call would pass the budget of ${self.limit_usd:.2f} "
            f"(${self.spent_usd:.4f} spent); raise budget_usd in the job to go on"
        )
