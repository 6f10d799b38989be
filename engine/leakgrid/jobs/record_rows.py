"""Finished cells as rows of the stream ``records`` (columns in ``cache/tables.py``)."""

from __future__ import annotations

import time
from operator import attrgetter
from typing import Any

import orjson

from leakgrid.jobs.plan import Column, Todo
from leakgrid.types import Record

LISTS = ("verdicts", "ratings", "probes", "utterances", "hearings", "reveals", "votes")

_lists = attrgetter(*LISTS)


class RecordRows:
    """The rows of one run; what all cells of a column share is written once."""

    __slots__ = ("_benchmark", "_constants", "_run")

    def __init__(self, run: str, benchmark: str) -> None:
        self._run = run
        self._benchmark = benchmark
        self._constants: dict[str, bytes] = {}

    def row(self, todo: Todo, record: Record) -> bytes:
        """The row of one cell as JSON."""
        column = todo.column
        constant = self._constants.get(column.id)
        if constant is None:
            constant = self._constants[column.id] = self._constant(column)
        row: dict[str, Any] = {
            "digest": todo.item.digest.hex(),
            "item": record.item,
            "settled": record.settled,
            "simulated": record.simulated,
            "reply": record.reply,
            "reply_outcome": record.reply_outcome,
            "reasoning": record.reasoning,
            "calls": [{"role": role, "key": key} for role, key in record.calls],
            "extra": orjson.dumps(record.extra).decode() if record.extra else "{}",
            "ts": time.time(),
        }
        # Most lists are empty, and orjson writes dataclasses as they are.
        lists = zip(LISTS, _lists(record), strict=True)
        row |= {name: listed for name, listed in lists if listed}
        return constant + orjson.dumps(row)[1:]

    def _constant(self, column: Column) -> bytes:
        """The beginning of all rows of one column, without the closing brace."""
        point = column.point
        shared = {
            "column_id": column.id,
            "run": self._run,
            "benchmark": self._benchmark,
            "model": point.model,
            "defence": point.defence,
            "condition": point.condition,
            "sample": point.sample,
            "receiver": point.receiver,
            "turns": point.turns,
        }
        return orjson.dumps(shared)[:-1] + b","
