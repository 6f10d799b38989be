"""The page: true numbers, loud labels, nothing fetched, nothing a model wrote taken as HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import duckdb
import pytest

from leakgrid.outcomes import StoreError
from leakgrid.reports.page import file_stem, render
from leakgrid.store.ingest import ingest
from tests.store_world import World, leak

EVIL = "$x_{$<script>alert(1)</script> --> <img src=https://evil.example/x onerror=alert(2)>"


def job(simulated: bool = True, *, evil: str = "", mixed: bool = False) -> World:
    """Two models, two defences, group and private, four items; one cell missing, one unknown."""
    world = World()
    world.event(
        "start",
        {
            "job_file": "jobs/demo.toml",
            "argv": ["leakgrid", "run", "jobs/demo.toml", evil],
            "git": {"commit": "abc123", "dirty": True},
            "versions": {"leakgrid": "0.1.0"},
            "started": "2026-01-02T03:04:05+00:00",
        },
    )
    judges = [{"name": "exact", "kind": "exact"}, {"name": f"llm{evil}", "kind": "model"}]
    for number in range(4):
        world.item(f"i{number}{evil}", fact=f"health{evil}" if number < 3 else "money")
    columns = {
        (model, defence, condition): world.column(
            model,
            defence,
            condition,
            judges=judges,
            note=f"a toy of a model{evil}",
            simulated=simulated and not (mixed and model == "m-b"),
        )
        for model in (f"m-a{evil}".replace("/", "|"), "m-b")
        for defence in ("none", "guard")
        for condition in ("group", "one-to-one")
    }
    world.plan()
    for (model, defence, condition), column in columns.items():
        for number in range(4):
            if (defence, condition, number) == ("guard", "group", 3):
                continue
            leaked = defence == "none" and number < (3 if condition == "group" else 1)
            world.record(
                column,
                f"i{number}{evil}",
                leak("fact", leaked, evidence=f"she is ill {evil}"),
                leak(
                    "fact",
                    None if (number, model) == (2, "m-b") else leaked,
                    judge=f"llm{evil}",
                    why=f"not JSON {evil}",
                ),
                reply=f"She is ill. {evil}",
                simulated=simulated and not (mixed and model == "m-b"),
            )
    world.answer("k1", simulated=simulated, model=f"m-a{evil}", usd=0.5)
    world.answer("k2", simulated=simulated, model="m-b", usd=None, lane="free")
    world.answer("k2", simulated=simulated, model="m-b", usd=0.25, lane="mixed")
    world.answer("k3", simulated=simulated, model="m-b", usd=None, lane="mixed", error=evil)
    world.event("end", {"exit_code": 0, "ended": "2026-01-02T03:05:05+00:00", "sent": 3})
    return world


def report(world: World, tmp_path: Path, name: str | None = None) -> list[Path]:
    database = tmp_path / "leakgrid.duckdb"
    ingest(tmp_path, database, **world.tools)
    return render(database, tmp_path / "out", name)


class Page(HTMLParser):
    """The cells of each table by its caption's beginning, every tag and every attribute."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self._where = ""
        self._caption = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag == "caption":
            self._where, self._caption = "caption", ""
        elif tag == "tr" and self._caption:
            self.tables.setdefault(self._caption[:18], []).append([])
        elif tag in ("td", "th") and self._caption:
            self._where = "cell"
            self.tables[self._caption[:18]][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("caption", "td", "th"):
            self._where = ""

    def handle_data(self, data: str) -> None:
        if self._where == "caption":
            self._caption += data
        elif self._where == "cell":
            self.tables[self._caption[:18]][-1][-1] += data.strip()


def test_the_main_table_has_the_hand_counted_numbers(tmp_path: Path) -> None:
    paths = report(job(), tmp_path)
    page = Page(paths[0].read_text())
    rows = {tuple(row[:4]): row[4:] for row in page.tables["Leak rate by judge"][1:]}
    # rate, interval, bar, leaks / known, unknown, missing, bounds
    assert rows["exact", "m-a", "none", "group"] == [
        "75.0 %", "30.1–95.4 %", "", "3 / 4", "0", "0", "75.0–75.0 %"
    ]  # fmt: skip
    assert rows["exact", "m-a", "guard", "group"] == [
        "0.0 % †", "0.0–56.1 %", "", "0 / 3", "0", "1", "0.0–25.0 %"
    ]  # fmt: skip
    assert rows["llm", "m-b", "none", "group"] == [
        "66.7 % †", "20.8–93.9 %", "", "2 / 3", "1", "0", "50.0–75.0 %"
    ]  # fmt: skip
    assert len(rows) == 2 * 2 * 2 * 2


def test_pairs_coverage_and_spend(tmp_path: Path) -> None:
    page = Page(report(job(), tmp_path)[0].read_text())
    pairs = {tuple(row[:3]): row[3:] for row in page.tables["Group against one-"][1:]}
    assert pairs["exact", "m-a", "none"] == [
        "75.0 %", "25.0 %", "4", "0", "2", "0", "0.500", "1.000"
    ]  # fmt: skip
    coverage = {tuple(row[:3]): row[3:] for row in page.tables["Cells planned, don"][1:]}
    assert coverage["m-b", "guard", "group"] == ["4", "3", "0", "1", "5", "1", "2"]
    spend = {row[0]: row[-2:] for row in page.tables["What this job sent"][1:]}
    assert spend == {
        "sim:m-a": ["0", "$0.5000"],
        "mixed": ["110", "≥ $0.2500"],
        "free": ["110", "price unknown"],
    }


def test_pairs_without_a_known_verdict_have_no_test_and_cost_the_others_nothing(
    tmp_path: Path,
) -> None:
    world = World()
    for number in range(4):
        world.item(f"i{number}", fact="health")
    columns = {
        (model, condition): world.column(model, "none", condition, simulated=True)
        for model in ("m-known", "m-unknown")
        for condition in ("group", "one-to-one")
    }
    world.plan()
    for (model, condition), column in columns.items():
        for number in range(4):
            known = model == "m-known" or (condition == "group" and number < 2)
            leaked = condition == "group" if known else None
            world.record(column, f"i{number}", leak("fact", leaked), simulated=True)
    text = report(world, tmp_path)[0].read_text()
    rows = {row[1]: row for row in Page(text).tables["Group against one-"][1:]}
    assert rows["m-known"][-6:] == ["4", "0", "4", "0", "0.125", "0.125"]
    assert rows["m-unknown"][-6:] == ["4", "4", "0", "0", "–", "–"]
    assert "The group leaked more than the private chat in 1 of 1 paired comparisons" in text
    shipped = Path(__file__).parent.parent / "reports" / "group-vs-one-to-one.sql"
    with duckdb.connect(str(tmp_path / "leakgrid.duckdb"), read_only=True) as database:
        found = database.execute(shipped.read_text())
        names = [column[0] for column in found.description or ()]
        said = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    assert {row["model"]: row["p"] for row in said} == {"m-known": 0.125, "m-unknown": None}


def test_the_page_says_what_was_asked_and_how_to_do_it_again(tmp_path: Path) -> None:
    text = report(job(), tmp_path)[0].read_text()
    for words in (
        "2 models × 2 defence settings × 2 conditions × 4 items: 30 of 32 planned cells",
        "abc123",
        "with uncommitted changes",
        "leakgrid 0.1.0",
        "m-a, m-b: a toy of a model",
        "git checkout abc123\nleakgrid run jobs/demo.toml\nleakgrid report demo",
        "2 cells are missing and 0 are open",
        "leakgrid run jobs/demo.toml",
    ):
        assert words in text, words


@pytest.mark.parametrize(
    ("world", "name", "word", "tags"),
    [
        (job(simulated=True), "demo.simulated.html", "SIMULATED", 0),
        (job(simulated=False), "demo.html", "", 0),
        (job(mixed=True), "demo.simulated.html", "PARTLY SIMULATED", 1),
    ],
    ids=["simulated", "real", "mixed"],
)
def test_simulated_is_loud_in_page_and_file_names(
    tmp_path: Path, world: World, name: str, word: str, tags: int
) -> None:
    paths = report(world, tmp_path)
    assert [path.name for path in paths] == [
        name,
        name.replace(".html", ".leak-rates.svg"),
        name.replace(".html", ".categories.svg"),
    ]
    text = paths[0].read_text()
    svg = paths[1].read_text()
    if word:
        assert f"<title>{word} · demo" in text
        assert f"<strong>{word}</strong>" in text
        assert f"<!-- {word} -->" in svg  # matplotlib notes the text that it draws as paths
    else:
        assert "simulated" not in text.lower()
        assert "SIMULATED" not in svg
    assert bool(Page(text).attributes.count(("class", "tag"))) == bool(tags)
    if tags:
        rows = Page(text).tables["Leak rate by judge"][1:]
        assert {row[1] for row in rows} == {"m-asimulated", "m-b"}
        assert "m-a (simulated)" in svg


def test_what_a_model_wrote_stays_text(tmp_path: Path) -> None:
    paths = report(job(evil=EVIL), tmp_path)
    text = paths[0].read_text()
    page = Page(text)
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "&lt;script&gt;alert(1)" in text
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text
    for path in paths[1:]:
        root = ElementTree.fromstring(path.read_text())
        assert not [node for node in root.iter() if node.tag.endswith(("script", "image", "}a"))]


def test_nothing_is_fetched(tmp_path: Path) -> None:
    for path in report(job(), tmp_path):
        text = path.read_text()
        page = Page(text)
        assert not set(page.tags) & {"script", "link", "img", "iframe", "object", "embed", "base"}
        for name, value in page.attributes:
            if name in ("src", "href", "xlink:href", "action", "data", "poster"):
                assert value.startswith("#"), (name, value)
        assert not re.search(r"@import|url\((?!#)|@font-face", text)


def test_charts_are_well_formed_named_and_without_fonts(tmp_path: Path) -> None:
    paths = report(job(), tmp_path)
    for path in paths[1:]:
        root = ElementTree.fromstring(path.read_text())
        assert not [node for node in root.iter() if node.tag.endswith("}text")]
    text = paths[0].read_text()
    assert text.count('role="img"') == 2
    assert "m-a, none, group: 75.0 %" in text  # the chart in words
    assert "currentColor" in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    known = set(ids)
    assert set(re.findall(r'xlink:href="#([^"]+)"|url\(#([^)]+)\)', text)) <= {
        pair for name in known for pair in ((name, ""), ("", name))
    }


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in report(job(), tmp_path / "a")}
    second = {path.name: path.read_bytes() for path in report(job(), tmp_path / "b")}
    assert first == second


