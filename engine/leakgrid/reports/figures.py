"""The two charts of a report as SVG text: same rows, same bytes, no fonts or links to fetch.

Letters are drawn as paths. Everything that is neither data nor fill has the colour INK, so a
page may put ``currentColor`` in its place and follow light and dark.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1b1f24"
ALARM = "#c4320a"
COLOURS = ("#d55e00", "#2a86c8", "#1a9e78", "#b8689a", "#8a8f00", "#7a6cc8")
"""After Okabe and Ito, shifted to be told apart by colour-blind readers on white and on black."""
MARKERS = "osD^vP"
HEAT = ("#fdf3e7", "#f7b977", "#d9601a", "#7f1d06")
WIDTH_IN = 8.6
LETTERS_ABREAST = 110
"""Column labels longer than this in all stand upright."""
LONGEST_LABEL = 36

Row = dict[str, Any]


def leak_rates(rows: Sequence[Row], order: dict[str, list[str]], simulated: str) -> str:
    """Leak rate with its interval by model and defence: a column a condition, a row a judge.

    Hollow points are marked groups (more than 2 % not known); a faint bar shows their bounds.
    """
    judges, conditions = order["judge"], order["condition"]
    models, defences = order["model"], order["defence"]
    names = _labels(rows, models, simulated)
    lane = 0.16 * len(defences) + 0.16
    with _style("leak rates"):
        figure = _figure(len(judges) * (lane * len(models) + 0.62) + 0.75)
        grid = figure.subplots(
            len(judges), len(conditions), sharex=True, sharey=True, squeeze=False
        )
        for i, judge in enumerate(judges):
            for j, condition in enumerate(conditions):
                axes = grid[i][j]
                here = [r for r in rows if r["judge"] == judge and r["condition"] == condition]
                _dots(axes, here, models, defences)
                axes.set_yticklabels(names)
                axes.set_title(_short(f"{condition} · judge {judge}"), loc="left", fontsize=8.5)
                if i == len(judges) - 1:
                    axes.set_xlabel("leaks, % of known verdicts (95 % Wilson interval)")
        _legend(figure, defences, any(row["marked"] for row in rows))
        return _svg(figure, simulated)


def categories(rows: Sequence[Row], order: dict[str, list[str]], judge: str, simulated: str) -> str:
    """Heat map of one judge's leak rates: category by model and defence, a panel a condition.

    Numbers are per cent of known verdicts; * is a marked group, ? has no known verdict.
    """
    conditions, names = order["condition"], order["category"]
    columns = [(model, defence) for model in order["model"] for defence in order["defence"]]
    labels = [
        f"{label}\n{_short(defence)}"
        for label in _labels(rows, order["model"], simulated)
        for defence in order["defence"]
    ]
    longest = max((len(part) for label in labels for part in label.split("\n")), default=0)
    upright = longest * len(columns) > LETTERS_ABREAST
    with _style("categories"):
        figure = _figure(
            len(conditions) * (0.24 * len(names) + 0.35)
            + (0.75 + 0.06 * longest if upright else 1.1)
        )
        grid = figure.subplots(len(conditions), 1, sharex=True, squeeze=False)
        for axes, condition in zip(grid[:, 0], conditions, strict=True):
            values = {
                (r["category"], r["model"], r["defence"]): r
                for r in rows
                if r["judge"] == judge and r["condition"] == condition
            }
            _heat(axes, values, names, columns)
            axes.set_title(_short(f"{condition} · judge {judge}"), loc="left", fontsize=8.5)
        bottom = grid[-1, 0]
        bottom.set_xticks(range(len(columns)))
        bottom.set_xticklabels(labels, rotation=90 if upright else 0, fontsize=7)
        return _svg(figure, simulated)


def inline(svg: str, name: str, title: str, description: str) -> str:
    """An SVG to stand in a page: own ids, text for those who cannot see it, the page's ink."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'(xlink:href="|url\()#', rf"\g<1>#{name}-", body)
    body = body.replace(INK, "currentColor")
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    head = re.search(r"<svg[^>]*>", body)
    if head is None:
        raise ValueError("not an SVG")
    view = re.search(r'viewBox="[^"]*"', head[0])
    opening = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'{view[0] if view else ""} role="img" aria-labelledby="{name}-title {name}-text">'
        f'<title id="{name}-title">{escape(title)}</title>'
        f'<desc id="{name}-text">{escape(description)}</desc>'
    )
    return opening + body[head.end() :]


def _labels(rows: Sequence[Row], models: list[str], simulated: str) -> list[str]:
    """Model names; beside real ones, simulated ones say what they are."""
    fake = {row["model"] for row in rows if row["simulated"]} if simulated == "some" else set()
    return [f"{_short(model)} (simulated)" if model in fake else _short(model) for model in models]


def _short(name: str) -> str:
    """A name for a label: one line, not so long that it leaves no room for the data."""
    name = " ".join(name.split())
    return name if len(name) <= LONGEST_LABEL else name[: LONGEST_LABEL - 1] + "…"


