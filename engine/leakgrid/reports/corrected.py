"""Rates corrected for the judges' own errors, which the labelled replies measured.

Point estimate of Rogan & Gladen 1978, interval of Lang & Reiczigel 2014 (see ``statistics``):
it carries the chance in the replies and that in the labelled set.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leakgrid.outcomes import StoreError
from leakgrid.reports.judge_record import JudgeRecord, read_record
from leakgrid.reports.rows import Row
from leakgrid.reports.statistics import Estimate, rogan_gladen, wilson

BY_FORM = ("exact",)
"""Kinds whose misses depend on how replies are worded: the labelled mix says nothing of a job's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """``records``: each judge with its record, and in ``why`` what is against using it.

    ``rows``: rates as the judges gave them (``rate``, ``lo``, ``hi``) beside corrected ones
    (``fixed``, ``fixed_lo``, ``fixed_hi``; None where the judge is no better than chance, and
    where ``misfit`` says that its verdicts cannot come of the errors that the labels show).
    """

    records: list[Row]
    rows: list[Row]

    @property
    def measured(self) -> bool:
        """Whether any judge has a record."""
        return any(row["positives"] is not None for row in self.records)


def read_corrected(
    folder: Path | None,
    job: str,
    kinds: Mapping[str, str],
    columns: Collection[str],
    totals: Sequence[Row],
    utility: Sequence[Row],
) -> Corrected:
    """All of a job: ``kinds`` are its judges, ``columns`` the ids of its newest plan's columns.

    ``totals`` and ``utility`` are rows of leak_total and utility_rate.
    """
    records: list[Row] = []
    rows: list[Row] = []
    for judge, kind in kinds.items():
        record, why = _usable(folder, job, judge, columns)
        if record is not None and kind in BY_FORM:
            why = (
                "not used: this judge misses what is worded differently, and how often a job's "
                "replies are is not what the labelled replies show"
            )
        records.append(_record(judge, kind, record, why))
        if record is None or why:
            continue
        leaks = record.tells == "leak"
        rows += [
            _row(row, row["leaks"] if leaks else row["useful"], record)
            for row in (totals if leaks else utility)
            if row["judge"] == judge
        ]
    return Corrected(records=records, rows=rows)


def _usable(
    folder: Path | None, job: str, judge: str, columns: Collection[str]
) -> tuple[JudgeRecord | None, str]:
    """(record, why it is not used): both may be empty, a refused record is None."""
    try:
        record = read_record(folder, job, judge) if folder is not None else None
    except StoreError as error:
        return None, str(error)
    if record is None:
        return None, "not measured"
    if not set(columns) <= set(record.columns):
        return None, (
            "refused: measured for another plan of this job, so perhaps with another model, "
            "other parameters or other prompts; measure again"
        )
    if not record.positives or not record.negatives:
        return record, "not used: no known verdict on labelled replies of one of the two sides"
    return record, ""


def _record(judge: str, kind: str, record: JudgeRecord | None, why: str) -> Row:
    row: Row = {"judge": judge, "kind": kind, "why": why, "positives": None}
    if record is None:
        return row
    for name, right, known in (
        ("sensitivity", record.true_positives, record.positives),
        ("specificity", record.true_negatives, record.negatives),
    ):
        found = wilson(right, known) if known else None
        row[name] = _estimate(found) | {"right": right, "known": known}
    return row | {
        "simulated": record.simulated,
        "positives": record.positives,
        "negatives": record.negatives,
        "unknown": record.unknown,
        "labels": record.labels,
        "digest": record.labels_sha256[:12],
        "tells": record.tells,
    }


def _row(row: Row, hits: int, record: JudgeRecord) -> Row:
    fixed = None
    if row["known"]:
        fixed = rogan_gladen(
            hits,
            row["known"],
            true_positives=record.true_positives,
            leaks=record.positives,
            true_negatives=record.true_negatives,
            clean=record.negatives,
        )
    misfit = fixed is not None and _misfit(row, record)
    end = _estimate(None if misfit else fixed)
    return {
        **{
            name: row[name]
            for name in ("simulated", "judge", "model", "defence", "condition", "known", "rate",
                         "lo", "hi", "marked")
        },
        "tells": record.tells,
        "hits": hits,
        "misfit": misfit,
        "fixed": end["value"],
        "fixed_lo": end["lo"],
        "fixed_hi": end["hi"],
    }  # fmt: skip


def _misfit(row: Row, record: JudgeRecord) -> bool:
    """Whether more is called a leak than if all were one, or less than if none were, beyond chance.

    Then the judge errs here otherwise than on the labelled replies, and no correction holds.
    """
    most = wilson(record.true_positives, record.positives).high
    least = wilson(record.false_positives, record.negatives).low
    return bool(row["lo"] > most or row["hi"] < least)


def _estimate(found: Estimate | None) -> Row:
    if found is None:
        return {"value": None, "lo": None, "hi": None}
    return {"value": found.value, "lo": found.low, "hi": found.high}
