"""The dialogue judge's calls on a real vLLM, in the order of a run and shuffled.

The work is what ``benchmarks/dialogue/reveal`` really asks: of every dialogue ten batches of
attributes behind one transcript. The server is vLLM on the CPU with the tiny random model of the
tests; its KV cache holds the transcripts of a few dialogues, as that of a GPU holds those of a few
hundred in a study of hundreds of thousands. Each way through the work has a cache salt of its own,
so that none finds what another left.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.children import ROOT, NotMeasuredError, folder, say, told
from tests.bench.table import Row, missing, row

VARIABLE = "LEAKGRID_VLLM_HOME"
MODEL = "tiny"
AT_ONCE = 4
BLOCK, BLOCKS = 128, 208
"""Tokens (here: bytes) of a block of the KV cache, and how many blocks it has: five transcripts."""

OUTPUT = 16
"""Tokens of each answer: long enough to be one, short enough that reading weighs more."""

ROUNDS, STATEMENTS = 6, 4


@dataclass(frozen=True, slots=True)
class Size:
    """Dialogues to judge, and how often each way is walked."""

    dialogues: int
    times: int


USUAL = Size(16, 2)
QUICK = Size(12, 1)


@dataclass(frozen=True, slots=True)
class Walk:
    """One way through the work: share of prompt tokens found in the cache, and seconds."""

    hits: float
    wall_s: float


def measure(size: Size) -> Iterator[Row]:
    """Every row of this part."""
    try:
        config = configured()
        work = judging(size.dialogues)
        calls = sum(map(len, work))
        say(f"prefix: {calls} calls about {len(work)} dialogues; vLLM starts (a minute)")
        found = measured(config, work, size.times)
    except Exception as error:  # not measured is a row, too
        for name in ("prefix", "prefix-wall"):
            yield missing(name, told(error))
        return
    ours, wide, shuffled = (found[name] for name in ("ours", "wide", "shuffled"))
    words = (
        f"{100 * ours.hits:.0f} % against {100 * shuffled.hits:.0f} % "
        f"(all {len(work)} dialogues under way at once: {100 * wide.hits:.0f} %)"
    )
    yield row("prefix", 100 * (ours.hits - shuffled.hits), words)
    share = ours.wall_s / shuffled.wall_s
    words = (
        f"{share:.2f} × ({ours.wall_s:.1f} s and {shuffled.wall_s:.1f} s; "
        f"all at once: {wide.wall_s:.1f} s)"
    )
    yield row("prefix-wall", share, words)


def configured() -> dict[str, Any]:
    """The server's configuration. Raises NotMeasuredError where no real vLLM is installed."""
    home = os.environ.get(VARIABLE, "")
    if not home:
        raise NotMeasuredError(f"{VARIABLE} names no folder with a real vLLM")
    from tests.vllm_world import ON_CPU, PACKAGE, tiny_model

    environment = Path(home) / "environment"
    mark = environment / "leakgrid-complete"
    if not mark.exists() or mark.read_text("utf-8") != PACKAGE:
        raise NotMeasuredError(f"{environment} has no {PACKAGE}; the tests marked vllm make it")
    vllm = environment / "bin" / "vllm"
    arguments = ["--enforce-eager", "--block-size", str(BLOCK)]
    return {
        "command": [str(vllm), "serve"],
        "model": str(tiny_model(vllm.parent, Path(home))),
        "name": MODEL,
        "max_model_len": 16384,
        "arguments": [*arguments, "--num-gpu-blocks-override", str(BLOCKS)],
        "environment": ON_CPU,
    }


def judging(count: int) -> list[list[Any]]:
    """The calls of the judge about each of so many dialogues of the shipped sample."""
    from leakgrid.benchmarks.benchmark import JudgeUse
    from leakgrid.benchmarks.dialogue.instances import dialogues
    from leakgrid.benchmarks.dialogue.reveal import Judges, example
    from leakgrid.benchmarks.dialogue.settings import Subset
    from leakgrid.datasets.cimemories import load_profiles
    from leakgrid.outcomes import Outcome
    from leakgrid.types import Answer, Call

    path = ROOT / "datasets" / "cimemories" / "sample" / "profiles.json"
    judges = Judges(
        ROOT / "jobs" / "prompts" / "dialogue", (JudgeUse("reveal", "reveal", MODEL, {}),)
    )

    async def asked(instance: Any) -> list[Call]:
        calls: list[Call] = []

        async def ask(call: Call) -> Answer:
            calls.append(call)
            return Answer(key="", outcome=Outcome.ANSWER, text=example(call) or "")

        await judges.hear(ask, _talk(instance), instance.sender, instance.receiver, 0)
        return calls

    async def all_asked() -> list[list[Call]]:
        return [
            await asked(one)
            for one in dialogues(load_profiles(path), Subset(instances=count, seed=1), path)
        ]

    return asyncio.run(all_asked())


