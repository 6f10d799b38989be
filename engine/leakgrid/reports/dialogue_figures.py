"""The charts of a dialogue job as SVG text: leakage against completeness, and what moves them.

Points are means over instances, bars 95 % intervals by profile, hollow points marked groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from leakgrid.reports.dialogue_sums import grouped
from leakgrid.reports.figures import (
    COLOURS,
    HEAT,
    INK,
    MARKERS,
    Row,
    _figure,
    _short,
    _style,
    _svg,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from leakgrid.reports.dialogue import Dialogue

ABREAST = 4
"""Names in a row of a legend."""
PANELS = 3
"""Panels side by side."""
SENDERS = (*COLOURS, "#4f6d7a", "#a23b3b", "#3b5ba2", "#6b6b6b")


def charts(told: Dialogue, simulated: str) -> dict[str, str]:
    """Every chart that the job has data for, by name."""
    drawn: dict[str, Callable[[Dialogue, str], str]] = {}
    if any(row["leak_full"]["value"] is not None for row in told.by_sender):
        drawn["leak-against-completeness"] = leak_against_completeness
        drawn["by-condition"] = by_condition
    if len({row["turns"] for row in told.by_sender}) > 1:
        drawn["turns"] = by_turns
    if any(row["known"] for row in told.rounds.by_condition):
        drawn["per-round"] = lambda one, word: rounds(one, word, "leak")
        drawn["cumulative"] = lambda one, word: rounds(one, word, "cumulative")
    if any(row["leak_full"]["value"] is not None for row in told.matrix):
        drawn["matrix-leak"] = lambda one, word: matrix(one, word, "leak_full")
        drawn["matrix-completeness"] = lambda one, word: matrix(one, word, "completeness")
    if told.messages.tasks:
        drawn["violation"] = violation
    return {name: draw(told, simulated) for name, draw in drawn.items()}


def leak_against_completeness(told: Dialogue, simulated: str) -> str:
    """A point a sender, its profiles as small dots with their 1-sigma ellipse; a panel a turns.

    The best place is the lower right: all that is needed, nothing else.
    """
    models, turns = _models(told), _turns(told)
    with _style("leak against completeness"):
        figure = _figure(3.6)
        grid = figure.subplots(1, len(turns), sharex=True, sharey=True, squeeze=False)
        top = 0.0
        for axes, setting in zip(grid[0], turns, strict=True):
            for number, model in enumerate(models):
                points = [
                    (100 * row["completeness"], 100 * row["leak"])
                    for row in told.points
                    if (row["turns"], row["model"]) == (setting, model)
                    and row["leak"] is not None
                    and row["completeness"] is not None
                ]
                top = max([top, *(y for _, y in points), *_ellipse(axes, points, _hue(number))])
            for row in told.by_sender:
                if (row["judge"], row["turns"]) == (told.judge, setting):
                    _cross(axes, row, models.index(row["model"]))
            _plain(axes, "both")
            axes.set_title(_setting(setting), loc="left", fontsize=8.5)
            axes.set_xlabel("completeness, % of necessary attributes")
            axes.set_xlim(0, 100)
            axes.set_ylim(0, min(100.0, max(1.0, 1.08 * top)))
        grid[0][0].set_ylabel("leakage, % of inappropriate attributes")
        _legend(figure, told, models, _doubt(told.by_sender))
        return _svg(figure, simulated)


def by_condition(told: Dialogue, simulated: str) -> str:
    """Leakage and completeness of each sender by prompt condition; a row of panels a turns."""
    models, turns = _models(told), _turns(told)
    conditions = [str(value) for value in told.order["condition"]]
    return _lanes(
        told,
        simulated,
        "by condition",
        turns,
        conditions,
        lambda setting, condition: [
            row
            for row in told.by_sender_condition
            if (row["turns"], row["condition"]) == (setting, condition)
        ],
        models,
        _setting,
    )


def by_turns(told: Dialogue, simulated: str) -> str:
    """Leakage and completeness of each sender in short and in long dialogues."""
    settings = {_setting(value): value for value in _turns(told)}
    return _lanes(
        told,
        simulated,
        "turns",
        [0],
        list(settings),
        lambda _, word: [
            row
            for row in told.by_sender
            if (row["judge"], row["turns"]) == (told.judge, settings[word])
        ],
        _models(told),
        lambda _: "all prompt conditions",
    )


def rounds(told: Dialogue, simulated: str, what: str) -> str:
    """Leakage of each round's message (leak), or of all up to it (cumulative): lines by sender."""
    models, conditions = _models(told), told.order["condition"]
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
                _line(axes, [r["round"] for r in rows], [r[what] for r in rows], place,
                      0.08 * (place - (len(models) - 1) / 2))  # fmt: skip
            _plain(axes, "y")
            axes.set_title(_short(str(conditions[number])), loc="left", fontsize=8.5)
            axes.set_xticks(range(1, told.turns + 1))
            axes.set_ylim(bottom=0)
            if number >= len(conditions) - across:
                axes.set_xlabel("round")
        word = "leakage up to this round, %" if what == "cumulative" else "leakage of the round, %"
        for row in grid:
            row[0].set_ylabel(word)
        _legend(figure, told, models, hollow=False)
        return _svg(figure, simulated)


