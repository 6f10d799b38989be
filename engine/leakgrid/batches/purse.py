"""The money of a batch lane: what drafts may cost, what is reserved, what was charged.

A batch's estimate is reserved before it is sent and settled once, however the batch ends.
"""

from __future__ import annotations

from leakgrid.batches.book import Asked, Intent
from leakgrid.batches.pending import Draft
from leakgrid.lanes.estimate import Estimator
from leakgrid.lanes.values import Spending
from leakgrid.types import Price


class Purse:
    """The reservations of one lane's batches, by intent; ``price`` is the batch rate."""

    def __init__(
        self, price: Price | None, estimator: Estimator, spending: Spending | None
    ) -> None:
        self._price = price
        self._estimator = estimator
        self._spending = spending
        self._reserved: dict[str, float] = {}

    def estimate(self, asked: Asked) -> float:
        """Dollars that a call may cost; 0 without a price."""
        if self._price is None:
            return 0.0
        into = self._estimator.input(asked.size)
        out = self._estimator.output(asked.role, asked.most)
        return self._price.expected(into, out)

    def afford(self, draft: Draft) -> int:
        """How many calls of a draft the budget takes; they are reserved then, see ``hold``."""
        spending = self._spending
        if spending is None or spending.reserve(draft.usd[-1]):
            return draft.calls
        low, high = 0, draft.calls - 1
        while low < high:
            middle = (low + high + 1) // 2
            if spending.reserve(draft.usd[middle - 1]):
                spending.settle(draft.usd[middle - 1], 0.0)
                low = middle
            else:
                high = middle - 1
        return low if low and spending.reserve(draft.usd[low - 1]) else 0

    @property
    def empty(self) -> str:
        """Why nothing more can be afforded and no money will come back; empty where some may."""
        spending = self._spending
        return "" if spending is None or spending.pending else spending.told

    def hold(self, intent: Intent, usd: float) -> None:
        """What is reserved belongs to this intent from now on."""
        if self._spending is not None:
            self._reserved[intent.id] = usd

    def owe(self, intent: Intent) -> None:
        """Count a batch of an earlier run.

        It is paid already, so never refused; what it may cost still counts against the budget.
        """
        if self._spending is not None:
            self._spending.owe(intent.usd)
            self._reserved[intent.id] = intent.usd

    def settle(self, intent: Intent, usd: float | None) -> None:
        """Charge what a batch cost, in place of its estimate; a second time is nothing.

        None: it is left behind. It goes on at the service and is charged, and nobody gives its
        estimate back.
        """
        reserved = self._reserved.pop(intent.id, None)
        if self._spending is not None and reserved is not None:
            self._spending.settle(reserved, reserved if usd is None else usd)
