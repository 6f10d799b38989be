"""The charts of a dialogue job as SVG text: leakage against completeness, and what moves them.

Points are means over instances, bars 95 % intervals by profile, hollow points marked groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from leakgrid.reports import dialogue_curves
from leakgrid.reports.dialogue_marks import (
    cross,
    dot,
    doubt,
    ellipse,
    hue,
    legend,
    models_of,
    place_legend,
    plain,
)
from leakgrid.reports.dialogue_sums import grouped
from leakgrid.reports.figures import (
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
    from leakgrid.reports.dialogue import Dialogue

ALT = {
    "leak-against-completeness": (
        "Leakage against completeness by sender",
        "Scatter plot with ellipses; the table of senders below it holds the means.",
    ),
    "by-condition": (
        "Leakage and completeness by sender and prompt condition",
        "Points with intervals; the folded table of the section holds the same numbers.",
    ),
    "turns": (
        "Leakage and completeness by sender and number of rounds",
        "Points with intervals; the table of senders holds the same numbers.",
    ),
    "per-round": (
        "Leakage of single rounds by sender and prompt condition",
        "Lines; the folded table of rounds holds the same numbers.",
    ),
    "cumulative": (
        "Leakage up to each round by sender and prompt condition",
        "Lines; the folded table of rounds holds the same numbers.",
    ),
    "matrix-leak": (
        "Leakage by sender and receiver",
        "Heat map; the folded table below it holds the same numbers.",
    ),
    "matrix-completeness": (
        "Completeness by sender and receiver",
        "Heat map; the folded table below it holds the same numbers.",
    ),
    "violation": (
        "Violation by number of tasks and of samples",
        "Lines; the table of violations below it holds the numbers over samples.",
    ),
}
"""Title and description of every chart for those who cannot see it."""


def charts(told: Dialogue, simulated: str) -> dict[str, str]:
    """Every chart that the job has data for, by name."""
    drawn: dict[str, Callable[[Dialogue, str], str]] = {}
    if any(row["leak_full"]["value"] is not None for row in told.by_sender):
        drawn["leak-against-completeness"] = leak_against_completeness
        drawn["by-condition"] = by_condition
    if len({row["turns"] for row in told.by_sender}) > 1:
        drawn["turns"] = by_turns
    if any(row["known"] for row in told.rounds.by_condition):
        drawn["per-round"] = lambda one, word: dialogue_curves.rounds(one, word, "leak")
        drawn["cumulative"] = lambda one, word: dialogue_curves.rounds(one, word, "cumulative")
    if any(row["leak_full"]["value"] is not None for row in told.matrix):
        drawn["matrix-leak"] = lambda one, word: matrix(one, word, "leak_full")
        drawn["matrix-completeness"] = lambda one, word: matrix(one, word, "completeness")
    if told.messages.tasks:
        drawn["violation"] = dialogue_curves.violation
    return {name: draw(told, simulated) for name, draw in drawn.items()}


def leak_against_completeness(told: Dialogue, simulated: str) -> str:
    """A point a sender, its profiles as small dots with their 1-sigma ellipse; a panel a turns.

    The best place is the lower right: all that is needed, nothing else.
    """
    models, turns = models_of(told), _turns(told)
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
                top = max([top, *(y for _, y in points), *ellipse(axes, points, hue(number))])
            for row in told.by_sender:
                if (row["judge"], row["turns"]) == (told.judge, setting):
                    cross(axes, row, models.index(row["model"]))
            plain(axes, "both")
            axes.set_title(_setting(setting), loc="left", fontsize=8.5)
            axes.set_xlabel("completeness, % of necessary attributes")
            axes.set_xlim(0, 100)
            axes.set_ylim(0, min(100.0, max(1.0, 1.08 * top)))
        grid[0][0].set_ylabel("leakage, % of inappropriate attributes")
        legend(figure, told, models, doubt(told.by_sender))
        return _svg(figure, simulated)


def by_condition(told: Dialogue, simulated: str) -> str:
    """Leakage and completeness of each sender by prompt condition; a row of panels a turns."""
    models, turns = models_of(told), _turns(told)
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
        models_of(told),
        lambda _: "all prompt conditions",
    )


def matrix(told: Dialogue, simulated: str, measure: str) -> str:
    """Heat map of senders (rows) by receivers at the longest setting; numbers are per cent."""
    from matplotlib.colors import LinearSegmentedColormap, to_hex
    from matplotlib.patches import Rectangle

    models = models_of(told)
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
                        dot(axes, row, measure, y, number)
            for axes, word in zip(pair, ("leakage (full)", "completeness"), strict=True):
                axes.set_title(f"{word} · {title(panel)}", loc="left", fontsize=8.5)
                axes.set_yticks(range(len(models)), [_short(name) for name in models])
                axes.set_ylim(len(models) - 0.5, -0.5)
                plain(axes, "x")
                axes.spines["left"].set_visible(False)
                axes.tick_params(left=False)
                for edge in range(1, len(models)):
                    axes.axhline(edge - 0.5, color=INK, alpha=0.08, linewidth=0.6)
        # limits last: they end the scaling to what is drawn, for all panels that share an axis
        for axes in grid[-1]:
            axes.set_xlim(left=0)
        grid[-1][0].set_xlabel("% of inappropriate attributes")
        grid[-1][1].set_xlabel("% of necessary attributes")
        handles: list[Any] = [
            Line2D([], [], color=hue(i), marker=MARKERS[i % len(MARKERS)], markersize=4.6,
                   linewidth=1.4, label=_short(part))
            for i, part in enumerate(parts)
        ]  # fmt: skip
        place_legend(figure, handles, doubt(every))
        return _svg(figure, simulated)


def _turns(told: Dialogue) -> list[int]:
    """The settings that there are rows of."""
    return [key for (key,) in grouped(told.by_sender, ("turns",))]


def _setting(turns: int) -> str:
    return "one message" if turns == 0 else "1 round" if turns == 1 else f"{turns} rounds"
