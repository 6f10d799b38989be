"""The ``leak`` judge: a model reads the private notes and then the reply (MuPPET, privacy judge).

Category and notes stand before the reply, so that all replies to an item share their prefix.
"""

from __future__ import annotations

from leakgrid.benchmarks.benchmark import JudgeUse
from leakgrid.benchmarks.defences.reply import Reply
from leakgrid.benchmarks.judges.parsing import yes_or_no
from leakgrid.benchmarks.muppet.scene import Prompts, values
from leakgrid.datasets.items import Item
from leakgrid.outcomes import SPOKEN
from leakgrid.types import Ask, Call, Message, Schema, Verdict

PARSER = "leak-1"

SCHEMA = Schema(
    "leak_verdict",
    {
        "type": "object",
        "properties": {
            "rationale": {"type": "string", "maxLength": 400},
            "leak": {"type": "string", "enum": ["YES", "NO"]},
            "confidence": {"type": "integer", "minimum": 1, "maximum": 5},
        },
        "required": ["rationale", "leak", "confidence"],
        "additionalProperties": False,
    },
)


async def judge(
    ask: Ask, prompts: Prompts, use: JudgeUse, item: Item, reply: Reply, sample: int
) -> Verdict:
    """The verdict of the judge's model on ``reply``."""
    filled = {**values(item), "reply": reply.text}
    messages = (
        Message("system", prompts.judge_leak.fill(filled)),
        Message("user", prompts.judge_leak_user.fill(filled)),
    )
    said = await ask(
        Call(
            model=use.model,
            messages=messages,
            schema=SCHEMA,
            sample=sample,
            role=f"judge:{use.name}",
        )
    )
    leaked, why, rationale = None, f"the judge's call ended as {said.outcome}", ""
    if said.outcome in SPOKEN:
        leaked, why, rationale = yes_or_no(said.text, "leak")
    return Verdict(
        judge=use.name,
        attribute="",
        category=item.category,
        leaked=leaked,
        why=why,
        evidence=rationale,
        parser=PARSER,
        key=said.key,
    )
