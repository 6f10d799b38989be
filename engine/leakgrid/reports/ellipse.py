"""The ellipse that one standard deviation of points makes: how leakage and completeness scatter.

Raises ValueError for values that are no finite numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ellipse:
    """The one-sigma ellipse of points: centre, half axes (longer first), angle of the longer.

    The angle is in degrees from the x axis, in (-90, 90].
    """

    x: float
    y: float
    major: float
    minor: float
    angle: float


def covariance_ellipse(points: Sequence[tuple[float, float]]) -> Ellipse | None:
    """The one-sigma ellipse of the points' sample covariance; None for fewer than two points."""
    import numpy as np

    if len(points) < 2:
        return None
    table = np.asarray(points, dtype=np.float64)
    if not np.isfinite(table).all():
        raise ValueError("points must be finite numbers")
    centre = table.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(table, rowvar=False))
    minor, major = (math.sqrt(max(0.0, float(value))) for value in values)
    angle = math.degrees(math.atan2(float(vectors[1, 1]), float(vectors[0, 1])))
    angle = angle - 180 if angle > 90 else angle + 180 if angle <= -90 else angle
    return Ellipse(float(centre[0]), float(centre[1]), major, minor, angle)
