"""Whether a database has all that a cache has: a note beside it, read without opening either.

The note, DATABASE.landed, is derived. It holds for one state of the cache (the sizes of its
files), one state of the database (its number, size and time) and one form of its tables. So a
landing that was killed, a file that was deleted, another database and one of an older leakgrid
never look complete; at worst, rows that are there already are looked for once more. For each job
it has a mark, which the job's page carries too.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from leakgrid.outcomes import StoreError
from leakgrid.store.migrations import views_digest

if TYPE_CHECKING:
    import duckdb

    from leakgrid.store.derive import Scan
    from leakgrid.store.ingest import IngestReport

PLACES = (
    "runs/*", "batches/*/*", "records/*", "answers/*", "forgotten/*", "quarantine/*",
)  # fmt: skip
"""Where the cache keeps what is landed, and what says that a row counts no more."""

MARKS = """
WITH row AS (
    SELECT job, hash('plan', stem, ordinal) AS h FROM plan_now
    UNION ALL SELECT job, hash('start', stem, ordinal) FROM run_start
    UNION ALL SELECT job, hash('end', stem, ordinal) FROM run_end
    UNION ALL SELECT job, hash('answer', stem, ordinal) FROM response
    UNION ALL SELECT job, hash('attempt', stem, ordinal) FROM attempt
    UNION ALL SELECT c.job, hash('record', r.stem, r.ordinal) FROM reply r JOIN (
        SELECT DISTINCT job, column_id FROM plan_now JOIN plan_column USING (stem, ordinal)
    ) c USING (column_id)
)
SELECT job, printf('%d-%x', count(*), bit_xor(h)) FROM row GROUP BY job
"""
"""What tells one state of a job's rows from another; other jobs may have made some of them."""


def land(cache: Path, database: Path, *, scan: Scan | None = None) -> IngestReport:
    """Take in every row of the cache, and note that they are in. Raises StoreError."""
    import duckdb

    from leakgrid.store.ingest import MEMORY, SETTINGS, ingest, open_file

    before = _cache_state(cache)  # what comes during the scan may be missed by it
    report = ingest(cache, database, scan=scan)
    # Without a note, the next run looks through the cache once more.
    with contextlib.suppress(StoreError, OSError, duckdb.Error):
        connection = open_file(database, 0, read_only=True)
        try:
            for setting in (f"SET memory_limit = '{MEMORY[0]}'", *SETTINGS):
                connection.execute(setting)
            marks = job_marks(connection)
        finally:
            connection.close()
        state = {"cache": before, **_form_and_file(database)}
        told = {**state, "jobs": marks}
        draft = _note(database).with_suffix(f".{os.getpid()}")
        try:
            draft.write_bytes(orjson.dumps(told))
            draft.replace(_note(database))
        finally:
            draft.unlink(missing_ok=True)
    return report


def is_landed(cache: Path, database: Path) -> bool:
    """Whether ``database`` has all that is in the cache now."""
    return _noted(cache, database) is not None


def landed_mark(cache: Path, database: Path, job: str) -> str:
    """The job's mark in the database; empty where not all of the cache is landed."""
    return str((_noted(cache, database) or {}).get("jobs", {}).get(job, ""))


def job_marks(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """The mark of every job; equal marks mean equal rows."""
    return dict(connection.execute(MARKS).fetchall())


def _noted(cache: Path, database: Path) -> dict[str, Any] | None:
    """The note, if it holds for the cache and the database as they are now."""
    try:
        told: dict[str, Any] = orjson.loads(_note(database).read_bytes())
        state = {"cache": _cache_state(cache), **_form_and_file(database)}
        fits = {name: told[name] for name in state} == state
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return told if fits else None


def _note(database: Path) -> Path:
    return database.with_name(database.name + ".landed")


def _form_and_file(database: Path) -> dict[str, Any]:
    state = database.stat()
    return {
        "form": views_digest(),
        "database": [state.st_ino, state.st_size, state.st_mtime_ns],
    }


def _cache_state(cache: Path) -> dict[str, int]:
    """The size of every file with rows in it or against some; an empty one has none."""
    sizes: dict[str, int] = {}
    for place in PLACES:
        for path in cache.glob(place):
            if path.suffix in (".jsonl", ".parquet", ".bad"):
                with contextlib.suppress(FileNotFoundError):
                    sizes[str(path.relative_to(cache))] = path.stat().st_size
    return {name: size for name, size in sorted(sizes.items()) if size}
