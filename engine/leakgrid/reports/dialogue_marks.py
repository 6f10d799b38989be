"""What the charts of a dialogue job are drawn with: points, lines, ellipses, legends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from leakgrid.reports.ellipse import covariance_ellipse
from leakgrid.reports.figures import COLOURS, INK, MARKERS, Row, _short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from leakgrid.reports.dialogue import Dialogue

ABREAST = 4
"""Names in a row of a legend."""
SENDERS = (*COLOURS, "#4f6d7a", "#a23b3b", "#3b5ba2", "#6b6b6b")


def dot(axes: Axes, row: Row, measure: str, y: float, number: int) -> None:
    """One estimate as a point with its bar; a faint bar for the bounds of marked groups."""
    about = "completeness" if measure == "completeness" else "leak"
    colour, found = hue(number), row[measure]
    if row["marked"] and row[f"{about}_low"] is not None:
        axes.plot(
            [100 * row[f"{about}_low"], 100 * row[f"{about}_high"]], [y, y], color=colour,
            alpha=0.25, linewidth=5, solid_capstyle="butt",
        )  # fmt: skip
    if found["value"] is None:
        axes.text(0.5, y, "no known value", va="center", fontsize=6.5, color=INK, alpha=0.7)
        return
    if found["lo"] is not None:
        axes.plot([100 * found["lo"], 100 * found["hi"]], [y, y], color=colour, linewidth=1.4)
    axes.plot(
        [100 * found["value"]], [y], marker=MARKERS[number % len(MARKERS)], markersize=4.6,
        color=colour, markerfacecolor="none" if row["marked"] else colour, linestyle="none",
    )  # fmt: skip


def cross(axes: Axes, row: Row, number: int) -> None:
    """A sender's means with both intervals."""
    x, y = row["completeness"], row["leak_full"]
    if x["value"] is None or y["value"] is None:
        return
    line: dict[str, Any] = {"color": hue(number), "linewidth": 1.1}
    if x["lo"] is not None:
        axes.plot([100 * x["lo"], 100 * x["hi"]], [100 * y["value"]] * 2, **line)
    if y["lo"] is not None:
        axes.plot([100 * x["value"]] * 2, [100 * y["lo"], 100 * y["hi"]], **line)
    axes.plot(
        [100 * x["value"]], [100 * y["value"]], marker=MARKERS[number % len(MARKERS)],
        markersize=6, color=hue(number), linestyle="none",
        markerfacecolor="none" if row["marked"] else hue(number),
    )  # fmt: skip


def ellipse(axes: Axes, points: list[tuple[float, float]], colour: str) -> list[float]:
    """Small dots and, of three or more, one standard deviation around them; returns its top."""
    from matplotlib.patches import Ellipse

    if points:
        axes.plot(*zip(*points, strict=True), marker=".", markersize=3, color=colour, alpha=0.5,
                  linestyle="none")  # fmt: skip
    around = covariance_ellipse(points) if len(points) >= 3 else None
    if around is None:
        return []
    axes.add_patch(
        Ellipse(
            (around.x, around.y), 2 * around.major, 2 * around.minor,
            angle=around.angle, facecolor=colour, alpha=0.14, edgecolor=colour, linewidth=0.8,
        )
    )  # fmt: skip
    turn = math.radians(around.angle)
    return [around.y + math.hypot(around.major * math.sin(turn), around.minor * math.cos(turn))]


def line(axes: Axes, x: list[int], found: list[Row], number: int, shift: float) -> None:
    """A line with a bar at each point, a little beside its place so that bars do not overlap."""
    places = [value + shift for value in x]
    axes.plot(places, [100 * one["value"] for one in found], color=hue(number), linewidth=1.2,
              marker=MARKERS[number % len(MARKERS)], markersize=3.6)  # fmt: skip
    for place, one in zip(places, found, strict=True):
        if one["lo"] is not None:
            axes.plot([place, place], [100 * one["lo"], 100 * one["hi"]], color=hue(number),
                      linewidth=0.9, alpha=0.7)  # fmt: skip


def faint(axes: Axes, x: float, row: Row, name: str, number: int) -> None:
    """The bounds of a marked row as a broad faint bar."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if row["marked"] and low is not None and low < high:
        axes.plot([x, x], [100 * low, 100 * high], color=hue(number), alpha=0.25, linewidth=5,
                  solid_capstyle="butt")  # fmt: skip


def plain(axes: Axes, grid: Any) -> None:
    axes.grid(axis=grid, color=INK, alpha=0.12, linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def legend(figure: Figure, told: Dialogue, models: list[str], hollow: bool) -> None:
    """Senders by colour and mark, above the panels; beside real ones simulated ones say so."""
    from matplotlib.lines import Line2D

    fakes = {row["model"] for row in told.by_sender if row["simulated"]}
    some = any(not row["simulated"] for row in told.by_sender)
    handles: list[Any] = [
        Line2D([], [], color=hue(i), marker=MARKERS[i % len(MARKERS)], markersize=4.6,
               linewidth=1.4, label=_short(model) + (" (simulated)" if some and model in fakes
                                                      else ""))
        for i, model in enumerate(models)
    ]  # fmt: skip
    place_legend(figure, handles, hollow)


def place_legend(figure: Figure, handles: list[Any], hollow: bool) -> None:
    from matplotlib.lines import Line2D

    if hollow:
        handles.append(
            Line2D([], [], color=INK, marker="o", markersize=4.6, markerfacecolor="none",
                   linestyle="none", label="hollow: over 2 % not known")
        )  # fmt: skip
    figure.legend(
        handles=handles, loc="outside upper left", ncols=min(ABREAST, len(handles)),
        frameon=False, fontsize=8,
    )  # fmt: skip


def doubt(rows: Sequence[Row]) -> bool:
    return any(row["marked"] for row in rows)


def models_of(told: Dialogue) -> list[str]:
    """Senders in the plan's order."""
    return [str(value) for value in told.order["model"]]


def hue(number: int) -> str:
    return SENDERS[number % len(SENDERS)]
