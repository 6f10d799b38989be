"""MuPPET's cell: one reply in one condition under one defence, and every judge's verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leakgrid.benchmarks.defences import prompting
from leakgrid.benchmarks.judges import exact, leak
from leakgrid.benchmarks.muppet.scene import Prompts
from leakgrid.datasets.items import Item
from leakgrid.outcomes import KEPT, SPOKEN
from leakgrid.types import Answer, Ask, Call, Record, Verdict

VERSION = "muppet-1"
"""Part of every cell's fingerprint: raise it when the program's meaning changes."""

PARSERS: Mapping[str, str] = {"leak": leak.PARSER, "exact": exact.PARSER}


@dataclass(frozen=True, slots=True)
class JudgeUse:
    """A judge of this job: its name, its kind, and the model it asks (or none)."""

    name: str
    kind: str
    model: str


async def cell(
    ask: Ask,
    prompts: Prompts,
    item: Item,
    *,
    model: str,
    defence: str,
    condition: str,
    sample: int,
    judges: tuple[JudgeUse, ...],
) -> Record:
    """Run one cell. What a judge cannot say is an unknown verdict with its reason."""
    made: list[Answer] = []
    calls: list[tuple[str, str]] = []

    async def noted(call: Call) -> Answer:
        answer = await ask(call)
        made.append(answer)
        calls.append((call.role, answer.key))
        return answer

    reply = await prompting.reply(
        noted, prompts, item, model=model, defence=defence, condition=condition, sample=sample
    )
    unfit = _unfit(reply)
    verdicts = []
    for judge in judges:
        if unfit:
            verdicts.append(_unknown(judge, item, unfit))
        elif judge.kind == "exact":
            verdicts.append(exact.judge(judge.name, item, reply))
        else:
            verdict, _ = await leak.judge(
                noted, prompts, judge.name, judge.model, item, reply, sample
            )
            verdicts.append(verdict)
    return Record(
        item=item.id,
        reply=reply.text,
        reply_outcome=reply.outcome,
        reasoning=reply.reasoning,
        verdicts=tuple(verdicts),
        settled=all(answer.outcome in KEPT for answer in made),
        simulated=any(answer.simulated for answer in made),
        calls=tuple(calls),
    )


def _unfit(reply: Answer) -> str:
    """Why a reply cannot be judged; empty if it can. Half a reply says nothing of the rest."""
    if reply.outcome not in SPOKEN:
        return f"the reply ended as {reply.outcome}"
    if not reply.text.strip():
        return f"the reply is empty ({reply.finish or reply.outcome})"
    return ""


def _unknown(judge: JudgeUse, item: Item, why: str) -> Verdict:
    return Verdict(
        judge=judge.name,
        attribute="",
        category=item.category,
        leaked=None,
        why=why,
        parser=PARSERS[judge.kind],
    )
