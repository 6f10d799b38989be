"""What a report says of one job, as plain rows taken from the store's views.

Everything in it may hold text that a model wrote: the page escapes all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leakgrid.outcomes import StoreError
from leakgrid.reports.ci_labels import CiLabels, read_ci_labels
from leakgrid.reports.corrected import Corrected, read_corrected
from leakgrid.reports.dialogue import Dialogue, read_dialogue
from leakgrid.reports.muppet import Muppet, read_muppet
from leakgrid.reports.rows import Reader, Row, ordered
from leakgrid.reports.statistics import holm

if TYPE_CHECKING:
    import duckdb

EXAMPLES = 8
REASONS = 12
SIGNIFICANT = 0.05
RATERS = ("utility",)
"""Kinds of judges of usefulness: as ``rates_use`` in the store's views."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """One job's report.

    ``order`` holds the plan's own order of every dimension (``judge`` those of leaks, ``rater``
    those of usefulness), ``notes`` the models that share what there is to say of them, ``judge``
    the one that headline and heat map go by, and ``simulated`` says whether "all", "some" or
    none ("") of the planned columns are. ``utility`` and ``joint`` are empty without raters;
    ``corrected`` has rows for judges that were measured; ``muppet`` is empty where no record
    holds what that benchmark notes; ``dialogue`` and ``ci_labels`` are there for jobs of theirs,
    which tell their own headline.
    """

    job: str
    simulated: str
    plan: Row
    runs: list[Row]
    order: dict[str, list[str]]
    judge: str
    notes: dict[str, list[str]]
    judge_kinds: dict[str, str]
    items: int
    coverage: list[Row]
    totals: list[Row]
    rates: list[Row]
    utility: list[Row]
    joint: list[Row]
    channel: list[Row]
    defences: list[Row]
    agreement: list[Row]
    spend: list[Row]
    outcomes: list[Row]
    reasons: list[Row]
    examples: list[Row]
    headline: list[str]
    corrected: Corrected
    muppet: Muppet
    dialogue: Dialogue | None
    ci_labels: CiLabels | None


def jobs(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Every job that has a plan."""
    found = connection.execute("SELECT job FROM plan_now ORDER BY job").fetchall()
    return [str(row[0]) for row in found]


def read(connection: duckdb.DuckDBPyConnection, job: str, records: Path | None = None) -> Contents:
    """All that the report of one job says; ``records`` is the folder of judges' records.

    Raises StoreError for a job without a plan.
    """
    reader = Reader(connection, job)
    plan = reader.one("FROM plan_now WHERE job = $job")
    if not plan:
        known = ", ".join(jobs(connection)) or "none yet"
        raise StoreError(f"no job {job!r} was ever planned; there are: {known}")
    columns = reader.rows(
        "SELECT c.* FROM plan_now p JOIN plan_column c USING (stem, ordinal)"
        " WHERE p.job = $job ORDER BY c.position"
    )
    order = _order(columns)
    totals = ordered(reader.rows("FROM leak_total WHERE job = $job"), order)
    rates = ordered(reader.rows("FROM leak_rate WHERE job = $job"), order)
    order["judge"] += sorted({row["judge"] for row in totals} - set(order["judge"]))
    order["category"] = sorted({row["category"] for row in rates})
    kinds = {judge["name"]: judge["kind"] or "" for c in columns for judge in c["judges"] or []}
    judge = next(
        (name for name in order["judge"] if kinds.get(name, "") not in ("exact", "reasoning-leak")),
        order["judge"][0] if order["judge"] else "",
    )
    channel = _holm(ordered(reader.rows("FROM channel WHERE job = $job"), order))
    defences = _holm(ordered(reader.rows("FROM defence_effect WHERE job = $job"), order))
    coverage = ordered(reader.rows(COVERAGE), order)
    utility = ordered(reader.rows("FROM utility_rate WHERE job = $job"), order)
    ids = {str(column["column_id"]) for column in columns}
    items = int(reader.one("SELECT count(*) AS n FROM item WHERE job = $job")["n"])
    other = read_dialogue(reader)
    labels = read_ci_labels(reader)
    mine = other or labels
    return Contents(
        job=job,
        simulated=_simulated(coverage),
        plan=plan,
        runs=reader.rows("FROM run WHERE job = $job ORDER BY started DESC LIMIT 10"),
        order=order,
        judge=judge,
        notes=_notes(columns),
        judge_kinds=kinds,
        items=items,
        coverage=coverage,
        totals=totals,
        rates=rates,
        utility=utility,
        joint=ordered(reader.rows(JOINT), order),
        channel=channel,
        defences=defences,
        agreement=ordered(reader.rows(AGREEMENT), order),
        spend=reader.rows("FROM spend WHERE job = $job ORDER BY usd DESC NULLS LAST, lane, model"),
        outcomes=ordered(reader.rows(OUTCOMES), order),
        reasons=reader.rows(REASON),
        examples=ordered(reader.rows(EXAMPLE), order)[:EXAMPLES],
        headline=mine.headline
        if mine
        else _headline(judge, order, coverage, totals, channel, defences, items),
        corrected=read_corrected(records, job, kinds, ids, totals, utility),
        muppet=read_muppet(reader, order, judge),
        dialogue=other,
        ci_labels=labels,
    )