def matrix(told: Dialogue, simulated: str, measure: str) -> str:
    """Heat map of senders (rows) by receivers at the longest setting; numbers are per cent."""
    from matplotlib.colors import LinearSegmentedColormap, to_hex
    from matplotlib.patches import Rectangle

    models = _models(told)
    receivers = [str(value) for value in told.order["receiver"]]
    cells = [row for row in told.matrix if row["turns"] == told.turns]
    most = max((row[measure]["value"] or 0.0 for row in cells), default=0.0)
    heat: Any = LinearSegmentedColormap.from_list("heat", HEAT)
    with _style(f"matrix {measure}"):
        figure = _figure(0.34 * len(models) + 1.1)
        axes = figure.subplots()
        for row in cells:
            x, y = receivers.index(row["receiver"]), models.index(row["model"])
            value = row[measure]["value"]
            share = 0.0 if value is None or not most else value / most
            axes.add_patch(
                Rectangle(
                    (x - 0.48, y - 0.46), 0.96, 0.92, linewidth=0.5,
                    facecolor="none" if value is None else to_hex(heat(share)),
                    edgecolor=INK if value is None else "none",
                )
            )  # fmt: skip
            text = "?" if value is None else f"{100 * value:.1f}{'*' if row['marked'] else ''}"
            colour = INK if value is None else "#ffffff" if share > 0.72 else "#1c1410"
            axes.text(x, y, text, ha="center", va="center", fontsize=7.5, color=colour)
        axes.set_xlim(-0.5, len(receivers) - 0.5)
        axes.set_ylim(len(models) - 0.5, -0.5)
        axes.set_xticks(range(len(receivers)), [_short(name) for name in receivers])
        axes.set_yticks(range(len(models)), [_short(name) for name in models])
        axes.set_xlabel("receiver")
        axes.set_ylabel("sender")
        word = "leakage (full)" if measure == "leak_full" else "completeness"
        axes.set_title(f"{word}, {_setting(told.turns)}, %", loc="left", fontsize=8.5)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.tick_params(left=False, bottom=False)
        return _svg(figure, simulated)


