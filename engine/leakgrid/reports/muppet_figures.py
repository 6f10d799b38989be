"""MuPPET's own charts as SVG text: why replies leaked, and what the number of people does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from leakgrid.reports.figures import (
    COLOURS,
    INK,
    MARKERS,
    Row,
    _figure,
    _labels,
    _short,
    _style,
    _svg,
)
from leakgrid.reports.muppet import CAUSES, READINGS
from leakgrid.reports.parties import varied as varied_in

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ABREAST = 5
"""Names in a row of a legend."""


def causes(rows: Sequence[Row], order: dict[str, list[str]], simulated: str) -> str:
    """Causes of probed leaks as stacked bars, two a model: strict, and lenient below it.

    A column a condition, a row a defence. Inconclusive probes are an empty, hatched part.
    """
    from matplotlib.patches import Patch

    leaks = [row for row in rows if row["probed"] == "leak"]
    defences = _present(leaks, "defence", order)
    conditions = _present(leaks, "condition", order)
    models = _present(leaks, "model", order)
    names = [
        f"{label} · {reading}" if reading == READINGS[0] else reading
        for label in _labels(leaks, models, simulated)
        for reading in READINGS
    ]
    with _style("causes"):
        figure = _figure(len(defences) * (0.42 * len(models) + 0.62) + 0.7)
        grid = figure.subplots(
            len(defences), len(conditions), sharex=True, sharey=True, squeeze=False
        )
        for i, defence in enumerate(defences):
            for j, condition in enumerate(conditions):
                here = [r for r in leaks if (r["defence"], r["condition"]) == (defence, condition)]
                _bars(grid[i][j], here, models)
                grid[i][j].set_yticklabels(names, fontsize=7)
                title = _short(f"{condition} · {defence}")
                grid[i][j].set_title(title, loc="left", fontsize=8.5)
        for axes in grid[-1]:
            axes.set_xlabel("% of probed leaks")
        handles = [Patch(label=cause, **_look(number)) for number, cause in enumerate(CAUSES)]
        figure.legend(
            handles=handles,
            loc="outside upper left",
            ncols=len(CAUSES),
            frameon=False,
            fontsize=7.5,
        )
        return _svg(figure, simulated)


def parties(rows: Sequence[Row], order: dict[str, list[str]], judge: str, simulated: str) -> str:
    """Leak rates of the parties ablation by one judge: a column an arm, a row a model.

    The x axis is what the arm varies; lines are defences and conditions, bars intervals by base
    item (Wilson's where there are too few of them), hollow points marked groups (more than 2 %
    not known).
    """
    from matplotlib.lines import Line2D

    mine = [row for row in rows if row["judge"] == judge]
    models, arms = _present(mine, "model", order), _present(mine, "arm", order)
    lines = [
        (defence, condition)
        for defence in _present(mine, "defence", order)
        for condition in _present(mine, "condition", order)
    ]
    with _style("parties"):
        figure = _figure(1.5 * len(models) + 0.8)
        grid = figure.subplots(len(models), len(arms), sharex="col", sharey=True, squeeze=False)
        for j, arm in enumerate(arms):
            varied = varied_in(mine, arm)
            for i, label in enumerate(_labels(mine, models, simulated)):
                axes = grid[i][j]
                for number, line in enumerate(lines):
                    _line(
                        axes,
                        [
                            row
                            for row in mine
                            if (row["arm"], row["model"]) == (arm, models[i])
                            and (row["defence"], row["condition"]) == line
                        ],
                        varied,
                        number,
                    )
                _frame(axes, [row for row in mine if row["arm"] == arm], varied)
                axes.set_title(_short(f"{label} · arm {arm}"), loc="left", fontsize=8)
            grid[-1][j].set_xlabel("people (log scale)" if varied == "parties" else "tokens")
        for row in grid:
            row[0].set_ylabel("leaks, %")
        handles = [
            Line2D([], [], color=COLOURS[n % len(COLOURS)], marker=MARKERS[n % len(MARKERS)],
                   markersize=4.4, linewidth=1.3, label=_short(f"{defence} · {condition}"))
            for n, (defence, condition) in enumerate(lines)
        ]  # fmt: skip
        figure.legend(
            handles=handles, loc="outside upper left", ncols=min(ABREAST, len(handles)),
            frameon=False, fontsize=8,
        )  # fmt: skip
        return _svg(figure, simulated)


def _present(rows: Sequence[Row], name: str, order: dict[str, list[str]]) -> list[str]:
    """The values that rows have, in the plan's order; others after them."""
    values = {str(row[name]) for row in rows}
    known = [value for value in order.get(name, []) if value in values]
    return known + sorted(values - set(known))


def _look(number: int) -> dict[str, Any]:
    """How one cause is filled: what is not known is no colour but hatching."""
    if number == len(CAUSES) - 1:
        return {"facecolor": "none", "edgecolor": INK, "hatch": "////", "linewidth": 0.5}
    return {"facecolor": COLOURS[number], "edgecolor": "none", "linewidth": 0.5}


def _bars(axes: Axes, rows: list[Row], models: list[str]) -> None:
    """One panel of causes."""
    for row in rows:
        reading = READINGS.index(row["reading"])
        y = models.index(row["model"]) + 0.36 * reading
        left = 0.0
        for number, cause in enumerate(CAUSES):
            width = 100 * row["shares"][cause]["share"]
            if width:
                axes.barh(y, width, left=left, height=0.32, **_look(number))
            left += width
        if reading == 0:
            axes.text(
                101, y + 0.18, f"n = {row['probed_replies']}", va="center", fontsize=6.5, color=INK
            )
    axes.set_yticks([m + 0.36 * r for m in range(len(models)) for r in range(len(READINGS))])
    axes.set_ylim(len(models) - 0.32, -0.32)
    axes.set_xlim(0, 112)
    axes.set_xticks(range(0, 101, 20))
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(left=False)


def _line(axes: Axes, rows: list[Row], varied: str, number: int) -> None:
    """One defence and condition in one panel of parties."""
    known = [row for row in rows if row["rate"] is not None and row[varied] is not None]
    known.sort(key=lambda row: row[varied])
    colour = COLOURS[number % len(COLOURS)]
    axes.plot(
        [row[varied] for row in known], [100 * row["rate"] for row in known],
        color=colour, linewidth=0.9, alpha=0.6,
    )  # fmt: skip
    for row in known:
        x = row[varied]
        low, high = (
            row["lo" if row["cluster_lo"] is None else "cluster_lo"],
            row["hi" if row["cluster_hi"] is None else "cluster_hi"],
        )
        axes.plot([x, x], [100 * low, 100 * high], color=colour, linewidth=1.3)
        axes.plot(
            [x], [100 * row["rate"]], marker=MARKERS[number % len(MARKERS)], markersize=4.4,
            color=colour, markerfacecolor="none" if row["marked"] else colour, linestyle="none",
        )  # fmt: skip


def _frame(axes: Axes, rows: Sequence[Row], varied: str) -> None:
    """Axes of one panel of parties, a tick at each value that was planned."""
    from matplotlib.ticker import NullLocator

    ticks = sorted({row[varied] for row in rows if row[varied] is not None})
    if varied == "parties" and ticks and ticks[0] > 0:
        axes.set_xscale("log")
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(-2, 102)
    axes.grid(axis="y", color=INK, alpha=0.12, linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
