"""Rows of kept answers, read from journals and segments a block at a time.

Replays come in about the order written, so most rows are in a block that was just read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import orjson

from leakgrid.cache.framing import unseal
from leakgrid.cache.journal_file import JournalFile
from leakgrid.cache.segments import GROUP_ROWS

BLOCKS_KEPT = 32
WANTED = (
    "key", "outcome", "status", "body", "finish", "error", "returned",
    "input", "cached", "output", "reasoning_tokens", "usd", "latency_ms", "simulated", "family",
)  # fmt: skip

Row = Mapping[str, Any]


class Reader(Protocol):
    """Where rows of one stem are read from: ``load`` in a thread, ``ready`` on the event loop."""

    block_rows: int

    def ready(self, ordinal: int) -> Row | None:
        """The row if its block is in memory; None if it is not.

        A row that is damaged now is {}, or one of nulls.
        """

    def has(self, block: int) -> bool:
        """Whether the file goes on to this block, and it is not in memory."""

    def load(self, block: int) -> Any:
        """Read one block from disk, and return its content."""

    def row(self, content: Any, ordinal: int) -> Row | None:
        """The row out of its block's content; None if it was written after that was read."""


class Recent:
    """The blocks that were read last, of all files together: a replay of millions stays small."""

    def __init__(self) -> None:
        self._order: OrderedDict[tuple[int, int], dict[int, Any]] = OrderedDict()

    def keep(self, blocks: dict[int, Any], block: int, content: Any) -> None:
        """Put ``content`` into a file's blocks, and the oldest block of any file out."""
        blocks[block] = content
        self._order[id(blocks), block] = blocks
        self._order.move_to_end((id(blocks), block))
        if len(self._order) > BLOCKS_KEPT:
            (_, oldest), held = self._order.popitem(last=False)
            held.pop(oldest, None)


class JournalReader:
    """Blocks of raw lines; the last one grows while the journal is written."""

    block_rows = 512

    def __init__(self, file: JournalFile, recent: Recent) -> None:
        self._file = file
        self._recent = recent
        self._blocks: dict[int, Any] = {}

    def ready(self, ordinal: int) -> Row | None:
        held = self._blocks.get(ordinal // self.block_rows)
        return None if held is None else self.row(held, ordinal)

    def row(self, content: Any, ordinal: int) -> Row | None:
        data, begin = content
        start = self._file.offsets[ordinal] - begin
        if start >= len(data):
            return None
        payload = unseal(data[start : data.find(b"\n", start) + 1])
        return {} if payload is None else orjson.loads(payload)

    def has(self, block: int) -> bool:
        return block not in self._blocks and block * self.block_rows < len(self._file.offsets)

    def load(self, block: int) -> Any:
        offsets, first = self._file.offsets, block * self.block_rows
        after = first + self.block_rows
        end = offsets[after] if after < len(offsets) else self._file.size
        with open(self._file.path, "rb") as file:
            file.seek(offsets[first])
            content = (file.read(end - offsets[first]), offsets[first])
            self._recent.keep(self._blocks, block, content)
        return content


class SegmentReader:
    """Blocks are the segment's row groups, decoded column by column."""

    block_rows = GROUP_ROWS

    def __init__(self, path: Path, recent: Recent) -> None:
        self._path = path
        self._segment: Any = None
        self._recent = recent
        self._blocks: dict[int, Any] = {}

    def ready(self, ordinal: int) -> Row | None:
        block = self._blocks.get(ordinal // GROUP_ROWS)
        return None if block is None else self.row(block, ordinal)

    def row(self, content: Any, ordinal: int) -> Row | None:
        place = ordinal % GROUP_ROWS
        return {name: column[place] for name, column in content.items()}

    def has(self, block: int) -> bool:
        known = self._segment is not None and block < self._segment.num_row_groups
        return known and block not in self._blocks

    def load(self, block: int) -> Any:
        import pyarrow.parquet as pq

        if self._segment is None:
            self._segment = pq.ParquetFile(self._path)
        table = self._segment.read_row_group(block, columns=list(WANTED))
        content = {name: _values(table.column(name)) for name in WANTED}
        self._recent.keep(self._blocks, block, content)
        return content


def _values(column: Any) -> list[Any]:
    """A column as Python values, numbers by way of numpy, which is ten times as fast."""
    if column.null_count or column.type in ("string", "bool"):
        values: list[Any] = column.to_pylist()
        return values
    return list(column.to_numpy().tolist())