def violation(told: Dialogue, simulated: str) -> str:
    """How violations add up over a profile's tasks (left) and over samples (right)."""
    models, conditions = _models(told), told.order["condition"]
    known = [row for row in told.messages.rates if row["violation_full"]["value"] is not None]
    most = max((row["n"] for row in told.messages.rates), default=1)
    with _style("violation"):
        figure = _figure(2.4 * len(conditions) + 0.6)
        grid = figure.subplots(len(conditions), 2, sharey=True, squeeze=False)
        for axes, condition in zip(grid, conditions, strict=True):
            for place, model in enumerate(models):
                here = (model, condition)
                tasks = [
                    row
                    for row in told.messages.tasks
                    if (row["model"], row["condition"]) == here
                    and row["violation_full"] is not None
                ]
                axes[0].plot(
                    [row["tasks"] for row in tasks],
                    [100 * row["violation_full"] for row in tasks],
                    color=_hue(place), linewidth=1.3,
                )  # fmt: skip
                rows = [row for row in known if (row["model"], row["condition"]) == here]
                _line(axes[1], [r["n"] for r in rows], [r["violation_full"] for r in rows], place,
                      0.06 * (place - (len(models) - 1) / 2))  # fmt: skip
            for side in axes:
                _plain(side, "y")
                side.set_ylim(bottom=0)
                side.set_title(_short(str(condition)), loc="left", fontsize=8.5)
            axes[0].set_ylabel("violation, %")
            axes[1].set_xticks(range(1, most + 1))
        grid[-1][0].set_xlabel(f"tasks of a profile (all {most} samples)")
        grid[-1][1].set_xlabel("samples (all tasks)")
        _legend(figure, told, models, hollow=False)
        return _svg(figure, simulated)


def _lanes(
    told: Dialogue,
    simulated: str,
    salt: str,
    panels: Sequence[Any],
    parts: list[str],
    rows_of: Callable[[Any, str], list[Row]],
    models: list[str],
    title: Callable[[Any], str],
) -> str:
    """Points with intervals: a lane a sender, a colour a part, leakage left, completeness right."""
    from matplotlib.lines import Line2D

    step = 0.7 / max(1, len(parts))
    with _style(salt):
        figure = _figure(len(panels) * ((0.16 * len(parts) + 0.14) * len(models) + 0.6) + 0.7)
        grid = figure.subplots(len(panels), 2, sharex="col", sharey=True, squeeze=False)
        every: list[Row] = []
        for pair, panel in zip(grid, panels, strict=True):
            for number, part in enumerate(parts):
                rows = rows_of(panel, part)
                every += rows
                for row in rows:
                    y = models.index(row["model"]) + (number - (len(parts) - 1) / 2) * step
                    for axes, measure in zip(pair, ("leak_full", "completeness"), strict=True):
                        _dot(axes, row, measure, y, number)
            for axes, word in zip(pair, ("leakage (full)", "completeness"), strict=True):
                axes.set_title(f"{word} · {title(panel)}", loc="left", fontsize=8.5)
                axes.set_yticks(range(len(models)), [_short(name) for name in models])
                axes.set_ylim(len(models) - 0.5, -0.5)
                axes.set_xlim(left=0)
                _plain(axes, "x")
                axes.spines["left"].set_visible(False)
                axes.tick_params(left=False)
                for edge in range(1, len(models)):
                    axes.axhline(edge - 0.5, color=INK, alpha=0.08, linewidth=0.6)
        grid[-1][0].set_xlabel("% of inappropriate attributes")
        grid[-1][1].set_xlabel("% of necessary attributes")
        handles: list[Any] = [
            Line2D([], [], color=_hue(i), marker=MARKERS[i % len(MARKERS)], markersize=4.6,
                   linewidth=1.4, label=_short(part))
            for i, part in enumerate(parts)
        ]  # fmt: skip
        _place_legend(figure, handles, _doubt(every))
        return _svg(figure, simulated)


def _dot(axes: Axes, row: Row, measure: str, y: float, number: int) -> None:
    """One estimate as a point with its bar; a faint bar for the bounds of marked groups."""
    about = "completeness" if measure == "completeness" else "leak"
    colour, found = _hue(number), row[measure]
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


