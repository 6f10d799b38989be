"""One self-contained HTML page a job, and its charts as SVG files for papers.

The template is reports/page.html.jinja. Everything is escaped: replies, evidence and error
texts were written by models. Raises StoreError when there is nothing to report, or a file
cannot be written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakgrid.outcomes import StoreError
from leakgrid.reports import (
    contents,
    dialogue_figures,
    figures,
    files,
    muppet,
    muppet_figures,
    scatter,
    splits,
)
from leakgrid.reports.contents import Contents
from leakgrid.reports.judge_record import FOLDER
from leakgrid.reports.rows import file_stem as file_stem
from leakgrid.store.landed import job_marks

if TYPE_CHECKING:
    import duckdb

TEMPLATE = "page.html.jinja"
MAPPED = ("topic", "band")
"""Splits that have a heat map of their own."""
SHIPPED = Path(__file__).resolve().parents[3] / "reports"
"""reports/ of the checkout that this module stands in."""


def render(
    source: Path | duckdb.DuckDBPyConnection,
    out_dir: Path,
    job: str | None = None,
    *,
    reports_dir: Path = SHIPPED,
    records: Path | None = None,
    patience_s: float = 5.0,
) -> list[Path]:
    """Write the page and the charts of one job, or of all; returns the files, page first.

    ``source`` is the database file or an open connection (``live.open_live`` too); ``records``
    the folder of judges' records, which lies beside a database file if not given. Pages of
    simulated answers have ".simulated" in their names.
    """
    if not isinstance(source, Path):
        return _render_all(source, out_dir, job, reports_dir, records)
    from leakgrid.store.ingest import open_file

    if not source.exists():
        raise StoreError(f"{source} does not exist yet; `leakgrid run JOB` makes it")
    connection = open_file(source, patience_s, read_only=True)
    try:
        return _render_all(connection, out_dir, job, reports_dir, records or source.parent / FOLDER)
    finally:
        connection.close()


def _render_all(
    connection: duckdb.DuckDBPyConnection,
    out_dir: Path,
    job: str | None,
    reports_dir: Path,
    records: Path | None,
) -> list[Path]:
    """Pages of the wanted jobs."""
    wanted = [job] if job is not None else contents.jobs(connection)
    if not wanted:
        raise StoreError("nothing to report: no job was planned yet; start with `leakgrid run JOB`")
    paths: list[Path] = []
    marks = job_marks(connection)
    for name in wanted:
        told = contents.read(connection, name, records)
        paths += _render_one(told, out_dir, reports_dir, marks[name])
    return paths


def _render_one(told: Contents, out_dir: Path, reports_dir: Path, mark: str) -> list[Path]:
    """Page and charts of one job."""
    import jinja2
    from markupsafe import Markup

    charts = _charts(told)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(reports_dir),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        pct=pct, span=span, number=number, usd=usd, p=p_value, pretty=pretty, points=points
    )
    try:
        template = environment.get_template(TEMPLATE)
    except jinja2.TemplateNotFound as error:
        raise StoreError(
            f"{reports_dir / TEMPLATE} is missing; it belongs to the checkout: restore it with git"
        ) from error
    text = template.render(
        told=told,
        word={"all": "SIMULATED", "some": "PARTLY SIMULATED"}.get(told.simulated, ""),
        charts={
            name: Markup(figures.inline(svg, name, *_alt(name, told)))
            for name, svg in charts.items()
        },
        newest=told.runs[0] if told.runs else None,
        command=command(told),
        causes=muppet.CAUSES,
        measures=splits.MEASURES,
    )
    return files.write(out_dir, told.job, bool(told.simulated), text, mark, charts)


def _charts(told: Contents) -> dict[str, str]:
    """The SVG texts of all charts that the job has data for, by name."""
    charts: dict[str, str] = {}
    if told.totals:
        charts["leak-rates"] = figures.leak_rates(told.totals, told.order, told.simulated)
    if told.rates:
        charts["categories"] = figures.categories(
            told.rates, told.order, told.judge, told.simulated
        )
    traded = [
        row
        for row in told.joint
        if row["leak_judge"] == told.judge and row["utility_judge"] == told.order["rater"][0]
    ]
    if any(row["known"] for row in traded):
        charts["leak-against-utility"] = scatter.leak_against_utility(
            traded, told.order, told.simulated
        )
    extra = told.muppet
    if any(row["probed"] == "leak" for row in extra.causes):
        charts["causes"] = muppet_figures.causes(extra.causes, told.order, told.simulated)
    for name, rows in (("causes-by-family", extra.family), ("causes-by-size", extra.size)):
        if any(row["probed"] == "leak" for row in rows):
            groups = list(dict.fromkeys(row["model"] for row in rows))
            charts[name] = muppet_figures.causes(
                rows, {**told.order, "model": groups}, told.simulated
            )
    for split in extra.splits:
        rows = [
            {**row, "category": row["part"]}
            for row in split.tables.get("leak", [])
            if row["judge"] == told.judge
        ]
        if split.name in MAPPED and rows:
            charts[f"by-{split.name}"] = figures.categories(
                rows, {**told.order, "category": split.parts}, told.judge, told.simulated
            )
    if any(row["judge"] == told.judge and row["known"] for row in extra.arms):
        charts["parties"] = muppet_figures.parties(
            extra.arms, told.order, told.judge, told.simulated
        )
    if told.dialogue is not None:
        charts |= dialogue_figures.charts(told.dialogue, told.simulated)
    return charts


def command(told: Contents) -> str:
    """What to type to get the same again."""
    newest = told.runs[0] if told.runs else {}
    lines = []
    if newest.get("git_commit"):
        lines.append(f"git checkout {newest['git_commit']}")
    lines.append(f"leakgrid run {newest.get('job_file') or 'jobs/' + told.job + '.toml'}")
    lines.append(f"leakgrid report {told.job}")
    return "\n".join(lines)


def _alt(name: str, told: Contents) -> tuple[str, str]:
    """(title, description) of a chart for those who cannot see it."""
    word = {"all": "Simulated. ", "some": "Partly simulated. "}.get(told.simulated, "")
    if told.dialogue is not None:
        title, text = dialogue_figures.ALT[name]
        return f"{word}{title}", text
    if name == "leak-rates":
        rows = [row for row in told.totals if row["judge"] == told.judge]
        points = "; ".join(
            f"{row['model']}, {row['defence']}, {row['condition']}: {pct(row['rate'])}"
            for row in rows[:24]
        )
        return f"{word}Leak rate by model, defence and condition", f"Judge {told.judge}: {points}."
    if name == "leak-against-utility":
        return (
            f"{word}Leaking against useful replies by model, defence and condition",
            "Scatter plot; the table of usefulness below it holds the same numbers.",
        )
    if name.startswith("causes"):
        by = {"causes-by-family": "family of models", "causes-by-size": "size of models"}
        return (
            f"{word}Causes of probed leaks by {by.get(name, 'model')}, defence and condition",
            "Stacked bars, strict and lenient; the table of causes below holds the same numbers.",
        )
    if name == "parties":
        return (
            f"{word}Leak rate by number of people and length, judge {told.judge}",
            "Lines with intervals; the table of arms below it holds the same numbers.",
        )
    parts = {"by-topic": "topic", "by-band": "size of the group"}.get(name, "sensitive category")
    return (
        f"{word}Leak rate by {parts}, judge {told.judge}",
        "Heat map; the tables below it hold the same numbers.",
    )


def pct(value: float | None, digits: int = 1) -> str:
    """0.1234 -> 12.3 %; None is a dash, never a zero."""
    return "–" if value is None else f"{100 * value:.{digits}f} %"


def span(row: dict[str, Any], low: str, high: str) -> str:
    """Two ends as "12.3–45.6 %"; a dash where they are not known."""
    if row[low] is None or row[high] is None:
        return "–"
    return f"{100 * row[low]:.1f}–{100 * row[high]:.1f} %"


def points(found: dict[str, Any] | None) -> str:
    """A change of a rate as "+1.2 (+0.3 to +2.1)" in percentage points; what is unknown, a dash."""
    if found is None or found["value"] is None:
        return "–"
    ends = " to ".join(f"{100 * found[end]:+.1f}" for end in ("lo", "hi") if found[end] is not None)
    told = f"({ends or '–'})".replace(" ", "\u00a0")  # an interval stays on one line
    return f"{100 * found['value']:+.1f} {told}".replace("-", "−")


def number(value: float | None) -> str:
    """Thousands set apart; None is a dash."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def usd(row: dict[str, Any]) -> str:
    """Dollars of one row of spend: unknown is said, an incomplete sum is a lower bound."""
    if row["usd"] is None:
        return "price unknown"
    return f"{'' if row['usd_complete'] else '≥ '}${row['usd']:,.4f}"


def p_value(value: float | None) -> str:
    """A p value, not more exact than it means."""
    if value is None:
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def pretty(value: Any) -> str:
    """A JSON text or object as "key value, key value"."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return str(value)
    if isinstance(found, dict):
        return ", ".join(f"{key} {part}" for key, part in found.items())
    return "–" if found is None else str(found)
