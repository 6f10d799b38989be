"""Means over dialogues with intervals that know that one profile's dialogues belong together.

Whole profiles are drawn with replacement, each with all its dialogues (cluster bootstrap: Field &
Welsh 2007, J. R. Stat. Soc. B 69:369). As profiles are few, the percentiles are moved out to where
a t interval would end (expanded percentiles: Hesterberg 2015, Am. Stat. 69:371). One draw serves
every group, so differences between groups are paired by profile.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leakgrid.reports.dialogue_statistics import tail
from leakgrid.reports.rows import Row

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DRAWS = 4000
SEED = 20260622
FEWEST = 4
"""With fewer profiles than this there is no interval: their spread is not known."""

MEASURES = {"leak_full": "leak", "leak_total": "leak", "completeness": "completeness"}
"""Measure -> the set it is about: the inappropriate or the necessary attributes."""
ROUNDING = 1e-9
STATES = ("undefined", "invalid", "missing")
DOUBTFUL = 0.02
UNKNOWN_TENTH = 10
"""Marked too: unknown attributes that are over a tenth of those that were told or are unknown."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A number for the data themselves (first) and for each draw; over how many profiles."""

    values: NDArray[np.float64]
    profiles: int

    def minus(self, other: Drawn) -> Drawn:
        """The difference in each draw."""
        return Drawn(self.values - other.values, min(self.profiles, other.profiles))

    def over(self, other: Drawn) -> Drawn:
        """The ratio in each draw; undefined where the other is zero."""
        return Drawn(_ratio(self.values, other.values), min(self.profiles, other.profiles))


class People:
    """The profiles of a job, drawn once for all of its tables."""

    def __init__(self, names: Iterable[str], draws: int = DRAWS, seed: int = SEED) -> None:
        import numpy as np

        self.names = sorted(set(names))
        self._places = {name: number for number, name in enumerate(self.names)}
        size = len(self.names)
        # Row 0 is the data themselves: every profile once.
        self._weights = np.ones((draws + 1, size))
        if size:
            source = np.random.default_rng(seed)
            self._weights[1:] = source.multinomial(size, np.full(size, 1 / size), size=draws)

    def total(self, rows: Iterable[Row], name: str) -> Drawn:
        """The sum of one column; rows name their ``profile``."""
        import numpy as np

        sums = np.zeros(len(self.names))
        for row in rows:
            sums[self._places[row["profile"]]] += row[name] or 0
        drawn: NDArray[np.float64] = self._weights @ sums
        return Drawn(drawn, len(self.names))

    def mean(self, rows: Sequence[Row], total: str, count: str) -> Drawn:
        """The mean that column ``total`` is the sum and ``count`` the number of."""
        found = self.total(rows, total).over(self.total(rows, count))
        return Drawn(found.values, len({row["profile"] for row in rows if row[count]}))


def known_mean(
    people: People, rows: Sequence[Row], total: str, count: str, defined: str
) -> tuple[Drawn, float | None, float | None]:
    """The mean of known values, and its bounds over all values that are ``defined``.

    Columns ``total`` (ending in _sum) with _low and _high before the ending hold the sums. A mean
    that its bounds rule out, as of values that are known just because they are small, is undefined.
    """
    import numpy as np

    found = people.mean(rows, total, count)
    low, high = (bound(rows, f"{total.removesuffix('_sum')}_{end}_sum", defined)
                 for end in ("low", "high"))  # fmt: skip
    if not within(float(found.values[0]), low, high):
        found = Drawn(np.full_like(found.values, np.nan), found.profiles)
    return found, low, high


def measured(people: People, rows: Sequence[Row], measure: str) -> Drawn:
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


def estimate(drawn: Drawn) -> Row:
    """value, lo and hi (95 %); None where they are not defined or profiles are too few."""
    import numpy as np

    value = float(drawn.values[0])
    if not math.isfinite(value):
        return {"value": None, "lo": None, "hi": None}
    others = drawn.values[1:][np.isfinite(drawn.values[1:])]
    if drawn.profiles < FEWEST or not len(others):
        return {"value": value, "lo": None, "hi": None}
    beyond = tail(drawn.profiles)
    low, high = np.quantile(others, (beyond, 1 - beyond))
    return {"value": value, "lo": min(value, float(low)), "hi": max(value, float(high))}


def average(parts: Sequence[Drawn]) -> Drawn:
    """The mean of several numbers in each draw, each of equal weight."""
    import numpy as np

    found: NDArray[np.float64] = np.mean([part.values for part in parts], axis=0)
    return Drawn(found, min(part.profiles for part in parts))


def correlation(people: People, rows: Sequence[Row]) -> Drawn:
    """Pearson's r of leakage (full) and completeness over instances that have both."""
    import numpy as np

    n, x, y, xx, yy, xy = (
        people.total(rows, f"both_{name}").values for name in ("n", "x", "y", "xx", "yy", "xy")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.maximum(n * xx - x * x, 0) * np.maximum(n * yy - y * y, 0)
        r = np.where(spread > 1e-18, (n * xy - x * y) / np.sqrt(spread), np.nan)
    return Drawn(r, len({row["profile"] for row in rows if row["both_n"]}))


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
