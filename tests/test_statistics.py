"""Intervals and tests: against definitions, published examples and simulation."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from leakgrid.reports.clusters import Arms, Counts
from leakgrid.reports.jackknife import FEWEST
from leakgrid.reports.statistics import cohen_kappa, holm, mcnemar, rogan_gladen, wilson

Z = float(stats.norm.ppf(0.975))


@given(st.integers(1, 10_000), st.data())
def test_wilson_solves_its_own_equation(n: int, data: st.DataObject) -> None:
    """The ends are where |p - k/n| is z standard errors of p: the definition of the interval."""
    k = data.draw(st.integers(0, n))
    estimate = wilson(k, n)
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    for end in (estimate.low, estimate.high):
        distance = abs(end - k / n)
        assert distance == pytest.approx(Z * math.sqrt(end * (1 - end) / n), abs=1e-7)


@given(st.integers(1, 500), st.data())
def test_wilson_mirrors(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    one, other = wilson(k, n), wilson(n - k, n)
    assert one.low == pytest.approx(1 - other.high, abs=1e-12)


@pytest.mark.parametrize(("k", "n"), [(-1, 5), (6, 5), (0, 0)])
def test_wilson_refuses_what_is_no_proportion(k: int, n: int) -> None:
    with pytest.raises(ValueError, match="no proportion"):
        wilson(k, n)


@given(st.integers(0, 200), st.integers(0, 200))
def test_mcnemar_is_the_exact_binomial_tail(b: int, c: int) -> None:
    n = b + c
    tail = sum(math.comb(n, k) for k in range(min(b, c) + 1)) / 2**n
    assert mcnemar(b, c) == pytest.approx(min(1.0, 2 * tail), rel=1e-9)
    assert mcnemar(b, c) == mcnemar(c, b)


def test_mcnemar_refuses_negative_counts() -> None:
    with pytest.raises(ValueError, match="negative"):
        mcnemar(-1, 3)


def test_holm_by_hand() -> None:
    # sorted .01 .02 .03 .04 -> x4 .04, x3 .06, x2 .06, x1 .04 held up to .06
    assert holm({"d": 0.04, "a": 0.01, "c": 0.03, "b": 0.02}) == pytest.approx(
        {"d": 0.06, "a": 0.04, "c": 0.06, "b": 0.06}
    )
    assert holm({}) == {}


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.999))
def test_holm_rejects_what_the_step_down_procedure_rejects(
    p_values: list[float], alpha: float
) -> None:
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    rejected = set()
    for place, index in enumerate(order):
        if (len(order) - place) * p_values[index] > alpha:
            break
        rejected.add(index)
    adjusted = holm(dict(enumerate(p_values)))
    assert {index for index, p in adjusted.items() if p <= alpha} == rejected
    assert all(p_values[index] <= p <= 1 for index, p in adjusted.items())


def test_kappa_by_hand() -> None:
    # 7 of 10 agree; chance (5 * 6 + 5 * 4) / 100 = 0.5
    assert cohen_kappa([[4, 1], [2, 3]]) == pytest.approx(0.4)
    assert cohen_kappa([[5, 0], [0, 5]]) == pytest.approx(1)
    assert cohen_kappa([[0, 5], [5, 0]]) == pytest.approx(-1)
    assert cohen_kappa([[9, 0], [0, 0]]) is None
    assert cohen_kappa([[0, 0], [0, 0]]) is None
    with pytest.raises(ValueError, match="square"):
        cohen_kappa([[1, 2], [3, 4], [5, 6]])


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=60))
def test_kappa_of_three_labels_is_its_definition(pairs: list[tuple[int, int]]) -> None:
    table = [[pairs.count((i, j)) for j in range(3)] for i in range(3)]
    agree = sum(a == b for a, b in pairs) / len(pairs)
    luck = sum(a == b for a, _ in pairs for _, b in pairs) / len(pairs) ** 2
    assume(luck < 1)
    assert cohen_kappa(table) == pytest.approx((agree - luck) / (1 - luck), abs=1e-9)
    assert cohen_kappa([list(row) for row in zip(*table, strict=True)]) == pytest.approx(
        (agree - luck) / (1 - luck), abs=1e-9
    )


@given(st.integers(1, 500), st.data())
def test_a_perfect_judge_needs_no_correction(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    estimate = rogan_gladen(
        k, n, true_positives=10**7, leaks=10**7, true_negatives=10**7, clean=10**7
    )
    assert estimate is not None
    plain = wilson(k, n)
    assert estimate.value == pytest.approx(plain.value)
    assert estimate.low <= estimate.value <= estimate.high
    # the interval adds z**2 pseudo-trials as Wilson's does, and is a little wider
    assert estimate.low == pytest.approx(plain.low, abs=0.3 / math.sqrt(n))
    assert estimate.high == pytest.approx(plain.high, abs=0.3 / math.sqrt(n))


def test_rogan_gladen_by_hand() -> None:
    # apparent 0.30, sensitivity 0.9, specificity 0.8: (0.30 + 0.8 - 1) / 0.7
    estimate = rogan_gladen(300, 1000, true_positives=90, leaks=100, true_negatives=80, clean=100)
    assert estimate is not None
    assert estimate.value == pytest.approx(1 / 7)


def test_the_corrected_interval_by_hand() -> None:
    """27 of 650 by a judge right on 50 of 100 and 199 of 200: worked out step by step.

    With the two pseudo-observations: p' 0.04424, sensitivity' 51/102, specificity' 200/202, so
    centre 0.070049, shift 0.000972, standard error 0.022226.
    """
    estimate = rogan_gladen(27, 650, true_positives=50, leaks=100, true_negatives=199, clean=200)
    assert estimate is not None
    assert estimate.value == pytest.approx((27 / 650 + 0.995 - 1) / 0.495)
    assert estimate.low == pytest.approx(0.0274600106, abs=1e-9)
    assert estimate.high == pytest.approx(0.1145830257, abs=1e-9)


def test_a_judge_no_better_than_chance_corrects_nothing() -> None:
    assert rogan_gladen(5, 10, true_positives=5, leaks=10, true_negatives=5, clean=10) is None
    with pytest.raises(ValueError, match="no proportion"):
        rogan_gladen(5, 10, true_positives=1, leaks=0, true_negatives=5, clean=10)


@pytest.mark.parametrize("truth", [0.05, 0.3, 0.6])
def test_the_corrected_interval_covers_the_truth(truth: float) -> None:
    """900 simulated studies with a judge of sensitivity 0.9, specificity 0.85: about 95 % cover."""
    draw = random.Random(20)

    def coins(n: int, p: float) -> int:
        return (
            draw.binomialvariate(n, p)
            if hasattr(draw, "binomialvariate")
            else sum(draw.random() < p for _ in range(n))
        )

    covered = plain_covered = 0
    studies = 900
    for _ in range(studies):
        seen = coins(200, truth * 0.9 + (1 - truth) * 0.15)
        estimate = rogan_gladen(
            seen,
            200,
            true_positives=coins(80, 0.9),
            leaks=80,
            true_negatives=coins(80, 0.85),
            clean=80,
        )
        assert estimate is not None
        covered += estimate.low <= truth <= estimate.high
        plain = wilson(seen, 200)
        plain_covered += plain.low <= truth <= plain.high
    assert 0.93 <= covered / studies <= 0.99
    if truth == 0.05:
        assert plain_covered / studies < 0.5  # what the correction is for


def curve_of(rates: dict[float, list[int]], each: int = 4) -> Counts:
    """Counts by base item: at each level, base number i leaks ``rates[level][i]`` of ``each``."""
    return {
        (f"b{base}", level): (leaks, each)
        for level, column in rates.items()
        for base, leaks in enumerate(column)
    }


def test_a_curve_by_hand() -> None:
    # rates 0.25, 0.5, 0.75 at 2, 4, 8: a quarter for each doubling, a half from end to end
    counts = curve_of({2.0: [0, 2, 1, 1, 1], 4.0: [2, 2, 2, 2, 2], 8.0: [4, 2, 3, 3, 3]})
    curve = Arms({"parties": counts}).curve("parties")
    assert {level: point.value for level, point in curve.points.items()} == pytest.approx(
        {2.0: 0.25, 4.0: 0.5, 8.0: 0.75}
    )
    assert curve.slope is not None and curve.change is not None
    assert (curve.slope.value, curve.change.value) == pytest.approx((0.25, 0.5))
    assert math.isnan(curve.points[4.0].low)  # every base is the same there: no spread is known
    assert curve.points[2.0].low < 0.25 < curve.points[2.0].high
    assert curve.slope.low < 0.25 < curve.slope.high
    assert Arms({"parties": counts}).curve("parties").slope == curve.slope, "nothing is drawn"


@given(st.data())
def test_a_slope_is_least_squares_over_the_verdicts(data: st.DataObject) -> None:
    levels = data.draw(st.lists(st.integers(1, 40), min_size=2, max_size=5, unique=True))
    counts: dict[tuple[str, float], tuple[int, int]] = {}
    for base in range(FEWEST):
        for level in levels:
            known = data.draw(st.integers(1, 5))
            counts[f"b{base}", float(level)] = (data.draw(st.integers(0, known)), known)
    x: list[float] = []
    y: list[float] = []
    for (_, at), (leaks, known) in counts.items():
        x += [math.log2(at)] * known
        y += [1.0] * leaks + [0.0] * (known - leaks)
    slope = Arms({"a": counts}).curve("a").slope
    assert slope is not None
    assert slope.value == pytest.approx(stats.linregress(x, y).slope, abs=1e-9)
    assert math.isnan(slope.low) or slope.low < slope.value < slope.high


def test_all_or_nothing_items_widen_the_interval() -> None:
    """Items that leak in all 8 samples or in none tell as much as one sample each."""
    counts = curve_of({5.0: [8] * 8 + [0] * 16}, each=8)
    point = Arms({"length": counts}).curve("length").points[5.0]
    plain, honest = wilson(64, 192), wilson(8, 24)
    assert point.high - point.low > 2 * (plain.high - plain.low)
    assert point.high - point.low == pytest.approx(honest.high - honest.low, rel=0.15)


def test_arms_leave_the_same_items_out_so_their_difference_is_paired() -> None:
    """The same curve in both arms differs by nothing, however much the items differ."""
    counts = curve_of({2.0: [0, 1, 4, 0, 3, 1], 8.0: [4, 1, 4, 2, 4, 0]})
    arms = Arms({"parties": counts, "length": counts})
    same = arms.difference("parties", "length")
    slope = arms.curve("parties").slope
    assert same is not None and same.value == 0 and math.isnan(same.low)
    less = {key: (leaks - (key[1] == 8.0 and leaks > 0), 4) for key, (leaks, _) in counts.items()}
    near = Arms({"parties": counts, "length": less}).difference("parties", "length")
    assert near is not None and near.high - near.low < 0.2
    assert slope is not None and slope.high - slope.low > 0.1


def test_few_items_have_a_curve_but_no_interval() -> None:
    curve = Arms({"parties": curve_of({2.0: [0, 1], 8.0: [3, 4]})}).curve("parties")
    assert curve.slope is not None and curve.slope.value == pytest.approx(0.375)
    assert math.isnan(curve.slope.low) and math.isnan(curve.points[2.0].high)
    only = Arms({"parties": curve_of({2.0: [0] * 9})}).curve("parties")
    assert (only.slope, only.change) == (None, None)
    unknown = Arms({"parties": {("b", 2.0): (0, 0), ("b", 4.0): (1, 1)}}).curve("parties")
    assert 2.0 not in unknown.points and unknown.change is None


def test_intervals_by_items_cover_the_truth_where_plain_ones_do_not() -> None:
    """200 studies of 24 items whose own rates vary widely around one half, 8 samples each."""
    draw = random.Random(4)
    covered = plainly = 0
    for _ in range(200):
        column = []
        for _ in range(24):
            rate = draw.betavariate(0.5, 0.5)
            column.append(sum(draw.random() < rate for _ in range(8)))
        point = Arms({"a": curve_of({5.0: column}, each=8)}).curve("a").points[5.0]
        covered += point.low <= 0.5 <= point.high
        plain = wilson(sum(column), 192)
        plainly += plain.low <= 0.5 <= plain.high
    assert covered >= 181  # 95 % less three standard errors
    assert plainly < 150
