"""Intervals over few profiles: by hand, where there is none, and how often they hold the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from leakgrid.reports.jackknife import FEWEST, interval, left_out

T3 = 3.182446305
"""The 97.5 % quantile of t with three degrees of freedom, from a table."""


def means(sums: list[float], sizes: list[float] | None = None) -> NDArray[np.float64]:
    weights = left_out(len(sums))
    found: NDArray[np.float64] = (weights @ sums) / (weights @ (sizes or [1.0] * len(sums)))
    return found


def test_each_cluster_is_left_out_once() -> None:
    assert means([0.0, 3.0, 6.0]).tolist() == [3.0, 4.5, 3.0, 1.5]
    assert left_out(0).shape == (1, 0)


def test_of_equal_clusters_it_is_the_interval_of_student() -> None:
    # mean 2.5, deviations -1.5 -0.5 0.5 1.5: variance 5 / 3, standard error sqrt(5 / 12)
    found = interval(means([1.0, 2.0, 3.0, 4.0]), 4)
    assert found is not None
    reach = T3 * math.sqrt(5 / 12)
    assert (found.value, found.low, found.high) == pytest.approx((2.5, 2.5 - reach, 2.5 + reach))


def test_a_share_has_wilsons_form_and_stays_in_its_range() -> None:
    # mean 0.1, variance 0.02, standard error sqrt(0.005): 0.09 / 0.005 is 18 trials
    found = interval(means([0.0, 0.0, 0.1, 0.3]), 4, "share")
    assert found is not None
    value, trials = 0.1, 0.09 / 0.005
    centre = (value + T3**2 / (2 * trials)) / (1 + T3**2 / trials)
    half = T3 / (1 + T3**2 / trials) * math.sqrt(0.09 / trials + T3**2 / (4 * trials**2))
    assert (found.low, found.high) == pytest.approx((centre - half, centre + half))
    wide = interval(means([0.0, 0.0, 0.0, 1.0]), 4, "share")
    assert wide is not None and 0 <= wide.low < 0.25 < wide.high <= 1


def test_a_correlation_stays_in_its_range() -> None:
    found = interval(np.array([0.9, 0.99, 0.95, 0.5, 0.92]), 4, "correlation")
    assert found is not None
    assert -1 < found.low < 0.9 < found.high < 1


def test_a_cluster_without_any_part_changes_nothing() -> None:
    four = interval(means([1.0, 2.0, 3.0, 4.0]), 4)
    assert interval(means([1.0, 2.0, 3.0, 4.0, 0.0], [1.0, 1.0, 1.0, 1.0, 0.0]), 4) == four


@pytest.mark.parametrize(
    ("values", "clusters"),
    [
        (np.array([0.25, math.nan]), 1),
        (means([0.2, 0.4]), FEWEST - 1),
        (means([0.25] * 6), 6),  # all agree, so that nobody knows how far others would not
        (np.array([0.5, 0.4, math.nan, 0.6]), 3),  # one cluster makes the value
    ],
)
def test_where_the_spread_is_not_known_there_is_no_interval(
    values: NDArray[np.float64], clusters: int
) -> None:
    for scale in ("share", "plain"):
        found = interval(values, clusters, scale)
        assert found is not None
        assert found.value == values[0]
        assert math.isnan(found.low) and math.isnan(found.high)
    assert interval(np.array([math.nan, 0.5]), 9) is None


@pytest.mark.parametrize(("clusters", "rate"), [(4, 0.1), (4, 0.4), (10, 0.1), (10, 0.4)])
def test_it_holds_the_truth_where_percentiles_of_a_bootstrap_do_not(
    clusters: int, rate: float
) -> None:
    """1,000 studies of few profiles whose rates differ (correlation 0.1), 40 dialogues each."""
    source = np.random.default_rng(7)
    draws = source.multinomial(clusters, [1 / clusters] * clusters, size=1000).astype(float)
    reach = stats.t.ppf(0.975, clusters - 1) * math.sqrt(clusters / (clusters - 1))
    widened = stats.norm.cdf(-reach)  # Hesterberg's expanded percentiles
    held = {"jackknife": 0, "percentiles": 0, "widened": 0}
    for _ in range(1000):
        leaks = source.binomial(40, source.beta(9 * rate, 9 * (1 - rate), size=clusters)) / 40.0
        found = interval(means(list(leaks)), clusters, "share")
        assert found is not None
        held["jackknife"] += found.low <= rate <= found.high
        drawn = draws @ leaks / clusters
        for name, end in (("percentiles", 0.025), ("widened", widened)):
            low, high = np.quantile(drawn, (end, 1 - end))
            held[name] += low <= rate <= high
    assert held["jackknife"] >= 920  # 95 % less four standard errors
    assert held["percentiles"] < 915
    assert held["widened"] <= held["jackknife"]
    if clusters == 4:
        assert held["widened"] < 915
