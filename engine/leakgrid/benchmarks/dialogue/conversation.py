"""One conversation: two agents in turn, each with its own memories and its own view of the talk.

Every side sees its instructions first, its own messages as the assistant's and the other's as
the user's. What the other hears is the reply alone: providers take thinking away, and where a
tag of it is left over the message is not one. A refusal is a message like any other; one
without words is heard as NO_WORDS and kept as "". A message that is empty, cut or failed
breaks the dialogue: what came before stands, and nothing is said of what would have come.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from leakgrid.outcomes import SPOKEN, Outcome
from leakgrid.types import Answer, Ask, Call, Message, Utterance

SENDER, RECEIVER = "sender", "receiver"

NO_WORDS = "(no message)"
"""What the other side, and a judge, read in place of a refusal that has no words."""

LONGEST_ERROR = 200
"""Characters of a failed call's error that are kept with the dialogue."""

_END = re.compile(r"\s*[*_`]*\[END\][*_`.]*\s*\Z")
_THINKING = re.compile(r"</?think(?:ing)?>", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Talk:
    """What was said, in order, and how it ended.

    ``ended`` is full (all rounds), early (a side closed it) or broken, and then ``why`` says so
    and the last utterance is the one that broke it, with its ``outcome``. ``rounds`` counts
    completed rounds; the one in which a side closes the talk is complete.
    """

    utterances: tuple[Utterance, ...]
    rounds: int
    ended: str
    why: str = ""
    outcome: Outcome = Outcome.ANSWER

    @property
    def whole(self) -> bool:
        """Whether everything was said that the two wanted to say within their rounds."""
        return self.ended != "broken"

    @property
    def said(self) -> tuple[Utterance, ...]:
        """The utterances that are messages."""
        return self.utterances if self.whole else self.utterances[:-1]


@dataclass(slots=True)
class Side:
    """One agent: its model and all it has seen. ``opening`` is the user's first text for it.

    The receiver's opening needs the message that it answers, so it is made from that.
    """

    speaker: str
    model: str
    system: str
    opening: str | Callable[[str], str]
    messages: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.system:
            self.messages.append(Message("system", self.system))
        if isinstance(self.opening, str):
            self.messages.append(Message("user", self.opening))

    def hears(self, text: str) -> None:
        """Take the other's message."""
        if not callable(self.opening) or any(one.role == "user" for one in self.messages):
            self.messages.append(Message("user", text))
        else:
            self.messages.append(Message("user", self.opening(text)))


async def converse(
    ask: Ask,
    sender: Side,
    receiver: Side | None,
    *,
    rounds: int,
    sample: int,
    early_end: bool,
) -> Talk:
    """The talk of so many rounds; without a receiver it is one message."""
    sides = (sender,) if receiver is None else (sender, receiver)
    last = 1 if receiver is None else rounds
    utterances: list[Utterance] = []
    for turn in range(1, last + 1):
        for side in sides:
            answer = await ask(
                Call(
                    model=side.model,
                    messages=tuple(side.messages),
                    sample=sample,
                    role=side.speaker,
                )
            )
            text, why, closes = _heard(answer, early_end, first=not utterances)
            utterances.append(
                Utterance(
                    turn=turn,
                    speaker=side.speaker,
                    text=text,
                    outcome=answer.outcome,
                    reasoning=answer.reasoning,
                    key=answer.key,
                )
            )
            if why:
                told = f"the {side.speaker}'s message of round {turn} {why}"
                return Talk(tuple(utterances), turn - 1, "broken", told, answer.outcome)
            if closes:
                return Talk(tuple(utterances), turn, "early")
            side.messages.append(Message("assistant", heard(text)))
            for other in sides:
                if other is not side:
                    other.hears(heard(text))
    return Talk(tuple(utterances), last, "full")


def heard(text: str) -> str:
    """What the other side reads of a message."""
    return text or NO_WORDS


def _heard(answer: Answer, early_end: bool, *, first: bool) -> tuple[str, str, bool]:
    """(text, why it is no message, whether it closes the talk) of an answer."""
    text = answer.text.strip()
    if answer.outcome not in SPOKEN:
        told = "was cut at the token limit" if answer.outcome is Outcome.TRUNCATED else ""
        detail = f" ({answer.error[:LONGEST_ERROR]})" if answer.error else ""
        return text, told or f"ended as {answer.outcome}{detail}", False
    if _THINKING.search(text):
        return text, "has thinking in it that was not closed or not taken away", False
    closes = early_end and _END.search(text) is not None
    if closes:
        text = _END.sub("", text).rstrip()
    if not text and answer.outcome is not Outcome.REFUSAL:
        # A talk may close with the marker alone, but not before anything was said.
        if not closes:
            return text, "is empty", False
        if first:
            return text, "is empty but for the end marker", False
    return text, "", closes
