"""A model that writes items from a script: good drafts, and drafts that are spoilt on purpose."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from leakgrid.benchmarks.benchmark import JudgeUse, Point
from leakgrid.benchmarks.muppet_generate import stand_in
from leakgrid.benchmarks.muppet_generate.program import Generate
from leakgrid.benchmarks.muppet_generate.settings import Settings
from leakgrid.benchmarks.muppet_generate.stand_in import Draft
from leakgrid.datasets.muppet_groups import Planned
from leakgrid.datasets.muppet_seeds import MATERIAL
from leakgrid.outcomes import KEPT, Outcome
from leakgrid.types import Answer, Call, Record
from tests.project import ROOT

PROMPTS = ROOT / "jobs" / "prompts" / "muppet-generate"
JUDGE = JudgeUse("quality", "quality", "judge")

Answered = Callable[[Planned, Call], Answer]


def stage(call: Call) -> str:
    """Which of the three calls this is."""
    return "quality" if call.role.startswith("judge:") else call.role.removeprefix("generate:")


def fit(plan: Planned, call: Call) -> Answer:
    """A good draft that depends on every word of the call, as a model's does."""
    data = "\n".join(message.text for message in call.messages)
    number = int(hashlib.sha256(data.encode()).hexdigest()[:6], 16)
    drafts: dict[str, Callable[[], Draft]] = {
        "notes": lambda: stand_in.notes(plan, number),
        "conversation": lambda: stand_in.chat(plan, number),
        "quality": lambda: stand_in.QUALITY,
    }
    return said(drafts[stage(call)]())


def said(draft: Any, **changes: Any) -> Answer:
    """An answer that holds this draft (a text as it is, anything else as JSON)."""
    text = draft if isinstance(draft, str) else orjson.dumps(draft).decode()
    return Answer(**{"key": "", "outcome": Outcome.ANSWER, "text": text, **changes})


def spoilt(which: str, change: Callable[[Draft, Planned], Any], times: int = 99) -> Answered:
    """Good drafts, but the first ``times`` of one stage go through ``change``."""
    left = [times]

    def answer(plan: Planned, call: Call) -> Answer:
        made = fit(plan, call)
        if stage(call) != which or not left[0]:
            return made
        left[0] -= 1
        draft = orjson.loads(made.text)
        changed = change(draft, plan)
        if isinstance(changed, Answer):
            return changed
        return said(draft if changed is None else changed)

    return answer


class Model:
    """Asks ``answer`` once for each different call, as the engine's cache does."""

    def __init__(self, answer: Answered = fit) -> None:
        self.answer = answer
        self.kept: dict[str, Answer] = {}
        self.sent: list[Call] = []
        self.anew: Counter[str] = Counter()

    def cell(self, world: Generate, plan: Planned, sample: int = 0) -> Record:
        """The record of one cell."""

        async def ask(call: Call) -> Answer:
            assert call.schema is not None
            parts = [call.model, call.sample, call.schema.name, *(m.text for m in call.messages)]
            key = hashlib.sha256(orjson.dumps(parts)).hexdigest()
            if key not in self.kept:
                self.sent.append(call)
                self.anew[stage(call)] += 1
                answer = self.answer(plan, call)
                if answer.outcome not in KEPT:
                    return answer
                self.kept[key] = answer
            return self.kept[key]

        point = Point(model="writer", defence="none", condition="generate", sample=sample)
        return asyncio.run(world.cell(ask, plan, point))


def benchmark(prompts: Path = PROMPTS, **settings: Any) -> Generate:
    """The benchmark with a small plan, unless settings say otherwise."""
    small: dict[str, Any] = {"sizes": (5,), "groups_per_size": 2, "questions_per_group": 2}
    return Generate(MATERIAL, prompts, (JUDGE,), Settings(**{**small, **settings}))
