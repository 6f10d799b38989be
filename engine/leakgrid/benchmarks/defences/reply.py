"""What a defence gives back: the message that would be sent, or why there is none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from leakgrid.outcomes import SPOKEN, Outcome
from leakgrid.types import Answer, Json

MARKER = "FINAL MESSAGE"
"""Stands alone on a line between an analysis and the message that is sent."""

# A marker begins its line, in any case and dress ("## Final message", "**FINAL MESSAGE:** Hi"),
# and a colon or the line's end follows it: a sentence that merely speaks of it is no marker.
_MARKER = re.compile(
    r"^[ \t#*_>`-]*final message[ \t*_`]*(?::[ \t*_`]*|$)", re.IGNORECASE | re.MULTILINE
)


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


class Unfit(Exception):
    """A step of a defence failed: the cell takes ``reply``, which says why, and goes on."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.unfit)
        self.reply = reply


def of_answer(answer: Answer, steps: Mapping[str, Json] | None = None) -> Reply:
    """The reply that an answer is. Half a reply says nothing of the rest, so it is unfit."""
    unfit = ""
    if answer.outcome not in SPOKEN:
        unfit = f"the reply ended as {answer.outcome}"
    elif not answer.text.strip():
        unfit = f"the reply is empty ({answer.finish or answer.outcome})"
    return Reply(
        text=answer.text,
        outcome=answer.outcome,
        reasoning=answer.reasoning,
        unfit=unfit,
        steps=steps or {},
    )


def after_marker(answer: Answer) -> Reply:
    """The message after the last marker of an analysis (MuPPET's PrivacyChecker).

    Without a marker, or with nothing after it, there is no message: the reply is unfit, since
    neither the whole analysis nor an empty text is what would have been sent. A model that
    refuses does not get as far as the marker; its words are what it sends, unless a filter cut
    the analysis off.
    """
    whole = of_answer(answer)
    refused = answer.outcome is Outcome.REFUSAL and answer.finish != "content_filter"
    if whole.unfit or refused:
        return whole
    found = list(_MARKER.finditer(answer.text))
    if not found:
        steps = {"analysis": answer.text}
        return replace(whole, text="", unfit=f"no {MARKER!r} in the reply", steps=steps)
    analysis = answer.text[: found[-1].start()].strip()
    message = answer.text[found[-1].end() :].strip()
    unfit = "" if message else f"nothing after {MARKER!r} in the reply"
    return replace(whole, text=message, unfit=unfit, steps={"analysis": analysis})
