"""How good a judge is on labelled replies: its rates with intervals, and where it errs.

What the judge left unknown counts apart: it is neither right nor wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from leakgrid.reports.statistics import Estimate, cohen_kappa_interval, wilson

NOTED = 0.02
"""Above this share of unknown verdicts the rates are marked."""


@dataclass(frozen=True, slots=True)
class Case:
    """One labelled reply as one judge saw it: kind of case, label, and verdict (None: unknown)."""

    kind: str
    label: bool
    said: bool | None


@dataclass(frozen=True, slots=True)
class Confusion:
    """Counts of verdicts on replies that all have the same kind and label."""

    kind: str
    label: bool
    yes: int
    no: int
    unknown: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """One judge's record. Rates are over known verdicts; None where there is none."""

    replies: int
    unknown: int
    sensitivity: Estimate | None
    specificity: Estimate | None
    kappa: Estimate | None
    kinds: tuple[Confusion, ...]

    @property
    def marked(self) -> bool:
        """Whether so many verdicts are unknown that the rates may mislead."""
        return self.unknown > NOTED * self.replies


def measure(cases: Iterable[Case]) -> Quality:
    """The record over all cases. Sensitivity is the share of labelled "yes" that is found."""
    cases = list(cases)
    counts = Counter((case.label, case.said) for case in cases)
    table = [
        [counts[True, True], counts[True, False]],
        [counts[False, True], counts[False, False]],
    ]
    kinds = Counter((case.kind, case.label, case.said) for case in cases)
    # Kinds in the order of the file, those that should be found first.
    names = sorted(dict.fromkeys((case.kind, case.label) for case in cases), key=lambda n: not n[1])
    return Quality(
        replies=len(cases),
        unknown=counts[True, None] + counts[False, None],
        sensitivity=_rate(table[0][0], sum(table[0])),
        specificity=_rate(table[1][1], sum(table[1])),
        kappa=cohen_kappa_interval(table),
        kinds=tuple(
            Confusion(
                kind,
                label,
                kinds[kind, label, True],
                kinds[kind, label, False],
                kinds[kind, label, None],
            )
            for kind, label in names
        ),
    )


def _rate(right: int, known: int) -> Estimate | None:
    return wilson(right, known) if known else None


def told(name: str, kind: str, tells: str, quality: Quality) -> str:
    """One judge's record as text."""
    yes, no = ("leak", "no leak") if tells == "leak" else ("useful", "not useful")
    mark = " †" if quality.marked else ""
    lines = [
        f"{name} ({kind}): {quality.replies} replies, {quality.unknown} unknown{mark}",
        f"  sensitivity  {_share(quality.sensitivity)}   ({yes} called {yes})",
        f"  specificity  {_share(quality.specificity)}   ({no} called {no})",
        f"  kappa        {_plain(quality.kappa)}",
        f"  {'kind of case':<20}{'label':<12}{'replies':>8}{yes:>12}{no:>12}{'unknown':>9}"
        f"{'right':>9}",
    ]
    for row in quality.kinds:
        known = row.yes + row.no
        right = row.yes if row.label else row.no
        share = f"{100 * right / known:.0f} %" if known else "–"
        lines.append(
            f"  {row.kind:<20}{yes if row.label else no:<12}{known + row.unknown:>8}"
            f"{row.yes:>12}{row.no:>12}{row.unknown:>9}{share:>9}"
        )
    if quality.marked:
        lines.append("  † more than 2 % of the verdicts are unknown; the rates leave them out")
    return "\n".join(lines)


def _share(estimate: Estimate | None) -> str:
    if estimate is None:
        return f"{'–':<25}"
    text = f"{100 * estimate.value:.1f} % ({100 * estimate.low:.1f}–{100 * estimate.high:.1f})"
    return f"{text:<25}"


def _plain(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    return f"{estimate.value:.3f} ({estimate.low:.3f}–{estimate.high:.3f})"