def _cross(axes: Axes, row: Row, number: int) -> None:
    """A sender's means with both intervals."""
    x, y = row["completeness"], row["leak_full"]
    if x["value"] is None or y["value"] is None:
        return
    line: dict[str, Any] = {"color": _hue(number), "linewidth": 1.1}
    if x["lo"] is not None:
        axes.plot([100 * x["lo"], 100 * x["hi"]], [100 * y["value"]] * 2, **line)
    if y["lo"] is not None:
        axes.plot([100 * x["value"]] * 2, [100 * y["lo"], 100 * y["hi"]], **line)
    axes.plot(
        [100 * x["value"]], [100 * y["value"]], marker=MARKERS[number % len(MARKERS)],
        markersize=6, color=_hue(number), linestyle="none",
        markerfacecolor="none" if row["marked"] else _hue(number),
    )  # fmt: skip


def _ellipse(axes: Axes, points: list[tuple[float, float]], colour: str) -> list[float]:
    """Small dots and, of three or more, one standard deviation around them; returns its top."""
    import numpy as np
    from matplotlib.patches import Ellipse

    if points:
        axes.plot(*zip(*points, strict=True), marker=".", markersize=3, color=colour, alpha=0.5,
                  linestyle="none")  # fmt: skip
    if len(points) < 3:
        return []
    array = np.asarray(points)
    spread, turned = np.linalg.eigh(np.cov(array.T))
    reach = np.sqrt(np.maximum(spread, 0))
    angle = math.degrees(math.atan2(turned[1, 1], turned[0, 1]))
    centre = array.mean(axis=0)
    axes.add_patch(
        Ellipse(
            (float(centre[0]), float(centre[1])), 2 * float(reach[1]), 2 * float(reach[0]),
            angle=angle, facecolor=colour, alpha=0.14, edgecolor=colour, linewidth=0.8,
        )
    )  # fmt: skip
    return [float(centre[1] + math.hypot(*(turned[1] * reach)))]


def _line(axes: Axes, x: list[int], found: list[Row], number: int, shift: float) -> None:
    """A line with a bar at each point, a little beside its place so that bars do not overlap."""
    places = [value + shift for value in x]
    axes.plot(places, [100 * one["value"] for one in found], color=_hue(number), linewidth=1.2,
              marker=MARKERS[number % len(MARKERS)], markersize=3.6)  # fmt: skip
    for place, one in zip(places, found, strict=True):
        if one["lo"] is not None:
            axes.plot([place, place], [100 * one["lo"], 100 * one["hi"]], color=_hue(number),
                      linewidth=0.9, alpha=0.7)  # fmt: skip


def _plain(axes: Axes, grid: Any) -> None:
    axes.grid(axis=grid, color=INK, alpha=0.12, linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _legend(figure: Figure, told: Dialogue, models: list[str], hollow: bool) -> None:
    """Senders by colour and mark, above the panels; beside real ones simulated ones say so."""
    from matplotlib.lines import Line2D

    fakes = {row["model"] for row in told.by_sender if row["simulated"]}
    some = any(not row["simulated"] for row in told.by_sender)
    handles: list[Any] = [
        Line2D([], [], color=_hue(i), marker=MARKERS[i % len(MARKERS)], markersize=4.6,
               linewidth=1.4, label=_short(model) + (" (simulated)" if some and model in fakes
                                                      else ""))
        for i, model in enumerate(models)
    ]  # fmt: skip
    _place_legend(figure, handles, hollow)


def _place_legend(figure: Figure, handles: list[Any], hollow: bool) -> None:
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


def _doubt(rows: Sequence[Row]) -> bool:
    return any(row["marked"] for row in rows)


def _hue(number: int) -> str:
    return SENDERS[number % len(SENDERS)]


def _models(told: Dialogue) -> list[str]:
    return [str(value) for value in told.order["model"]]


def _turns(told: Dialogue) -> list[int]:
    """The settings that there are rows of."""
    return [key for (key,) in grouped(told.by_sender, ("turns",))]


def _setting(turns: int) -> str:
    return "one message" if turns == 0 else "1 round" if turns == 1 else f"{turns} rounds"