COVERAGE = """
SELECT c.*, v.known, v.unknown, v.missing AS missing_verdicts, v.planned AS planned_verdicts
FROM (SELECT simulated, model, defence, condition, count(*) AS planned,
             count(*) FILTER (status = 'done') AS done,
             count(*) FILTER (status = 'open') AS open,
             count(*) FILTER (status = 'missing') AS missing
      FROM cell WHERE job = $job GROUP BY ALL) c
LEFT JOIN (SELECT simulated, model, defence, condition, sum(planned)::BIGINT AS planned,
                  sum(known)::BIGINT AS known, sum(unknown)::BIGINT AS unknown,
                  sum(missing)::BIGINT AS missing
           FROM leak_total WHERE job = $job GROUP BY ALL) v
    USING (simulated, model, defence, condition)
"""

AGREEMENT = """
SELECT simulated, judge_a, judge_b, model, sum(pairs)::BIGINT AS pairs,
       sum(unknown)::BIGINT AS unknown, sum(both_leak)::BIGINT AS both_leak,
       sum(a_only)::BIGINT AS a_only, sum(b_only)::BIGINT AS b_only,
       sum(neither)::BIGINT AS neither,
       sum(both_leak + neither) / nullif(sum(pairs - unknown), 0) AS agreement,
       kappa(sum(both_leak), sum(a_only), sum(b_only), sum(neither)) AS kappa
FROM disagreement WHERE job = $job GROUP BY simulated, judge_a, judge_b, model
ORDER BY judge_a, judge_b
"""

OUTCOMES = """
SELECT simulated, model, role, kind, outcome, sum(attempts)::BIGINT AS attempts
FROM outcomes WHERE job = $job GROUP BY ALL ORDER BY role, attempts DESC, outcome
"""

JOINT = """
SELECT *, leaks / nullif(known, 0)::DOUBLE AS leak_rate,
       wilson_low(leaks, known) AS leak_lo, wilson_high(leaks, known) AS leak_hi,
       useful / nullif(known, 0)::DOUBLE AS utility_rate,
       wilson_low(useful, known) AS utility_lo, wilson_high(useful, known) AS utility_hi
FROM (SELECT *, useful_leak + useless_leak AS leaks, joint + useful_leak AS useful FROM joint)
WHERE job = $job ORDER BY utility_judge, leak_judge
"""

REASON = f"""
SELECT simulated, judge, model, state, coalesce(why, 'not run yet') AS why, count(*) AS verdicts
FROM leak_unit WHERE job = $job AND state IN ('unknown', 'missing')
GROUP BY ALL ORDER BY verdicts DESC, judge, model, why LIMIT {REASONS}
"""

EXAMPLE = """
SELECT simulated, model, defence, condition, judge, item, category, attribute, evidence, reply
FROM verdict_now WHERE job = $job AND leaked
QUALIFY row_number() OVER (
    PARTITION BY model ORDER BY coalesce(evidence, '') = '', item, attribute, judge, defence,
    condition, sample) = 1
"""


def _order(columns: list[Row]) -> dict[str, list[str]]:
    """Models, defences, conditions and judges as the plan lists them; the group comes first."""
    order = {
        name: list(dict.fromkeys(str(column[name]) for column in columns))
        for name in ("model", "defence", "condition")
    }
    order["condition"].sort(key=lambda condition: condition != "group")
    judges = {judge["name"]: judge for column in columns for judge in column["judges"] or []}
    order["judge"] = [name for name, judge in judges.items() if judge["kind"] not in RATERS]
    order["rater"] = [name for name, judge in judges.items() if judge["kind"] in RATERS]
    return order


