"""One item, one defence, and a model that answers from a script: what is sent, and what comes."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from leakgrid.benchmarks.benchmark import JudgeUse, Point
from leakgrid.benchmarks.muppet.program import Muppet
from leakgrid.outcomes import Outcome
from leakgrid.types import Answer, Call, Record
from tests.project import ROOT, Project, item

PROMPTS = ROOT / "jobs" / "prompts" / "muppet"
SECRET = "secret matter 0"
FREE = "Ana is free on day 0."
NEWEST = "can Ana take shift 0?"

GOOD: dict[str, Any] = {
    "draft": "A draft.",
    "choose": {"keep": [2]},
    "extract": {"facts": [f"Ana has the {SECRET}.", FREE]},
    "check": {"labels": ["PRIVATE", "PUBLIC"]},
    "ledger": {
        "facts": [
            {"fact": f"Ana has the {SECRET}.", "open": False, "told": ["Cy Diaz"]},
            {"fact": FREE, "open": True, "told": []},
        ]
    },
}
"""A fitting answer to each step; the reply itself is ``SAID``."""

SAID = "Thinking aloud.\n\nFINAL MESSAGE\nAna is free."


def answered(call: Call, **changes: Any) -> Answer:
    """A fitting answer to this call, with changes."""
    good = GOOD.get(call.role.removeprefix("defence:"), SAID)
    text = good if isinstance(good, str) else orjson.dumps(good).decode()
    return Answer(**{"key": "k", "outcome": Outcome.ANSWER, "text": text, **changes})


def muppet(folder: Path, *defences: str, prompts: Path = PROMPTS) -> Muppet:
    """The benchmark over one small item, judged by its surface forms."""
    path = folder / "one-item.jsonl"
    path.write_bytes(orjson.dumps(item(0)) + b"\n")
    return Muppet(path, prompts, defences, (JudgeUse("exact", "exact", ""),))


def run(
    world: Muppet,
    defence: str,
    condition: str = "group",
    answer: Callable[[Call], Answer] = answered,
) -> tuple[Record, list[Call]]:
    """The record of one cell, and the calls that it made."""
    calls: list[Call] = []

    async def ask(call: Call) -> Answer:
        calls.append(call)
        return answer(call)

    point = Point(model="m", defence=defence, condition=condition, sample=0)
    return asyncio.run(world.cell(ask, world.items[0], point)), calls


def digest(calls: list[Call]) -> str:
    """Twelve digits that stand for every role, message and schema of these calls."""
    parts = [
        [call.role, [[m.role, m.text] for m in call.messages], call.schema and call.schema.name]
        for call in calls
    ]
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:12]


def project(folder: Path, **changes: Any) -> Project:
    """A project with prompts of its own, so that a test may change them."""
    import shutil

    made = Project(folder, **changes)
    prompts = made.folder / "jobs" / "prompts"
    prompts.unlink()
    shutil.copytree(ROOT / "jobs" / "prompts", prompts)
    return made
