"""Cache -> reports/leakgrid.duckdb: Arrow batches, one transaction, no row twice.

The file is derived: deleting it loses nothing. Raises StoreError when another process keeps it
locked, when it is no database, when it cannot be written, or when it was written by a newer
leakgrid.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leakgrid.outcomes import StoreError
from leakgrid.store import derive
from leakgrid.store.migrations import make_dialogue_views, migrate
from leakgrid.store.refusals import half_made, refusals_told

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

CHUNK_BYTES = 4 << 20
CHUNK_ROWS = 4096
COMMIT_ROWS = 20_000
SETTINGS = (
    "SET preserve_insertion_order = false",
    "SET threads = 1",
    # By its default, DuckDB would compress the end of each table anew at every commit.
    "SET wal_autocheckpoint = '64MB'",
)
MEMORY = ("64MB", "2GB")
"""What DuckDB may take. A million rows must not need more than the run that made them; the second
is for a single row that does not fit the first, like the plan of a million items.
"""
RETRY_S = 0.2


@dataclass(frozen=True, slots=True)
class IngestReport:
    """New rows by table (none: 0), rows that went (forgotten or damaged since), seconds taken."""

    rows: Mapping[str, int]
    removed: int
    seconds: float


def ingest(
    cache: Path,
    database: Path,
    *,
    scan: derive.Scan | None = None,
    forgotten: derive.Forgotten | None = None,
    text_of: derive.TextOf | None = None,
    patience_s: float = 5.0,
) -> IngestReport:
    """Take in every cache row that ``database`` does not have yet.

    Blocks: call it in a worker thread. Waits up to ``patience_s`` for another process's lock.
    """
    import duckdb
    import pyarrow as pa

    # Arrow's own pool keeps what it has once had; the system's gives it back.
    pa.set_memory_pool(pa.system_memory_pool())
    begun = time.monotonic()
    scan = scan or derive.default_scan()
    forgotten = forgotten or derive.default_forgotten()
    text_of = text_of or derive.default_text_of()
    counts: Counter[str] = Counter()
    with refusals_told(database):
        database.parent.mkdir(parents=True, exist_ok=True)
        for memory in MEMORY:
            connection = _open_or_make(database, patience_s)
            try:
                for setting in (f"SET memory_limit = '{memory}'", *SETTINGS):
                    connection.execute(setting)
                derive.add_said(connection, text_of)
                removed = _take_in(connection, cache, str(database), scan, forgotten, counts)
                break
            except (duckdb.OutOfMemoryException, duckdb.TransactionException):
                # DuckDB tells so of too little memory at a commit; what is committed is not lost.
                if memory == MEMORY[-1]:
                    raise
            finally:
                connection.close()
    return IngestReport(counts, removed, time.monotonic() - begun)


def _open_or_make(database: Path, patience_s: float) -> duckdb.DuckDBPyConnection:
    """``open_file``; a file that was left half made, by a kill or a full disk, is made anew."""
    try:
        return open_file(database, patience_s)
    except StoreError as error:
        if derive.locked(error.__cause__ or error) or not half_made(database):
            raise
    database.unlink(missing_ok=True)
    return open_file(database, patience_s)


def _take_in(
    connection: duckdb.DuckDBPyConnection,
    cache: Path,
    where: str,
    scan: derive.Scan,
    forgotten: derive.Forgotten,
    counts: Counter[str],
) -> int:
    """Everything new, some rows a commit; counts what is committed, returns rows that went."""
    import duckdb

    from leakgrid.cache.segments import damaged

    ends: dict[str, dict[str, int]] = {}
    fresh: Counter[str] = Counter()
    held = 0
    connection.begin()
    try:
        migrate(connection, where)
        for stream, table, upto in _ahead(connection, cache, scan):
            derive.load(connection, stream, table, fresh)
            ends[stream] = upto
            held += table.num_rows
            if held >= COMMIT_ROWS:
                # Rows and their marks go together, so a kill between two commits neither
                # loses nor doubles any; DuckDB keeps what is not committed in memory.
                _mark(connection, ends)
                connection.commit()
                counts.update(fresh)
                fresh.clear()
                connection.begin()
                held = 0
        _mark(connection, ends)
        removed = _remove(connection, forgotten(cache) | damaged(cache))
        if fresh["instance"] or counts["instance"]:
            make_dialogue_views(connection)
        connection.commit()
        counts.update(fresh)
    except BaseException:
        # an aborted transaction cannot always be rolled back by name; closing does it too
        with contextlib.suppress(duckdb.Error):
            connection.rollback()
        raise
    return removed


def rebuild(
    cache: Path,
    database: Path,
    *,
    scan: derive.Scan | None = None,
    forgotten: derive.Forgotten | None = None,
    text_of: derive.TextOf | None = None,
    patience_s: float = 5.0,
) -> IngestReport:
    """Build the file anew from the cache; the old one stays until the new one is whole."""
    draft = database.with_name(database.name + ".new")
    _drop(draft)
    try:
        report = ingest(cache, draft, scan=scan, forgotten=forgotten, text_of=text_of)
    except BaseException:
        _drop(draft)
        raise
    if database.exists():
        try:  # only to learn that nobody else has it open
            open_file(database, patience_s).close()
        except StoreError as error:
            if derive.locked(error.__cause__ or error):
                draft.unlink(missing_ok=True)
                raise
    draft.replace(database)
    _wal(database).unlink(missing_ok=True)
    return report


def open_file(
    database: Path, patience_s: float, *, read_only: bool = False
) -> duckdb.DuckDBPyConnection:
    """Open the file, waiting for a lock that another process holds. Raises StoreError."""
    import duckdb

    give_up = time.monotonic() + patience_s
    while True:
        try:
            return derive.connect(str(database), read_only=read_only)
        except duckdb.Error as error:
            if not derive.locked(error) or time.monotonic() >= give_up:
                raise derive.cannot_open(database, error) from error
            time.sleep(RETRY_S)


def chunks(batches: Iterable[pa.RecordBatch], ends: dict[str, int]) -> Iterator[pa.Table]:
    """Small batches put together, and in ``ends`` how many rows of each stem are taken."""
    import pyarrow.compute as pc

    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        for stem in pc.unique(batch["stem"]).to_pylist():
            mine = batch["ordinal"].filter(pc.equal(batch["stem"], stem))
            ends[stem] = max(ends.get(stem, 0), pc.max(mine).as_py() + 1)
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield _together(held)
            held, rows, size = [], 0, 0
    if rows:
        yield _together(held)


def _ahead(
    connection: duckdb.DuckDBPyConnection, cache: Path, scan: derive.Scan
) -> Iterator[tuple[str, pa.Table, dict[str, int]]]:
    """The new chunks of all streams in turns, and how many rows of each stem are then taken.

    The next ones are read in a thread while one is taken in.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="ingest") as thread:
        coming = {}
        for stream in derive.STREAMS:
            read = _reader(scan(cache, stream, _marks(connection, stream)))
            coming[stream] = read, thread.submit(read)
        while coming:
            for stream, (read, chunk) in list(coming.items()):
                table, upto = chunk.result()
                if table is None:
                    del coming[stream]
                else:
                    coming[stream] = read, thread.submit(read)
                    yield stream, table, upto


