"""Labelled replies: what judges are measured by. One JSON object a line.

Raises DatasetError naming file, line and key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from leakgrid.benchmarks.defences.reply import Reply
from leakgrid.datasets.items import Item
from leakgrid.outcomes import DatasetError, Outcome

TEXTS = ("id", "item", "kind", "reply")
LABELS = ("leak", "useful")


@dataclass(frozen=True, slots=True)
class Labelled:
    """A reply to ``item`` with its labels; ``kind`` is the kind of case that it was written for."""

    id: str
    item: Item
    kind: str
    text: str
    leak: bool
    useful: bool

    def reply(self) -> Reply:
        """As a defence would give it; its text also stands where thoughts are read."""
        return Reply(text=self.text, outcome=Outcome.ANSWER, reasoning=self.text)

    def label(self, tells: str) -> bool:
        """The truth that a judge of leaks ("leak") or of usefulness ("useful") should find."""
        return self.leak if tells == "leak" else self.useful


def load_labelled(path: Path, items: Mapping[str, Item]) -> tuple[Labelled, ...]:
    """All replies of a file, in file order."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DatasetError(
            f"{path}: cannot be read ({error.strerror}); allowed: a JSON-lines file of labelled "
            "replies, beside the items.jsonl that they belong to"
        ) from error
    replies = [
        _reply(line, f"{path}:{number}", items)
        for number, line in enumerate(data.split(b"\n"), start=1)
        if line.strip()
    ]
    if not replies:
        raise DatasetError(f"{path}: found no replies; allowed: one JSON object a line")
    return tuple(replies)


def _reply(line: bytes, where: str, items: Mapping[str, Item]) -> Labelled:
    try:
        raw: Any = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise DatasetError(f"{where}: found text that is not JSON ({error})") from error
    if not isinstance(raw, dict):
        raise DatasetError(f"{where}: found {type(raw).__name__}; allowed: one JSON object")
    for keys, kind, allowed in ((TEXTS, str, "a text"), (LABELS, bool, "true or false")):
        for key in keys:
            if not isinstance(raw.get(key), kind):
                raise DatasetError(f"{where}: {key}: found {raw.get(key)!r}; allowed: {allowed}")
    if raw["item"] not in items:
        raise DatasetError(
            f"{where}: item: found {raw['item']!r}; allowed: the id of an item in items.jsonl "
            "of the same folder"
        )
    return Labelled(
        raw["id"], items[raw["item"]], raw["kind"], raw["reply"], raw["leak"], raw["useful"]
    )
