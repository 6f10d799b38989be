"""The real vLLM, on the CPU, with a tiny model made here: started, asked, measured, killed.

Runs with ``LEAKGRID_VLLM=1`` alone. ``LEAKGRID_VLLM_HOME`` names a folder where its environment
(3.5 GB) and the model are kept for the next time.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import pytest

from leakgrid.lanes.lane import Lane
from leakgrid.lanes.values import Parcel, Quota
from leakgrid.outcomes import Outcome
from leakgrid.providers.vllm_chat import VllmChat
from leakgrid.providers.vllm_metrics import Load, fetch_load, steer
from leakgrid.providers.wire import Reading
from leakgrid.types import Call, Message, Schema
from tests.dialogue_project import DialogueProject
from tests.vllm_world import (
    ARGUMENTS,
    END,
    LEGIBLE,
    MAX_MODEL_LEN,
    ON_CPU,
    home_of,
    real_environment,
    real_vllm,
    small_sample,
    started,
    tiny_model,
)

pytestmark = [*real_vllm, pytest.mark.timeout(300)]

T = TypeVar("T")

VERDICT = {
    "type": "object",
    "properties": {
        "leak": {"type": "string", "enum": ["YES", "NO"]},
        "confidence": {"type": "integer", "minimum": 1, "maximum": 5},
    },
    "required": ["leak", "confidence"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Real:
    """The environment's command, the model, and a place for files."""

    vllm: Path
    model: Path
    folder: Path

    def config(self, name: str, **changes: Any) -> Path:
        """A configuration file for the tiny model."""
        config = {
            "command": [str(self.vllm), "serve"],
            "model": str(self.model),
            "name": "tiny",
            "max_model_len": MAX_MODEL_LEN,
            "arguments": ARGUMENTS,
            "environment": ON_CPU,
            "log": str(self.folder / f"{name}.log"),
            **changes,
        }
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(config))
        return path


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Real:
    home = home_of(pytestconfig)
    bin_folder = real_environment(home / "environment")
    model = tiny_model(bin_folder, home)
    return Real(bin_folder / "vllm", model, tmp_path_factory.mktemp("vllm"))


@pytest.fixture(scope="module")
def served(real: Real) -> Iterator[dict[str, Any]]:
    """What the supervisor said of the server that most tests ask."""
    with started(real.config("served")) as ready:
        yield ready


def asking(ready: dict[str, Any], steps: Callable[[VllmChat], Awaitable[T]], **params: Any) -> T:
    async def main() -> T:
        async with aiohttp.ClientSession() as session:
            provider = VllmChat(
                name="tiny",
                kind="vllm",
                model="tiny",
                base_url=f"http://127.0.0.1:{ready['port']}/v1",
                session=session,
                identity=ready["identity"],
                params=params,
            )
            return await steps(provider)

    return asyncio.run(main())


async def ask(provider: VllmChat, text: str, system: str = "", **call: Any) -> Reading:
    import orjson

    rules = (Message("system", system),) if system else ()
    messages = (*rules, Message("user", text))
    body = provider.body(Call(model="tiny", messages=messages, **call))
    return provider.read(await provider.exchange(orjson.dumps(body)))


def load_of(ready: dict[str, Any]) -> Load:
    async def main() -> Load | None:
        async with aiohttp.ClientSession() as session:
            return await fetch_load(session, f"http://127.0.0.1:{ready['port']}/v1")

    load = asyncio.run(main())
    assert load is not None
    return load


@pytest.mark.timeout(1200)
def test_it_is_ready_and_says_what_it_serves(real: Real, served: dict[str, Any]) -> None:
    assert served["ready"] is True and served["identity"].startswith("vllm-")
    known = served["facts"]
    assert known["engine"].startswith("vllm 0.") and known["revision"].startswith("content ")
    assert len(known["template"]) == 32
    template = served["template"]
    assert template["asked"] and template["thinking"] == "switchable"
    assert not template["refuses_system"] and not template["injects_system"]


def test_it_answers_and_greedy_answers_are_the_same_again(served: dict[str, Any]) -> None:
    async def steps(provider: VllmChat) -> list[Reading]:
        return [await ask(provider, "Who is ill?", "Be quiet.") for _ in range(2)]

    first, second = asking(served, steps, temperature=0, max_tokens=24)
    assert first.outcome in (Outcome.ANSWER, Outcome.TRUNCATED) and first.text
    assert first.text == second.text and first.model == "tiny"
    assert first.usage.input > 20 and 1 <= first.usage.output <= 24


def test_samples_differ_and_each_comes_again(served: dict[str, Any]) -> None:
    async def steps(provider: VllmChat) -> list[str]:
        return [(await ask(provider, "Who?", sample=n)).text for n in (0, 1, 2, 1)]

    texts = asking(served, steps, temperature=1.0, max_tokens=24)
    assert len(set(texts)) == 3 and texts[1] == texts[3]


def test_guided_json_closes_on_a_model_of_noise(served: dict[str, Any]) -> None:
    async def steps(provider: VllmChat) -> list[Reading]:
        schema = Schema("verdict", VERDICT)
        return [
            await ask(provider, f"Leak {n}?", schema=schema, params={"temperature": heat})
            for n, heat in enumerate((0, 1.0, 2.0))
        ]

    for reading in asking(served, steps, max_tokens=60):
        assert reading.outcome is Outcome.ANSWER, reading
        verdict = json.loads(reading.text)
        assert verdict["leak"] in ("YES", "NO") and 1 <= verdict["confidence"] <= 5
        assert not any(letter.isspace() for letter in reading.text)


