"""Which cells are done, and the records they left.

A cell is a column (model x defence x condition x judges x sample, with every text and version
that goes into it) and an item. Done cells are kept per column as a set of 8-byte item digests,
so that planning a million cells is a million set look-ups and nothing else.
"""

from __future__ import annotations

import contextlib
import os
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from leakgrid.cache.journal import ROTATE_BYTES
from leakgrid.cache.journal_file import SUFFIX, JournalFile
from leakgrid.cache.segments import files, forgotten, quarantine, seal_orphans

STREAM = "records"


def short(digest: bytes) -> int:
    """The 8-byte form of an item digest that the done sets use."""
    return int.from_bytes(digest[:8], "little")


class DoneCells:
    """The settled cells under one cache folder. ``notices`` tells of damage."""

    def __init__(self, folder: Path, *, rotate_bytes: int = ROTATE_BYTES) -> None:
        self.notices: list[str] = []
        self._columns: dict[str, set[int]] = {}
        with contextlib.suppress(OSError):
            self.notices += seal_orphans(folder, STREAM, rotate_bytes)
        gone: dict[str, set[int]] = {}
        for stream, stem, ordinal in forgotten(folder):
            if stream == STREAM:
                gone.setdefault(stem, set()).add(ordinal)
        for path in files(folder, STREAM):
            dropped = gone.get(path.stem, set())
            if path.suffix == SUFFIX:
                self._read_journal(folder, path, dropped)
            elif dropped:
                self._merge(_grouped(_rows_of(path, dropped)))
            else:
                self._merge(load_cells(path))

    def column(self, column_id: str) -> set[int]:
        """The done items of one column (see ``short``); empty if it has none."""
        return self._columns.get(column_id, set())

    def note(self, column_id: str, digest: bytes) -> None:
        """Count a cell as done, that this process has just finished."""
        self._columns.setdefault(column_id, set()).add(short(digest))

    def _merge(self, groups: Iterable[tuple[str, array[int]]]) -> None:
        for column_id, digests in groups:
            self._columns.setdefault(column_id, set()).update(digests)

    def _read_journal(self, folder: Path, path: Path, dropped: set[int]) -> None:
        rows: list[tuple[str, str]] = []

        def take(ordinal: int, payload: bytes) -> None:
            row = orjson.loads(payload)
            if row["settled"] and ordinal not in dropped:
                rows.append((row["column_id"], row["digest"]))

        journal = JournalFile(path)
        journal.read(take)
        self.notices += quarantine(folder, journal.damage)
        self._merge(_grouped(rows))


def load_cells(segment: Path) -> list[tuple[str, array[int]]]:
    """The settled cells of a segment by column, from a small file beside it.

    The file is derived: a JSON line that lists (column, count), then the digests in that order.
    It is made again whenever it is missing or does not fit.
    """
    beside = segment.with_suffix(".cells")
    with contextlib.suppress(FileNotFoundError, ValueError, orjson.JSONDecodeError):
        head, _, data = beside.read_bytes().partition(b"\n")
        digests = array("Q")
        digests.frombytes(data)
        groups, start = [], 0
        for column_id, count in orjson.loads(head):
            groups.append((column_id, digests[start : start + count]))
            start += count
        if start == len(digests):
            return groups
    grouped = _grouped(_rows_of(segment, set()))
    head = orjson.dumps([(column_id, len(digests)) for column_id, digests in grouped])
    draft = beside.with_suffix(".cells-draft")
    draft.write_bytes(head + b"\n" + b"".join(digests.tobytes() for _, digests in grouped))
    os.replace(draft, beside)
    return grouped


def _rows_of(segment: Path, dropped: set[int]) -> list[tuple[str, str]]:
    import pyarrow.parquet as pq

    table = pq.read_table(segment, columns=["column_id", "digest", "settled"])
    columns: list[list[Any]] = [table.column(name).to_pylist() for name in table.column_names]
    return [
        (column_id, digest)
        for ordinal, (column_id, digest, settled) in enumerate(zip(*columns, strict=True))
        if settled and ordinal not in dropped
    ]


def _grouped(rows: Iterable[tuple[str, str]]) -> list[tuple[str, array[int]]]:
    groups: dict[str, array[int]] = {}
    for column_id, digest in rows:
        groups.setdefault(column_id, array("Q")).append(short(bytes.fromhex(digest)))
    return list(groups.items())
