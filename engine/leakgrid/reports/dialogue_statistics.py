"""Statistics of dialogues: instances of one sender profile are not independent of each other.

Values are metrics of single instances, grouped by the profile whose memory was at stake. Raises
ValueError for values that are no finite numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

RESAMPLES = 4000


@dataclass(frozen=True, slots=True)
class Clustered:
    """A mean over instances with its interval; None bounds where only one cluster has values."""

    value: float
    low: float | None
    high: float | None
    clusters: int
    instances: int


@dataclass(frozen=True, slots=True)
class Change:
    """Two conditions' means over the same clusters, and their difference with intervals.

    ``relative`` is to the baseline's mean, None where that is 0.
    """

    baseline: Clustered
    changed: Clustered
    absolute: Clustered
    relative: float | None


@dataclass(frozen=True, slots=True)
class Ellipse:
    """The one-sigma ellipse of points: centre, half axes (longer first), angle of the longer.

    The angle is in degrees from the x axis, in (-90, 90].
    """

    x: float
    y: float
    major: float
    minor: float
    angle: float


def clustered_mean(
    clusters: Mapping[str, Sequence[float]],
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Clustered | None:
    """Mean of all instances, with a bootstrap interval over whole clusters; None without any.

    Clusters are drawn with replacement, each with all its instances. The percentiles are widened
    for few clusters: Hesterberg 2015 (Am. Stat. 69:371), "expanded percentile interval".
    """
    sums, counts = _totals(clusters, list(clusters))
    total = float(counts.sum())
    if not total:
        return None
    value = float(sums.sum()) / total
    used = counts > 0
    sums, counts = sums[used], counts[used]
    if len(sums) < 2:
        return Clustered(value, None, None, len(sums), int(total))
    draws = _draws(len(sums), resamples, seed)
    low, high = _interval(draws @ sums / (draws @ counts), len(sums), confidence)
    return Clustered(value, low, high, len(sums), int(total))


def clustered_change(
    baseline: Mapping[str, Sequence[float]],
    changed: Mapping[str, Sequence[float]],
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Change | None:
    """The change of the mean from one condition to another, over clusters that have both.

    Both are resampled together, so that what is common to a profile cancels out. None where no
    cluster has values of both.
    """
    names = [name for name, values in baseline.items() if values and changed.get(name)]
    if not names:
        return None
    first = clustered_mean(
        {name: baseline[name] for name in names},
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )
    second = clustered_mean(
        {name: changed[name] for name in names},
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )
    assert first is not None and second is not None
    value = second.value - first.value
    low = high = None
    if len(names) > 1:
        draws = _draws(len(names), resamples, seed)
        (a, n), (b, m) = _totals(baseline, names), _totals(changed, names)
        low, high = _interval(
            draws @ b / (draws @ m) - draws @ a / (draws @ n), len(names), confidence
        )
    absolute = Clustered(value, low, high, len(names), first.instances + second.instances)
    return Change(first, second, absolute, value / first.value if first.value else None)


def covariance_ellipse(points: Sequence[tuple[float, float]]) -> Ellipse | None:
    """The one-sigma ellipse of the points' sample covariance; None for fewer than two points."""
    import numpy as np

    if len(points) < 2:
        return None
    table = np.asarray(points, dtype=np.float64)
    if not np.isfinite(table).all():
        raise ValueError("points must be finite numbers")
    centre = table.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(table, rowvar=False))
    minor, major = (math.sqrt(max(0.0, float(value))) for value in values)
    angle = math.degrees(math.atan2(float(vectors[1, 1]), float(vectors[0, 1])))
    angle = angle - 180 if angle > 90 else angle + 180 if angle <= -90 else angle
    return Ellipse(float(centre[0]), float(centre[1]), major, minor, angle)


def by_profile(rows: Sequence[Mapping[str, Any]], value: str) -> dict[str, list[float]]:
    """Known values of one column of ``dialogue_instance`` rows, by sender profile."""
    clusters: dict[str, list[float]] = {}
    for row in rows:
        if row[value] is not None:
            clusters.setdefault(str(row["sender_profile"]), []).append(float(row[value]))
    return clusters


def _totals(clusters: Mapping[str, Sequence[float]], names: list[str]) -> tuple[Floats, Floats]:
    """Sum and number of each cluster's values, in the order of names."""
    import numpy as np

    sums = np.array([math.fsum(clusters[name]) for name in names], dtype=np.float64)
    if not np.isfinite(sums).all():
        raise ValueError("values must be finite numbers")
    return sums, np.array([len(clusters[name]) for name in names], dtype=np.float64)


def _draws(clusters: int, resamples: int, seed: int) -> Floats:
    """How often each cluster stands in each resample, one row a resample."""
    import numpy as np

    rng = np.random.default_rng(seed)
    draws = rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=resamples)
    return draws.astype(np.float64)


def _interval(means: Floats, clusters: int, confidence: float) -> tuple[float, float]:
    import numpy as np

    beyond = tail(clusters, confidence)
    low, high = np.quantile(means, [beyond, 1 - beyond])
    return float(low), float(high)


@cache
def tail(clusters: int, confidence: float = 0.95) -> float:
    """The share of draws beyond each end of an interval over so many clusters.

    Expanded percentiles: the normal level at which z is t times sqrt(n / (n - 1)).
    """
    # not scipy.stats, which takes seconds to import
    from scipy.special import ndtr, stdtrit

    reach = stdtrit(clusters - 1, (1 + confidence) / 2) * math.sqrt(clusters / (clusters - 1))
    return float(ndtr(-reach))
