"""The books of batches as one more stream, ``batches``: one row an event.

A book (``batches/book.py``) is a journal that only its lane writes and that is never sealed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from leakgrid.cache.journal_file import JournalFile

if TYPE_CHECKING:
    import pyarrow as pa

STREAM = "batches"


def scan_books(folder: Path, skip: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
    """The events of every book, as ``segments.scan`` gives rows.

    The stem of a book is when it began and its folder's name: a book that was moved away and the
    one that takes its place are two. Raises CacheError on unreadable files.
    """
    from leakgrid.cache.tables import batch

    for path in sorted((folder / STREAM).glob("*/book.jsonl")):
        try:
            rows = list(JournalFile(path).payloads())
        except FileNotFoundError:  # moved away between the listing and the reading
            continue
        if not rows:
            continue
        stem = f"{int(orjson.loads(rows[0][1])['ts'] * 1000):013d}-{path.parent.name}"
        new = [row for row in rows if row[0] >= skip.get(stem, 0)]
        if new:
            yield batch(STREAM, stem, [at for at, _ in new], [payload for _, payload in new])
