"""MuPPET's cell: one reply in one condition under one defence, and every judge's verdict."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from leakgrid.benchmarks.benchmark import JudgeUse, Point
from leakgrid.benchmarks.defences import registry
from leakgrid.benchmarks.judges.panel import Panel
from leakgrid.benchmarks.muppet.attribution import Attribution
from leakgrid.benchmarks.muppet.scene import Prompts, Scene
from leakgrid.benchmarks.noted import Noted
from leakgrid.datasets.items import Item, load_items
from leakgrid.types import Ask, Call, Json, Probe, Record


class Muppet:
    """The benchmark over one dataset, with the prompts and judges of one job."""

    version = "muppet-2"
    """Part of every cell's fingerprint: raise it when the program's meaning changes."""

    def __init__(
        self,
        dataset: Path,
        prompts: Path,
        defences: tuple[str, ...],
        judges: tuple[JudgeUse, ...],
        attribution: tuple[str, float] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """``attribution``: after leaks by which judge the model is probed, and the share of

        replies without a leak that are probed too. ``options``: those of each defence that has
        any in the job. Raises DatasetError for a wrong item,
        JobError for a wrong prompt.
        """
        self.items = load_items(dataset)
        self.prompts = Prompts(prompts)
        self.defences = registry.load(prompts, defences, options)
        self.panel = Panel(prompts, judges)
        self.attribution = Attribution.read(prompts, *attribution) if attribution else None

    def texts(self, defence: str, condition: str) -> Any:
        """Every text and version that goes into cells of this defence and condition."""
        texts = [*self.defences[defence].texts(self.prompts, condition), self.panel.texts()]
        return texts if self.attribution is None else [*texts, self.attribution.texts()]

    def attributes(self) -> list[tuple[str, str, str, str]]:
        """(item, attribute key, sensitive category, hash of its text) of every private fact."""
        return [
            (item.id, attribute.key, attribute.category, _hash(attribute.text))
            for item in self.items
            for attribute in item.attributes
        ]

    def facts(self) -> Mapping[str, Json]:
        """What is no secret of each item, and the chat that it may share with others."""
        return {
            "item_payloads": [
                [item.id, item.group, orjson.dumps(about(item)).decode()] for item in self.items
            ]
        }

    def cues(self) -> Mapping[str, Mapping[str, str]]:
        """A sentence of each defence and of each condition but the group chat."""
        return {**registry.cues(self.defences), "conditions": self.prompts.cues()}

    def example(self, call: Call) -> str | None:
        """Any answer that fits will do."""
        return None

    async def cell(self, ask: Ask, item: Item, point: Point) -> Record:
        """Run one cell. What a judge cannot say is an unknown verdict with its reason."""
        noted = Noted(ask)
        defence = self.defences[point.defence]
        scene = Scene(self.prompts, defence.prompts, item, point)
        reply = await defence.reply(noted, scene)
        verdicts, ratings = await self.panel.hear(noted, item, reply, point.sample)
        extra: dict[str, Json] = {**reply.steps, **about(item)}
        probes: tuple[Probe, ...] = ()
        if self.attribution is not None and (why := self.attribution.wanted(item, verdicts)):
            extra["probed"] = why
            probes = await self.attribution.ask(noted, scene)
        return Record(
            item=item.id,
            reply=reply.text,
            reply_outcome=reply.outcome,
            reasoning=reply.reasoning,
            extra=extra,
            verdicts=verdicts,
            ratings=ratings,
            probes=probes,
            settled=noted.settled,
            simulated=noted.simulated,
            calls=tuple(noted.calls),
        )


def about(item: Item) -> dict[str, Json]:
    """What tables need to know of an item; no secret is in it."""
    told: dict[str, Json] = {
        "asker_informed": item.asker_informed,
        "topic": item.topic,
        "statistics": item.statistics,
    }
    if item.variant is not None:
        told["variant"] = item.variant
    return told


def _hash(text: str) -> str:
    """Tells equal texts from others: blake2b-64 in hex digits."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
