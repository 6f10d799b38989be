"""What a defence gives back: the message that would be sent, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from leakgrid.outcomes import SPOKEN, Outcome
from leakgrid.types import Answer, Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply fit to be judged, or not: then ``unfit`` says why, and every verdict is unknown.

    ``steps`` keeps what the defence wrote on the way (an analysis, a draft), for the record.
    """

    text: str
    outcome: Outcome
    reasoning: str = ""
    unfit: str = ""
    steps: Mapping[str, Json] = field(default_factory=dict)


def of_answer(answer: Answer) -> Reply:
    """The reply that an answer is. Half a reply says nothing of the rest, so it is unfit."""
    unfit = ""
    if answer.outcome not in SPOKEN:
        unfit = f"the reply ended as {answer.outcome}"
    elif not answer.text.strip():
        unfit = f"the reply is empty ({answer.finish or answer.outcome})"
    return Reply(text=answer.text, outcome=answer.outcome, reasoning=answer.reasoning, unfit=unfit)
