"""What is measured, against which bar, and the table of it in the README."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"
BEGIN, END = "<!-- bench -->", "<!-- /bench -->"
COLUMNS = ("measure", "value", "bar", "reached", "part")
YES, NO, SO_FAR, NONE, MISSING = "yes", "no", "so far", "-", "not measured"


@dataclass(frozen=True, slots=True)
class Measure:
    """One row: ``bar`` is what the table shows, ``most`` and ``least`` are what it means."""

    part: str
    what: str
    bar: str
    least: float | None = None
    most: float | None = None

    def reached(self, number: float) -> bool:
        """Whether the bar holds for this number; bars of ``≤`` and ``≥`` hold at their edge."""
        if self.least is not None:
            return number >= self.least
        assert self.most is not None
        return number <= self.most if self.bar.startswith("≤") else number < self.most


@dataclass(frozen=True, slots=True)
class Row:
    """A measure with its value in words; ``reached`` is one of the five words above."""

    measure: Measure
    value: str
    reached: str


MEASURES = {
    "bare": Measure("throughput", "calls/s, everything on, against a bare aiohttp loop",
                    "≥ 45 %", least=45),
    "cpu": Measure("throughput", "CPU per call, everything on, against the bare loop",
                   "≤ 2.2 ×", most=2.2),
    "openai": Measure("throughput", "calls/s against the openai SDK", "≥ 6 ×", least=6),
    "litellm": Measure("throughput", "calls/s against litellm", "≥ 12 ×", least=12),
    "inspect": Measure("throughput", "calls/s against inspect_ai", "≥ 30 ×", least=30),
    "providers": Measure("throughput", "calls/s through the slowest other client (Responses, "
                         "Azure, Gemini), against chat completions", "≥ 80 %", least=80),
    "quota": Measure("quota", "lane bound by RPM and TPM, 20,000 calls: of the ideal time",
                     "≥ 97 %", least=97),
    "rejected": Measure("quota", "the same: 429s among its calls", "< 1 %", most=1),
    "charged": Measure("quota", "the same where rejected calls are charged too",
                       "≥ 95 %", least=95),
    "gated": Measure("quota", "two lanes, one gated by 429 for 60 s: the other loses",
                     "< 2 %", most=2),
    "pool": Measure("quota", "for comparison: the usual pool over the openai SDK", NONE),
    "memory": Measure("scale", "peak memory, 1,000,000 calls", "< 300 MB", most=300),
    "growth": Measure("scale", "calls/s at 1,000,000 calls against 10,000", "≥ 90 %", least=90),
    "first": Measure("scale", "1,000,000 cells, 90 % done: time to the first call",
                     "< 4 s", most=4),
    "nothing": Measure("scale", "1,000,000 cells, all done: the whole command", "< 1.5 s",
                       most=1.5),
    "replay": Measure("scale", "replay from the cache, no call sent", "≥ 20,000 calls/s",
                      least=20_000),
    "ingest": Measure("scale", "ingest into DuckDB", "≥ 50,000 rows/s", least=50_000),
    "lag": Measure("scale", "event loop late by, p99 under full load", "< 20 ms", most=20),
    "all": Measure("commands", "`just run-all` from nothing", "< 60 s", most=60),
    "again": Measure("commands", "the same again, all done", "< 1.5 s", most=1.5),
    "help": Measure("commands", "`leakgrid --help`", "< 0.3 s", most=0.3),
    "prefix": Measure("prefix", "real vLLM, the dialogue judge's batches in our order: prompt "
                      "tokens from the prefix cache, against shuffled", "≥ 20 points more",
                      least=20),
    "prefix-wall": Measure("prefix", "the same: wall time against shuffled", "≤ 0.8 ×", most=0.8),
}  # fmt: skip
PARTS = tuple(dict.fromkeys(measure.part for measure in MEASURES.values()))


def row(name: str, number: float, value: str, *, whole: bool = True) -> Row:
    """A measured row. ``whole`` is False where less was measured than the measure names."""
    measure = MEASURES[name]
    if measure.bar == NONE:
        return Row(measure, value, NONE)
    if not measure.reached(number):
        return Row(measure, value, NO)
    return Row(measure, value, YES if whole else SO_FAR)


def missing(name: str, reason: object) -> Row:
    """The row of a measure that failed."""
    return Row(MEASURES[name], f"not measured: {reason}", MISSING)


def render(rows: Iterable[Row], parts: Iterable[str] = PARTS) -> str:
    """The table of every measure of these parts; one without a row is not measured."""
    by_measure = {row.measure: row for row in rows}
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    wanted = set(parts)
    for measure in MEASURES.values():
        if measure.part not in wanted:
            continue
        found = by_measure.get(measure) or Row(measure, "", MISSING)
        cells = (measure.what, found.value, measure.bar, found.reached, f"`{measure.part}`")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def parse(text: str) -> list[Row]:
    """The rows of a table that ``render`` wrote."""
    known = {measure.what: measure for measure in MEASURES.values()}
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == len(COLUMNS) and cells[0] in known:
            rows.append(Row(known[cells[0]], cells[1], cells[3]))
    return rows


def block(rows: Iterable[Row]) -> str:
    """What stands between the markers."""
    cores = os.cpu_count()
    return (
        f"Measured by `just bench` on {cores} cores, the server beside the client; one part of it "
        f"again with `just bench --only PART`.\n\n{render(rows)}"
    )


def inside(text: str) -> str:
    """What stands between the markers of a README."""
    return text.partition(BEGIN)[2].partition(END)[0].strip()


def written(text: str, rows: list[Row]) -> str:
    """The README with these rows; those of parts that were not run stay as they are."""
    new = {row.measure for row in rows}
    kept = [row for row in parse(inside(text)) if row.measure not in new]
    whole = f"{BEGIN}\n{block([*kept, *rows])}\n{END}"
    return re.sub(f"{BEGIN}.*?{END}", lambda _: whole, text, flags=re.DOTALL)
