"""MuPPET's cell: one reply in one condition under one defence, and every judge's verdict."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakgrid.benchmarks.benchmark import JudgeUse, Point
from leakgrid.benchmarks.defences import prompting
from leakgrid.benchmarks.judges import exact, leak
from leakgrid.benchmarks.muppet.scene import Prompts
from leakgrid.datasets.items import Item, load_items
from leakgrid.outcomes import KEPT
from leakgrid.types import Answer, Ask, Call, Record, Verdict

PARSERS: Mapping[str, str] = {"leak": leak.PARSER, "exact": exact.PARSER}


class Muppet:
    """The benchmark over one dataset, with the prompts and judges of one job."""

    version = "muppet-1"
    """Part of every cell's fingerprint: raise it when the program's meaning changes."""

    def __init__(
        self,
        dataset: Path,
        prompts: Path,
        defences: tuple[str, ...],
        judges: tuple[JudgeUse, ...],
    ) -> None:
        """Raises DatasetError for a wrong item, JobError for a wrong prompt."""
        self.items = load_items(dataset)
        self.prompts = Prompts(prompts, defences)
        self.judges = judges

    def texts(self, defence: str, condition: str) -> Any:
        """Every text and version that goes into cells of this defence and condition."""
        prompts = self.prompts
        return [
            *(prompt.text for prompt in (prompts.system, prompts.style)),
            prompts.condition[condition].text,
            prompts.user[condition].text,
            "" if defence == "none" else prompts.defence[defence].text,
            [[judge.name, judge.kind, PARSERS[judge.kind]] for judge in self.judges],
            *(prompt.text for prompt in (prompts.judge_leak, prompts.judge_leak_user)),
        ]

    def attributes(self) -> list[tuple[str, str, str]]:
        """(item, attribute key, sensitive category) of every private fact."""
        return [
            (item.id, attribute.key, attribute.category)
            for item in self.items
            for attribute in item.attributes
        ]

    def cues(self) -> Mapping[str, Mapping[str, str]]:
        """A sentence of each defence and of the one-to-one condition."""
        return self.prompts.cues()

    async def cell(self, ask: Ask, item: Item, point: Point) -> Record:
        """Run one cell. What a judge cannot say is an unknown verdict with its reason."""
        made: list[Answer] = []
        calls: list[tuple[str, str]] = []

        async def noted(call: Call) -> Answer:
            answer = await ask(call)
            made.append(answer)
            calls.append((call.role, answer.key))
            return answer

        reply = await prompting.reply(noted, self.prompts, item, point)
        verdicts = []
        for judge in self.judges:
            if reply.unfit:
                verdicts.append(_unknown(judge, item, reply.unfit))
            elif judge.kind == "exact":
                verdicts.append(exact.judge(judge.name, item, reply))
            else:
                verdicts.append(
                    await leak.judge(noted, self.prompts, judge, item, reply, point.sample)
                )
        return Record(
            item=item.id,
            reply=reply.text,
            reply_outcome=reply.outcome,
            reasoning=reply.reasoning,
            extra=reply.steps,
            verdicts=tuple(verdicts),
            settled=all(answer.outcome in KEPT for answer in made),
            simulated=any(answer.simulated for answer in made),
            calls=tuple(calls),
        )


def _unknown(judge: JudgeUse, item: Item, why: str) -> Verdict:
    return Verdict(
        judge=judge.name,
        attribute="",
        category=item.category,
        leaked=None,
        why=why,
        parser=PARSERS[judge.kind],
    )
