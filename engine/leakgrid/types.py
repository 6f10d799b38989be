"""The vocabulary: the few values that travel between the rooms of the house.

Item and Attribute live in ``datasets/items.py``; Outcome and the errors in ``outcomes.py``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from leakgrid.outcomes import Outcome
from leakgrid.value import value

Json: TypeAlias = Any
"""A value that JSON can carry."""


@value(frozen=True, slots=True)
class Message:
    """One chat message: role is system, user or assistant."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Schema:
    """A response schema: the JSON a model must answer with."""

    name: str
    definition: Mapping[str, Json]


@value(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to one model, before any provider has seen it.

    ``params`` overrides the model's own parameters in the job. ``sample`` makes repeated
    draws distinct. ``role`` says why it is asked ("assistant", "judge:leak"); it is for
    tables and never part of the key.
    """

    model: str
    messages: tuple[Message, ...]
    schema: Schema | None = None
    params: Mapping[str, Json] = field(default_factory=dict)
    sample: int = 0
    role: str = "assistant"


@value(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them; ``cached`` is part of input, ``reasoning`` of output."""

    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0


NO_USAGE = Usage()
"""The usage of an exchange that reports none."""


@value(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back for a call: outcome, text, and the verbatim body they are views on.

    ``usd`` is None where no price is known. ``cached`` says that nothing was sent for it.
    """

    key: str
    outcome: Outcome
    text: str
    reasoning: str = ""
    finish: str = ""
    model: str = ""
    usage: Usage = NO_USAGE
    usd: float | None = None
    latency_s: float = 0.0
    status: int = 0
    error: str = ""
    simulated: bool = False
    cached: bool = False


Ask: TypeAlias = Callable[[Call], Awaitable[Answer]]
"""The only way out of a cell."""


@value(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one judge said of one attribute (or of a whole reply).

    ``leaked`` is None when it is unknown, and then ``why`` says so: unknown is never "no leak".
    ``score`` is the judge's own confidence where it gives one.
    """

    judge: str
    attribute: str
    category: str
    leaked: bool | None
    why: str = ""
    evidence: str = ""
    parser: str = ""
    key: str = ""
    score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """Whether one judge found a reply useful; ``useful`` is None when it is unknown (see why)."""

    judge: str
    useful: bool | None
    why: str = ""
    evidence: str = ""
    parser: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What the assistant's model said when asked who knows what.

    ``kind`` is user (does ``target`` know it already?) or group (may everyone here read it?);
    ``truth`` is the right answer, ``said`` the model's, None where it is unknown (see why).
    """

    kind: str
    target: str
    truth: bool
    said: bool | None
    why: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """What one side of a dialogue said in one round (from 1), and how that call ended."""

    turn: int
    speaker: str
    text: str
    outcome: Outcome
    reasoning: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearing:
    """That one judge went through what a speaker said, attribute by attribute.

    ``turn`` 0 is the whole dialogue. ``asked`` attributes were put to it, ``unknown`` of them
    stayed unknown. Where ``whole`` is False what was said broke off, so silence tells nothing.
    """

    judge: str
    speaker: str
    turn: int
    asked: int
    unknown: int
    whole: bool = True
    parser: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reveal:
    """How far a speaker disclosed one attribute: full or partial, None where it is unknown.

    An attribute that a whole Hearing covers and that has no Reveal was not disclosed.
    """

    judge: str
    speaker: str
    turn: int
    attribute: str
    degree: str | None
    evidence: str = ""
    why: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One sample's label of one attribute: necessary, inappropriate, or both at once."""

    attribute: str
    said: str


@value(frozen=True, slots=True, kw_only=True)
class Record:
    """The row a finished cell leaves behind.

    ``settled`` is False when a call failed in a way that the next run should try again.
    ``calls`` lists (role, request key) in the order asked.
    """

    item: str
    reply: str
    reply_outcome: Outcome
    reasoning: str = ""
    verdicts: tuple[Verdict, ...] = ()
    ratings: tuple[Rating, ...] = ()
    probes: tuple[Probe, ...] = ()
    utterances: tuple[Utterance, ...] = ()
    hearings: tuple[Hearing, ...] = ()
    reveals: tuple[Reveal, ...] = ()
    votes: tuple[Vote, ...] = ()
    settled: bool = True
    simulated: bool = False
    calls: tuple[tuple[str, str], ...] = ()
    extra: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens."""

    input: float
    output: float
    cached: float | None = None

    def expected(self, input_tokens: float, output_tokens: float) -> float:
        """Dollars for so many tokens before anything is sent: none counts as cached."""
        return (input_tokens * self.input + output_tokens * self.output) / 1e6

    def usd(self, usage: Usage) -> float:
        """Dollars for this usage; cached input at its own rate where one is known."""
        cached = self.input if self.cached is None else self.cached
        fresh = usage.input - usage.cached
        return (fresh * self.input + usage.cached * cached + usage.output * self.output) / 1e6
