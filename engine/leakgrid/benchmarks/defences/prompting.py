"""``none`` and every defence that is a paragraph of the system prompt: one call."""

from __future__ import annotations

from leakgrid.benchmarks.benchmark import Point
from leakgrid.benchmarks.defences.reply import Reply, of_answer
from leakgrid.benchmarks.muppet.scene import Prompts, values
from leakgrid.datasets.items import Item
from leakgrid.types import Ask, Call, Message


async def reply(ask: Ask, prompts: Prompts, item: Item, point: Point) -> Reply:
    """The assistant's reply to the newest message of ``item``.

    The system prompt goes from what all defences and conditions of an item share to what only
    this one has, so that prefix caches hit.
    """
    filled = values(item)
    parts = [prompts.system, prompts.condition[point.condition], prompts.style]
    if point.defence != "none":
        parts.append(prompts.defence[point.defence])
    system = "\n\n".join(part.fill(filled) for part in parts)
    messages = (
        Message("system", system),
        Message("user", prompts.user[point.condition].fill(filled)),
    )
    call = Call(model=point.model, messages=messages, sample=point.sample, role="assistant")
    return of_answer(await ask(call))
