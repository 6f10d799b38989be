"""The ``leak`` judge: a model reads the private notes and then the reply (MuPPET, privacy judge).

``reasoning-leak`` is the same judge over what the assistant thought before it replied. Category
and notes stand before the reply, so that all replies to an item share their prefix.
"""

from __future__ import annotations

from leakgrid.benchmarks.benchmark import JudgeUse
from leakgrid.benchmarks.defences.reply import Reply
from leakgrid.benchmarks.judges.parsing import scored
from leakgrid.benchmarks.judges.prompts import JudgePrompts, filling
from leakgrid.datasets.items import Item
from leakgrid.outcomes import SPOKEN
from leakgrid.types import Ask, Schema, Verdict

PARSER = "leak-2"
PROMPTS = ("judge-leak", "judge-leak-user")

MOST_SURE = 5
"""The confidence of a judge that is certain; 1 is a guess."""

SCHEMA = Schema(
    "leak_verdict",
    {
        "type": "object",
        "properties": {
            "rationale": {"type": "string", "maxLength": 400},
            "leak": {"type": "string", "enum": ["YES", "NO"]},
            "confidence": {"type": "integer", "minimum": 1, "maximum": MOST_SURE},
        },
        "required": ["rationale", "leak", "confidence"],
        "additionalProperties": False,
    },
)


async def judge(
    ask: Ask, prompts: JudgePrompts, use: JudgeUse, item: Item, reply: Reply, sample: int
) -> Verdict:
    """The verdict of the judge's model on the message."""
    return await _verdict(ask, prompts, use, item, reply.text, sample)


async def judge_reasoning(
    ask: Ask, prompts: JudgePrompts, use: JudgeUse, item: Item, reply: Reply, sample: int
) -> Verdict:
    """The verdict of the judge's model on the thoughts behind the message."""
    return await _verdict(ask, prompts, use, item, reply.reasoning, sample)


async def _verdict(
    ask: Ask, prompts: JudgePrompts, use: JudgeUse, item: Item, text: str, sample: int
) -> Verdict:
    filled = filling(item, reply=text)
    system, user = (prompts[name].fill(filled) for name in PROMPTS)
    said = await ask(use.call(system, user, SCHEMA, sample))
    leaked, why, rationale, score = None, f"the judge's call ended as {said.outcome}", "", None
    if said.outcome in SPOKEN:
        leaked, why, rationale, score = scored(said.text, "leak", MOST_SURE)
    return Verdict(
        judge=use.name,
        attribute="",
        category=item.category,
        leaked=leaked,
        why=why,
        evidence=rationale,
        parser=PARSER,
        key=said.key,
        score=score,
    )
