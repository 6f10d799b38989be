"""Means over dialogues with intervals that know that one profile's dialogues belong together.

Every number is told for all profiles and without each of them, with all its dialogues, of which
``jackknife`` makes intervals. The same profile is left out of every group at once, so differences
between groups are paired by profile.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from leakgrid.reports.jackknife import Scale, interval, left_out
from leakgrid.reports.rows import Row

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MEASURES = {"leak_full": "leak", "leak_total": "leak", "completeness": "completeness"}
"""Measure -> the set it is about: the inappropriate or the necessary attributes."""
ROUNDING = 1e-9
STATES = ("undefined", "invalid", "missing")
DOUBTFUL = 0.02
UNKNOWN_TENTH = 10
"""Marked too: unknown attributes that are over a tenth of those that were told or are unknown."""


@dataclass(frozen=True, slots=True)
class Jackknifed:
    """A number for all profiles (first) and without each; how many have a part in it."""

    values: NDArray[np.float64]
    profiles: int
    scale: Scale = "plain"

    def minus(self, other: Jackknifed) -> Jackknifed:
        """The difference, each time without the same profile."""
        return Jackknifed(self.values - other.values, min(self.profiles, other.profiles))

    def over(self, other: Jackknifed) -> Jackknifed:
        """The ratio; undefined where the other is zero."""
        return Jackknifed(_ratio(self.values, other.values), min(self.profiles, other.profiles))


class People:
    """The profiles of a job, each left out once for all of its tables."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = sorted(set(names))
        self._places = {name: number for number, name in enumerate(self.names)}
        self._weights = left_out(len(self.names))

    def total(self, rows: Iterable[Row], name: str) -> Jackknifed:
        """The sum of one column; rows name their ``profile``."""
        import numpy as np

        sums = np.zeros(len(self.names))
        for row in rows:
            sums[self._places[row["profile"]]] += row[name] or 0
        return Jackknifed(self._weights @ sums, len(self.names))

    def mean(self, rows: Sequence[Row], total: str, count: str) -> Jackknifed:
        """The mean share that column ``total`` is the sum and ``count`` the number of."""
        found = self.total(rows, total).over(self.total(rows, count))
        profiles = len({row["profile"] for row in rows if row[count]})
        return Jackknifed(found.values, profiles, "share")


def known_mean(
    people: People, rows: Sequence[Row], total: str, count: str, defined: str
) -> tuple[Jackknifed, float | None, float | None]:
    """The mean of known values, and its bounds over all values that are ``defined``.

    Columns ``total`` (ending in _sum) with _low and _high before the ending hold the sums. A mean
    that its bounds rule out, as of values that are known just because they are small, is undefined.
    """
    import numpy as np

    found = people.mean(rows, total, count)
    low, high = (bound(rows, f"{total.removesuffix('_sum')}_{end}_sum", defined)
                 for end in ("low", "high"))  # fmt: skip
    if not within(float(found.values[0]), low, high):
        found = replace(found, values=np.full_like(found.values, np.nan))
    return found, low, high


def measured(people: People, rows: Sequence[Row], measure: str) -> Jackknifed:
    """The mean of one of MEASURES; undefined where its bounds rule it out."""
    about = MEASURES[measure]
    return known_mean(people, rows, f"{measure}_sum", f"{about}_n", f"{about}_defined")[0]


def bound(rows: Iterable[Row], total: str, defined: str) -> float | None:
    """The mean of one end over all that is defined."""
    rows = list(rows)
    number = sum(row[defined] for row in rows)
    return sum(row[total] or 0 for row in rows) / number if number else None


def within(value: float, low: float | None, high: float | None) -> bool:
    """Whether bounds allow a value; NaN is never."""
    return low is not None and high is not None and low - ROUNDING <= value <= high + ROUNDING


def estimate(found: Jackknifed) -> Row:
    """value, lo and hi (95 %); None where they are not defined."""
    told = interval(found.values, found.profiles, found.scale)
    if told is None:
        return {"value": None, "lo": None, "hi": None}
    low, high = (None if math.isnan(end) else end for end in (told.low, told.high))
    return {"value": told.value, "lo": low, "hi": high}


def average(parts: Sequence[Jackknifed]) -> Jackknifed:
    """The mean of several numbers, each of equal weight."""
    import numpy as np

    found: NDArray[np.float64] = np.mean([part.values for part in parts], axis=0)
    return replace(parts[0], values=found, profiles=min(part.profiles for part in parts))


def correlation(people: People, rows: Sequence[Row]) -> Jackknifed:
    """Pearson's r of leakage (full) and completeness over instances that have both."""
    import numpy as np

    n, x, y, xx, yy, xy = (
        people.total(rows, f"both_{name}").values for name in ("n", "x", "y", "xx", "yy", "xy")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.maximum(n * xx - x * x, 0) * np.maximum(n * yy - y * y, 0)
        r = np.where(spread > 1e-18, (n * xy - x * y) / np.sqrt(spread), np.nan)
    return Jackknifed(r, len({row["profile"] for row in rows if row["both_n"]}), "correlation")


def grouped(rows: Iterable[Row], by: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by the values of some columns, in the order in which they come."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    return groups


def tabled(people: People, rows: Iterable[Row], by: Sequence[str]) -> list[Row]:
    """One row a group: an estimate of each of MEASURES, counts, and bounds.

    Bounds take attributes that are not known as undisclosed, and as disclosed. ``marked``: more
    than 2 % of the values that could be are not, or unknown attributes are over a tenth of those
    that were told or are unknown; ``completeness_marked`` is of completeness alone.
    """
    return [
        {**dict(zip(by, key, strict=True)), **_summed(people, mine)}
        for key, mine in grouped(rows, by).items()
    ]


def _summed(people: People, rows: list[Row]) -> Row:
    told: Row = {measure: estimate(measured(people, rows, measure)) for measure in MEASURES}
    counted = [
        "planned", "unlabelled",
        *(f"{about}_{name}" for about in ("leak", "completeness")
          for name in ("n", "unsure", "told", *STATES)),
    ]  # fmt: skip
    told |= {name: sum(row[name] for row in rows) for name in counted}
    for about, low in (("leak", "leak_full"), ("completeness", "completeness")):
        for end in ("low", "high"):
            told[f"{about}_{end}"] = bound(rows, f"{low}_{end}_sum", f"{about}_defined")
    told["profiles"] = len({row["profile"] for row in rows})
    lost = {about: sum(told[f"{about}_{state}"] for state in STATES[1:])
            for about in ("leak", "completeness")}  # fmt: skip
    could = sum(lost.values()) + told["leak_n"] + told["completeness_n"]
    unsure = {about: UNKNOWN_TENTH * told[f"{about}_unsure"] > told[f"{about}_told"]
              for about in lost}  # fmt: skip
    told["marked"] = sum(lost.values()) > DOUBTFUL * could or any(unsure.values())
    told["completeness_marked"] = unsure["completeness"] or lost["completeness"] > DOUBTFUL * (
        lost["completeness"] + told["completeness_n"]
    )
    return told


def arranged(rows: Iterable[Row], order: Mapping[str, Sequence[Any]], *names: str) -> list[Row]:
    """Rows in the plan's order of the named columns; unknown values come last, by name."""

    def place(row: Row) -> list[tuple[int, str]]:
        key = []
        for name in names:
            known = list(order.get(name, ()))
            value = row[name]
            key.append((known.index(value) if value in known else len(known), str(value)))
        return key

    return sorted(rows, key=place)


def _ratio(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    found: NDArray[np.float64] = np.divide(
        above, below, out=np.full_like(above, np.nan), where=below != 0
    )
    return found
