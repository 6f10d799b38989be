"""Intervals over whole profiles, and the ellipse of leak against completeness."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from leakgrid.reports.dialogue_statistics import (
    by_profile,
    clustered_change,
    clustered_mean,
    covariance_ellipse,
)


def test_the_mean_is_of_instances_and_the_interval_of_clusters() -> None:
    found = clustered_mean({"a": [0.0, 0.0, 0.0], "b": [1.0], "none": []})
    assert found is not None
    assert (found.value, found.clusters, found.instances) == (0.25, 2, 4)
    # every mean that two clusters can give: both a, both b, or one of each
    assert (found.low, found.high) == (0.0, 1.0)


def test_equal_clusters_have_no_width_and_one_cluster_no_interval() -> None:
    same = clustered_mean({"a": [0.5, 0.5], "b": [0.5]})
    assert same is not None
    assert (same.low, same.high) == (0.5, 0.5)
    alone = clustered_mean({"a": [0.25, 0.75]})
    assert alone is not None
    assert (alone.value, alone.low, alone.high, alone.clusters) == (0.5, None, None, 1)
    assert clustered_mean({}) is None
    assert clustered_mean({"a": []}) is None


def test_more_instances_of_the_same_clusters_do_not_narrow_the_interval() -> None:
    clusters = {str(number): [number / 10] for number in range(10)}
    few, many = clustered_mean(clusters), clustered_mean({k: v * 100 for k, v in clusters.items()})
    assert few is not None
    assert many is not None
    assert [few.low, few.high] == pytest.approx([many.low, many.high])
    assert clustered_mean(clusters) == few  # the same seed, the same numbers


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for trial in range(300):
        levels = rng.normal(0.3, 0.1, size=10)  # profiles differ
        clusters = {str(n): list(rng.normal(level, 0.05, 5)) for n, level in enumerate(levels)}
        found = clustered_mean(clusters, resamples=600, seed=trial)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 0.3 <= found.high
    # 95 % of 300 is 285; four standard errors (3.8) below it are 270
    assert covered >= 270


def test_a_change_is_over_clusters_that_have_both() -> None:
    base = {"a": [0.2, 0.4], "b": [0.6], "only here": [1.0]}
    changed = {"a": [0.1, 0.3], "b": [0.5], "c": [0.0]}
    found = clustered_change(base, changed)
    assert found is not None
    # 1.2 / 3 -> 0.9 / 3; each cluster changes by exactly -0.1
    assert [found.baseline.value, found.changed.value] == pytest.approx([0.4, 0.3])
    assert found.relative == pytest.approx(-0.25)
    assert [found.absolute.low, found.absolute.high] == pytest.approx([-0.1, -0.1])
    assert found.absolute.clusters == 2
    assert clustered_change({"a": [1.0]}, {"b": [1.0]}) is None
    from_nothing = clustered_change({"a": [0.0]}, {"a": [0.5]})
    assert from_nothing is not None
    assert (from_nothing.relative, from_nothing.absolute.low) == (None, None)


def test_the_ellipse_has_the_axes_of_the_covariance() -> None:
    # along y = x: deviations (-1, -1), (0, 0), (1, 1) -> variance 1 each, covariance 1;
    # the eigenvalues are 2 and 0
    line = covariance_ellipse([(1, 2), (2, 3), (3, 4)])
    assert line is not None
    assert [line.x, line.y, line.minor] == pytest.approx([2, 3, 0], abs=1e-7)
    assert line.major == pytest.approx(math.sqrt(2))
    assert line.angle == pytest.approx(45)
    # x: -2, 2, 0, 0 -> 8/3; y: 0, 0, -1, 1 -> 2/3; no covariance
    flat = covariance_ellipse([(-2, 0), (2, 0), (0, -1), (0, 1)])
    assert flat is not None
    assert [flat.major, flat.minor] == pytest.approx([(8 / 3) ** 0.5, (2 / 3) ** 0.5])
    assert flat.angle == pytest.approx(0)
    falling = covariance_ellipse([(1, 4), (2, 3), (3, 2)])
    assert falling is not None
    assert falling.angle == pytest.approx(-45)
    assert covariance_ellipse([(1, 2)]) is None


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_values_that_are_no_numbers_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        clustered_mean({"a": [bad], "b": [1.0]})
    with pytest.raises(ValueError, match="finite"):
        covariance_ellipse([(bad, 1), (1, 1)])


def test_rows_are_grouped_by_the_senders_profile() -> None:
    rows: list[dict[str, Any]] = [
        {"sender_profile": "a", "leak_full": 0.5},
        {"sender_profile": "b", "leak_full": None},
        {"sender_profile": "a", "leak_full": 0.25},
    ]
    assert by_profile(rows, "leak_full") == {"a": [0.5, 0.25]}
