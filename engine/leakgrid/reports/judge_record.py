"""What ``leakgrid judges evaluate`` found, kept for the page: counts only, one file a judge.

The files lie in ``judge_quality/`` beside the database: JOB.JUDGE.json. A judge's record holds
for a job only as long as the judge is the same. That is known by the job's column ids, each a
digest over the models, parameters, options and prompts of its judges (and over more: a record
is rather refused once too often, and measuring again is answered from the cache).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from leakgrid.outcomes import StoreError
from leakgrid.reports.judge_quality import Confusion, Quality
from leakgrid.reports.rows import file_stem

FOLDER = "judge_quality"
VERSION = 1
COUNTS = (
    "true_positives", "false_negatives", "true_negatives", "false_positives", "unknown"
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRecord:
    """One judge on one labelled set. Positive is a labelled leak (or a useful reply).

    ``tells`` is "leak" or "useful"; ``labels`` names the labelled file, ``labels_sha256`` its
    content; ``columns`` are the ids of the job's columns whose judge this is.
    """

    job: str
    judge: str
    kind: str
    tells: str
    simulated: bool
    labels: str
    labels_sha256: str
    columns: tuple[str, ...]
    true_positives: int
    false_negatives: int
    true_negatives: int
    false_positives: int
    unknown: int
    kinds: tuple[Confusion, ...]

    @property
    def positives(self) -> int:
        """Labelled positives with a known verdict."""
        return self.true_positives + self.false_negatives

    @property
    def negatives(self) -> int:
        """Labelled negatives with a known verdict."""
        return self.true_negatives + self.false_positives


def record_of(
    quality: Quality,
    *,
    job: str,
    judge: str,
    kind: str,
    tells: str,
    simulated: bool,
    labels: Path,
    columns: Collection[str],
) -> JudgeRecord:
    """The record of a judge that was just measured on the file ``labels``."""
    told = {label: [row for row in quality.kinds if row.label is label] for label in (True, False)}
    return JudgeRecord(
        job=job,
        judge=judge,
        kind=kind,
        tells=tells,
        simulated=simulated,
        labels="/".join(labels.parts[-2:]),
        labels_sha256=hashlib.sha256(labels.read_bytes()).hexdigest(),
        columns=tuple(sorted(columns)),
        true_positives=sum(row.yes for row in told[True]),
        false_negatives=sum(row.no for row in told[True]),
        true_negatives=sum(row.no for row in told[False]),
        false_positives=sum(row.yes for row in told[False]),
        unknown=quality.unknown,
        kinds=quality.kinds,
    )


def keep(folder: Path, record: JudgeRecord) -> Path:
    """Write a record, whole or not at all. Raises StoreError where that cannot be."""
    path = path_of(folder, record.job, record.judge)
    unfinished = path.with_suffix(f".{os.getpid()}.tmp")
    body = json.dumps({"version": VERSION, **asdict(record)}, indent=1) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(body, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror})") from error
    return path


def path_of(folder: Path, job: str, judge: str) -> Path:
    """Where the record of a judge of a job lies."""
    return folder / f"{file_stem(job)}.{file_stem(judge)}.json"


def read_record(folder: Path, job: str, judge: str) -> JudgeRecord | None:
    """The kept record, or None where there is none. Raises StoreError for a broken file."""
    path = path_of(folder, job, judge)
    try:
        raw: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreError(_broken(path, str(error))) from error
    try:
        if raw.pop("version") != VERSION:
            raise StoreError(_broken(path, "another version wrote it"))
        raw["columns"] = tuple(map(str, raw["columns"]))
        raw["kinds"] = tuple(Confusion(**row) for row in raw["kinds"])
        record = JudgeRecord(**raw)
        if min(_whole(getattr(record, name)) for name in COUNTS) < 0:
            raise ValueError("a count is negative")
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise StoreError(_broken(path, str(error))) from error
    return record


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no count")
    return value


def _broken(path: Path, why: str) -> str:
    return f"{path} is no record of a judge ({why}); run `leakgrid judges evaluate` again"
