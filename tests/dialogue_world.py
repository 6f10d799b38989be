"""Small worlds of dialogues, messages and label samples for the tests of store and reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from leakgrid.store import derive
from leakgrid.store.ingest import chunks
from leakgrid.store.migrations import make_views, migrate
from tests.store_world import World

REVEAL = [{"name": "j", "kind": "reveal", "model": "judge-m"}]
WEIGHTS = {"fundamentalist": 0.26, "pragmatic": 0.64, "unconcerned": 0.10}
PERSONAS = tuple(WEIGHTS)

Query: TypeAlias = Callable[[str], list[dict[str, Any]]]

Heard = Mapping[str, str | None]
"""attribute -> full, partial, or None where the judge's answer is unknown."""


class DialogueWorld(World):
    """Profiles of attributes ``name: domain``; label sets by (profile, context) and attribute."""

    def __init__(
        self,
        profiles: Mapping[str, Sequence[str]],
        contexts: Sequence[str],
        *,
        threshold: float = 1.0,
        basics: str = "exact",
        label_job: str = "",
        domains: Mapping[str, str] | None = None,
        basic: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.benchmark = "dialogue"
        self.profiles = profiles
        domains = domains or {}
        self.facts = {
            "profiles": [
                [name, key, domains.get(key, "health"), f"event of {key}", key in basic, f"{key}."]
                for name, keys in profiles.items()
                for key in keys
            ],
            "contexts": [
                [name, context, f"recipient of {context}", f"task of {context}"]
                for name in profiles
                for context in contexts
            ],
            "instances": [],
            "labels": [],
            "label_rule": {
                "job": label_job,
                "weights": dict(WEIGHTS),
                "threshold": threshold,
                "basics": basics,
            },
        }

    def label(
        self, profile: str, context: str, necessary: str = "", inappropriate: str = ""
    ) -> None:
        """Hard labels of one context (space-separated keys); none at all is labelled too."""
        rows = [[profile, context, key, "combined", 1.0, 0.0] for key in necessary.split()]
        rows += [[profile, context, key, "combined", 0.0, 1.0] for key in inappropriate.split()]
        self.facts["labels"] += rows or [[profile, context, "", "combined", 0.0, 0.0]]

    def shares(
        self, profile: str, context: str, attribute: str, **by_persona: tuple[float, float]
    ) -> None:
        """The labels of one attribute as shares of each persona's samples."""
        self.facts["labels"] += [
            [profile, context, attribute, persona, *pair] for persona, pair in by_persona.items()
        ]

    def instance(self, sender: str, context: str, receiver: str = "") -> str:
        """One planned item."""
        item = f"{sender}>{receiver}/{context}" if receiver else f"{sender}/{context}"
        self.item(item)
        self.facts["instances"].append([item, sender, receiver, context])
        return item

    def grid(
        self,
        model: str = "m-a",
        receiver: str = "",
        condition: str = "pc0",
        turns: int = 0,
        sample: int = 0,
        judges: list[dict[str, Any]] | None = None,
    ) -> str:
        """One planned column; returns its id."""
        self.column(
            model,
            "none",
            condition,
            receiver=receiver,
            turns=turns,
            sample=sample,
            judges=REVEAL if judges is None else judges,
        )
        self.columns[-1]["id"] = f"{model}/{receiver}/{turns}/none/{condition}/{sample}"
        return str(self.columns[-1]["id"])

    def dialogue(
        self,
        column: str,
        item: str,
        *,
        transcript: Heard | None = None,
        turns: Sequence[Heard | None] = (),
        receiver: Heard | None = None,
        receiver_turns: Sequence[Heard | None] = (),
        ended: str = "full",
        whole: bool = True,
        judge: str = "j",
        extra_reveals: Sequence[Mapping[str, Any]] = (),
        asked: int | None = None,
        rounds: int | None = None,
        **more: Any,
    ) -> None:
        """One finished dialogue, as one judge heard it; None among turns is a round not heard."""
        sender_profile, _, rest = item.partition(">")
        receiver_profile = rest.partition("/")[0]
        sender_profile = sender_profile.partition("/")[0]
        size = {
            "sender": len(self.profiles[sender_profile]),
            "receiver": len(self.profiles.get(receiver_profile, ())),
        }
        rounds = max(len(turns), 1) if rounds is None else rounds
        hearings: list[dict[str, Any]] = []
        reveals: list[dict[str, Any]] = []

        def hear(speaker: str, turn: int, heard: Heard | None) -> None:
            if heard is None:
                return
            hearings.append(
                {
                    "judge": judge,
                    "speaker": speaker,
                    "turn": turn,
                    "asked": size[speaker] if asked is None else asked,
                    "unknown": sum(degree is None for degree in heard.values()),
                    "whole": whole,
                    "parser": "1",
                    "why": "",
                }
            )
            for attribute, degree in heard.items():
                reveals.append(
                    {
                        "judge": judge,
                        "speaker": speaker,
                        "turn": turn,
                        "attribute": attribute,
                        "degree": degree,
                        "evidence": f"about {attribute}" if degree else "",
                        "why": "" if degree else "not JSON",
                        "key": "",
                    }
                )

        hear("sender", 0, transcript)
        hear("receiver", 0, receiver)
        for number, heard in enumerate(turns, 1):
            hear("sender", number, heard)
        for number, heard in enumerate(receiver_turns, 1):
            hear("receiver", number, heard)
        speakers = ("sender", "receiver") if receiver_profile else ("sender",)
        self.record(
            column,
            item,
            **{
                "utterances": [
                    {
                        "turn": number,
                        "speaker": speaker,
                        "text": f"{speaker} in {number}",
                        "outcome": "answer",
                        "reasoning": "",
                        "key": f"{speaker}-{number}",
                    }
                    for number in range(1, rounds + 1)
                    for speaker in speakers
                ],
                "hearings": hearings,
                "reveals": [*reveals, *extra_reveals],
                "extra": json.dumps({"rounds": rounds, "ended": ended, "why": ""}),
                **more,
            },
        )


class LabelWorld(DialogueWorld):
    """A labelling job "labels" and a dialogue job "demo" that takes its labels from there."""

    def __init__(self, *args: Any, samples: int = 1, **more: Any) -> None:
        super().__init__(*args, label_job="labels", **more)
        self.samples = samples

    def plan_labels(self, personas: Sequence[str] = PERSONAS, model: str = "labeller") -> None:
        """Plan the labelling of every (profile, context)."""
        mine = (self.columns, self.items, self.facts, self.benchmark)
        self.benchmark, self.columns, self.items = "ci-labels", [], []
        self.facts = {
            "instances": [
                [f"{name}/{context}", name, "", context]
                for name, context, *_ in mine[2]["contexts"]
            ]
        }
        for item, *_ in self.facts["instances"]:
            self.item(item)
        for persona in personas:
            for sample in range(self.samples):
                self.column(model, "none", persona, sample=sample, judges=[])
        self.plan(job="labels")
        self.columns, self.items, self.facts, self.benchmark = mine

    def sample(
        self,
        profile: str,
        context: str,
        persona: str,
        number: int = 0,
        necessary: str = "",
        inappropriate: str = "",
        both: str = "",
        parsed: bool = True,
        model: str = "labeller",
    ) -> None:
        """One finished label sample."""
        votes = [
            {"attribute": key, "said": said}
            for said, keys in (
                ("necessary", necessary),
                ("inappropriate", inappropriate),
                ("both", both),
            )
            for key in keys.split()
        ]
        self.record(
            f"{model}/none/{persona}/{number}",
            f"{profile}/{context}",
            votes=votes,
            extra=json.dumps({"parsed": parsed, "why": "" if parsed else "not JSON", "asked": 9}),
        )


def query_of(world: World) -> Query:
    """A function from SQL to rows as dicts, over a world taken into memory."""
    connection = derive.connect(":memory:")
    derive.add_said(connection, world.tools["text_of"])
    migrate(connection, "memory", views=False)
    for stream in derive.STREAMS:
        for table in chunks(world.scan(Path(), stream, {}), {}):
            derive.load(connection, stream, table, {})
    make_views(connection)

    def query(sql: str) -> list[dict[str, Any]]:
        cursor = connection.execute(sql)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    return query
