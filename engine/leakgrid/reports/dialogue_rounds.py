"""What each round of a dialogue tells, how it adds up, and long dialogues against short ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leakgrid.reports.dialogue_sums import (
    DOUBTFUL,
    UNKNOWN_TENTH,
    People,
    arranged,
    estimate,
    grouped,
    known_mean,
)
from leakgrid.reports.rows import Reader, Row

SUMS = ("disclosed", "first_disclosed", "repeated", "at_risk")
COUNTS = ("planned", "known", "spoken", "defined", "invalid", "missing")
MEASURES = ("leak", "cumulative")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """``by_sender`` and ``by_condition`` have a row a round (the second a condition too);
    ``same`` compares short and long dialogues of the same simulation number, ``apart`` those of
    different ones. Empty where no judge heard single messages.
    """

    by_sender: list[Row]
    by_condition: list[Row]
    same: list[Row]
    apart: list[Row]
    samples: int


def read_rounds(
    reader: Reader, people: People, order: Mapping[str, Sequence[object]], judge: str
) -> Rounds:
    """Rounds of dialogues that have more than one; overlaps where short ones were held too."""
    turns, samples = order["turns"], len(order["sample"])
    if not any(isinstance(value, int) and value > 1 for value in turns):
        return Rounds(by_sender=[], by_condition=[], same=[], apart=[], samples=samples)
    cells = arranged(
        [row for row in reader.rows(ROUNDS) if row["judge"] == judge],
        order, "turns", "model", "condition", "round",
    )  # fmt: skip
    same: list[Row] = []
    apart: list[Row] = []
    if 1 in turns:
        same = _overlaps(reader.rows(SAME), order, judge)
        apart = _overlaps(reader.rows(APART), order, judge) if samples > 1 else []
    return Rounds(
        by_sender=_rounds(people, cells, ("simulated", "turns", "model", "round")),
        by_condition=_rounds(people, cells, ("simulated", "turns", "model", "condition", "round")),
        same=same,
        apart=apart,
        samples=samples,
    )


def _rounds(people: People, cells: list[Row], by: tuple[str, ...]) -> list[Row]:
    """Leakage of each round's message and of all up to it; how many are told for the first time.

    ``hazard``: of the attributes that were still undisclosed in dialogues that still went on, the
    share that this round discloses. ``repeats``: of what it discloses, the share told before.
    ``share``: of all first disclosures, those of this round. Bounds and ``marked`` are as in the
    view dialogue_by_round.
    """
    found = []
    for key, rows in grouped(cells, by).items():
        sums = {name: sum(row[name] for row in rows) for name in (*SUMS, *COUNTS)}
        told: Row = {}
        for name in MEASURES:
            mean, low, high = known_mean(people, rows, f"{name}_sum", "known", "defined")
            told |= {name: estimate(mean), f"{name}_low": low, f"{name}_high": high}
        unsure = any(
            UNKNOWN_TENTH * sum(row[f"{name}_unsure"] for row in rows)
            > sum(row[f"{name}_told"] for row in rows)
            for name in MEASURES
        )
        lost = sums["invalid"] + sums["missing"]
        found.append(
            {
                **dict(zip(by, key, strict=True)),
                **told,
                "marked": lost > DOUBTFUL * (lost + sums["known"]) or unsure,
                "hazard": estimate(people.mean(rows, "first_disclosed", "at_risk")),
                "repeats": sums["repeated"] / sums["disclosed"] if sums["disclosed"] else None,
                **sums,
            }
        )
    for rows in grouped(found, by[:-1]).values():
        every = sum(row["first_disclosed"] for row in rows)
        for row in rows:
            row["share"] = row["first_disclosed"] / every if every else None
    return sorted(found, key=lambda row: row["turns"])


def _overlaps(rows: list[Row], order: Mapping[str, Sequence[object]], judge: str) -> list[Row]:
    mine = arranged([row for row in rows if row["judge"] == judge], order, "model", "condition")
    for row in mine:
        either = row["leaked_short"] + row["leaked_round_1"] - row["leaked_both"]
        row["overlap"] = row["leaked_both"] / either if either else None
        short = row["leaked_short"]
        row["growth"] = row["leaked_by_end"] / short if short else None
    return mine


ROUNDS = """
SELECT simulated, judge, turns, model, condition, round, sender_profile AS profile,
       count(*) AS planned, count(leak_full) AS known,
       count(leak_full) FILTER (spoken) AS spoken, sum(leak_full) AS leak_sum,
       sum(cumulative_leak_full) AS cumulative_sum,
       count(leak_full_low) AS defined, sum(leak_full_low) AS leak_low_sum,
       sum(leak_full_high) AS leak_high_sum, sum(cumulative_leak_full_low) AS cumulative_low_sum,
       sum(cumulative_leak_full_high) AS cumulative_high_sum,
       count(*) FILTER (state = 'invalid') AS invalid,
       count(*) FILTER (state = 'missing') AS missing,
       sum(leak_unknown)::BIGINT AS leak_unsure, sum(leak_told_or_unknown)::BIGINT AS leak_told,
       sum(cumulative_unknown)::BIGINT AS cumulative_unsure,
       sum(cumulative_told_or_unknown)::BIGINT AS cumulative_told,
       coalesce(sum(disclosed), 0)::BIGINT AS disclosed,
       coalesce(sum(first_disclosed), 0)::BIGINT AS first_disclosed,
       coalesce(sum(repeated), 0)::BIGINT AS repeated,
       coalesce(sum(at_risk), 0)::BIGINT AS at_risk
