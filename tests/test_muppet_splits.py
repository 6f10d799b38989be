"""Rates by topic, size of the group and asker, by hand; what is missing stands in its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from leakgrid.reports import splits
from leakgrid.reports.rows import Reader
from leakgrid.reports.splits import Split, read_splits
from leakgrid.store.ingest import ingest
from leakgrid.store.live import resolve_query
from tests.store_world import World, leak
from tests.test_report_page import EVIL, Page, report

REPORTS = Path(__file__).parent.parent / "reports"
JUDGES = [
    {"name": "leak", "kind": "leak", "model": "j"},
    {"name": "use", "kind": "utility", "model": "j"},
]
# item: (topic, people, asker knew)
ABOUT = {
    "i0": ("rota", 3, False),
    "i1": ("rota", 5, True),
    "i2": ("travel", 10, False),
    "i3": ("travel", 20, True),
    "i4": ("travel", 20, False),
    "i5": None,
}
# column: item -> (leaked, useful); an item without one is missing
SAID: dict[str, dict[str, tuple[bool | None, bool | None]]] = {
    "m-a": {
        "i0": (True, True),
        "i1": (False, True),
        "i2": (False, False),
        "i3": (None, True),
        "i4": (True, None),
    },
    "m-b": {"i0": (False, True)},
}


def world(*, evil: str = "", simulated: bool = True) -> World:
    """Two models; m-b answered one item, and i5 has no record at all."""
    made = World()
    columns = {
        model: made.column(model, "none", "group", judges=JUDGES, simulated=simulated)
        for model in SAID
    }
    for item in ABOUT:
        made.item(item, fact="health")
    made.plan()
    for model, said in SAID.items():
        for item, (leaked, useful) in said.items():
            about = ABOUT[item]
            assert about is not None
            topic, people, knew = about
            made.record(
                columns[model],
                item,
                leak("", leaked, "leak", category="health", why="" if leaked in (0, 1) else "?"),
                ratings=[
                    {"judge": "use", "useful": useful, "why": "", "evidence": "", "parser": "1",
                     "key": ""}
                ],
                extra=json.dumps(
                    {"topic": topic + evil, "statistics": {"parties": people},
                     "asker_informed": knew}
                ),
                simulated=simulated,
            )  # fmt: skip
    return made


def read(tmp_path: Path, made: World) -> tuple[dict[str, Split], duckdb.DuckDBPyConnection]:
    database = tmp_path / "x.duckdb"
    ingest(tmp_path, database, **made.tools)
    connection = duckdb.connect(str(database), read_only=True)
    found = read_splits(Reader(connection, "demo"), {"model": ["m-a", "m-b"]})
    return {split.name: split for split in found}, connection


def counts(split: Split, measure: str) -> dict[tuple[str, str], tuple[Any, ...]]:
    return {
        (row["model"], row["part"]): tuple(
            row[name] for name in ("planned", "known", "hits", "unknown", "missing")
        )
        for row in split.tables[measure]
    }


def test_every_measure_counts_what_is_unknown_and_missing_by_topic(tmp_path: Path) -> None:
    split = read(tmp_path, world())[0]["topic"]
    assert split.parts == ["rota", "travel", "not run yet"]
    # m-b never answered i1 to i4, whose topics m-a's records tell
    assert counts(split, "leak") == {
        ("m-a", "rota"): (2, 2, 1, 0, 0),
        ("m-a", "travel"): (3, 2, 1, 1, 0),
        ("m-a", "not run yet"): (1, 0, 0, 0, 1),
        ("m-b", "rota"): (2, 1, 0, 0, 1),
        ("m-b", "travel"): (3, 0, 0, 0, 3),
        ("m-b", "not run yet"): (1, 0, 0, 0, 1),
    }
    assert counts(split, "useful")["m-a", "travel"] == (3, 2, 1, 1, 0)
    # both: i0 leaks, i1 is both; of i3 the leak is unknown, of i4 the use
    assert counts(split, "both")["m-a", "rota"] == (2, 2, 1, 0, 0)
    assert counts(split, "both")["m-a", "travel"] == (3, 1, 0, 2, 0)
    (row,) = [
        row for row in split.tables["both"] if (row["model"], row["part"]) == ("m-a", "travel")
    ]
    # i4 is known to leak, so of the two that are unknown only i3 may still be both
    assert (row["bound_low"], row["bound_high"], row["marked"]) == (0, 1 / 3, True)
    assert row["rate"] == 0 and row["hi"] == pytest.approx(0.7935, abs=1e-4)


def test_sizes_come_as_bands_and_as_numbers(tmp_path: Path) -> None:
    found = read(tmp_path, world())[0]
    assert found["band"].parts == ["up to 5", "6 to 10", "11 to 20", "not run yet"]
    assert found["people"].parts == ["3", "5", "10", "20", "not run yet"]
    assert counts(found["band"], "leak")["m-a", "up to 5"] == (2, 2, 1, 0, 0)
    assert counts(found["people"], "leak")["m-a", "20"] == (2, 1, 1, 1, 0)
    assert counts(found["asker"], "leak")["m-a", "asker did not know"] == (3, 3, 2, 0, 0)
    for split in found.values():
        for measure in splits.MEASURES:
            assert sum(row["planned"] for row in split.tables[measure]) == 12, split.name


def test_many_sizes_are_told_as_bands_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "MOST_SIZES", 3)
    assert set(read(tmp_path, world())[0]) == {"topic", "band", "asker"}


@pytest.mark.parametrize(
    ("query", "split", "part"),
    [("by-topic", "topic", "topic"), ("by-group-size", "band", "band"),
     ("by-asker", "asker", "asker")],
)  # fmt: skip
def test_the_page_and_the_ad_hoc_query_count_alike(
    tmp_path: Path, query: str, split: str, part: str
) -> None:
    found, connection = read(tmp_path, world())
    cursor = connection.execute(resolve_query(query, REPORTS))
    heads = [column[0] for column in cursor.description or []]
    asked = [dict(zip(heads, row, strict=True)) for row in cursor.fetchall()]
    names = ("planned", "known", "hits", "unknown", "missing", "bound_low", "bound_high")

    def totals(rows: list[dict[str, Any]], part: str, measure: str | None) -> dict[Any, Any]:
        """Summed, since the query by size also tells each number of people apart."""
        sums: dict[Any, list[float]] = {}
        for row in rows:
            key = (measure or row["measure"], row["judge"], row["rater"], row["model"],
                   str(row[part]).removeprefix("asker "))  # fmt: skip
            before = sums.setdefault(key, [0.0] * len(names))
            for number, name in enumerate(names):
                weight = row["planned"] if name.startswith("bound") else 1
                before[number] += row[name] * weight
        return {key: pytest.approx(values, abs=1e-3) for key, values in sums.items()}

    ours: dict[Any, Any] = {}
    for measure, rows in found[split].tables.items():
        ours |= totals(rows, "part", measure)
    theirs = totals(asked, part, None)
    assert ours.keys() == theirs.keys()
    assert all(ours[key].expected == theirs[key] for key in ours)


def test_the_page_folds_the_tables_and_keeps_topics_as_text(tmp_path: Path) -> None:
    paths = report(world(evil=EVIL), tmp_path)
    text = paths[0].read_text()
    page = Page(text)
    assert not {"script", "img"} & set(page.tags)
    assert 'id="splits"' in text and "rota$x_{$&lt;script&gt;" in text
    names = [path.name for path in paths]
    assert "demo.simulated.by-topic.svg" in names and "demo.simulated.by-band.svg" in names
    assert all("SIMULATED" in path.read_text() for path in paths[1:])
    row = next(
        row
        for row in page.tables["Size of the group:"]
        if row[:5] == ["leak", "m-a", "none", "group", "11 to 20"]
    )
    assert row[5:] == ["100.0 % †", "20.7–100.0 %", "2", "1 / 1", "1", "0", "50.0–100.0 %"]


def test_without_notes_of_what_items_are_about_there_is_no_split(tmp_path: Path) -> None:
    made = world()
    for row in made.rows["records"]:
        row["extra"] = "{}"
    text = report(made, tmp_path)[0].read_text()
    assert 'id="splits"' not in text
    never = world(simulated=False)
    never.rows["records"].clear()
    text = report(never, tmp_path / "never")[0].read_text()
    assert 'id="splits"' not in text and "simulated" not in text.lower()
