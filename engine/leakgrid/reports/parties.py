"""What the parties ablation shows: does a leak move with the audience, with the length, or both?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from leakgrid.reports.clusters import Arms, Curve
from leakgrid.reports.jackknife import FEWEST, NOTHING
from leakgrid.reports.rows import Reader, Row, ordered
from leakgrid.reports.statistics import Estimate

PEOPLE, LENGTH = "parties", "length"
"""The two arms that tell audience from length; other arms have slopes of their own."""

WHERE = ("simulated", "judge", "model", "defence", "condition")


def read_arms(reader: Reader, order: dict[str, list[str]]) -> tuple[list[Row], list[Row]]:
    """(rates of each variant, one row for each arm and group with slope and change).

    Both carry intervals by base items (``cluster_lo``, ``cluster_hi`` on rates); a row of slopes
    also has ``difference`` (slope over people minus slope over length) and ``moves``, in words.
    """
    rates = ordered(reader.rows(ARMS), order)
    groups: dict[tuple[object, ...], dict[str, dict[tuple[str, float], tuple[int, int]]]] = {}
    for row in ordered(reader.rows(BASES), order):
        arms = groups.setdefault(tuple(row[name] for name in WHERE), {})
        counts = arms.setdefault(row["arm"], {})
        key = (row["base"], float(row["level"]))
        before = counts.get(key, (0, 0))
        counts[key] = (before[0] + row["leaks"], before[1] + row["known"])
    slopes: list[Row] = []
    for where, arms in groups.items():
        drawn = Arms(arms)
        curves = {arm: drawn.curve(arm) for arm in arms}
        told = _comparison(drawn, curves)
        slopes += [
            {
                **dict(zip(WHERE, where, strict=True)),
                "arm": arm,
                "varied": varied(rates, arm),
                "bases": drawn.bases,
                "slope": _row(curves[arm].slope),
                "change": _row(curves[arm].change),
                **(told if arm == PEOPLE else {"difference": None, "moves": ""}),
            }
            for arm in sorted(arms, key=lambda name: (name != PEOPLE, name))
        ]
        for row in rates:
            if tuple(row[name] for name in WHERE) == where and row["arm"] in curves:
                level = row[varied(rates, row["arm"])]
                point = _row(curves[row["arm"]].points.get(level))
                row["cluster_lo"], row["cluster_hi"] = point["lo"], point["hi"]
    return rates, slopes


def varied(rows: Sequence[Row], arm: str) -> str:
    """What an arm varies: the number of people, or else the length."""
    people = {row["parties"] for row in rows if row["arm"] == arm} - {None}
    return "parties" if len(people) > 1 else "tokens"


def _comparison(drawn: Arms, curves: dict[str, Curve]) -> Row:
    """The difference of the two slopes, and what moves the rate where an interval excludes 0."""
    if not {PEOPLE, LENGTH} <= curves.keys():
        return {"difference": None, "moves": ""}
    people, length = (_sure(curves[arm].slope, drawn.bases) for arm in (PEOPLE, LENGTH))
    if people is None or length is None:
        moves = "too few base items to tell"
    else:
        moves = {
            (True, True): "the audience and the length",
            (True, False): "the audience",
            (False, True): "the length",
            (False, False): "neither, as far as shown",
        }[people, length]
    return {"difference": _row(drawn.difference(PEOPLE, LENGTH)), "moves": moves}


def _sure(estimate: Estimate | None, bases: int) -> bool | None:
    """Whether an interval leaves out 0; None where there is none, unless all say exactly 0."""
    if estimate is None:
        return None
    if math.isnan(estimate.low):
        return False if abs(estimate.value) < NOTHING and bases >= FEWEST else None
    return estimate.low > 0 or estimate.high < 0


def _row(estimate: Estimate | None) -> dict[str, Any]:
    """As the page's filters read it; None where a number is not known."""
    if estimate is None:
        return {"value": None, "lo": None, "hi": None}
    low, high = (None if math.isnan(end) else end for end in (estimate.low, estimate.high))
    return {"value": estimate.value, "lo": low, "hi": high}


# an item's arm is known from any of its replies, so that cells that are missing count as such
VARIANTS = """
SELECT item, digest, any_value(extra -> 'variant' ->> 'arm') AS arm,
       any_value(TRY_CAST(extra -> 'variant' ->> 'parties' AS INT)) AS parties,
       any_value(TRY_CAST(extra -> 'variant' ->> 'tokens' AS INT)) AS tokens,
       any_value(extra -> 'variant' ->> 'base') AS base
FROM cell WHERE job = $job AND json_type(extra, '$.variant') = 'OBJECT' GROUP BY item, digest
"""

ARMS = f"""
WITH variants AS ({VARIANTS})
SELECT u.simulated, u.judge, u.model, u.defence, u.condition, v.arm, v.parties, v.tokens,
       count(DISTINCT v.base) AS bases, count(*) AS planned, count(u.leaked) AS known,
       count(*) FILTER (u.leaked) AS leaks, count(*) FILTER (u.state = 'unknown') AS unknown,
       count(*) FILTER (u.state = 'missing') AS missing,
       leaks / nullif(known, 0)::DOUBLE AS rate,
       wilson_low(leaks, known) AS lo, wilson_high(leaks, known) AS hi,
       leaks / planned::DOUBLE AS bound_low,
       (leaks + unknown + missing) / planned::DOUBLE AS bound_high,
       unknown + missing > 0.02 * planned AS marked,
       NULL::DOUBLE AS cluster_lo, NULL::DOUBLE AS cluster_hi
FROM leak_unit u JOIN variants v USING (item, digest)
WHERE u.job = $job AND v.arm IS NOT NULL
GROUP BY u.simulated, u.judge, u.model, u.defence, u.condition, v.arm, v.parties, v.tokens
ORDER BY v.arm, v.parties, v.tokens
"""

BASES = f"""
WITH variants AS ({VARIANTS}), arms AS (
    SELECT arm, count(DISTINCT parties) > 1 AS by_people FROM variants GROUP BY arm
)
SELECT u.simulated, u.judge, u.model, u.defence, u.condition, v.arm, v.base,
       CASE WHEN a.by_people THEN v.parties ELSE v.tokens END AS level,
       count(u.leaked) AS known, count(*) FILTER (u.leaked) AS leaks
FROM leak_unit u JOIN variants v USING (item, digest) JOIN arms a USING (arm)
WHERE u.job = $job AND level > 0 AND v.base IS NOT NULL
GROUP BY u.simulated, u.judge, u.model, u.defence, u.condition, v.arm, v.base, level
"""
