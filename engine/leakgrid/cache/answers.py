"""The answers kept so far: found by key in memory, read from journals and segments on demand.

The index maps the first 8 bytes of a key to (file, ordinal), about 110 bytes a call, so that a
million calls fit in memory; the whole key is compared when a row is read, so two keys that
share their first bytes cost a second request and never a wrong answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from array import array
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import orjson

from leakgrid.cache.framing import unseal
from leakgrid.cache.journal import ROTATE_BYTES, Journal
from leakgrid.cache.journal_file import SUFFIX, JournalFile
from leakgrid.cache.sealing import seal_apart
from leakgrid.cache.segments import (
    GROUP_ROWS,
    SEGMENT,
    files,
    forgotten,
    quarantine,
    seal_orphans,
)

STREAM = "answers"
BLOCKS_KEPT = 16
ROOM_BYTES = 4 * 1024 * 1024
WANTED = (
    "key", "outcome", "status", "body", "finish", "error", "returned",
    "input", "cached", "output", "reasoning_tokens", "usd", "latency_ms", "simulated", "family",
)  # fmt: skip

Row = Mapping[str, Any]


class _Reader(Protocol):
    """Where rows of one stem are read from, a block at a time.

    Replays come in about the order written, so most rows are in a block that was just read.
    ``load`` runs in a thread, ``ready`` on the event loop.
    """

    block_rows: int

    def ready(self, ordinal: int) -> Row | None:
        """The row if its block is in memory; None if it is not, {} if the row is damaged now."""

    def load(self, block: int) -> None:
        """Read one block from disk."""


class _Blocks(OrderedDict[int, Any]):
    """The blocks of one file that were read last."""

    def keep(self, block: int, content: Any) -> None:
        self[block] = content
        if len(self) > BLOCKS_KEPT:
            self.popitem(last=False)


class _JournalReader:
    """Blocks of raw lines; the last one grows while the journal is written."""

    block_rows = 256

    def __init__(self, file: JournalFile) -> None:
        self._file = file
        self._blocks = _Blocks()

    def ready(self, ordinal: int) -> Row | None:
        held = self._blocks.get(ordinal // self.block_rows)
        if held is None:
            return None
        data, begin = held
        start = self._file.offsets[ordinal] - begin
        if start >= len(data):
            return None
        payload = unseal(data[start : data.index(b"\n", start) + 1])
        return {} if payload is None else orjson.loads(payload)

    def load(self, block: int) -> None:
        offsets, first = self._file.offsets, block * self.block_rows
        after = first + self.block_rows
        end = offsets[after] if after < len(offsets) else self._file.size
        with open(self._file.path, "rb") as file:
            file.seek(offsets[first])
            self._blocks.keep(block, (file.read(end - offsets[first]), offsets[first]))


class _SegmentReader:
    """Blocks are the segment's row groups, decoded column by column."""

    block_rows = GROUP_ROWS

    def __init__(self, path: Path) -> None:
        self._path = path
        self._segment: Any = None
        self._blocks = _Blocks()

    def ready(self, ordinal: int) -> Row | None:
        block = self._blocks.get(ordinal // GROUP_ROWS)
        if block is None:
            return None
        place = ordinal % GROUP_ROWS
        return {name: column[place] for name, column in block.items()}

    def load(self, block: int) -> None:
        import pyarrow.parquet as pq

        if self._segment is None:
            self._segment = pq.ParquetFile(self._path)
        table = self._segment.read_row_group(block, columns=list(WANTED))
        self._blocks.keep(block, {name: _values(table.column(name)) for name in WANTED})


def _values(column: Any) -> list[Any]:
    """A column as Python values, numbers by way of numpy, which is ten times as fast."""
    if column.null_count or column.type in ("string", "bool"):
        values: list[Any] = column.to_pylist()
        return values
    return list(column.to_numpy().tolist())


class AnswerCache:
    """Every answer under one cache folder, and the journal that new ones go to.

    Use as an async context manager. ``notices`` holds what a user should be told of damage.
    """

    def __init__(self, folder: Path, *, on_full: Any = None, rotate_bytes: int = ROTATE_BYTES):
        self.folder = folder
        self.notices: list[str] = []
        self._rotate_bytes = rotate_bytes
        self._index: dict[int, int] = {}
        self._readers: list[_Reader] = []
        self._numbers: dict[str, int] = {}
        self._loading: dict[tuple[int, int], asyncio.Future[None]] = {}
        self._written: JournalFile | None = None
        self._written_number = 0
        self.journal = Journal(
            folder / STREAM,
            on_sealed=partial(seal_apart, STREAM),
            on_full=on_full,
            rotate_bytes=rotate_bytes,
            room_bytes=ROOM_BYTES,
        )

    async def __aenter__(self) -> AnswerCache:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="answers")
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._load)
        await self.journal.__aenter__()
        adopted = self._numbers.get(self.journal.file.path.stem)
        if adopted is not None:  # its offsets grow with the writer's own, not with ours
            self._readers[adopted] = _JournalReader(self.journal.file)
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            await self.journal.__aexit__(*exc)
        finally:
            self._thread.shutdown(wait=False)

    def __len__(self) -> int:
        return len(self._index)

    # --- reading ------------------------------------------------------------------------------

    async def find(self, key: bytes) -> Row | None:
        """The kept row of ``key``, or None if there is none (or it is damaged)."""
        place = self._index.get(int.from_bytes(key[:8], "little"))
        if place is None:
            return None
        number, ordinal = place >> 32, place & 0xFFFFFFFF
        row = self._readers[number].ready(ordinal)
        while row is None:
            await self._load_block(number, ordinal // self._readers[number].block_rows)
            row = self._readers[number].ready(ordinal)
        return row if row.get("key") == key.hex() else None

    async def _load_block(self, number: int, block: int) -> None:
        """Have one block read, once for all who need it now."""
        loading = self._loading.get((number, block))
        if loading is None:
            loop = asyncio.get_running_loop()
            loading = loop.run_in_executor(self._thread, self._read, number, block)
            self._loading[number, block] = loading
            loading.add_done_callback(lambda _: self._loading.pop((number, block), None))
        await asyncio.shield(loading)

    def _read(self, number: int, block: int) -> None:
        try:
            self._readers[number].load(block)
        except FileNotFoundError:  # sealed since: the stem is a segment now
            segment = _SegmentReader(self._path(number).with_suffix(SEGMENT))
            segment.load(block * self._readers[number].block_rows // GROUP_ROWS)
            self._readers[number] = segment

    def _path(self, number: int) -> Path:
        stem = next(stem for stem, known in self._numbers.items() if known == number)
        return self.folder / STREAM / (stem + SUFFIX)

    # --- writing ------------------------------------------------------------------------------

    async def keep(self, key: bytes, payload: bytes) -> None:
        """Return once this answer is on disk and can be found. Raises CacheError if it is not."""
        file, ordinal = await self.journal.append(payload)
        if file is not self._written:
            stem = file.path.stem
            if stem not in self._numbers:
                self._add(stem, _JournalReader(file))
            self._written, self._written_number = file, self._numbers[stem]
        number = self._written_number
        self._index[int.from_bytes(key[:8], "little")] = number << 32 | ordinal

    def note_attempt(self, payload: bytes) -> None:
        """Queue the row of a failed attempt; nobody waits for it."""
        self.journal.append_soon(payload)

    # --- loading and sealing ------------------------------------------------------------------

    def _add(self, stem: str, reader: _Reader) -> int:
        self._numbers[stem] = len(self._readers)
        self._readers.append(reader)
        return len(self._readers) - 1

    def _load(self) -> None:
        with contextlib.suppress(OSError):
            seal_orphans(self.folder, STREAM, self._rotate_bytes)
        gone: dict[str, set[int]] = {}
        for stream, stem, ordinal in forgotten(self.folder):
            if stream == STREAM:
                gone.setdefault(stem, set()).add(ordinal)
        for path in files(self.folder, STREAM):
            keys = self._keys_of(path)
            base = self._numbers[path.stem] << 32
            if gone.get(path.stem):
                for ordinal in gone[path.stem]:
                    keys[ordinal] = 0
            self._index.update(zip(keys, range(base, base + len(keys)), strict=True))
        self._index.pop(0, None)

    def _keys_of(self, path: Path) -> array[int]:
        """First 8 key bytes of each row in order; 0 for a row that is no answer."""
        if path.suffix == SUFFIX:
            keys = array("Q")
            journal = JournalFile(path)

            def take(_: int, payload: bytes) -> None:
                keys.append(_short(orjson.loads(payload)))

            journal.read(take)
            if journal.tail:
                self.notices.append(
                    f"{path}: {journal.tail} bytes of a row that was being written when its "
                    "writer was killed are cut; that call is asked again"
                )
            self.notices += quarantine(self.folder, journal.damage)
            self._add(path.stem, _JournalReader(journal))
            return keys
        self._add(path.stem, _SegmentReader(path))
        return load_keys(path)


def _short(row: Row) -> int:
    if row["kind"] != "answer":
        return 0
    return int.from_bytes(bytes.fromhex(row["key"][:16]), "little")


def load_keys(segment: Path) -> array[int]:
    """The key column of a segment as 8-byte integers, from a small file beside it.

    The file is derived: it is made again whenever it is missing or does not fit.
    """
    import pyarrow.parquet as pq

    beside = segment.with_suffix(".keys")
    keys = array("Q")
    with contextlib.suppress(FileNotFoundError):
        keys.frombytes(beside.read_bytes())
        if len(keys) == pq.read_metadata(segment).num_rows:
            return keys
    table = pq.read_table(segment, columns=["kind", "key"])
    rows = zip(table.column("kind").to_pylist(), table.column("key").to_pylist(), strict=True)
    keys = array("Q", (_short({"kind": kind, "key": key}) for kind, key in rows))
    draft = beside.with_suffix(".keys-draft")
    draft.write_bytes(keys.tobytes())
    os.replace(draft, beside)
    return keys
