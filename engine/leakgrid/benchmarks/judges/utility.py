"""The ``utility`` judge: does the reply answer the question and entail a useful fact?

The facts are the item's own, or (``facts = "judge"``) those that the judge's model draws from
the notes in a call of its own. That call shows no reply, so every cell of an item shares it.
"""

from __future__ import annotations

from leakgrid.benchmarks.benchmark import JudgeUse
from leakgrid.benchmarks.defences.reply import Reply
from leakgrid.benchmarks.judges.parsing import fact_list, utility
from leakgrid.benchmarks.judges.prompts import JudgePrompts, filling
from leakgrid.datasets.items import Item
from leakgrid.outcomes import SPOKEN
from leakgrid.types import Ask, Rating, Schema

PARSER = "utility-1"
PROMPTS = ("judge-utility", "judge-utility-user")
FACT_PROMPTS = ("judge-useful-facts", "judge-useful-facts-user")

SCHEMA = Schema(
    "utility_verdict",
    {
        "type": "object",
        "properties": {
            "facts": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "number": {"type": "integer", "minimum": 1},
                        "evidence": {"type": "string", "maxLength": 200},
                        "entailed": {"type": "boolean"},
                    },
                    "required": ["number", "evidence", "entailed"],
                    "additionalProperties": False,
                },
            },
            "answers": {"type": "string", "enum": ["YES", "NO"]},
        },
        "required": ["facts", "answers"],
        "additionalProperties": False,
    },
)

FACTS_SCHEMA = Schema(
    "useful_facts",
    {
        "type": "object",
        "properties": {
            "facts": {
                "type": "array",
                "items": {"type": "string", "minLength": 1, "maxLength": 300},
                "minItems": 1,
            }
        },
        "required": ["facts"],
        "additionalProperties": False,
    },
)


async def useful_facts(
    ask: Ask, prompts: JudgePrompts, use: JudgeUse, item: Item
) -> tuple[tuple[str, ...], str, str]:
    """(facts, reason there are none, request key): what may help the asker and is not private."""
    system, user = (prompts[name].fill(filling(item)) for name in FACT_PROMPTS)
    # Always the same draw: the facts are the item's, whichever sample or vote this is.
    said = await ask(use.call(system, user, FACTS_SCHEMA, 0, step="facts"))
    if said.outcome not in SPOKEN:
        return (), f"the call for useful facts ended as {said.outcome}", said.key
    facts, why = fact_list(said.text)
    return facts, why and f"useful facts: {why}", said.key


async def judge(
    ask: Ask, prompts: JudgePrompts, use: JudgeUse, item: Item, reply: Reply, sample: int
) -> Rating:
    """The rating that the judge's model gives the message."""
    facts, why, key = item.useful_facts, "", ""
    if use.options.get("facts") == "judge":
        facts, why, key = await useful_facts(ask, prompts, use, item)
    if not facts:
        why = why or 'the item has no useful facts of its own (facts = "judge" asks for some)'
        return Rating(judge=use.name, useful=None, why=why, parser=PARSER, key=key)
    filled = filling(item, reply=reply.text, useful_facts=facts)
    system, user = (prompts[name].fill(filled) for name in PROMPTS)
    said = await ask(use.call(system, user, SCHEMA, sample))
    useful, why, evidence = None, f"the judge's call ended as {said.outcome}", ""
    if said.outcome in SPOKEN:
        useful, why, evidence = utility(said.text, len(facts))
    return Rating(
        judge=use.name, useful=useful, why=why, evidence=evidence, parser=PARSER, key=said.key
    )