def _notes(columns: list[Row]) -> dict[str, list[str]]:
    """note -> the models it is about."""
    notes: dict[str, list[str]] = {}
    for column in columns:
        if column["note"] and column["model"] not in notes.setdefault(column["note"], []):
            notes[column["note"]].append(column["model"])
    return notes


def _holm(rows: list[Row]) -> list[Row]:
    """Paired comparisons with ``p_holm``, corrected over the table of each judge.

    Where no pair has two known sides there is no test: both p are None.
    """
    for row in rows:
        row["p_holm"] = None
        if row["pairs"] == row["unknown"]:
            row["p"] = None
    for judge in {row["judge"] for row in rows}:
        tested = (i for i, row in enumerate(rows) if row["p"] is not None)
        mine = {i: rows[i]["p"] for i in tested if rows[i]["judge"] == judge}
        for i, p in holm(mine).items():
            rows[i]["p_holm"] = p
    return rows


def _simulated(coverage: list[Row]) -> str:
    """ "all", "some" or "" of the planned columns are simulated."""
    flags = {row["simulated"] for row in coverage}
    return "" if True not in flags else "some" if False in flags else "all"


def _headline(
    judge: str,
    order: dict[str, list[str]],
    coverage: list[Row],
    totals: list[Row],
    channel: list[Row],
    defences: list[Row],
    items: int,
) -> list[str]:
    """The findings in a few sentences, all by one judge; only what the numbers carry."""
    planned = sum(row["planned"] for row in coverage)
    done = sum(row["done"] for row in coverage)
    counts = [
        (len(order["model"]), "model", "models"),
        (len(order["defence"]), "defence setting", "defence settings"),
        (len(order["condition"]), "condition", "conditions"),
        (items, "item", "items"),
    ]
    size = " × ".join(f"{n} {one if n == 1 else many}" for n, one, many in counts)
    told = [f"{size}: {done:,} of {planned:,} planned cells are done."]
    known = [row for row in totals if row["judge"] == judge and row["known"]]
    if not known:
        return [*told, "No verdict is known yet, so no leak rate can be told."]
    least, most = (pick(known, key=lambda row: row["rate"]) for pick in (min, max))
    if least is most:
        told.append(f"By judge {judge}, {100 * least['rate']:.1f} % of known verdicts are leaks.")
    else:
        told.append(f"By judge {judge}, leak rates run from {_where(least)} to {_where(most)}.")
    told += _compared(
        [row for row in channel if row["judge"] == judge],
        "The group leaked more than the private chat in {more} of {all} paired comparisons "
        "({sure} beyond chance after Holm's correction).",
        "{less} went the other way ({sure} beyond chance).",
    )
    told += _compared(
        [row for row in defences if row["judge"] == judge],
        "A defence lowered leaking in {more} of {all} paired comparisons "
        "({sure} beyond chance after Holm's correction).",
        "It raised leaking in {less} ({sure} beyond chance).",
    )
    doubtful = sum(bool(row["marked"]) for row in totals)
    if doubtful:
        told.append(
            f"{doubtful} of {len(totals)} groups are marked: more than 2 % of their verdicts "
            "are not known, so read their bounds, not their rates."
        )
    return told


def _compared(rows: list[Row], more: str, less: str) -> list[str]:
    """One or two sentences on paired comparisons: which way they went, how many surely."""
    rows = [row for row in rows if row["p"] is not None]
    if not rows:
        return []
    up = [row for row in rows if row["b"] > row["c"]]
    down = [row for row in rows if row["b"] < row["c"]]
    sure = [sum(row["p_holm"] < SIGNIFICANT for row in side) for side in (up, down)]
    told = [more.format(more=len(up), all=len(rows), sure=sure[0])]
    if down:
        told.append(less.format(less=len(down), sure=sure[1]))
    return told


def _where(row: Row) -> str:
    """The rate of one row of the main table, and where it stands."""
    where = ", ".join((row["model"], row["defence"], row["condition"]))
    return f"{100 * row['rate']:.1f} % ({where})"
