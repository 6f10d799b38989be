"""A cache in memory for the tests of store and reports: rows are added, then scanned."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from leakgrid.cache.tables import batch

STREAMS = ("answers", "records", "runs", "batches")


def text_of(family: str, body: str) -> tuple[str, str]:
    """The fake wire: a body is JSON with text and reasoning."""
    if not body.startswith("{"):
        return "", ""
    said = json.loads(body)
    return said.get("text", ""), said.get("reasoning", "")


class World:
    """Rows of the streams; the stem of new ones is ``stem``, time goes on by a second."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {stream: [] for stream in STREAMS}
        self.gone: set[tuple[str, str, int]] = set()
        self.stem = "one"
        self.clock = 1_700_000_000.0
        self.columns: list[dict[str, Any]] = []
        self.items: list[list[str]] = []
        self.attributes: list[list[str]] = []
        self.prices: dict[str, Any] = {}
        self.benchmark = "muppet"
        self.facts: dict[str, Any] = {}

    def scan(self, folder: Path, stream: str, skip: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        """As leakgrid.cache.segments.scan, in batches of at most 7 rows."""
        stems = dict.fromkeys(row["stem"] for row in self.rows[stream])
        for stem in stems:
            rows = [
                row
                for row in self.rows[stream]
                if row["stem"] == stem
                and row["ordinal"] >= skip.get(stem, 0)
                and (stream, stem, row["ordinal"]) not in self.gone
            ]
            for start in range(0, len(rows), 7):
                part = rows[start : start + 7]
                payloads = [json.dumps(row).encode() for row in part]
                yield batch(stream, stem, [row["ordinal"] for row in part], payloads)

    def forgotten(self, folder: Path) -> set[tuple[str, str, int]]:
        """As leakgrid.cache.segments.forgotten."""
        return self.gone

    @property
    def tools(self) -> dict[str, Any]:
        """The keyword arguments that put this world in the cache's place."""
        return {"scan": self.scan, "forgotten": self.forgotten, "text_of": text_of}

    def _add(self, stream: str, row: dict[str, Any]) -> dict[str, Any]:
        self.clock += 1
        ordinal = sum(other["stem"] == self.stem for other in self.rows[stream])
        row = {"ts": self.clock, **row, "stem": self.stem, "ordinal": ordinal}
        self.rows[stream].append(row)
        return row

    def event(self, event: str, payload: Any, job: str = "demo", run: str = "run-1") -> None:
        """One row of the stream runs."""
        self._add("runs", {"event": event, "run": run, "job": job, "payload": json.dumps(payload)})

    def batch_event(self, event: str, intent: str, **more: Any) -> None:
        """One event of a book of batches."""
        self._add("batches", {"event": event, "id": intent, **more})

    def column(self, model: str, defence: str, condition: str, **more: Any) -> str:
        """One planned column; returns its id."""
        column = {
            "model": model,
            "defence": defence,
            "condition": condition,
            "sample": 0,
            "simulated": True,
            "judges": [{"name": "exact", "kind": "exact", "model": None}],
            **more,
        }
        column["id"] = "/".join((model, defence, condition, str(column["sample"])))
        self.columns.append(column)
        return str(column["id"])

    def item(self, item: str, **attributes: str) -> None:
        """One planned item; attributes are key=category."""
        self.items.append([item, f"digest-{item}"])
        self.attributes += [[item, key, category] for key, category in attributes.items()]

    def plan(self, job: str = "demo", run: str = "run-1") -> None:
        """Write down what was planned so far."""
        self.event(
            "plan",
            {
                "plan_id": "plan-1",
                "benchmark": self.benchmark,
                "dataset": "datasets/muppet/items.jsonl",
                "columns": self.columns,
                "items": self.items,
                "attributes": self.attributes,
                "prices": self.prices,
                **self.facts,
            },
            job,
            run,
        )

    def record(self, column: str, item: str, *verdicts: dict[str, Any], **more: Any) -> None:
        """One finished cell."""
        model, defence, condition, sample = column.rsplit("/", 3)
        row = {
            "column_id": column,
            "digest": f"digest-{item}",
            "run": "run-1",
            "benchmark": self.benchmark,
            "item": item,
            "model": model,
            "defence": defence,
            "condition": condition,
            "sample": int(sample),
            "settled": True,
            "simulated": True,
            "reply": "A reply.",
            "reply_outcome": "answer",
            "reasoning": "",
            "verdicts": [
                {
                    "judge": "exact",
                    "why": "",
                    "evidence": "",
                    "parser": "1",
                    "key": "",
                    "category": "",
                    **verdict,
                }
                for verdict in verdicts
            ],
            "calls": [{"role": "assistant", "key": f"key-{column}-{item}"}],
            "extra": "{}",
            **more,
        }
        self._add("records", row)

    def answer(self, key: str, **more: Any) -> None:
        """One kept answer, or with kind="attempt" one that failed."""
        row = {
            "kind": "answer",
            "key": key,
            "run": "run-1",
            "job": "demo",
            "role": "assistant",
            "lane": "sim:m-a",
            "provider": "simulated",
            "family": "chat",
            "model": "m-a",
            "returned": "m-a-1",
            "sample": 0,
            "outcome": "answer",
            "status": 200,
            "attempt": 1,
            "finish": "stop",
            "error": "",
            "input": 100,
            "cached": 0,
            "output": 10,
            "reasoning_tokens": 0,
            "usd": 0.5,
            "latency_ms": 200.0,
            "wait_ms": 1.0,
            "tier": "online",
            "simulated": True,
            "body": json.dumps({"text": f"text of {key}", "reasoning": "thought"}),
            **more,
        }
        self._add("answers", row)


def leak(attribute: str, leaked: bool | None, judge: str = "exact", **more: Any) -> dict[str, Any]:
    """One verdict."""
    return {"attribute": attribute, "leaked": leaked, "judge": judge, **more}
