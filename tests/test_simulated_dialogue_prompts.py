"""The benchmark's own prompts tell the simulated server all that it has to know."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from leakgrid.benchmarks.benchmark import JudgeUse, Point
from leakgrid.benchmarks.dialogue.labelling import Labelling
from leakgrid.benchmarks.dialogue.program import Dialogue
from leakgrid.benchmarks.dialogue.settings import PERSONAS, Settings, Subset
from leakgrid.outcomes import Outcome
from leakgrid.providers.simulated.config import parse
from leakgrid.providers.simulated.planted_dialogues import planted_disclosures, planted_labels
from leakgrid.providers.simulated.process import Running, running
from leakgrid.types import Answer, Call, Record
from tests.simulated_people import table

PROMPTS = Path(__file__).parent.parent / "jobs" / "prompts" / "dialogue"
OUTCOMES = {"stop": Outcome.ANSWER, "length": Outcome.TRUNCATED}


def records(server: Running, benchmark: Any, cells: Sequence[tuple[Any, Point]]) -> list[Record]:
    """What the benchmark's cells leave behind when this server answers their calls."""

    async def run() -> list[Record]:
        async with aiohttp.ClientSession(base_url=server.root_url) as session:

            async def ask(call: Call) -> Answer:
                messages = [{"role": m.role, "content": m.text} for m in call.messages]
                body: dict[str, Any] = {"model": call.model, "messages": messages}
                body |= {"sample": call.sample} if call.sample else {}
                if call.schema is not None:
                    form = {"name": call.schema.name, "schema": dict(call.schema.definition)}
                    body["response_format"] = {"type": "json_schema", "json_schema": form}
                data = orjson.dumps(body)
                async with session.post("/v1/chat/completions", data=data) as response:
                    choice = orjson.loads(await response.read())["choices"][0]
                text = choice["message"]["content"] or ""
                key = data[:64].decode(errors="replace")
                return Answer(key=key, outcome=OUTCOMES[choice["finish_reason"]], text=text)

            return [await benchmark.cell(ask, item, point) for item, point in cells]

    return asyncio.run(run())


@pytest.mark.parametrize("condition", ["pc0", "pc1", "pc2"])
def test_dialogues_are_played_and_judged_as_planted(tmp_path: Path, condition: str) -> None:
    raw = table(tmp_path)
    raw["agents"]["sim-other"] = {"necessary": 0.5, "inappropriate": 0.4, "early_end": 0.3}
    settings = Settings(turns=(4,), subset=Subset(instances=6, seed=3))
    judges = (JudgeUse("reveals", "reveal", "sim-judge"),)
    dialogue = Dialogue(Path(raw["items"]), PROMPTS, judges, settings)
    raw["cues"] = dialogue.cues()
    config = parse(raw)
    point = Point(model="sim-open", receiver="sim-other", defence="none", condition=condition,
                  sample=2, turns=4)  # fmt: skip
    cells = [(item, point) for item in dialogue.items]
    assert len(cells) == 6
    with running(raw) as server:
        found = records(server, dialogue, cells)
    rounds = set()
    for (item, _), record in zip(cells, found, strict=True):
        assert all(hearing.whole and not hearing.unknown for hearing in record.hearings)
        opening = record.utterances[0].text
        for role, model, profile in (
            ("sender", "sim-open", item.sender),
            ("receiver", "sim-other", item.receiver),
        ):
            assert profile is not None
            spoken = sum(one.speaker == role for one in record.utterances)
            planted = planted_disclosures(
                config, model, condition, profile.id, item.context.id, 2, spoken,
                role=role, opening=opening if role == "receiver" else "",
            )  # fmt: skip
            revealed = {
                one.attribute: one.degree
                for one in record.reveals
                if one.speaker == role and one.turn == 0
            }
            assert revealed == {key: degree for key, (degree, _) in planted.items()}
            rounds.add(spoken)
    assert len(rounds) > 1


@pytest.mark.parametrize(
    "condition", ["base", "avoid-unnecessary", "strict-minimum", "maximise-task"]
)
def test_single_messages_are_played_as_planted(tmp_path: Path, condition: str) -> None:
    raw = table(tmp_path)
    raw["agents"]["sim-open"]["prompts"] = {"strict-minimum": 0.0, "maximise-task": 3.0}
    judges = (JudgeUse("reveals", "reveal", "sim-judge"),)
    settings = Settings(turns=(0,), subset=Subset(instances=5, seed=3))
    single = Dialogue(Path(raw["items"]), PROMPTS, judges, settings)
    raw["cues"] = single.cues()
    config = parse(raw)
    point = Point(model="sim-open", defence="none", condition=condition, sample=0)
    with running(raw) as server:
        found = records(server, single, [(item, point) for item in single.items])
    for item, record in zip(single.items, found, strict=True):
        who, where = item.sender.id, item.context.id
        planted = planted_disclosures(config, "sim-open", condition, who, where, 0, 1)
        revealed = {one.attribute: one.degree for one in record.reveals if one.turn == 0}
        assert revealed == {key: degree for key, (degree, _) in planted.items()}
        if condition == "strict-minimum":
            labels = planted_labels(config, who, where)
            assert not any(
                labels[key] == "inappropriate" for key in planted if key.startswith("fact")
            )


def test_labels_are_voted_as_planted(tmp_path: Path) -> None:
    raw = table(tmp_path, labellers={"sim-labels": {"unconcerned": {"necessary": 1.0}}})
    labelling = Labelling(Path(raw["items"]), PROMPTS, PERSONAS, Subset(instances=4, seed=1))
    raw["cues"] = labelling.cues()
    config = parse(raw)
    usual = Point(model="sim-labels", defence="none", condition="unconcerned", sample=0)
    cells = [(item, usual) for item in labelling.items]
    cells += [(item, replace(usual, condition="fundamentalist")) for item in labelling.items]
    with running(raw) as server:
        found = records(server, labelling, cells)
    for (item, point), record in zip(cells, found, strict=True):
        labels = planted_labels(config, item.sender.id, item.context.id)
        votes = {vote.attribute: vote.said for vote in record.votes}
        for key, label in labels.items():
            if label != "other":
                assert votes[key] == label
            elif point.condition == "unconcerned":
                assert votes[key] == "necessary"
        assert record.extra["parsed"] is True
