"""The parties ablation's curves with intervals that know that variants of one item belong together.

Whole base items are left out, each with all its variants and samples, of which ``jackknife`` makes
intervals. The same one is left out of every arm at once, so differences between arms are paired by
base item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leakgrid.reports.jackknife import Scale, interval, left_out
from leakgrid.reports.statistics import Estimate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Counts = Mapping[tuple[str, float], tuple[int, int]]
"""(base item, what the arm varies) -> (leaks, known verdicts)."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One arm: an interval for each level, and how the rate moves (shares, not per cent).

    ``slope`` is the change for each doubling of the level, ``change`` that from the lowest to
    the highest. Low and high are NaN where there is no interval.
    """

    points: dict[float, Estimate]
    slope: Estimate | None
    change: Estimate | None


class Arms:
    """Arms of one group of replies; a base item is left out of all of them at once."""

    def __init__(self, arms: Mapping[str, Counts]) -> None:
        bases = sorted({base for counts in arms.values() for base, _ in counts})
        self.bases = len(bases)
        weights = left_out(self.bases)
        self._tables = {
            arm: _table(counts, bases, weights) for arm, counts in arms.items() if counts
        }
        self._sizes = {
            arm: len({base for (base, _), (_, known) in counts.items() if known})
            for arm, counts in arms.items()
        }

    def curve(self, arm: str) -> Curve:
        """Points, slope and change of one arm."""
        levels, leaks, known = self._tables[arm]
        rates = _shares(leaks, known)
        change = rates[:, -1] - rates[:, 0]
        return Curve(
            points={
                level: found
                for number, level in enumerate(levels)
                if (found := self._estimate(rates[:, number], arm, scale="share")) is not None
            },
            slope=self._estimate(_slopes(levels, leaks, known), arm),
            change=self._estimate(change, arm) if len(levels) > 1 else None,
        )

    def difference(self, one: str, other: str) -> Estimate | None:
        """The slope of ``one`` minus that of ``other``, both for each doubling."""
        slopes = (_slopes(*self._tables[arm]) for arm in (one, other))
        return self._estimate(next(slopes) - next(slopes), one, other)

    def _estimate(
        self, values: NDArray[Any], *arms: str, scale: Scale = "plain"
    ) -> Estimate | None:
        return interval(values, min(self._sizes[arm] for arm in arms), scale)


def _table(
    counts: Counts, bases: Sequence[str], weights: NDArray[Any]
) -> tuple[list[float], NDArray[Any], NDArray[Any]]:
    """(levels, leaks and known verdicts): of all bases, then without each, by level."""
    import numpy as np

    levels = sorted({level for _, level in counts})
    cells = np.zeros((2, len(bases), len(levels)))
    places = {base: number for number, base in enumerate(bases)}
    for (base, level), pair in counts.items():
        cells[:, places[base], levels.index(level)] += pair
    return levels, weights @ cells[0], weights @ cells[1]


def _shares(leaks: NDArray[Any], known: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    shares: NDArray[Any] = np.divide(leaks, known, out=np.full_like(leaks, np.nan), where=known > 0)
    return shares


def _slopes(
    levels: Sequence[float], leaks: NDArray[Any], known: NDArray[Any]
) -> NDArray[np.float64]:
    """Least squares of leak (0 or 1) on log2(level) over all known verdicts, by row."""
    import numpy as np

    x = np.log2(np.asarray(levels, float))
    total = known.sum(axis=1)
    safe = np.where(total > 0, total, np.nan)
    mean_x, mean_y = known @ x / safe, leaks.sum(axis=1) / safe
    spread = known @ x**2 - safe * mean_x**2
    together = leaks @ x - safe * mean_x * mean_y
    slope: NDArray[np.float64] = np.divide(
        together, spread, out=np.full_like(together, np.nan), where=spread > 1e-9
    )
    return slope
