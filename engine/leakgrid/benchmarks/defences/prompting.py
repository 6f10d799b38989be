"""``none`` and every defence that is a paragraph of the system prompt: one call."""

from __future__ import annotations

from leakgrid.benchmarks.muppet.scene import Prompts, values
from leakgrid.datasets.items import Item
from leakgrid.types import Answer, Ask, Call, Message


async def reply(
    ask: Ask, prompts: Prompts, item: Item, *, model: str, defence: str, condition: str, sample: int
) -> Answer:
    """The assistant's reply to the newest message of ``item``.

    The system prompt goes from what all defences and conditions of an item share to what only
    this one has, so that prefix caches hit.
    """
    filled = values(item)
    parts = [prompts.system, prompts.condition[condition], prompts.style]
    if defence != "none":
        parts.append(prompts.defence[defence])
    system = "\n\n".join(part.fill(filled) for part in parts)
    messages = (
        Message("system", system),
        Message("user", prompts.user[condition].fill(filled)),
    )
    return await ask(Call(model=model, messages=messages, sample=sample, role="assistant"))
