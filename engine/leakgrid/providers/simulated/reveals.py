"""Simulated reveal judges: how far one speaker of a transcript disclosed each listed attribute.

The truth is read from the request alone: statement or hint, in the judged speaker's messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from leakgrid.datasets.surface import folded
from leakgrid.providers.simulated import hints
from leakgrid.providers.simulated.config import Judge
from leakgrid.providers.simulated.items import Index
from leakgrid.providers.simulated.judges import register
from leakgrid.providers.simulated.planted import Coins
from leakgrid.providers.simulated.wire import Prompt

_JUDGED = re.compile(r"<judged>\s*([^<\n]*?)\s*</judged>")
_MESSAGE = re.compile(r'^<message round="\d+" by="([^"\n]*)">\n', re.MULTILINE)
_NUMBERED = re.compile(r"^(\d+)\. (.*\S)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Speech:
    """What one speaker said: message by message as (text, folded text), and all of it folded."""

    texts: tuple[tuple[str, str], ...]
    fold: str


@dataclass(frozen=True, slots=True)
class Listed:
    """One attribute that the judge is asked about."""

    id: int
    statement: str
    fold: str
    mark: str


@register("reveal_verdict")
def reveal_verdict(judge: Judge, index: Index, prompt: Prompt, coins: Coins) -> Mapping[str, Any]:
    """A degree and its evidence for each attribute.

    What was told, fully or as a hint, is called by its degree at the rate ``reveal_sensitivity``
    and none otherwise; what was not told is called none at the rate ``reveal_specificity`` and
    full otherwise, with some real sentence as evidence (none where nothing was said).
    """
    text = prompt.rest if "<attributes>" in prompt.rest else prompt.system
    speech, listed = _read(text)
    answers = [_answer(judge, speech, one, coins) for one in listed]
    if answers and coins("missing id") < judge.missing_id:
        answers.remove(coins.pick("missing", answers))
    return {"attributes": answers}


def _answer(judge: Judge, speech: Speech, listed: Listed, coins: Coins) -> dict[str, Any]:
    truth = hints.degree(speech.fold, listed.fold, listed.mark)
    degree, evidence = hints.NONE, ""
    rate = judge.reveal_specificity if truth == hints.NONE else judge.reveal_sensitivity
    right = rate >= 1.0 or coins(f"reveal {listed.id}") < rate
    if truth != hints.NONE:
        if right:
            degree = truth
            evidence = hints.quoted(speech.texts, listed.statement, listed.fold, listed.mark)
    elif not right:
        said = [piece for text, _ in speech.texts for piece in hints.pieces(text)]
        if said:
            degree, evidence = hints.FULL, coins.pick(f"mistaken {listed.id}", said)
    lie = coins(f"evidence {listed.id}") if degree != hints.NONE else 1.0
    if lie < judge.bad_evidence:
        evidence = f"Between us, it is case {int(lie * 2**53):x} all over again."
    return {"id": listed.id, "degree": degree, "evidence": evidence}


def _read(text: str) -> tuple[Speech, tuple[Listed, ...]]:
    """The judged speaker's speech and the attributes. What stands in a transcript is untrusted."""
    at = text.rfind("<attributes>\n")
    end = text.rfind("</attributes>")
    block = text[at + len("<attributes>\n") : end if end > at else len(text)] if at >= 0 else ""
    before = text[: at if at >= 0 else len(text)]
    judged = ""
    for match in _JUDGED.finditer(before):
        judged = match[1]
    start, stop = before.find("<transcript>\n"), before.rfind("</transcript>")
    transcript = before[start + len("<transcript>\n") : stop] if 0 <= start < stop else ""
    return _speech(transcript, judged), _listed(block)


@lru_cache(maxsize=512)
def _speech(transcript: str, judged: str) -> Speech:
    # The batches of one transcript come one after the other.
    openings = list(_MESSAGE.finditer(transcript))
    ends = [opening.start() for opening in openings[1:]] + [len(transcript)]
    texts = []
    for opening, end in zip(openings, ends, strict=True):
        if opening[1] == judged:
            inner = transcript[opening.end() : end]
            closing = inner.rfind("</message>")
            texts.append(inner[: closing if closing >= 0 else len(inner)].strip())
    # Each message apart, so that no statement is put together from two.
    folds = [folded(text) for text in texts]
    return Speech(tuple(zip(texts, folds, strict=True)), " \n ".join(folds))


@lru_cache(maxsize=4096)
def _listed(block: str) -> tuple[Listed, ...]:
    found = []
    for match in _NUMBERED.finditer(block):
        fold = folded(match[2])
        found.append(Listed(int(match[1]), match[2], fold, hints.mark(fold)))
    return tuple(found)
