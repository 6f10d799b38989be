"""The benchmark's clients do the same work: leakgrid's calls are those of all others."""

from __future__ import annotations

import asyncio
from typing import Any

from leakgrid.benchmarks.benchmark import Point
from leakgrid.outcomes import Outcome
from leakgrid.providers.openai import ChatCompletions
from leakgrid.types import Answer, Call, Usage
from tests.bench.client_leakgrid import OneCall, model
from tests.bench.work import messages


def test_what_leakgrid_sends_is_what_the_bare_loop_sends() -> None:
    spec = model("m", "http://127.0.0.1:9/v1")
    asked: list[Call] = []

    async def ask(call: Call) -> Answer:
        asked.append(call)
        return Answer(
            key="k", outcome=Outcome.ANSWER, text="yes", reasoning="", finish="stop", model="m",
            usage=Usage(1, 0, 1, 0), usd=None, latency_s=0.0, status=200, error="",
            simulated=False,
        )  # fmt: skip

    async def cells() -> None:
        benchmark = OneCall(3)
        for sample in range(2):
            for item in benchmark.items:
                point = Point(model="m", defence="none", condition="group", sample=sample)
                await benchmark.cell(ask, item, point)

    asyncio.run(cells())
    nowhere: Any = None  # nothing is sent
    provider = ChatCompletions(
        name="m", kind="openai", model=spec.model, base_url=spec.base_url, session=nowhere,
        identity="", params=spec.params,
    )  # fmt: skip
    bare = [{"model": "m", "max_tokens": 300, "messages": messages(n)} for n in range(6)]
    assert [provider.body(call) for call in asked] == bare
