"""The parties ablation's curves with intervals that know that variants of one item belong together.

Whole base items are drawn with replacement, each with all its variants and samples (cluster
bootstrap: Field & Welsh 2007, J. R. Stat. Soc. B 69:369); intervals are percentiles. The same
draw serves every arm, so differences between arms are paired by base item.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leakgrid.reports.statistics import Estimate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DRAWS = 4000
SEED = 20260622
FEWEST = 5
"""With fewer base items than this there is no interval: their spread is not known."""

Counts = Mapping[tuple[str, float], tuple[int, int]]
"""(base item, what the arm varies) -> (leaks, known verdicts)."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One arm: an interval for each level, and how the rate moves (shares, not per cent).

    ``slope`` is the change for each doubling of the level, ``change`` that from the lowest to
    the highest. Low and high are NaN where there are too few base items.
    """

    points: dict[float, Estimate]
    slope: Estimate | None
    change: Estimate | None


class Arms:
    """Arms of one group of replies, resampled together."""

    def __init__(self, arms: Mapping[str, Counts], draws: int = DRAWS, seed: int = SEED) -> None:
        import numpy as np

        bases = sorted({base for counts in arms.values() for base, _ in counts})
        self.bases = len(bases)
        # Row 0 is the data themselves: every base once.
        weights = np.ones((draws + 1, self.bases))
        if self.bases:
            source = np.random.default_rng(seed)
            even = np.full(self.bases, 1 / self.bases)
            weights[1:] = source.multinomial(self.bases, even, size=draws)
        self._tables = {
            arm: _table(counts, bases, weights) for arm, counts in arms.items() if counts
        }

    def curve(self, arm: str) -> Curve:
        """Points, slope and change of one arm."""
        levels, leaks, known = self._tables[arm]
        rates = _shares(leaks, known)
        return Curve(
            points={
                level: found
                for number, level in enumerate(levels)
                if (found := self._estimate(rates[:, number])) is not None
            },
            slope=self._estimate(_slopes(levels, leaks, known)),
            change=self._estimate(rates[:, -1] - rates[:, 0]) if len(levels) > 1 else None,
        )

    def difference(self, one: str, other: str) -> Estimate | None:
        """The slope of ``one`` minus that of ``other``, both for each doubling."""
        return self._estimate(_slopes(*self._tables[one]) - _slopes(*self._tables[other]))

    def _estimate(self, values: NDArray[Any]) -> Estimate | None:
        """The first value with the percentiles of the others; None where it is not defined."""
        import numpy as np

        if not np.isfinite(values[0]):
            return None
        drawn = values[1:][np.isfinite(values[1:])]
        if self.bases < FEWEST or not len(drawn):
            return Estimate(float(values[0]), math.nan, math.nan)
        low, high = np.quantile(drawn, (0.025, 0.975))
        return Estimate(float(values[0]), float(low), float(high))


def _table(
    counts: Counts, bases: Sequence[str], weights: NDArray[Any]
) -> tuple[list[float], NDArray[Any], NDArray[Any]]:
    """(levels, leaks by draw and level, known verdicts by draw and level)."""
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
    """Least squares of leak (0 or 1) on log2(level) over all known verdicts of each draw."""
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
