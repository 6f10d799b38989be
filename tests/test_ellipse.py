"""The ellipse of leak against completeness."""

from __future__ import annotations

import math

import pytest

from leakgrid.reports.ellipse import covariance_ellipse


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
        covariance_ellipse([(bad, 1), (1, 1)])