def _dots(axes: Axes, rows: list[Row], models: list[str], defences: list[str]) -> None:
    """One panel of leak_rates."""
    step = 0.7 / max(1, len(defences))
    for row in rows:
        if row["model"] not in models or row["defence"] not in defences:
            continue
        index = defences.index(row["defence"])
        y = models.index(row["model"]) + (index - (len(defences) - 1) / 2) * step
        colour = COLOURS[index % len(COLOURS)]
        if row["marked"]:
            axes.plot(
                [100 * row["bound_low"], 100 * row["bound_high"]],
                [y, y],
                color=colour,
                alpha=0.25,
                linewidth=5,
                solid_capstyle="butt",
            )
        if row["rate"] is None:
            axes.text(1, y, "no known verdict", va="center", fontsize=6.5, color=INK, alpha=0.7)
            continue
        axes.plot([100 * row["lo"], 100 * row["hi"]], [y, y], color=colour, linewidth=1.4)
        axes.plot(
            [100 * row["rate"]],
            [y],
            marker=MARKERS[index % len(MARKERS)],
            markersize=4.6,
            color=colour,
            markerfacecolor="none" if row["marked"] else colour,
            linestyle="none",
        )
    axes.set_yticks(range(len(models)))
    axes.set_ylim(len(models) - 0.5, -0.5)
    axes.set_xlim(-1, 101)
    axes.set_xticks(range(0, 101, 20))
    axes.grid(axis="x", color=INK, alpha=0.12, linewidth=0.6)
    for edge in range(1, len(models)):
        axes.axhline(edge - 0.5, color=INK, alpha=0.08, linewidth=0.6)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(left=False)


def _heat(
    axes: Axes,
    values: dict[tuple[str, str, str], Row],
    names: list[str],
    columns: list[tuple[str, str]],
) -> None:
    """One panel of categories; rectangles, because an image would not stay sharp in print."""
    from matplotlib.colors import LinearSegmentedColormap, to_hex
    from matplotlib.patches import Rectangle

    heat: Any = LinearSegmentedColormap.from_list("heat", HEAT)

    def shade(rate: float) -> str:
        return to_hex(heat(rate))

    for y, name in enumerate(names):
        for x, (model, defence) in enumerate(columns):
            row = values.get((name, model, defence))
            if row is None:
                continue
            rate = row["rate"]
            axes.add_patch(
                Rectangle(
                    (x - 0.48, y - 0.46),
                    0.96,
                    0.92,
                    facecolor="none" if rate is None else shade(rate),
                    edgecolor=INK if rate is None else "none",
                    linewidth=0.5,
                )
            )
            text = "?" if rate is None else f"{100 * rate:.0f}{'*' if row['marked'] else ''}"
            colour = INK if rate is None else "#ffffff" if rate > 0.72 else "#1c1410"
            axes.text(x, y, text, ha="center", va="center", fontsize=7, color=colour)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)))
    axes.set_yticklabels([_short(name) for name in names])
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(left=False, bottom=False)


def _legend(figure: Figure, defences: list[str], hollow: bool) -> None:
    """Defences by colour and mark, above the panels."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [], [], color=COLOURS[i % len(COLOURS)], marker=MARKERS[i % len(MARKERS)],
            markersize=4.6, linewidth=1.4, label=_short(defence),
        )
        for i, defence in enumerate(defences)
    ]  # fmt: skip
    if hollow:
        handles.append(
            Line2D(
                [], [], color=INK, marker="o", markersize=4.6, markerfacecolor="none",
                linestyle="none", label="hollow: over 2 % not known",
            )
        )  # fmt: skip
    figure.legend(
        handles=handles, loc="outside upper left", ncols=len(handles), frameon=False, fontsize=8
    )


@contextmanager
def _style(salt: str) -> Iterator[None]:
    """Matplotlib settings for one chart; names are never read as formulas."""
    import matplotlib

    settings: Any = {
        "svg.hashsalt": f"leakgrid {salt}",
        "svg.fonttype": "path",
        "font.family": "DejaVu Sans",
        "font.size": 8,
        "text.parse_math": False,
        "text.color": INK,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.linewidth": 0.6,
        "xtick.color": INK,
        "ytick.color": INK,
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # a name in a script that the bundled font lacks is drawn as boxes; the tables have it
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="constrained_layout not applied")
        yield


def _figure(height: float) -> Figure:
    """An empty figure of the usual width, ``height`` inches high, drawn by the SVG backend."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_IN, height), layout="constrained")
    FigureCanvasSVG(figure)
    return figure


def _svg(figure: Figure, simulated: str) -> str:
    """The figure as SVG text with no date in it; simulated results say so inside the picture."""
    for axes in figure.axes:
        axes.patch.set_alpha(0)
    figure.patch.set_alpha(0)
    if simulated:
        word = "SIMULATED" if simulated == "all" else "PARTLY SIMULATED"
        figure.text(
            0.995, 0.995, word, ha="right", va="top", fontsize=9, fontweight="bold", color=ALARM
        )
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "leakgrid"})
    return out.getvalue().decode()