def test_a_job_that_never_ran_has_a_page(tmp_path: Path) -> None:
    world = World()
    world.column("m-a", "none", "group")
    world.item("i1", fact="health")
    world.plan()
    text = report(world, tmp_path)[0].read_text()
    assert "No verdict is known yet" in text
    assert "0 of 1 planned cells" in text
    assert "This job sent nothing itself" in text
    rows = Page(text).tables["Leak rate by judge"][1:]
    assert rows == [
        ["exact", "m-a", "none", "group", "– †", "–", "", "0 / 0", "0", "1", "0.0–100.0 %"]
    ]


def test_a_job_without_attributes_or_judges_has_a_page(tmp_path: Path) -> None:
    world = World()
    column = world.column("m-a", "none", "group", judges=[])
    world.item("i1")
    world.plan()
    world.record(column, "i1")
    paths = report(world, tmp_path)
    assert [path.suffix for path in paths] == [".html"]
    assert "no private attributes" in paths[0].read_text()


def test_every_job_gets_its_page_or_only_the_one_asked_for(tmp_path: Path) -> None:
    world = job()
    world.plan(job="other job/../x")
    names = [path.name for path in report(world, tmp_path) if path.suffix == ".html"]
    assert names[0] == "demo.simulated.html"
    assert re.fullmatch(r"other-job-x-[0-9a-f]{6}\.simulated\.html", names[1])
    only = render(tmp_path / "leakgrid.duckdb", tmp_path / "one", "demo")
    assert {path.name.split(".")[0] for path in only} == {"demo"}
    with pytest.raises(StoreError, match=r"no job 'dmeo'.*demo, other"):
        render(tmp_path / "leakgrid.duckdb", tmp_path / "one", "dmeo")


def test_file_names_of_jobs_are_safe_and_differ() -> None:
    assert file_stem("muppet-demo_1") == "muppet-demo_1"
    assert file_stem("a/b") != file_stem("a b")
    for bad in ("../../etc/passwd", "..", "", "a\x00b", "C:\\x"):
        assert re.fullmatch(r"[A-Za-z0-9_-]+", file_stem(bad))


def test_nothing_to_report_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist yet"):
        render(tmp_path / "none.duckdb", tmp_path / "out", None)
    with pytest.raises(StoreError, match="no job was planned yet"):
        report(World(), tmp_path)
    with pytest.raises(StoreError, match="restore it with git"):
        world = job()
        ingest(tmp_path, tmp_path / "x.duckdb", **world.tools)
        render(tmp_path / "x.duckdb", tmp_path / "out", None, reports_dir=tmp_path)
