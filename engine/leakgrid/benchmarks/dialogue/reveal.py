"""The ``reveal`` judge: how far a speaker disclosed each of their own attributes.

The attributes go to the judge's model in batches, in file order, behind the transcript, so that
all batches of a dialogue share their prefix. A batch whose answer leaves something unknown is
asked again for that part, then for ever smaller pieces of it, until a piece is one attribute.

The sample number of a judge's call is ``cell's sample x (retries + 1) + attempt``: every attempt
is a draw of its own, and no two samples share one. Pieces keep the number of the last attempt;
they are smaller than everything asked before, so they are requests of their own.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from leakgrid.benchmarks.benchmark import JudgeUse
from leakgrid.benchmarks.dialogue.conversation import RECEIVER, SENDER, Talk, heard
from leakgrid.benchmarks.dialogue.degrees import DEGREES, NONE, PARSER, Said, Words, read
from leakgrid.benchmarks.dialogue.scripts import numbered
from leakgrid.benchmarks.every import every
from leakgrid.benchmarks.judges.kinds import Option
from leakgrid.benchmarks.prompts import Prompt
from leakgrid.datasets.cimemories import Memory, Profile
from leakgrid.outcomes import KEPT, SPOKEN, Outcome
from leakgrid.types import Ask, Call, Hearing, Json, Reveal, Schema, Utterance

DIALOGUE = 0
"""The turn of a hearing that is about the whole transcript."""

_TAG = re.compile(r"<(?=/?(?:transcript|message|judged|attributes)\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class JudgeKind:
    """A kind of judge that a dialogue job may name, and the options it takes."""

    needs_model: bool
    parser: str
    options: tuple[Option, ...]


JUDGES: Mapping[str, JudgeKind] = {
    "reveal": JudgeKind(
        needs_model=True,
        parser=PARSER,
        options=(
            Option("batch", 10),
            Option("retries", 1, least=0),
            Option("level", "transcript", ("transcript", "turn", "both")),
            Option("speakers", "both", ("sender", "both")),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Speech:
    """What is judged at once: messages of one speaker, and the transcript they stand in.

    Where it is not ``whole`` (see ``why``) the speaker was kept from saying more.
    """

    turn: int
    speaker: str
    messages: tuple[Utterance, ...]
    transcript: str
    whole: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What became of one attribute, and the request that told it."""

    said: Said
    key: str


class Judges:
    """The judges of a job, with their prompts read and checked once."""

    def __init__(self, folder: Path, judges: tuple[JudgeUse, ...]) -> None:
        """Raises JobError for a prompt file that is missing or wrong."""
        self.judges = judges
        self._system = Prompt(folder / "reveal.md", ())
        self._user = Prompt(folder / "reveal-user.md", ("transcript", "judged", "attributes"))

    def texts(self) -> Json:
        """Every text, option and version by which these judges judge."""
        uses = [
            [use.name, use.kind, JUDGES[use.kind].parser, dict(use.options)] for use in self.judges
        ]
        return [uses, self._system.text, self._user.text]

    async def hear(
        self, ask: Ask, talk: Talk, sender: Profile, receiver: Profile | None, sample: int
    ) -> tuple[tuple[Hearing, ...], tuple[Reveal, ...]]:
        """What every judge says of both speakers, each against their own memories."""
        told = await every(
            self._hear(ask, use, talk, speech, profile, sample)
            for use, speech, profile in self._speeches(talk, sender, receiver)
        )
        return (
            tuple(hearing for hearing, _ in told),
            tuple(reveal for _, revealed in told for reveal in revealed),
        )

    def _speeches(
        self, talk: Talk, sender: Profile, receiver: Profile | None
    ) -> Iterator[tuple[JudgeUse, Speech, Profile]]:
        """Every judge with every speech, and whose memories it is held against."""
        for use in self.judges:
            sides = {SENDER: sender}
            if receiver is not None and option(use, "speakers") == "both":
                sides[RECEIVER] = receiver
            for speaker, profile in sides.items():
                for speech in _speeches(talk, speaker, option(use, "level")):
                    yield use, speech, profile

    async def _hear(
        self, ask: Ask, use: JudgeUse, talk: Talk, speech: Speech, profile: Profile, sample: int
    ) -> tuple[Hearing, list[Reveal]]:
        """What one judge says of one speech.

        Where the speaker has no words no model is asked: in a dialogue that otherwise took place
        nothing of theirs was disclosed (a refusal without words took place), in one without any
        word nothing is known. Of a dialogue that the next run takes up again no judge is asked
        either: what it says would be about a text that nobody keeps.
        """
        whole, why, memories = speech.whole, speech.why, profile.memories
        spoke = any(one.text or one.outcome is Outcome.REFUSAL for one in talk.said)
        if talk.outcome not in KEPT or not spoke:
            whole, why, memories = False, talk.why or "nobody said a word", ()
        elif not any(one.text for one in speech.messages):
            why, memories = why or "the speaker said nothing", ()
        inquiry = Inquiry(ask, use, self._system.text, self._user, speech, sample)
        size = whole_number(use, "batch")
        await every(
            inquiry.batch(memories[start : start + size]) for start in range(0, len(memories), size)
        )
        found = [(memory.key, inquiry.found[memory.key]) for memory in memories]
        reveals = [
            Reveal(
                judge=use.name,
                speaker=speech.speaker,
                turn=speech.turn,
                attribute=key,
                degree=one.said.degree,
                evidence=one.said.evidence,
                why=one.said.why,
                key=one.key,
            )
            for key, one in found
            if one.said.degree != NONE
        ]
        hearing = Hearing(
            judge=use.name,
            speaker=speech.speaker,
            turn=speech.turn,
            asked=len(profile.memories) if whole else len(memories),
            unknown=sum(reveal.degree is None for reveal in reveals),
            whole=whole,
            parser=PARSER,
            why=why,
        )
        return hearing, reveals


