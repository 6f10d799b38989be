"""The dialogue's cell: two agents talk (or one writes), and judges say what they disclosed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakgrid.benchmarks.benchmark import JudgeUse, Point
from leakgrid.benchmarks.dialogue.conversation import RECEIVER, SENDER, Side, converse
from leakgrid.benchmarks.dialogue.facts import described, rule
from leakgrid.benchmarks.dialogue.instances import Instance, alone, dialogues
from leakgrid.benchmarks.dialogue.reveal import Judges, example
from leakgrid.benchmarks.dialogue.scripts import Scripts
from leakgrid.benchmarks.dialogue.settings import Settings
from leakgrid.benchmarks.noted import Noted
from leakgrid.datasets.cimemories import load_profiles
from leakgrid.outcomes import JobError
from leakgrid.types import Ask, Call, Json, Record


class Dialogue:
    """The benchmark over one file of profiles, with the prompts and judges of one job.

    With ``turns`` (0,) its items are single messages to a recipient that nobody plays.
    """

    version = "dialogue-1"
    """Part of every cell's fingerprint: raise it when the program's meaning changes."""

    def __init__(
        self, dataset: Path, prompts: Path, judges: tuple[JudgeUse, ...], settings: Settings
    ) -> None:
        """Raises DatasetError for wrong profiles or labels, JobError for a wrong prompt."""
        if 0 in settings.turns and settings.turns != (0,):
            raise JobError(
                f"turns = {list(settings.turns)}: 0 (a single message) stands alone, in a job of "
                "its own"
            )
        self.single = settings.turns == (0,)
        self.settings = settings
        self.profiles = load_profiles(dataset)
        self.items = (
            alone(self.profiles, settings.subset)
            if self.single
            else dialogues(self.profiles, settings.subset, dataset)
        )
        self.scripts = Scripts(prompts, single=self.single, early_end=settings.early_end)
        self.judges = Judges(prompts, judges)
        self._labels = rule(settings.labels, self.profiles)

    def texts(self, defence: str, condition: str) -> Any:
        """Every text and version that goes into cells of this condition.

        Labels are no part of it: they say what a disclosure means, not what was said.
        """
        return [self.scripts.texts(condition), self.judges.texts()]

    def attributes(self) -> list[tuple[str, str, str]]:
        """Nothing: what may leak depends on the context's labels (see ``facts``)."""
        return []

    def facts(self) -> Mapping[str, Json]:
        """Profiles, contexts, instances and labels of the items."""
        return {**described(self.items), **self._labels.facts(self.items)}

    def cues(self) -> Mapping[str, Mapping[str, str]]:
        """A sentence of each condition but the empty one."""
        return {"conditions": self.scripts.cues()}

    def example(self, call: Call) -> str | None:
        """A judge finds nothing disclosed; agents may say anything."""
        return example(call)

    async def cell(self, ask: Ask, item: Instance, point: Point) -> Record:
        """Run one cell. What a judge cannot say is an unknown degree with its reason.

        The reply of the record is what the sender said; its outcome is that of the message that
        broke the dialogue, and ``extra`` says how the dialogue ended.
        """
        noted = Noted(ask)
        scripts = self.scripts
        system = scripts.system(point.condition)
        sender = Side(SENDER, point.model, system, scripts.sender(item))
        receiver = None
        if item.receiver is not None:
            receiver = Side(
                RECEIVER, point.receiver, system, lambda message: scripts.receiver(item, message)
            )
        talk = await converse(
            noted,
            sender,
            receiver,
            rounds=point.turns,
            sample=point.sample,
            early_end=scripts.early_end,
        )
        hearings, reveals = await self.judges.hear(
            noted, talk, item.sender, item.receiver, point.sample
        )
        return Record(
            item=item.id,
            reply="\n\n".join(one.text for one in talk.said if one.speaker == SENDER and one.text),
            reply_outcome=talk.outcome,
            utterances=talk.utterances,
            hearings=hearings,
            reveals=reveals,
            extra={"rounds": talk.rounds, "ended": talk.ended, "why": talk.why},
            settled=noted.settled,
            simulated=noted.simulated,
            calls=tuple(noted.calls),
        )
