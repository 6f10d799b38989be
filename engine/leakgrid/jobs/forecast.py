"""``leakgrid plan``: what a job would send, cost and take, before anything is spent."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO, TypeAlias

import orjson

from leakgrid.benchmarks.benchmark import Item
from leakgrid.benchmarks.defences.reply import MARKER
from leakgrid.cache.cells import DoneCells
from leakgrid.cache.key import canonical
from leakgrid.cache.spent import spent_usd
from leakgrid.jobs.jobfile import load_job
from leakgrid.jobs.judge_temperature import temperature_told
from leakgrid.jobs.memory import lane_id, read_memory
from leakgrid.jobs.models import FREE, ModelSpec
from leakgrid.jobs.plan import Column, Plan
from leakgrid.lanes.estimate import START_TOKENS_PER_BYTE
from leakgrid.outcomes import Outcome
from leakgrid.providers.simulated.schemas import smallest
from leakgrid.types import Answer, Call

SAMPLED_ITEMS = 20
SAMPLED_CALLS = 1500
SENDER, RECEIVER = "(sender)", "(receiver)"
ASSUMED_REPLY_TOKENS = 150
ASSUMED_VERDICT_TOKENS = 90
ASSUMED_LATENCY_S = 3.0
ASSUMED_CONCURRENCY = 32


BYTES_PER_TOKEN = 4


@dataclass(slots=True)
class Total:
    """Bytes of the requests of a cell, and its calls by the output tokens of each."""

    bytes: float = 0.0
    calls: dict[float, float] = field(default_factory=lambda: defaultdict(float))


Sizes: TypeAlias = dict[str, Total]


@dataclass(slots=True)
class LaneForecast:
    """Expected calls, tokens, dollars (None: no known price) and seconds of one model."""

    calls: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    usd: float | None = None
    seconds: float = 0.0


def forecast(plan: Plan, done: DoneCells, cache: Path) -> dict[str, LaneForecast]:
    """By model name, for the open cells only. Sizes come from the real prompts of some items."""
    todo = plan.count_todo(done)
    found: dict[str, LaneForecast] = defaultdict(LaneForecast)
    memory = read_memory(cache)
    shapes: dict[Any, Sizes] = {}
    for column in plan.columns:
        cells = todo.get(column.id, 0)
        if not cells:
            continue
        point = column.point
        # Columns that differ in their models or draws ask the same things of other models.
        shape = (point.defence, point.condition, point.turns)
        if shape not in shapes:
            shapes[shape] = _sizes(plan, column)
        for asked, total in shapes[shape].items():
            model = {SENDER: point.model, RECEIVER: point.receiver}.get(asked, asked)
            spec = plan.job.specs[model]
            learned = memory.get(lane_id(spec), {})
            ratio = learned.get("tokens_per_byte", START_TOKENS_PER_BYTE)
            lane = found[model]
            most = spec.params.get("max_completion_tokens") or spec.params.get("max_tokens", 1e6)
            for tokens, calls in total.calls.items():
                lane.calls += calls * cells
                lane.output_tokens += min(most, tokens) * calls * cells
            lane.input_tokens += total.bytes * ratio * cells
    for model, lane in found.items():
        _price(plan.job.specs[model], lane, memory.get(lane_id(plan.job.specs[model]), {}))
    return dict(found)


def _sizes(plan: Plan, column: Column) -> Sizes:
    """Per cell, the mean over some items: request bytes and calls by their output tokens.

    Models of the column itself go by SENDER and RECEIVER.
    """
    step = max(1, len(plan.items) // SAMPLED_ITEMS)
    totals: dict[str, Total] = defaultdict(Total)
    count = asked = 0
    for item in plan.items[::step][:SAMPLED_ITEMS]:
        calls = _calls_of(plan, column, item)
        for call, tokens in calls:
            totals[call.model].bytes += len(_body(call))
            totals[call.model].calls[tokens] += 1
        count += 1
        asked += len(calls)
        if asked > SAMPLED_CALLS:
            break
    for total in totals.values():
        total.bytes /= count
        total.calls = {tokens: calls / count for tokens, calls in total.calls.items()}
    return dict(totals)


def _calls_of(plan: Plan, column: Column, item: Item) -> list[tuple[Call, float]]:
    """The calls that a cell would make, from the very program, and the output tokens of each.

    Unless the benchmark knows better, an answer that must fit a schema is the smallest that
    does, any other a message of the assumed length after the marker that some defences look for.
    """
    made: list[tuple[Call, float]] = []

    async def note(call: Call) -> Answer:
        text = plan.benchmark.example(call)
        judging = call.role.startswith("judge")
        tokens = float(ASSUMED_VERDICT_TOKENS if judging else ASSUMED_REPLY_TOKENS)
        if text is not None:
            tokens = max(1.0, len(text) / BYTES_PER_TOKEN)
        elif call.schema is not None:
            text = orjson.dumps(smallest(call.schema.definition)).decode()
        else:
            text = f"{MARKER}\n" + "x" * BYTES_PER_TOKEN * ASSUMED_REPLY_TOKENS
        made.append((call, tokens))
        return Answer(key="", outcome=Outcome.ANSWER, text=text)

    point = column.point
    receiver = RECEIVER if point.receiver else ""
    # The stand-ins never wait, so the program runs to its end at the first step.
    program = plan.benchmark.cell(note, item, replace(point, model=SENDER, receiver=receiver))
    with contextlib.suppress(StopIteration):
        program.send(None)
    return made


def _body(call: Call) -> bytes:
    messages = [{"role": part.role, "content": part.text} for part in call.messages]
    return canonical({"messages": messages})


def _price(spec: ModelSpec, lane: LaneForecast, learned: dict[str, float]) -> None:
    batch = spec.tier == "batch"
    price = spec.batch_price if batch else spec.price
    if price is not None:
        lane.usd = price.expected(lane.input_tokens, lane.output_tokens)
    if batch:
        return  # it is done when the service says so, within a day
    quota = spec.quota
    latency = learned.get("latency_s", ASSUMED_LATENCY_S)
    at_once = quota.concurrency or learned.get("limit", ASSUMED_CONCURRENCY)
    lane.seconds = lane.calls * latency / at_once
    if quota.rpm:
        lane.seconds = max(lane.seconds, lane.calls / quota.rpm * 60)
    if quota.tpm:
        lane.seconds = max(lane.seconds, (lane.input_tokens + lane.output_tokens) / quota.tpm * 60)


def show_plan(path: Path, cache: Path, out: TextIO) -> None:
    """Print the forecast of a job file. Nothing is sent, started or written."""
    plan = Plan(load_job(path), cache=cache)
    done = DoneCells(cache)
    lanes = forecast(plan, done, cache)
    todo = sum(plan.count_todo(done).values())
    print(
        f"{plan.job.name}: {len(plan.items):,} items x {len(plan.columns)} columns = "
        f"{plan.cells:,} cells, {plan.cells - todo:,} done, {todo:,} open",
        file=out,
    )
    turns = {column.point.turns for column in plan.columns}
    if len(turns) > 1:
        each = plan.cells // len(turns)
        print(f"{each:,} cells for each of {len(turns)} numbers of rounds", file=out)
    if not todo:
        print("nothing would be sent", file=out)
        return
    print(
        f"{'model':<24}{'calls':>12}{'tokens in':>18}{'tokens out':>16}{'dollars':>16}{'time':>10}",
        file=out,
    )
    for model, lane in sorted(lanes.items()):
        spec = plan.job.specs[model]
        usd = "unknown" if lane.usd is None else f"{lane.usd:,.2f}"
        if spec.provider in FREE:
            usd = f"0 ({spec.provider})"
        print(
            f"{model:<24}{lane.calls:>12,.0f}{lane.input_tokens:>18,.0f}{lane.output_tokens:>16,.0f}"
            f"{usd:>16}{'batch' if spec.tier == 'batch' else _span(lane.seconds):>10}",
            file=out,
        )
    paid = {
        model: lane for model, lane in lanes.items() if plan.job.specs[model].provider not in FREE
    }
    known = sum(lane.usd or 0.0 for lane in paid.values())
    unpriced = sorted(model for model, lane in paid.items() if lane.usd is None)
    told = f"about ${known:,.2f}" + (f" and unknown for {', '.join(unpriced)}" if unpriced else "")
    longest = max(lane.seconds for lane in lanes.values())
    print(f"together: {told}, about {_span(longest)} (all lanes at once)", file=out)
    for use in plan.judges:
        if use.model:
            print(temperature_told(use, plan.job.specs[use.model]), file=out)
    if plan.job.budget_usd is not None:
        spent = spent_usd(cache, plan.job.name)
        print(f"budget: ${plan.job.budget_usd:,.2f}, ${spent:,.4f} spent so far", file=out)
    for told in dict.fromkeys(
        plan.job.specs[model].price_told for model in paid if plan.job.specs[model].price_told
    ):
        models = ", ".join(m for m in sorted(paid) if plan.job.specs[m].price_told == told)
        print(f"price of {models}: {told}", file=out)
    for model in sorted(lanes):
        if plan.job.specs[model].note:
            print(f"{model}: {plan.job.specs[model].note}", file=out)
    print(
        "Upper bound: identical calls and calls answered before are not sent again. "
        "Tokens are estimates from prompt sizes; outputs are assumed.",
        file=out,
    )


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"{max(seconds, 1):.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
