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
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from leakgrid.cache.journal import ROTATE_BYTES, Journal
from leakgrid.cache.journal_file import SUFFIX, JournalFile
from leakgrid.cache.readers import JournalReader, Reader, Recent, Row, SegmentReader
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
ROOM_BYTES = 4 * 1024 * 1024


class AnswerCache:
    """Every answer under one cache folder, and the journal that new ones go to.

    Use as an async context manager. ``notices`` holds what a user should be told of damage.
    """

    def __init__(self, folder: Path, *, on_full: Any = None, rotate_bytes: int = ROTATE_BYTES):
        self.folder = folder
        self.notices: list[str] = []
        self._rotate_bytes = rotate_bytes
        self._index: dict[int, int] = {}
        self._readers: list[Reader] = []
        self._recent = Recent()
        self._numbers: dict[str, int] = {}
        self._loading: dict[tuple[int, int], asyncio.Future[tuple[Reader, Any]]] = {}
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
            self._readers[adopted] = JournalReader(self.journal.file, self._recent)
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
        reader = self._readers[number]
        row = reader.ready(ordinal)
        if ordinal % reader.block_rows == 0:
            # A replay comes to the next block soon: then nobody need wait for it.
            ahead = ordinal // reader.block_rows + 1
            if reader.has(ahead):
                self._loading_of(number, ahead)
        while row is None:
            # Out of what was read, not out of what is kept: other blocks may have put it out since.
            held, content = await self._load_block(
                number, ordinal // self._readers[number].block_rows
            )
            row = held.row(content, ordinal)
        return row if row.get("key") == key.hex() else None

    async def _load_block(self, number: int, block: int) -> tuple[Reader, Any]:
        """Have one block read, once for all who need it now: by which reader, and its content."""
        return await asyncio.shield(self._loading_of(number, block))

    def _loading_of(self, number: int, block: int) -> asyncio.Future[tuple[Reader, Any]]:
        loading = self._loading.get((number, block))
        # One that is done may be too old for a row that was written since, and to wait for it
        # again would not even let go of the loop.
        if loading is None or loading.done():
            loop = asyncio.get_running_loop()
            loading = loop.run_in_executor(self._thread, self._read, number, block)
            self._loading[number, block] = loading
            loading.add_done_callback(lambda done: self._loaded(number, block, done))
        return loading

    def _loaded(self, number: int, block: int, done: asyncio.Future[tuple[Reader, Any]]) -> None:
        if self._loading.get((number, block)) is done:
            del self._loading[number, block]
        if not done.cancelled():
            done.exception()  # seen here: who waits raises it, and a block read ahead has nobody

    def _read(self, number: int, block: int) -> tuple[Reader, Any]:
        reader = self._readers[number]
        try:
            return reader, reader.load(block)
        except FileNotFoundError:  # sealed since: the stem is a segment now
            segment = SegmentReader(self._path(number).with_suffix(SEGMENT), self._recent)
            content = segment.load(block * reader.block_rows // GROUP_ROWS)
            self._readers[number] = segment
            return segment, content

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
                self._add(stem, JournalReader(file, self._recent))
            self._written, self._written_number = file, self._numbers[stem]
        number = self._written_number
        self._index[int.from_bytes(key[:8], "little")] = number << 32 | ordinal

    def note_attempt(self, payload: bytes) -> None:
        """Queue the row of a failed attempt; nobody waits for it."""
        self.journal.append_soon(payload)

    # --- loading and sealing ------------------------------------------------------------------

    def _add(self, stem: str, reader: Reader) -> int:
        self._numbers[stem] = len(self._readers)
        self._readers.append(reader)
        return len(self._readers) - 1

    def _load(self) -> None:
        with contextlib.suppress(OSError):
            self.notices += seal_orphans(self.folder, STREAM, self._rotate_bytes)
        gone: dict[str, set[int]] = {}
        for stream, stem, ordinal in forgotten(self.folder):
            if stream == STREAM:
                gone.setdefault(stem, set()).add(ordinal)
        for path in files(self.folder, STREAM):
            keys = self._keys_of(path)
            base = self._numbers[path.stem] << 32
            if gone.get(path.stem):
                for ordinal in gone[path.stem]:
                    if ordinal < len(keys):  # the last row may have lost its newline since
                        keys[ordinal] = 0
            self._index.update(zip(keys, range(base, base + len(keys)), strict=True))
        self._index.pop(0, None)

    def _keys_of(self, path: Path) -> array[int]:
        """First 8 key bytes of each row in order; 0 for one that is no answer, or damaged."""
        if path.suffix == SUFFIX:
            keys = array("Q")
            journal = JournalFile(path)

            def take(_: int, payload: bytes) -> None:
                keys.append(_short_of(payload))

            journal.read(take)
            for hurt in journal.damage:
                for ordinal in hurt.ordinals:
                    keys.insert(ordinal, 0)
            if journal.tail:
                self.notices.append(
                    f"{path}: {journal.tail} bytes of a row that was being written when its "
                    "writer was killed are cut; that call is asked again when its cell runs again"
                )
            self.notices += quarantine(self.folder, journal.damage)
            self._add(path.stem, JournalReader(journal, self._recent))
            return keys
        self._add(path.stem, SegmentReader(path, self._recent))
        return load_keys(path)


_KEY = b'"key":"'
_ANSWER = b'"kind":"answer"'


def _short_of(payload: bytes) -> int:
    """As ``_short``, of a row that is not parsed: a quote inside a JSON string is escaped, so

    these bytes can only be the row's own key and kind.
    """
    start = payload.find(_KEY) + len(_KEY)
    if start < len(_KEY):
        return _short(orjson.loads(payload))
    if _ANSWER not in payload:
        return 0
    return int.from_bytes(bytes.fromhex(payload[start : start + 16].decode()), "little")


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
