"""The prompt files of judges, and what fills them.

In a judge's prompt, what all replies to an item share stands before the reply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from leakgrid.benchmarks.muppet.scene import PLACES, values
from leakgrid.benchmarks.prompts import Prompt
from leakgrid.datasets.items import Item

JUDGE_PLACES = (*PLACES, "question", "useful_facts", "reply")

JudgePrompts: TypeAlias = Mapping[str, Prompt]
"""Prompts by the name of their file."""


def read_prompts(folder: Path, names: Iterable[str]) -> JudgePrompts:
    """The named files of a folder. Raises JobError for one that is missing or wrong."""
    return {name: Prompt(folder / f"{name}.md", JUDGE_PLACES) for name in sorted(set(names))}


def filling(item: Item, *, reply: str = "", useful_facts: Iterable[str] = ()) -> dict[str, str]:
    """What fills the places of a judge's prompt."""
    facts = enumerate(useful_facts, start=1)
    return {
        **values(item),
        "question": item.question,
        "useful_facts": "\n".join(f"{number}. {fact}" for number, fact in facts),
        "reply": reply,
    }
