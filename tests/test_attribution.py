"""Error attribution: who is asked about, what answers mean, and that unknown decides nothing."""

from __future__ import annotations

import pytest

from leakgrid.benchmarks.muppet.attribution import (
    GAP,
    INCONCLUSIVE,
    LOST_TRACK,
    MOST_EACH,
    UNRESOLVED,
    asked_about,
    cause,
)
from leakgrid.datasets.items import load_items
from leakgrid.types import Probe
from tests.project import ROOT


def people(uninformed: str, informed: str = "") -> list[Probe]:
    """Probes by their answers: + right, - wrong, ? unknown."""
    made = []
    for truth, answers in ((False, uninformed), (True, informed)):
        for number, answer in enumerate(answers):
            said = {"+": truth, "-": not truth, "?": None}[answer]
            made.append(Probe(kind="user", target=f"p{truth}{number}", truth=truth, said=said))
    return made


def group(answer: str) -> Probe:
    return Probe(
        kind="group", target="", truth=False, said={"+": False, "-": True, "?": None}[answer]
    )


CASES = [
    # uninformed, informed, group, strict, lenient
    ("+++", "++", "+", GAP, GAP),
    ("+++", "++", "-", UNRESOLVED, UNRESOLVED),
    ("-++", "++", "+", LOST_TRACK, GAP),
    ("-++", "++", "-", LOST_TRACK, UNRESOLVED),
    ("---", "++", "+", LOST_TRACK, LOST_TRACK),
    ("+++", "--", "+", GAP, LOST_TRACK),
    ("+++", "+-", "-", UNRESOLVED, LOST_TRACK),
    ("-" + "+" * 6, "+" * 7, "+", LOST_TRACK, GAP),
    ("--" + "+" * 5, "+" * 7, "+", LOST_TRACK, GAP),
    ("---" + "+" * 4, "+" * 7, "+", LOST_TRACK, LOST_TRACK),
    ("+++", "", "+", GAP, GAP),
    ("", "++", "+", INCONCLUSIVE, GAP),
    ("?++", "++", "+", INCONCLUSIVE, INCONCLUSIVE),
    ("+++", "?+", "+", GAP, INCONCLUSIVE),
    ("+++", "++", "?", INCONCLUSIVE, INCONCLUSIVE),
    ("---", "++", "?", INCONCLUSIVE, INCONCLUSIVE),
    ("", "", "+", INCONCLUSIVE, INCONCLUSIVE),
]


@pytest.mark.parametrize(("uninformed", "informed", "answer", "strict", "lenient"), CASES)
def test_the_cause_follows_from_the_answers(
    uninformed: str, informed: str, answer: str, strict: str, lenient: str
) -> None:
    probes = [*people(uninformed, informed), group(answer)]
    assert cause(probes, lenient=False) == strict
    assert cause(probes, lenient=True) == lenient


def test_without_a_group_probe_nothing_is_concluded() -> None:
    assert cause(people("+++", "++"), lenient=False) == INCONCLUSIVE


def test_the_asker_is_always_asked_about_and_never_too_many() -> None:
    for item in load_items(ROOT / "datasets" / "muppet" / "items.jsonl"):
        asked = asked_about(item)
        assert item.asker in asked and item.owner not in asked
        assert len(asked) == len(set(asked))
        assert sum(name in item.uninformed for name in asked) == min(
            MOST_EACH, len(item.uninformed)
        )
        assert sum(name in item.informed for name in asked) == min(MOST_EACH, len(item.informed))
        assert asked == asked_about(item)
