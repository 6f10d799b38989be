"""Every kind of judge: what it tells, what it needs, which options it takes, how it is run.

Job files, plans and cells all read this one table: a new kind is one module and one entry.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from leakgrid.benchmarks.benchmark import JudgeUse
from leakgrid.benchmarks.defences.reply import Reply
from leakgrid.benchmarks.judges import exact, leak, utility
from leakgrid.benchmarks.judges.prompts import JudgePrompts
from leakgrid.datasets.items import Item
from leakgrid.types import Ask, Rating, Verdict

Said: TypeAlias = Verdict | Rating
Judge: TypeAlias = Callable[[Ask, JudgePrompts, JudgeUse, Item, Reply, int], Awaitable[Said]]


@dataclass(frozen=True, slots=True)
class Option:
    """A key of [judges.NAME]: one of ``choices``, or else a whole number of ``least`` or more."""

    name: str
    default: str | int
    choices: tuple[str, ...] = ()
    least: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of judge. ``prompts`` are its files; without any it asks no model.

    ``tells`` says whether it leaves verdicts on leaks or ratings of usefulness, ``of`` which
    text it reads. ``more_prompts`` are needed only with an option's value.
    """

    judge: Judge
    parser: str
    tells: Literal["leak", "useful"]
    of: Literal["reply", "reasoning"] = "reply"
    prompts: tuple[str, ...] = ()
    more_prompts: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    options: tuple[Option, ...] = ()

    @property
    def needs_model(self) -> bool:
        """Whether [judges.NAME] must name a model."""
        return bool(self.prompts)

    def files(self, use: JudgeUse) -> tuple[str, ...]:
        """The prompt files that a judge of this kind uses with its options."""
        more = (files for name, value, files in self.more_prompts if use.options.get(name) == value)
        return self.prompts + tuple(file for files in more for file in files)


VOTES = Option("votes", 1)

KINDS: dict[str, Kind] = {
    "leak": Kind(
        judge=leak.judge,
        parser=leak.PARSER,
        tells="leak",
        prompts=leak.PROMPTS,
        options=(VOTES,),
    ),
    "exact": Kind(judge=exact.judge, parser=exact.PARSER, tells="leak"),
    "reasoning-leak": Kind(
        judge=leak.judge_reasoning,
        parser=leak.PARSER,
        tells="leak",
        of="reasoning",
        prompts=leak.PROMPTS,
        options=(VOTES,),
    ),
    "utility": Kind(
        judge=utility.judge,
        parser=utility.PARSER,
        tells="useful",
        prompts=utility.PROMPTS,
        more_prompts=(("facts", "judge", utility.FACT_PROMPTS),),
        options=(VOTES, Option("facts", "item", ("item", "judge"))),
    ),
}
