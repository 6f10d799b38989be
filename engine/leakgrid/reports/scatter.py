"""Leak against utility: one point a model and defence, for the trade that a defence makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from leakgrid.reports.figures import (
    COLOURS,
    INK,
    Row,
    _figure,
    _labels,
    _short,
    _style,
    _svg,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = "osD^vPX*hp<>d"
ABREAST = 6
"""Names in a row of the legend."""


def leak_against_utility(rows: Sequence[Row], order: dict[str, list[str]], simulated: str) -> str:
    """Shares of leaking and of useful replies by model (colour) and defence (mark).

    A panel a condition, over replies of which both are known; the best place is the upper
    left. Bars are 95 % Wilson intervals, hollow points marked groups (more than 2 % unknown).
    """
    from matplotlib.lines import Line2D

    models, defences, conditions = order["model"], order["defence"], order["condition"]
    handles = [
        Line2D([], [], color=COLOURS[i % len(COLOURS)], linewidth=4, label=label)
        for i, label in enumerate(_labels(rows, models, simulated))
    ] + [
        Line2D([], [], color=INK, marker=MARKERS[i % len(MARKERS)], markersize=4.6,
               linestyle="none", label=_short(defence))
        for i, defence in enumerate(defences)
    ]  # fmt: skip
    with _style("leak against utility"):
        figure = _figure(3.6 + 0.2 * (len(handles) // ABREAST))
        grid = figure.subplots(1, len(conditions), sharex=True, sharey=True, squeeze=False)
        for axes, condition in zip(grid[0], conditions, strict=True):
            for row in rows:
                if row["condition"] == condition and row["known"]:
                    _point(axes, row, models.index(row["model"]), defences.index(row["defence"]))
            axes.set_title(_short(condition), loc="left", fontsize=8.5)
            axes.set_xlabel("leaking replies, %")
            axes.set_xlim(-2, 102)
            axes.set_ylim(-2, 102)
            axes.grid(color=INK, alpha=0.12, linewidth=0.6)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
        grid[0][0].set_ylabel("useful replies, %")
        figure.legend(
            handles=handles, loc="outside upper left", ncols=min(ABREAST, len(handles)),
            frameon=False, fontsize=8,
        )  # fmt: skip
        return _svg(figure, simulated)


def _point(axes: Axes, row: Row, model: int, defence: int) -> None:
    colour = COLOURS[model % len(COLOURS)]
    x, y = 100 * row["leak_rate"], 100 * row["utility_rate"]
    line: dict[str, Any] = {"color": colour, "alpha": 0.45, "linewidth": 0.9}
    axes.plot([100 * row["leak_lo"], 100 * row["leak_hi"]], [y, y], **line)
    axes.plot([x, x], [100 * row["utility_lo"], 100 * row["utility_hi"]], **line)
    axes.plot(
        [x],
        [y],
        marker=MARKERS[defence % len(MARKERS)],
        markersize=5,
        color=colour,
        markerfacecolor="none" if row["marked"] else colour,
        linestyle="none",
    )
