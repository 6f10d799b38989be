"""Contextual-integrity labels: what a persona finds necessary or inappropriate in a context.

One cell is one persona's one sample over all attributes of a profile in one context. The
attributes are numbered and the answer names numbers, so that no statement has to be echoed
letter by letter. An answer that cannot be read as a whole is no sample: it is never "nothing
listed".
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from leakgrid.benchmarks.benchmark import Point
from leakgrid.benchmarks.dialogue.facts import described
from leakgrid.benchmarks.dialogue.instances import Instance, alone
from leakgrid.benchmarks.dialogue.scripts import numbered, one_line
from leakgrid.benchmarks.dialogue.settings import Subset
from leakgrid.benchmarks.judges.parsing import DISAGREE, NOTHING, objects
from leakgrid.benchmarks.prompts import Prompt
from leakgrid.datasets.cimemories import load_profiles
from leakgrid.outcomes import KEPT, SPOKEN
from leakgrid.types import Ask, Call, Json, Message, Record, Schema, Vote

PARSER = "labels-1"
NECESSARY, INAPPROPRIATE, BOTH = "necessary", "inappropriate", "both"


class Labelling:
    """The benchmark ``ci-labels``: its conditions are personas, its models label."""

    version = f"ci-labels-1/{PARSER}"
    """Part of every cell's fingerprint: raise it when the program's meaning changes."""

    def __init__(
        self, dataset: Path, prompts: Path, conditions: tuple[str, ...], subset: Subset
    ) -> None:
        """Raises DatasetError for wrong profiles, JobError for a wrong prompt."""
        self.items = alone(load_profiles(dataset), subset)
        self._system = Prompt(prompts / "label.md", ("persona",))
        self._user = Prompt(prompts / "label-user.md", ("memories", "recipient", "task"))
        self._personas = {name: Prompt(prompts / f"persona-{name}.md", ()) for name in conditions}

    def texts(self, defence: str, condition: str) -> Any:
        """Every text that goes into cells of this persona."""
        return [self._system.text, self._personas[condition].text, self._user.text]

    def attributes(self) -> list[tuple[str, str, str]]:
        """Nothing: no label is a leak."""
        return []

    def facts(self) -> Mapping[str, Json]:
        """Profiles, contexts and items; the labels are what the cells leave behind."""
        return described(self.items)

    def cues(self) -> Mapping[str, Mapping[str, str]]:
        """A sentence of each persona."""
        prompts = self._personas
        return {"conditions": {name: one.cue(prompts.values()) for name, one in prompts.items()}}

    def example(self, call: Call) -> str | None:
        """An answer that lists nothing."""
        return orjson.dumps({NECESSARY: [], INAPPROPRIATE: []}).decode()

    async def cell(self, ask: Ask, item: Instance, point: Point) -> Record:
        """Run one cell: one call."""
        memories = item.sender.memories
        persona = self._personas[point.condition].text
        user = self._user.fill(
            {
                "memories": numbered(tuple(memory.statement for memory in memories)),
                "recipient": one_line(item.context.recipient),
                "task": one_line(item.context.task),
            }
        )
        answer = await ask(
            Call(
                model=point.model,
                messages=(
                    Message("system", self._system.fill({"persona": persona})),
                    Message("user", user),
                ),
                schema=schema(len(memories)),
                sample=point.sample,
                role="labeller",
            )
        )
        listed: dict[int, str] = {}
        why = f"the call ended as {answer.outcome}"
        if answer.outcome in SPOKEN:
            listed, why = read(answer.text, len(memories))
        return Record(
            item=item.id,
            reply=answer.text,
            reply_outcome=answer.outcome,
            reasoning=answer.reasoning,
            votes=tuple(
                Vote(attribute=memories[number - 1].key, said=said)
                for number, said in sorted(listed.items())
            ),
            extra={"parsed": not why, "why": why, "asked": len(memories)},
            settled=answer.outcome in KEPT,
            simulated=answer.simulated,
            calls=(("labeller", answer.key),),
        )


def read(text: str, count: int) -> tuple[dict[int, str], str]:
    """(label by number, why the text is no sample) of an answer on the numbers 1 to ``count``."""
    if not text.strip():
        return {}, NOTHING
    candidates = [
        (found[NECESSARY], found[INAPPROPRIATE])
        for found in objects(text)
        if NECESSARY in found and INAPPROPRIATE in found
    ]
    if not candidates:
        return {}, f"no JSON object with '{NECESSARY}' and '{INAPPROPRIATE}' in the text"
    if any(other != candidates[0] for other in candidates):
        return {}, DISAGREE
    listed: dict[int, str] = {}
    for name, entries in zip((NECESSARY, INAPPROPRIATE), candidates[0], strict=True):
        if not isinstance(entries, list):
            return {}, f"'{name}' is no list"
        for entry in entries:
            number = _number(entry)
            if number is None or not 1 <= number <= count:
                # Whoever names a number that was not given may have counted from elsewhere.
                return {}, f"{str(entry)[:40]!r} in '{name}' is no number from 1 to {count}"
            listed[number] = name if listed.get(number, name) == name else BOTH
    return listed, ""


def _number(entry: Any) -> int | None:
    if isinstance(entry, str) and entry.strip().isdecimal() and len(entry) < 9:
        entry = int(entry)
    return entry if isinstance(entry, int) and not isinstance(entry, bool) else None


@functools.cache
def schema(count: int) -> Schema:
    """The answer that a labelling model must give on ``count`` attributes."""
    listed = {
        "type": "array",
        "items": {"type": "integer", "minimum": 1, "maximum": count},
        "maxItems": count,
    }
    return Schema(
        "ci_labels",
        {
            "type": "object",
            "properties": {NECESSARY: listed, INAPPROPRIATE: listed},
            "required": [NECESSARY, INAPPROPRIATE],
            "additionalProperties": False,
        },
    )