def _talk(instance: Any) -> Any:
    """A dialogue in which both sides tell some of their own facts, drawn by its name."""
    from leakgrid.benchmarks.dialogue.conversation import Talk
    from leakgrid.outcomes import Outcome
    from leakgrid.types import Utterance

    lots = random.Random(instance.id)
    utterances = []
    for turn in range(1, ROUNDS + 1):
        for speaker in ("sender", "receiver"):
            facts = lots.sample(getattr(instance, speaker).memories, STATEMENTS)
            text = " ".join(fact.statement for fact in facts)
            utterances.append(
                Utterance(turn=turn, speaker=speaker, text=text, outcome=Outcome.ANSWER)
            )
    return Talk(tuple(utterances), ROUNDS, "full")


def measured(config: dict[str, Any], work: list[list[Any]], times: int) -> dict[str, Walk]:
    """By way, the mean of its walks; every second time the ways come in the other order."""
    from tests.vllm_world import started

    flat = [call for calls in work for call in calls]
    found: dict[str, list[Walk]] = {}
    with folder() as home:
        path = home / "vllm.json"
        path.write_text(json.dumps({**config, "log": str(home / "vllm.log")}))
        with started(path) as ready:
            walk_all(ready, work[:1], AT_ONCE, "warm")  # schemas are compiled once
            for number in range(times):
                mixed = flat.copy()
                random.Random(number).shuffle(mixed)
                ways: list[tuple[str, list[list[Any]], int]] = [
                    ("ours", work, AT_ONCE),
                    ("wide", work, len(work)),
                    ("shuffled", [[call] for call in mixed], AT_ONCE),
                ]
                for name, cells, window in ways[:: -1 if number % 2 else 1]:
                    walk = walk_all(ready, cells, window, f"{name} {number}")
                    say(f"  {name}: {100 * walk.hits:.0f} % from the cache, {walk.wall_s:.1f} s")
                    found.setdefault(name, []).append(walk)
    return {
        name: Walk(
            sum(walk.hits for walk in walks) / len(walks),
            sum(walk.wall_s for walk in walks) / len(walks),
        )
        for name, walks in found.items()
    }


def walk_all(ready: dict[str, Any], cells: Sequence[list[Any]], window: int, salt: str) -> Walk:
    """Walk the cells as a run does: a window of workers, each cell's calls one after another."""
    return asyncio.run(_walk_all(ready, cells, window, salt))


async def _walk_all(
    ready: dict[str, Any], cells: Sequence[list[Any]], window: int, salt: str
) -> Walk:
    import aiohttp
    import orjson

    from leakgrid.lanes.lane import Lane
    from leakgrid.lanes.values import Parcel, Quota
    from leakgrid.outcomes import SPOKEN, Outcome
    from leakgrid.providers.vllm_chat import VllmChat
    from leakgrid.providers.vllm_metrics import fetch_load

    url = f"http://127.0.0.1:{ready['port']}/v1"
    params = {"temperature": 0, "max_tokens": OUTPUT, "cache_salt": salt}
    lane = Lane(MODEL, quota=Quota(concurrency=AT_ONCE))
    async with aiohttp.ClientSession() as session:
        provider = VllmChat(
            name=MODEL,
            kind="vllm",
            model=MODEL,
            base_url=url,
            session=session,
            identity=ready["identity"],
            params=params,
        )
        todo = iter(enumerate(cells))

        async def worker() -> None:
            for place, calls in todo:
                for call in calls:
                    data = orjson.dumps(provider.body(call))
                    sent = await lane.send(Parcel(provider, data, place=place))
                    reading = sent.reading
                    if reading.outcome not in SPOKEN and reading.outcome is not Outcome.TRUNCATED:
                        raise NotMeasuredError(
                            f"a call ended as {reading.outcome}: {reading.error}"
                        )

        before = await fetch_load(session, url)
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            dispatcher = group.create_task(lane.dispatch())
            async with asyncio.TaskGroup() as workers:
                for _ in range(window):
                    workers.create_task(worker())
            dispatcher.cancel()
        wall_s = time.monotonic() - began
        after = await fetch_load(session, url)
    hits = after.since(before) if after is not None and before is not None else None
    if hits is None:
        raise NotMeasuredError("the server's /metrics tell nothing of its prefix cache")
    return Walk(hits, wall_s)