def _reader(
    batches: Iterable[pa.RecordBatch],
) -> Callable[[], tuple[pa.Table | None, dict[str, int]]]:
    """What gives the next chunk, or None, and where it ends."""
    ends: dict[str, int] = {}
    tables = chunks(batches, ends)
    return lambda: (next(tables, None), dict(ends))


def _together(batches: list[pa.RecordBatch]) -> pa.Table:
    """Batches as one table; one that an older leakgrid sealed lacks the newer columns."""
    import pyarrow as pa

    if all(batch.schema.equals(batches[0].schema) for batch in batches):
        return pa.Table.from_batches(batches)
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    return pa.concat_tables(tables, promote_options="default")


def _drop(draft: Path) -> None:
    for path in (draft, _wal(draft)):
        path.unlink(missing_ok=True)


def _wal(database: Path) -> Path:
    """DuckDB's own write-ahead log beside a file."""
    return database.with_name(database.name + ".wal")


def _marks(connection: duckdb.DuckDBPyConnection, stream: str) -> dict[str, int]:
    """Rows already taken from each stem of a stream."""
    marks = connection.execute("SELECT stem, rows FROM ingested WHERE stream = ?", [stream])
    return {stem: int(rows) for stem, rows in marks.fetchall()}


def _mark(connection: duckdb.DuckDBPyConnection, ends: Mapping[str, Mapping[str, int]]) -> None:
    """Note how far each stem of each stream was taken, in the transaction that took it."""
    for stream, upto in ends.items():
        connection.execute(
            "DELETE FROM ingested WHERE stream = ? AND stem IN (SELECT unnest(?))",
            [stream, list(upto)],
        )
        connection.executemany(
            "INSERT INTO ingested VALUES (?, ?, ?)",
            [(stream, stem, rows) for stem, rows in upto.items()],
        )


def _remove(connection: duckdb.DuckDBPyConnection, gone: set[tuple[str, str, int]]) -> int:
    """Delete rows that were taken in before they went out of use; returns how many."""
    import pyarrow as pa

    removed = 0
    for stream in derive.STREAMS:
        places = [(stem, ordinal) for name, stem, ordinal in gone if name == stream]
        if not places:
            continue
        table = pa.table(
            {"stem": [stem for stem, _ in places], "ordinal": [ordinal for _, ordinal in places]}
        )
        connection.register("gone", table)
        for name in derive.selects()[stream]:
            done = connection.execute(
                f"DELETE FROM {name} WHERE (stem, ordinal) IN (SELECT stem, ordinal FROM gone)"
            ).fetchone()
            removed += int(done[0]) if done else 0
        connection.unregister("gone")
    return removed
