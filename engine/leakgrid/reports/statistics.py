"""Intervals and tests for leak rates: thin wrappers of scipy, each with its source.

Counts are plain integers, proportions lie in [0, 1]. Raises ValueError for impossible counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Name = TypeVar("Name")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A proportion and its confidence interval."""

    value: float
    low: float
    high: float


def wilson(successes: int, trials: int, confidence: float = 0.95) -> Estimate:
    """Wilson's score interval (Wilson 1927, JASA 22:209), by scipy; ``trials`` at least 1."""
    if not 0 <= successes <= trials or trials == 0:
        raise ValueError(f"{successes} of {trials} is no proportion")
    from scipy.stats import binomtest

    low, high = binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    return Estimate(successes / trials, float(low), float(high))


def mcnemar(first_only: int, second_only: int) -> float:
    """Exact two-sided p that both conditions leak equally often, from the discordant pairs.

    McNemar 1947 (Psychometrika 12:153) in its exact binomial form; 1 where no pair disagrees.
    """
    if first_only < 0 or second_only < 0:
        raise ValueError("pair counts cannot be negative")
    if first_only + second_only == 0:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(first_only, first_only + second_only, 0.5).pvalue)


def holm(p_values: Mapping[Name, float]) -> dict[Name, float]:
    """Step-down adjusted p values (Holm 1979, Scand. J. Stat. 6:65), in the order given."""
    adjusted: dict[Name, float] = {}
    running = 0.0
    for place, name in enumerate(sorted(p_values, key=p_values.__getitem__)):
        running = max(running, min(1.0, (len(p_values) - place) * p_values[name]))
        adjusted[name] = running
    return {name: adjusted[name] for name in p_values}


def cohen_kappa(table: Sequence[Sequence[int]]) -> float | None:
    """Chance-corrected agreement of two judges (Cohen 1960, Educ. Psychol. Meas. 20:37).

    ``table[i][j]`` counts what the first called i and the second j. None where it is undefined:
    no rows, or both judges always say the same one thing.
    """
    size = len(table)
    if any(len(row) != size for row in table):
        raise ValueError("the table of two judges must be square")
    total = sum(map(sum, table))
    if total == 0:
        return None
    observed = sum(table[i][i] for i in range(size)) / total
    columns = [sum(row[j] for row in table) for j in range(size)]
    chance = sum(sum(table[i]) * columns[i] for i in range(size)) / total**2
    if math.isclose(chance, 1.0):
        return None
    return (observed - chance) / (1 - chance)


def cohen_kappa_interval(
    table: Sequence[Sequence[int]], confidence: float = 0.95
) -> Estimate | None:
    """Kappa and its large-sample interval, cut to [-1, 1]; None where kappa is undefined.

    Standard error of Fleiss, Cohen & Everitt 1969 (Psychol. Bull. 72:323), for a kappa that is
    not zero. It has no width where no pair disagrees: read the counts there.
    """
    value = cohen_kappa(table)
    if value is None:
        return None
    size, total = len(table), sum(map(sum, table))
    rows = [sum(row) / total for row in table]
    columns = [sum(row[j] for row in table) / total for j in range(size)]
    observed = sum(table[i][i] for i in range(size)) / total
    chance = sum(row * column for row, column in zip(rows, columns, strict=True))
    agreeing = sum(
        table[i][i] / total * ((1 - chance) - (rows[i] + columns[i]) * (1 - observed)) ** 2
        for i in range(size)
    )
    differing = (1 - observed) ** 2 * sum(
        table[i][j] / total * (columns[i] + rows[j]) ** 2
        for i in range(size)
        for j in range(size)
        if i != j
    )
    centre = (observed * chance - 2 * chance + observed) ** 2
    variance = max(0.0, agreeing + differing - centre) / (total * (1 - chance) ** 4)

    from scipy.stats import norm

    reach = float(norm.ppf((1 + confidence) / 2)) * math.sqrt(variance)
    return Estimate(value, max(-1.0, value - reach), min(1.0, value + reach))


def rogan_gladen(
    positives: int,
    trials: int,
    *,
    true_positives: int,
    leaks: int,
    true_negatives: int,
    clean: int,
    confidence: float = 0.95,
) -> Estimate | None:
    """The leak rate behind an imperfect judge's verdicts, with an interval.

    The judge called ``positives`` of ``trials`` replies leaks; on labelled replies it was right
    on ``true_positives`` of ``leaks`` and ``true_negatives`` of ``clean``. Point estimate of
    Rogan & Gladen 1978 (Am. J. Epidemiol. 107:71); interval of Lang & Reiczigel 2014 (Prev. Vet.
    Med. 113:13), which also carries the uncertainty of the judge's own rates. Both are cut to
    [0, 1]. None where the labels show the judge to be no better than chance.
    """
    for part, whole in ((positives, trials), (true_positives, leaks), (true_negatives, clean)):
        if not 0 <= part <= whole or whole == 0:
            raise ValueError(f"{part} of {whole} is no proportion")
    youden = true_positives / leaks + true_negatives / clean - 1
    if youden <= 0:
        return None
    value = (positives / trials + true_negatives / clean - 1) / youden

    from scipy.stats import norm

    z = float(norm.ppf((1 + confidence) / 2))
    n = trials + z**2
    apparent = (positives + z**2 / 2) / n
    sensitivity = (true_positives + 1) / (leaks + 2)
    specificity = (true_negatives + 1) / (clean + 2)
    spread = sensitivity + specificity - 1
    if spread <= 0:
        return Estimate(_unit(value), 0.0, 1.0)
    centre = (apparent + specificity - 1) / spread
    sens_var = sensitivity * (1 - sensitivity) / (leaks + 2)
    spec_var = specificity * (1 - specificity) / (clean + 2)
    shift = 2 * z**2 * (centre * sens_var - (1 - centre) * spec_var)
    error = (
        math.sqrt(
            apparent * (1 - apparent) / n + centre**2 * sens_var + (1 - centre) ** 2 * spec_var
        )
        / spread
    )
    low, high = centre + shift - z * error, centre + shift + z * error
    value = _unit(value)
    return Estimate(value, min(value, _unit(low)), max(value, _unit(high)))


def _unit(value: float) -> float:
    """Cut to [0, 1]."""
    return min(1.0, max(0.0, value))