FROM dialogue_round WHERE job = $job AND turns > 1
GROUP BY simulated, judge, turns, model, condition, round, sender_profile ORDER BY ALL
"""

SAME = "FROM dialogue_overlap WHERE job = $job ORDER BY turns"

# as the view dialogue_overlap, but each short dialogue with the long ones of other numbers
APART = """
WITH short AS (
    SELECT job, judge, model, receiver, defence, condition, item, digest, sample, simulated,
           sender_profile, context, stem, ordinal, level
    FROM dialogue_instance WHERE job = $job AND turns = 1 AND leak_valid
), long AS (
    SELECT job, judge, model, receiver, defence, condition, item, digest, sample, simulated,
           turns, stem, ordinal
    FROM dialogue_round WHERE job = $job AND turns > 1 AND round = 1 AND state = 'valid'
), pair AS (
    SELECT l.judge, l.model, l.condition, l.turns, s.simulated OR l.simulated AS simulated,
           s.sender_profile, s.context, s.level, s.stem AS short_stem,
           s.ordinal AS short_ordinal, l.stem, l.ordinal,
           row_number() OVER () AS number
    FROM short s JOIN long l USING (job, judge, model, receiver, defence, condition, item, digest)
    WHERE s.sample <> l.sample
), told AS (
    SELECT p.number, r.attribute, r.degree AS short, NULL AS first_full, NULL AS first_unknown
    FROM pair p
    JOIN reveal_now r ON r.stem = p.short_stem AND r.ordinal = p.short_ordinal
        AND r.judge = p.judge AND r.speaker = 'sender' AND r.level = p.level
    JOIN label l ON l.job = $job AND l.profile = p.sender_profile AND l.context = p.context
        AND l.attribute = r.attribute AND l.label_set = 'inappropriate'
    UNION ALL
    SELECT p.number, f.attribute, NULL, f.first_full, f.first_unknown
    FROM pair p
    JOIN first_disclosure f ON f.job = $job AND f.judge = p.judge AND f.stem = p.stem
        AND f.ordinal = p.ordinal
), attributes AS (
    SELECT number, attribute, any_value(short) AS short, any_value(first_full) AS first_full,
           any_value(first_unknown) AS first_unknown
    FROM told GROUP BY number, attribute
), counted AS (
    SELECT number, count(*) FILTER (short = 'full') AS short,
           count(*) FILTER (first_full = 1) AS round_1,
           count(*) FILTER (short = 'full' AND first_full = 1) AS in_both,
           count(*) FILTER (first_full IS NOT NULL) AS by_end
    FROM attributes
    WHERE coalesce(short, '') <> 'unknown'
        AND NOT coalesce(first_unknown < coalesce(first_full, first_unknown + 1), false)
    GROUP BY number
)
SELECT simulated, judge, model, condition, turns, count(*) AS pairs, count(*) AS usable,
       coalesce(sum(c.short), 0)::BIGINT AS leaked_short,
       coalesce(sum(c.round_1), 0)::BIGINT AS leaked_round_1,
       coalesce(sum(c.in_both), 0)::BIGINT AS leaked_both,
       coalesce(sum(c.by_end), 0)::BIGINT AS leaked_by_end
FROM pair p LEFT JOIN counted c USING (number)
GROUP BY simulated, judge, model, condition, turns ORDER BY turns
"""
