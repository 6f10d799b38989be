"""All judges of a job over one reply: the part of every cell that judges.

A reply that is not fit to be judged is unknown to every judge, with the reason.
"""

from __future__ import annotations

from pathlib import Path

from leakgrid.benchmarks.benchmark import JudgeUse
from leakgrid.benchmarks.defences.reply import Reply
from leakgrid.benchmarks.every import every
from leakgrid.benchmarks.judges import votes
from leakgrid.benchmarks.judges.kinds import KINDS, Said
from leakgrid.benchmarks.judges.prompts import read_prompts
from leakgrid.datasets.items import Item
from leakgrid.types import Ask, Json, Rating, Verdict


class Panel:
    """The judges of a job, with their prompts read and checked once."""

    def __init__(self, folder: Path, judges: tuple[JudgeUse, ...]) -> None:
        """Raises JobError for a prompt file that is missing or wrong."""
        self.judges = judges
        self.prompts = read_prompts(
            folder, [name for use in judges for name in KINDS[use.kind].files(use)]
        )

    def texts(self) -> Json:
        """Every text, option and version by which these judges judge."""
        return [
            [
                [use.name, use.kind, KINDS[use.kind].parser, votes.PARSER, dict(use.options)]
                for use in self.judges
            ],
            {name: prompt.text for name, prompt in self.prompts.items()},
        ]

    async def hear(
        self, ask: Ask, item: Item, reply: Reply, sample: int
    ) -> tuple[tuple[Verdict, ...], tuple[Rating, ...]]:
        """What every judge says of a reply: verdicts on leaks, and ratings of usefulness."""
        said = await every(self.one(ask, use, item, reply, sample) for use in self.judges)
        return (
            tuple(one for one in said if isinstance(one, Verdict)),
            tuple(one for one in said if isinstance(one, Rating)),
        )

    async def one(
        self, ask: Ask, use: JudgeUse, item: Item, reply: Reply, sample: int
    ) -> Said | None:
        """What one judge says; None where it has nothing to read (no thoughts were shown)."""
        kind = KINDS[use.kind]
        if kind.of == "reasoning" and not reply.unfit and not reply.reasoning.strip():
            return None
        if reply.unfit:
            return unknown(use, item, reply.unfit)
        count = use.options.get("votes", 1)
        # One after the other: a cell is a plain program, and lanes are kept full by other cells.
        said = await every(
            kind.judge(ask, self.prompts, use, item, reply, sample * count + vote)
            for vote in range(count)
        )
        return said[0] if count == 1 else votes.decided(said)


def unknown(use: JudgeUse, item: Item, why: str) -> Said:
    """What a judge says of a reply that it cannot judge."""
    kind = KINDS[use.kind]
    if kind.tells == "useful":
        return Rating(judge=use.name, useful=None, why=why, parser=kind.parser)
    return Verdict(
        judge=use.name,
        attribute="",
        category=item.category,
        leaked=None,
        why=why,
        parser=kind.parser,
    )
