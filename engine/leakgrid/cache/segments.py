"""Full journals become zstd Parquet segments; both are read through one ``scan``.

A segment keeps the rows of its journal in order, a row of nulls in place of each damaged one, so
(stem, ordinal) names a row for ever; ``scan`` leaves these out.
It is written beside the journal, fsynced and renamed before the journal goes: at any moment one
of the two is whole, and where both stand the segment counts.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from leakgrid.cache.books import STREAM as BOOKS
from leakgrid.cache.books import scan_books
from leakgrid.cache.journal_file import START, SUFFIX, Damage, JournalFile, Place, lock, sync_folder

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_ROWS = 1000
SEGMENT = ".parquet"
STREAMS = ("answers", "records", "runs")


def files(folder: Path, stream: str) -> list[Path]:
    """Segments and journals of one stream in the order they were begun, one file a stem."""
    by_stem: dict[str, Path] = {}
    home = folder / stream
    for suffix in (SUFFIX, SEGMENT):
        for path in home.glob("*" + suffix):
            by_stem[path.stem] = path
    return [by_stem[stem] for stem in sorted(by_stem)]


def seal_journal(stream: str, journal: JournalFile) -> Path:
    """Turn one finished journal into a segment and remove it; returns the segment's path.

    The caller holds the journal's lock. Raises OSError when the disk has no room: then the
    journal stays as it is.
    """
    import pyarrow.parquet as pq

    from leakgrid.cache.tables import SCHEMAS, batch

    target = journal.path.with_suffix(SEGMENT)
    draft = journal.path.with_suffix(".draft")
    names = SCHEMAS[stream].names
    rows = JournalFile(journal.path)
    try:
        with pq.ParquetWriter(draft, SCHEMAS[stream], compression="zstd") as writer:
            for ordinals, payloads in _chunks(_all_rows(rows), 0):
                part = batch(stream, journal.path.stem, ordinals, payloads).select(names)
                writer.write_batch(part, row_group_size=GROUP_ROWS)
        quarantine(journal.path.parent.parent, rows.damage)  # nothing else keeps them from here on
        with open(draft, "rb") as file:
            os.fsync(file.fileno())
        draft.rename(target)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(target.parent)
    journal.path.unlink(missing_ok=True)
    return target


def seal_orphans(folder: Path, stream: str, rotate_bytes: int) -> list[str]:
    """Finish what a killed process left: full journals without a segment, or with one.

    Returns what a user should be told of damage in them.
    """
    told: list[str] = []
    for path in sorted((folder / stream).glob("*" + SUFFIX)):
        done = path.with_suffix(SEGMENT).exists()
        if not done and path.stat().st_size < rotate_bytes:
            continue
        descriptor = lock(path)
        if descriptor is None:
            continue
        try:
            if done:
                path.unlink(missing_ok=True)
            else:
                journal = JournalFile(path)
                journal.read()
                seal_journal(stream, journal)
                told += quarantine(folder, journal.damage)
        finally:
            os.close(descriptor)
    return told


def scan(
    folder: Path,
    stream: str,
    skip: Mapping[str, int],
    *,
    places: MutableMapping[str, Place] | None = None,
) -> Iterator[pa.RecordBatch]:
    """All good, unforgotten rows of one stream as Arrow batches (see ``tables``).

    ``skip[stem]`` leading rows of a stem are left out. Who scans growing journals again and again
    gives the same ``places`` each time: they are then read from where the last scan ended.
    Raises CacheError on unreadable files.
    """
    if stream == BOOKS:
        yield from scan_books(folder, skip)
        return
    places = {} if places is None else places
    dropped: dict[str, set[int]] = {}
    for dropped_stream, stem, ordinal in forgotten(folder):
        if dropped_stream == stream:
            dropped.setdefault(stem, set()).add(ordinal)
    for path in files(folder, stream):
        gone = dropped.get(path.stem, set())
        first = skip.get(path.stem, 0)
        try:
            if path.suffix == SUFFIX:
                yield from _scan_journal(path, stream, first, gone, places)
            else:
                yield from _scan_segment(path, stream, first, gone)
        except FileNotFoundError:  # sealed between the listing and the reading
            yield from _scan_segment(path.with_suffix(SEGMENT), stream, first, gone)


def forgotten(folder: Path) -> set[tuple[str, str, int]]:
    """Rows that ``leakgrid forget`` has put out of use, as (stream, stem, ordinal)."""
    gone: set[tuple[str, str, int]] = set()

    def take(_: int, payload: bytes) -> None:
        row = orjson.loads(payload)
        gone.update((row["stream"], stem, ordinal) for stem, ordinal in row["rows"])

    for path in files(folder, "forgotten"):
        JournalFile(path).read(take)
    return gone


def damaged(folder: Path) -> set[tuple[str, str, int]]:
    """Rows that are damaged now, as (stream, stem, ordinal), of the files that ``quarantine`` knows

    of: no others are read for it.
    """
    names = (path.name for path in (folder / "quarantine").glob("*.bad"))
    stems = {name.rpartition(".line-")[0] for name in names}
    found: set[tuple[str, str, int]] = set()
    for stream in STREAMS if stems else ():
        for path in files(folder, stream):
            if path.stem not in stems:
                continue
            try:
                lost = _lost_rows(path)
            except FileNotFoundError:  # sealed between the listing and the reading
                lost = _lost_rows(path.with_suffix(SEGMENT))
            found.update((stream, path.stem, ordinal) for ordinal in lost)
    return found


def quarantine(folder: Path, damage: list[Damage]) -> list[str]:
    """Keep each damaged line under ``quarantine/`` and say where it stood."""
    told = []
    for hurt in damage:
        home = folder / "quarantine"
        home.mkdir(exist_ok=True)
        keep = home / f"{hurt.path.stem}.line-{hurt.line}.bad"
        again = "its call is asked again when its cell runs again"
        if hurt.path.parent.name == "records":
            again = "its cell runs again, if it has not yet"
        if not keep.exists():
            keep.write_bytes(hurt.data)
        told.append(
            f"{hurt.path}, line {hurt.line} (byte {hurt.offset}): checksum does not fit; "
            f"the row is kept in {keep} and counts as never written: {again}"
        )
    return told


def _chunks(
    rows: Iterable[tuple[int, bytes]], first: int
) -> Iterator[tuple[list[int], list[bytes]]]:
    """Rows from ordinal ``first`` on, GROUP_ROWS at a time, in one pass."""
    ordinals: list[int] = []
    payloads: list[bytes] = []
    for ordinal, payload in rows:
        if ordinal < first:
            continue
        ordinals.append(ordinal)
        payloads.append(payload)
        if len(ordinals) == GROUP_ROWS:
            yield ordinals, payloads
            ordinals, payloads = [], []
    if ordinals:
        yield ordinals, payloads


def _all_rows(journal: JournalFile) -> Iterator[tuple[int, bytes]]:
    """Every row of a journal, an empty object in place of each damaged one."""
    due = 0
    for ordinal, payload in journal.payloads():
        yield from ((lost, b"{}") for lost in range(due, ordinal))
        yield ordinal, payload
        due = ordinal + 1
    yield from ((lost, b"{}") for lost in range(due, journal.place.ordinal))


def _lost_rows(path: Path) -> list[int]:
    """The ordinals of the damaged rows of a journal or a segment."""
    if path.suffix == SUFFIX:
        journal = JournalFile(path)
        journal.read()
        return [ordinal for hurt in journal.damage for ordinal in hurt.ordinals]
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as segment:
        first = segment.read(columns=[segment.schema_arrow.names[0]]).column(0)
    lost: list[int] = pc.indices_nonzero(first.is_null()).to_pylist()
    return lost


def _scan_journal(
    path: Path, stream: str, first: int, gone: set[int], places: MutableMapping[str, Place]
) -> Iterator[pa.RecordBatch]:
    from leakgrid.cache.tables import batch

    journal = JournalFile(path)
    start = places.get(path.stem, START)
    if start.ordinal > first:  # what was read then did not arrive where it was to go
        start = START
    for ordinals, payloads in _chunks(journal.payloads(start), first):
        if not gone.isdisjoint(ordinals):
            kept = [place for place, at in enumerate(ordinals) if at not in gone]
            ordinals = [ordinals[place] for place in kept]
            payloads = [payloads[place] for place in kept]
        if ordinals:
            yield batch(stream, path.stem, ordinals, payloads)
    places[path.stem] = journal.place
    if journal.damage:
        with contextlib.suppress(OSError):  # who may only read the cache reads on
            quarantine(path.parent.parent, journal.damage)


def _scan_segment(path: Path, stream: str, first: int, gone: set[int]) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    from leakgrid.cache.tables import fitted

    with pq.ParquetFile(path) as segment:
        ordinal = 0
        groups: list[int] = []
        for number in range(segment.num_row_groups):
            if not groups and ordinal + segment.metadata.row_group(number).num_rows <= first:
                ordinal += segment.metadata.row_group(number).num_rows
            else:
                groups.append(number)
        for part in segment.iter_batches(GROUP_ROWS, row_groups=groups) if groups else ():
            yield from _placed(fitted(stream, part), path.stem, ordinal, first, gone)
            ordinal += part.num_rows


def _placed(
    part: pa.RecordBatch, stem: str, ordinal: int, first: int, gone: set[int]
) -> Iterator[pa.RecordBatch]:
    """Rows of a segment that begin at ``ordinal``, with their places, less those not wanted.

    No good row lacks the first column of its stream.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    count = part.num_rows
    part = part.append_column("stem", pa.array([stem] * count))
    part = part.append_column("ordinal", pa.array(range(ordinal, ordinal + count), pa.int64()))
    if first > ordinal:
        part = part.slice(first - ordinal)
    if any(ordinal <= place < ordinal + count for place in gone):
        part = part.filter(pa.array([place.as_py() not in gone for place in part["ordinal"]]))
    if part.num_rows and part.column(0).null_count:
        part = part.filter(pc.is_valid(part.column(0)))
    if part.num_rows:
        yield part