def test_a_prompts_beginning_is_found_in_the_prefix_cache(served: dict[str, Any]) -> None:
    before = load_of(served)
    shared = "Anna told the group about the move. " * 20  # some blocks of 128 one-byte tokens

    async def steps(provider: VllmChat) -> list[Reading]:
        return [await ask(provider, f"Question {n}", shared) for n in range(4)]

    readings = asking(served, steps, temperature=0, max_tokens=2)
    after = load_of(served)
    rate = after.since(before)
    assert rate is not None and 0.3 < rate < 1
    assert after.hit_rate is not None and after.hit_rate > 0
    assert readings[0].usage.cached == 0
    assert all(reading.usage.cached >= 512 for reading in readings[1:])


def test_a_lane_is_steered_by_its_metrics(served: dict[str, Any]) -> None:
    seen: list[Load] = []

    async def steps(provider: VllmChat) -> tuple[int, set[Outcome]]:
        import orjson

        lane = Lane("tiny", quota=Quota())
        session = provider._http._session

        async def one(number: int) -> Outcome:
            message = Message("user", f"Number {number}")
            body = orjson.dumps(provider.body(Call(model="tiny", messages=(message,))))
            return (await lane.send(Parcel(provider, body))).reading.outcome

        url = f"http://127.0.0.1:{served['port']}/v1"
        async with asyncio.TaskGroup() as group:
            helpers = [
                group.create_task(lane.dispatch()),
                group.create_task(steer(lane, session, url, seen=seen.append, every_s=0.2)),
            ]
            outcomes: list[Outcome] = []
            for start in range(0, 3000, 150):  # a busy server may not tell at the first look
                calls = (one(number) for number in range(start, start + 150))
                outcomes += await asyncio.gather(*calls)
                if any(load.running > 1 for load in seen):
                    break
            for helper in helpers:
                helper.cancel()
        return lane.statistics().limit, set(outcomes)

    limit, outcomes = asking(served, steps, temperature=0, max_tokens=60, min_tokens=60)
    assert outcomes <= {Outcome.ANSWER, Outcome.TRUNCATED}
    assert max(load.running for load in seen) > 1 and limit >= 1, seen


def test_what_it_cannot_do_is_invalid_and_says_why(served: dict[str, Any]) -> None:
    async def steps(provider: VllmChat) -> Reading:
        return await ask(provider, "word " * 2000)

    reading = asking(served, steps, max_tokens=10)
    assert reading.outcome is Outcome.INVALID and str(MAX_MODEL_LEN) in reading.error


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"arguments": ["--no-such-flag"]}, "--no-such-flag"),
        ({"model": "/nowhere/model"}, "no such model"),
    ],
)
def test_a_failed_start_is_explained(real: Real, changes: dict[str, Any], words: str) -> None:
    path = real.config("failed", **changes)
    with pytest.raises(AssertionError, match="vLLM did not start") as caught, started(path):
        pass
    assert words in str(caught.value) and "failed.log" in str(caught.value)


@dataclass(frozen=True, slots=True)
class Told:
    """How a run ended."""

    code: int
    out: str
    err: str


def run(project: DialogueProject) -> Told:
    process = project.start("run", "jobs/job.toml", "--quiet")
    out, err = process.communicate(timeout=280)
    return Told(process.returncode, out, err)


def test_a_dialogue_at_a_server_of_someone_else_end_to_end(
    served: dict[str, Any], tmp_path: Path
) -> None:
    """Sender, receiver and judge are the noise of one model, reached by its URL alone."""
    at = {
        "provider": "vllm",
        "model": "tiny",
        "base_urls": [f"http://127.0.0.1:{served['port']}/v1"],
        "identity": "the tiny one",
    }
    # Noise that ends soon, so that there is something to judge.
    speaking = {"logit_bias": {END: 4, **LEGIBLE}, "min_tokens": 20}
    judging = {"logit_bias": LEGIBLE, "temperature": 0.7}
    models = {
        "sim-open": {**at, "params": {"max_tokens": 150, **speaking}},
        "sim-discreet": {**at, "params": {"max_tokens": 150, **speaking}},
        "sim-judge": {**at, "params": {"max_tokens": 900, **judging}},
    }
    profiles, labels = small_sample(tmp_path, people=2, facts=4)
    project = DialogueProject(
        tmp_path / "project",
        profiles=profiles,
        job={"turns": [1]},
        subset={"instances": 1},
        models=models,
        judges={"reveal": {"batch": 2, "retries": 0}},
        simulated=None,
    )
    (project.folder / "labels.jsonl").write_bytes(labels)
    first = run(project)
    assert first.code == 0, first.err
    assert project.sql("SELECT status, ended FROM dialogue_cell") == [
        {"status": "done", "ended": "full"}
    ]
    degrees = project.sql("SELECT speaker, degree, why FROM dialogue_degree WHERE headline")
    assert Counter(row["speaker"] for row in degrees) == {"sender": 4, "receiver": 4}
    for row in degrees:
        # Noise quotes nobody: a disclosure never stands, and what is unknown says why.
        assert row["degree"] == "none" or (row["degree"] == "unknown" and row["why"]), row
    sent = re.search(r"(\d+) calls sent", first.out)
    # Two messages, four batches, and what of these was asked again in pieces.
    assert sent and 6 <= int(sent[1]) <= 14, first.out
    again = run(project)
    assert again.code == 0 and " 0 calls sent" in again.out