class Inquiry:
    """One judge asked about one speech; ``found`` fills with every attribute's fate by its key."""

    def __init__(
        self, ask: Ask, use: JudgeUse, system: str, user: Prompt, speech: Speech, sample: int
    ) -> None:
        self.found: dict[str, Found] = {}
        self._ask = ask
        self._use = use
        self._system = system
        self._user = user
        self._speech = speech
        self._words = Words(one.text for one in speech.messages)
        self._sample = sample

    async def batch(self, batch: Sequence[Memory]) -> None:
        """Ask for a batch, again for what stays unknown, then for pieces of that."""
        attempts = whole_number(self._use, "retries") + 1
        number, asked, left = 0, batch, batch
        for attempt in range(attempts):
            number, asked = self._sample * attempts + attempt, left
            left = await self._once(asked, number)
            if not left:
                return
        await self._narrow(asked, left, number)

    async def _narrow(self, asked: Sequence[Memory], left: Sequence[Memory], number: int) -> None:
        """Ask for what is ``left`` of ``asked`` in pieces that are smaller than ``asked``."""
        if len(asked) == 1:
            return
        half = -(-len(left) // 2)
        for piece in filter(None, (left[:half], left[half:])):
            rest = await self._once(piece, number)
            if rest:
                await self._narrow(piece, rest, number)

    async def _once(self, memories: Sequence[Memory], number: int) -> Sequence[Memory]:
        """Ask once, note what was told, and say what is worth asking again."""
        user = self._user.fill(
            {
                "transcript": self._speech.transcript,
                "judged": self._speech.speaker,
                "attributes": numbered(tuple(memory.statement for memory in memories)),
            }
        )
        answer = await self._ask(self._use.call(self._system, user, schema(len(memories)), number))
        if answer.outcome in SPOKEN:
            told = read(answer.text, len(memories), self._words)
        else:
            told = [Said(None, why=f"the judge's call ended as {answer.outcome}")] * len(memories)
        for memory, said in zip(memories, told, strict=True):
            self.found[memory.key] = Found(said, answer.key)
        if answer.outcome not in SPOKEN and answer.outcome is not Outcome.TRUNCATED:
            # A request that is wrong stays wrong; one that failed is asked again by the next run.
            return ()
        return [memory for memory, said in zip(memories, told, strict=True) if said.degree is None]


@functools.cache
def schema(count: int) -> Schema:
    """The answer that a judge must give on ``count`` attributes; evidence before degree."""
    entry = {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "minimum": 1, "maximum": count},
            "evidence": {"type": "string", "maxLength": 300},
            "degree": {"type": "string", "enum": list(DEGREES)},
        },
        "required": ["id", "evidence", "degree"],
        "additionalProperties": False,
    }
    listed = {"type": "array", "items": entry, "minItems": count, "maxItems": count}
    return Schema(
        "reveal_verdict",
        {
            "type": "object",
            "properties": {"attributes": listed},
            "required": ["attributes"],
            "additionalProperties": False,
        },
    )


def example(call: Call) -> str | None:
    """A judge's usual answer: nothing was disclosed. None for a call that is no judge's."""
    if call.schema is None:
        return None
    count = call.schema.definition["properties"]["attributes"]["maxItems"]
    entries = [{"id": n, "evidence": "", "degree": NONE} for n in range(1, count + 1)]
    return orjson.dumps({"attributes": entries}).decode()


def _speeches(talk: Talk, speaker: str, level: str | int) -> list[Speech]:
    """What is judged of one speaker: the whole dialogue, each of their messages, or both."""
    speeches = []
    if level != "turn":
        transcript = "\n".join(map(_shown, talk.said))
        own = tuple(one for one in talk.said if one.speaker == speaker)
        speeches.append(Speech(DIALOGUE, speaker, own, transcript, talk.whole, talk.why))
    if level != "transcript":
        for one in talk.utterances:
            if one.speaker == speaker and one in talk.said:
                speeches.append(Speech(one.turn, speaker, (one,), _shown(one), True))
            elif one.speaker == speaker:
                speeches.append(Speech(one.turn, speaker, (), "", False, talk.why))
    return speeches


def _shown(utterance: Utterance) -> str:
    # A message must not end its own block, nor begin another.
    text = _TAG.sub("‹", heard(utterance.text))
    return f'<message round="{utterance.turn}" by="{utterance.speaker}">\n{text}\n</message>'


def option(use: JudgeUse, name: str) -> str | int:
    """An option of a judge, or its default."""
    known = {option.name: option.default for option in JUDGES[use.kind].options}
    value: str | int = use.options.get(name, known[name])
    return value


def whole_number(use: JudgeUse, name: str) -> int:
    """An option that is a whole number."""
    return int(option(use, name))
