"""Leaks, usefulness and both at once by topic, by size of the group and by what the asker knew.

What an item is about stands in the records of its replies: any record of the same item tells it
for all its cells, so that cells that are missing count under the right heading too.
"""

from __future__ import annotations

from dataclasses import dataclass

from leakgrid.reports.rows import Reader, Row, ordered

MOST_SIZES = 8
"""With more sizes of groups than this only the bands are told."""

TITLES = {
    "topic": "Topic",
    "band": "Size of the group",
    "people": "Number of people",
    "asker": "What the asker knew",
}
MEASURES = {"leak": "leaks", "useful": "useful replies", "both": "useful without a leak"}
NO_RECORD = "not run yet"
NOT_NOTED = "not noted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One way to part the items: ``tables`` holds a list of rows for each of MEASURES.

    ``name`` is a key of TITLES; ``parts`` are the headings in their order.
    """

    name: str
    title: str
    parts: list[str]
    tables: dict[str, list[Row]]


def read_splits(reader: Reader, order: dict[str, list[str]]) -> list[Split]:
    """Every split with two or more parts; none where no record says what its item is about."""
    rows = reader.rows(SPLITS)
    found = []
    for name, title in TITLES.items():
        mine = [row for row in rows if row["split"] == name]
        parts = list(dict.fromkeys(str(row["part"]) for row in mine))
        told = [part for part in parts if part not in (NO_RECORD, NOT_NOTED)]
        if len(told) < 2 or (name == "people" and len(told) > MOST_SIZES):
            continue
        tables = {
            measure: ordered([row for row in mine if row["measure"] == measure], order)
            for measure in MEASURES
        }
        kept = {measure: table for measure, table in tables.items() if table}
        found.append(Split(name=name, title=title, parts=parts, tables=kept))
    return found


NOTED = f"""
SELECT i.item, i.digest, count(r.item) = 0 AS unrun,
       CASE WHEN unrun THEN '{NO_RECORD}' ELSE '{NOT_NOTED}' END AS nothing,
       coalesce(any_value(r.extra ->> 'topic'), nothing) AS topic,
       any_value(TRY_CAST(r.extra -> 'statistics' ->> 'parties' AS INT)) AS people,
       any_value(TRY_CAST(r.extra ->> 'asker_informed' AS BOOLEAN)) AS informed
FROM item i LEFT JOIN reply_now r ON r.item = i.item AND r.digest = i.digest
WHERE i.job = $job GROUP BY i.item, i.digest
"""

SPLITS = f"""
WITH noted AS MATERIALIZED ({NOTED}), parted AS (
    SELECT item, digest, 'topic' AS split, topic AS part, unrun::INT AS place FROM noted
    UNION ALL
    SELECT item, digest, 'band',
           CASE WHEN people <= 5 THEN 'up to 5' WHEN people <= 10 THEN '6 to 10'
                WHEN people <= 20 THEN '11 to 20' WHEN people > 20 THEN 'over 20'
                ELSE nothing END,
           CASE WHEN people <= 5 THEN 0 WHEN people <= 10 THEN 1 WHEN people <= 20 THEN 2
                WHEN people > 20 THEN 3 ELSE 4 END
    FROM noted
    UNION ALL
    SELECT item, digest, 'people', coalesce(people::VARCHAR, nothing), coalesce(people, 1000000)
    FROM noted
    UNION ALL
    SELECT item, digest, 'asker',
           CASE WHEN informed THEN 'asker knew' WHEN NOT informed THEN 'asker did not know'
                ELSE nothing END,
           CASE WHEN NOT informed THEN 0 WHEN informed THEN 1 ELSE 2 END
    FROM noted
), units AS MATERIALIZED (
    SELECT *, list_position({list(MEASURES)}, measure) AS rank FROM measured_unit WHERE job = $job
)
SELECT split, part, measure, simulated, judge, rater, model, defence, condition,
       count(*) AS planned, count(hit) AS known, count(*) FILTER (hit) AS hits,
       count(*) FILTER (state = 'unknown') AS unknown,
       count(*) FILTER (state = 'missing') AS missing,
       hits / nullif(known, 0)::DOUBLE AS rate,
       wilson_low(hits, known) AS lo, wilson_high(hits, known) AS hi,
       hits / planned::DOUBLE AS bound_low, count(*) FILTER (may) / planned::DOUBLE AS bound_high,
       unknown + missing > 0.02 * planned AS marked
FROM units JOIN parted USING (item, digest)
GROUP BY split, part, place, measure, rank, simulated, judge, rater, model, defence, condition
ORDER BY split, rank, place, part, rater
"""
