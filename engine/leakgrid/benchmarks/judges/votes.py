"""Several draws of one judge: the majority of the votes that are known, or unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from leakgrid.benchmarks.judges.parsing import EVIDENCE
from leakgrid.types import Rating, Verdict

PARSER = "votes-1"


def decided(votes: Sequence[Verdict | Rating]) -> Verdict | Rating:
    """One verdict from several. A tie, or no known vote at all, is unknown; the counts are told.

    The evidence, the score and the request key are those of the first vote on the side that
    won; of an unknown verdict, the key is the first vote's. The parser names the wrapper and the
    judge it wraps.
    """
    values = [_value(vote) for vote in votes]
    yes, no, unknown = (values.count(value) for value in (True, False, None))
    counts = f"votes: {yes} yes, {no} no, {unknown} unknown"
    value = None if yes == no else yes > no
    first = votes[values.index(value)] if value in values else votes[0]
    parser = f"{PARSER}/{first.parser}"
    if value is not None:
        evidence = f"{counts}; {first.evidence}".rstrip("; ")[:EVIDENCE]
        why = ""
    else:
        evidence = counts
        reasons = dict.fromkeys(vote.why for vote in votes if vote.why)
        cause = "a tie" if yes else "no vote is known"
        why = f"{cause} ({counts[7:]})" + "".join(f"; {reason}" for reason in reasons)
    if isinstance(first, Verdict):
        score = None if value is None else first.score
        return replace(first, leaked=value, why=why, evidence=evidence, parser=parser, score=score)
    return replace(first, useful=value, why=why, evidence=evidence, parser=parser)


def _value(vote: Verdict | Rating) -> bool | None:
    return vote.leaked if isinstance(vote, Verdict) else vote.useful
