"""The curves of a dialogue job as SVG text: leakage over rounds, violations over tasks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from leakgrid.reports.dialogue_marks import faint, hue, legend, line, models_of, plain
from leakgrid.reports.figures import _figure, _short, _style, _svg

if TYPE_CHECKING:
    from leakgrid.reports.dialogue import Dialogue

PANELS = 3
"""Panels side by side."""


def rounds(told: Dialogue, simulated: str, what: str) -> str:
    """Leakage of each round's message (leak), or of all up to it (cumulative): lines by sender.

    Faint bars are the bounds of marked rounds.
    """
    models, conditions = models_of(told), told.order["condition"]
    cells = [row for row in told.rounds.by_condition if row["turns"] == told.turns]
    across = min(PANELS, len(conditions))
    down = math.ceil(len(conditions) / across)
    with _style(what):
        figure = _figure(2.5 * down + 0.6)
        grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
        for number, axes in enumerate(grid.flat):
            if number >= len(conditions):
                axes.set_visible(False)
                continue
            for place, model in enumerate(models):
                rows = [
                    row
                    for row in cells
                    if (row["model"], row["condition"]) == (model, conditions[number])
                    and row[what]["value"] is not None
                ]
                shift = 0.08 * (place - (len(models) - 1) / 2)
                line(axes, [r["round"] for r in rows], [r[what] for r in rows], place, shift)
                for row in cells:
                    if (row["model"], row["condition"]) == (model, conditions[number]):
                        faint(axes, row["round"] + shift, row, what, place)
            plain(axes, "y")
            axes.set_title(_short(str(conditions[number])), loc="left", fontsize=8.5)
            axes.set_xticks(range(1, told.turns + 1))
            if number >= len(conditions) - across:
                axes.set_xlabel("round")
        word = "leakage up to this round, %" if what == "cumulative" else "leakage of the round, %"
        for row in grid:
            row[0].set_ylabel(word)
        grid[0][0].set_ylim(bottom=0)
        legend(figure, told, models, hollow=False)
        return _svg(figure, simulated)


def violation(told: Dialogue, simulated: str) -> str:
    """How violations add up over a profile's tasks (left) and over samples (right).

    Faint areas and bars are bounds, where anything is unknown.
    """
    models, conditions = models_of(told), told.order["condition"]
    known = [row for row in told.messages.rates if row["violation_full"]["value"] is not None]
    most = max((row["n"] for row in told.messages.rates), default=1)
    with _style("violation"):
        figure = _figure(2.4 * len(conditions) + 0.6)
        grid = figure.subplots(len(conditions), 2, sharey=True, squeeze=False)
        for axes, condition in zip(grid, conditions, strict=True):
            for place, model in enumerate(models):
                here = (model, condition)
                every = [
                    row for row in told.messages.tasks if (row["model"], row["condition"]) == here
                ]
                axes[0].fill_between(
                    [row["tasks"] for row in every],
                    [100 * row["violation_full_low"] for row in every],
                    [100 * row["violation_full_high"] for row in every],
                    where=[row["violation_full_low"] < row["violation_full_high"] for row in every],
                    color=hue(place), alpha=0.15, linewidth=0,
                )  # fmt: skip
                tasks = [row for row in every if row["violation_full"] is not None]
                axes[0].plot(
                    [row["tasks"] for row in tasks],
                    [100 * row["violation_full"] for row in tasks],
                    color=hue(place), linewidth=1.3,
                )  # fmt: skip
                rows = [row for row in known if (row["model"], row["condition"]) == here]
                shift = 0.06 * (place - (len(models) - 1) / 2)
                line(axes[1], [r["n"] for r in rows], [r["violation_full"] for r in rows], place,
                     shift)  # fmt: skip
                for row in told.messages.rates:
                    if (row["model"], row["condition"]) == here:
                        marked = {**row, "marked": row["violation_marked"]}
                        faint(axes[1], row["n"] + shift, marked, "violation_full", place)
            for side in axes:
                plain(side, "y")
                side.set_title(_short(str(condition)), loc="left", fontsize=8.5)
            axes[0].set_ylabel("violation, %")
            axes[1].set_xticks(range(1, most + 1))
        grid[0][0].set_ylim(bottom=0)
        grid[-1][0].set_xlabel(f"tasks of a profile (all {most} samples)")
        grid[-1][1].set_xlabel("samples (all tasks)")
        legend(figure, told, models, hollow=False)
        return _svg(figure, simulated)
