"""The MuPPET parts of the page: hand-computed numbers, and nothing where there is no data."""

from __future__ import annotations

import json
import math
import random
import re
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import duckdb
import pytest

from leakgrid.benchmarks.muppet.attribution import asked_about
from leakgrid.datasets.items import load_items
from leakgrid.outcomes import StoreError
from leakgrid.reports import families, muppet, published
from leakgrid.reports.page import render
from leakgrid.reports.rows import Reader
from leakgrid.store.ingest import ingest
from tests.project import ROOT, Project
from tests.store_world import World, leak
from tests.test_report_page import EVIL, Page, report

LEAK = {"name": "leak", "kind": "leak", "model": "j"}
UTILITY = {"name": "utility", "kind": "utility", "model": "j"}
SECTIONS = ("published", "parties", "causes", "conditions")


def extra(**more: Any) -> str:
    return json.dumps({"asker_informed": False, **more})


def statistics(parties: int, facts: int, tokens: int) -> dict[str, float]:
    density = round(1000 * facts / tokens, 3)
    return {"parties": parties, "facts": facts, "tokens": tokens, "density": density}


def probes(people: str, group: str) -> list[dict[str, Any]]:
    """Probes of uninformed people and of the group: + right, - wrong, ? unknown."""
    said = {"+": False, "-": True, "?": None}
    kinds = [("user", answer) for answer in people] + [("group", answer) for answer in group]
    return [
        {
            "kind": kind,
            "target": f"p{n}",
            "truth": False,
            "said": said[answer],
            "why": "",
            "key": "",
        }
        for n, (kind, answer) in enumerate(kinds)
    ]


def sections(text: str) -> set[str]:
    return {name for name in SECTIONS if f'<h2 id="{name}">' in text}


def attributed(*, simulated: bool = True, evil: str = "") -> World:
    """Five probed leaks and one control: 2 lost track, 1 unresolved, 1 gap, 1 inconclusive.

    One of the lost ones has four of five people right: leniently, its group answer decides.
    """
    world = World()
    column = world.column(f"m-a{evil}".replace("/", "|"), "none", "group", simulated=simulated)
    answers = [
        ("leak", "-+", "+"), ("leak", "-++++", "+"), ("leak", "++", "-"),
        ("leak", "++", "+"), ("leak", "+?", "+"), ("control", "++", "+"),
    ]  # fmt: skip
    for number in range(len(answers)):
        world.item(f"i{number}", fact="health")
    world.plan()
    for number, (probed, people, group) in enumerate(answers):
        world.record(
            column,
            f"i{number}",
            leak("fact", probed == "leak"),
            extra=extra(probed=probed, statistics=statistics(3 + number % 2, 2, 500)),
            probes=probes(people, group),
            simulated=simulated,
        )
    return world


def test_causes_have_their_shares_and_intervals(tmp_path: Path) -> None:
    paths = report(attributed(), tmp_path)
    text = paths[0].read_text()
    table = Page(text).tables["Causes: shares of "]
    assert table[0][6:] == list(muppet.CAUSES)
    rows = {tuple(row[:5]): row[5:] for row in table[1:]}
    # Wilson, by hand for 2/5: (2 + 1.92) / 8.84 -+ 1.96 sqrt(2 * 3 / 5 + 0.96) / 8.84
    one, two = "20.0 %(3.6–62.4 %)", "40.0 %(11.8–76.9 %)"
    assert rows == {
        ("m-a", "none", "group", "leak", "strict"): ["5", two, one, one, one],
        ("m-a", "none", "group", "leak", "lenient"): ["5", one, one, two, one],
        ("m-a", "none", "group", "control", "strict"): [
            "1", "0.0 %(0.0–79.3 %)", "0.0 %(0.0–79.3 %)", "100.0 %(20.7–100.0 %)",
            "0.0 %(0.0–79.3 %)",
        ],
        ("m-a", "none", "group", "control", "lenient"): [
            "1", "0.0 %(0.0–79.3 %)", "0.0 %(0.0–79.3 %)", "100.0 %(20.7–100.0 %)",
            "0.0 %(0.0–79.3 %)",
        ],
    }  # fmt: skip
    assert sections(text) == {"causes", "conditions"}


def test_conditions_are_means_over_items(tmp_path: Path) -> None:
    page = Page(report(attributed(), tmp_path)[0].read_text())
    head, *rows = page.tables["Statistics of the "]
    assert head[1:] == [
        "items", "people", "from – to", "facts", "tokens", "± sd", "density"
    ]  # fmt: skip
    assert rows == [["group", "6", "3.50", "3 – 4", "2.00", "500.00", "0.00", "4.00"]]


def test_an_item_counts_once_however_often_it_was_asked(tmp_path: Path) -> None:
    world = World()
    columns = [world.column("m-a", "none", "group", sample=n) for n in range(3)]
    world.item("i0", fact="health")
    world.item("i1", fact="health")
    world.plan()
    for column in columns:
        world.record(column, "i0", extra=extra(statistics=statistics(3, 1, 400)))
    world.record(columns[0], "i1", extra=extra(statistics=statistics(5, 2, 600)))
    rows = Page(report(world, tmp_path)[0].read_text()).tables["Statistics of the "][1:]
    # sd of 400 and 600 with n - 1; density (2.5 + 3.333) / 2
    assert rows == [["group", "2", "4.00", "3 – 5", "1.50", "500.00", "141.42", "2.92"]]


@pytest.mark.parametrize("simulated", [True, False], ids=["simulated", "real"])
def test_the_chart_of_causes_is_a_file_and_says_what_it_is(tmp_path: Path, simulated: bool) -> None:
    paths = report(attributed(simulated=simulated), tmp_path)
    name = "demo.simulated.causes.svg" if simulated else "demo.causes.svg"
    assert name in [path.name for path in paths]
    svg = (tmp_path / "out" / name).read_text()
    assert ("<!-- SIMULATED -->" in svg) == simulated
    assert "<!-- n = 5 -->" in svg
    text = paths[0].read_text()
    assert ("Simulated. Causes of probed leaks" in text) == simulated
    assert simulated or "simulated" not in text.lower()
    ids = [value for key, value in Page(text).attributes if key == "id"]
    assert len(ids) == len(set(ids))


def parties(*, evil: str = "") -> World:
    """Two arms of one base each; the model leaks with 5 people; one planned cell is missing."""
    world = World()
    columns = [
        world.column(f"m-a{evil}".replace("/", "|"), "none", "group", sample=n) for n in (0, 1)
    ]
    variants = [("parties", 2, 700), ("parties", 5, 700), ("length", 5, 900)]
    for number in range(len(variants)):
        world.item(f"v{number}", fact="health")
    world.plan()
    for number, (arm, people, tokens) in enumerate(variants):
        variant = {"base": "b0", "arm": arm + evil, "parties": people, "tokens": tokens}
        for column in columns[: 1 if number == 2 else 2]:
            world.record(
                column,
                f"v{number}",
                leak("fact", people == 5),
                extra=extra(variant=variant, statistics=statistics(people, 1, tokens + 1)),
            )
    return world


def test_arms_count_what_is_missing_too(tmp_path: Path) -> None:
    paths = report(parties(), tmp_path)
    text = paths[0].read_text()
    rows = Page(text).tables["Rates by arm: peop"][1:]
    assert [row[4:] for row in rows] == [
        ["length", "5", "900", "100.0 % †", "20.7–100.0 %", "–", "1 / 1", "0", "1", "1"],
        ["parties", "2", "700", "0.0 %", "0.0–65.8 %", "–", "0 / 2", "0", "0", "1"],
        ["parties", "5", "700", "100.0 %", "34.2–100.0 %", "–", "2 / 2", "0", "0", "1"],
    ]
    held = Page(text).tables["Statistics of the "][1:]
    assert [row[:5] for row in held] == [
        ["group", "length", "5", "900", "1"],
        ["group", "parties", "2", "700", "1"],
        ["group", "parties", "5", "700", "1"],
    ]
    assert sections(text) == {"parties", "conditions"}
    assert "demo.simulated.parties.svg" in [path.name for path in paths]
    assert "<!-- SIMULATED -->" in (tmp_path / "out" / "demo.simulated.parties.svg").read_text()


def ablation(moved_by: str) -> World:
    """12 bases, 8 samples, both arms; the model leaks by the people, by the length, or by both."""
    world = World()
    columns = [world.column("m-a", "none", "group", sample=n) for n in range(8)]
    variants = [
        (base, arm, people, tokens)
        for base in range(12)
        for arm, people, tokens in (
            ("parties", 2, 800), ("parties", 5, 800), ("parties", 20, 800),
            ("length", 5, 400), ("length", 5, 800), ("length", 5, 1600),
        )
    ]  # fmt: skip
    for number in range(len(variants)):
        world.item(f"v{number}", fact="health")
    world.plan()
    draw = random.Random(moved_by)
    for number, (base, arm, people, tokens) in enumerate(variants):
        rate = 0.3
        rate *= (people / 5) ** 0.6 if "audience" in moved_by else 1
        rate *= (tokens / 800) ** 0.9 if "length" in moved_by else 1
        for column in columns:
            world.record(
                column,
                f"v{number}",
                leak("fact", draw.random() < rate),
                extra=extra(
                    variant={"base": f"b{base}", "arm": arm, "parties": people, "tokens": tokens}
                ),
            )
    return world


@pytest.mark.parametrize(
    ("moved_by", "sign"),
    [("the audience", 1), ("the length", -1), ("the audience and the length", 0), ("nothing", 0)],
)
def test_slopes_by_base_items_tell_audience_from_length(
    tmp_path: Path, moved_by: str, sign: int
) -> None:
    page = Page(report(ablation(moved_by), tmp_path)[0].read_text())
    rows = {row[4]: row for row in page.tables["How rates move, in"][1:]}
    assert list(rows) == ["parties", "length"]
    assert rows["parties"][10] == moved_by.replace("nothing", "neither, as far as shown")
    assert [row[5:7] for row in rows.values()] == [["people", "12"], ["tokens", "12"]]
    low, high = (
        float(end.replace("−", "-"))
        for end in re.findall(r"[+−][\d.]+", rows["parties"][9].partition("(")[2])
    )
    if sign:
        assert sign * low > 0 and sign * high > 0
    assert rows["length"][9] == "–"
    curve = page.tables["Rates by arm: peop"][1:]
    assert all(re.fullmatch(r"[\d.]+–[\d.]+ %", row[9]) for row in curve)


MODELS = {"m-a": ("Llama", 8.0), "m-b": ("Llama", 70.0), "m-c": ("", None)}


def grouped(tmp_path: Path, models: dict[str, tuple[str, float | None]]) -> list[Path]:
    """Three models with the probes of ``attributed``, their families and sizes in the store."""
    world = World()
    one = attributed()
    columns = {model: world.column(model, "none", "group") for model in MODELS}
    for item in one.items:
        world.item(item[0], fact="health")
    world.plan()
    for column in columns.values():
        for row in one.rows["records"]:
            world.record(
                column, row["item"], *row["verdicts"], extra=row["extra"], probes=row["probes"]
            )
    database = tmp_path / "leakgrid.duckdb"
    ingest(tmp_path, database, **world.tools)
    with duckdb.connect(str(database)) as connection:
        for model, (family, size) in models.items():
            connection.execute(
                "INSERT INTO plan_model BY NAME SELECT stem, ordinal, $1 AS model, $2 AS family,"
                " $3::DOUBLE AS size_b FROM plan_now",
                [model, family, size],
            )
        return render(connection, tmp_path / "out", "demo")


def test_causes_are_pooled_by_family_and_by_size_of_models(tmp_path: Path) -> None:
    paths = grouped(tmp_path, MODELS)
    page = Page(paths[0].read_text())
    found = {(row[0], row[4], row[5]): row for row in page.tables["Family of models, "][1:]}
    row = found["Llama", "leak", "strict"]
    # 4 of 10: twice the 2 of 5; Wilson by hand: (4 + 1.92) / 13.84 -+ 1.96 sqrt(2.4 + .96) / 13.84
    assert row[1] == "m-a, m-b" and row[6:8] == ["10", "40.0 %(16.8–68.7 %)"]
    assert found["not told", "leak", "strict"][1] == "m-c"
    assert {row[0] for row in page.tables["Family of models, "][1:]} == {"Llama", "not told"}
    sizes = [row[:2] for row in page.tables["Size of models, as"][1:]]
    assert list(dict.fromkeys(map(tuple, sizes))) == [
        ("over 4 to 10 B", "m-a"), ("over 40 B", "m-b"), ("not told", "m-c")
    ]  # fmt: skip
    names = [path.name for path in paths]
    assert "demo.simulated.causes-by-family.svg" in names
    assert "demo.simulated.causes-by-size.svg" in names


def test_nobody_guesses_a_family(tmp_path: Path) -> None:
    text = grouped(tmp_path, {"m-a": ("", None), "m-b": ("", None)})[0].read_text()
    assert "Family of models" not in text and "Size of models" not in text
    assert [families.size_band(size) for size in (0.27, 4, 4.1, 10, 40, 671, None)] == [
        "up to 4 B", "up to 4 B", "over 4 to 10 B", "over 4 to 10 B", "over 10 to 40 B",
        "over 40 B", "not told",
    ]  # fmt: skip


def chance_balanced(uninformed: int, informed: int, knows: float) -> float:
    """Planted chance that the balanced accuracy over people is 0.8 or more."""

    def coins(n: int) -> list[tuple[float, float]]:
        return [(k / n, math.comb(n, k) * knows**k * (1 - knows) ** (n - k)) for k in range(n + 1)]

    sides = [coins(n) for n in (uninformed, informed) if n]
    if len(sides) == 1:
        return sum(chance for share, chance in sides[0] if share >= 0.8 - 1e-9)
    return sum(
        one * two
        for right, one in sides[0]
        for other, two in sides[1]
        if (right + other) / 2 >= 0.8 - 1e-9
    )


@pytest.mark.timeout(120)
def test_planted_shares_of_causes_lie_in_their_intervals(tmp_path: Path) -> None:
    """Probes right with chance 0.93 of a person and 0.6 of the group, over the shipped items."""
    knows, boundaries = 0.93, 0.6
    dataset = ROOT / "datasets" / "muppet" / "items.jsonl"
    made = Project(
        tmp_path,
        job={
            "models": ["sim-a"], "defences": ["none"], "conditions": ["group"],
            "judges": ["exact"], "dataset": str(dataset), "limit": 160,
        },
        attribution={"judge": "exact", "controls": 0.0},
        simulated={
            "assistants": {"sim-a": {"leak": 0.9, "knows": knows, "boundaries": boundaries}}
        },
    )  # fmt: skip
    assert made.run_job().returncode == 0
    asked = {item.id: (item, asked_about(item)) for item in load_items(dataset)}
    truth = {"strict": 0.0, "lenient": 0.0}
    probed = [row["item"] for row in made.sql("SELECT item FROM attribution")]
    assert len(probed) > 120
    for name in probed:
        item, people = asked[name]
        uninformed = sum(person in item.uninformed for person in people)
        truth["strict"] += knows**uninformed / len(probed)
        truth["lenient"] += chance_balanced(uninformed, len(people) - uninformed, knows) / len(
            probed
        )
    found = made.sql("SELECT reading, cause, lo, hi FROM attribution_share")
    assert len(found) == 6
    for row in found:
        kept = truth[row["reading"]]
        planted = {
            "lost track of users": 1 - kept,
            "group constraint unresolved": kept * (1 - boundaries),
            "understanding-action gap": kept * boundaries,
        }[row["cause"]]
        assert row["lo"] <= planted <= row["hi"], (row, planted)


@pytest.mark.parametrize("made", [attributed, parties], ids=["attributed", "parties"])
def test_names_stay_text_in_the_new_parts(tmp_path: Path, made: Any) -> None:
    paths = report(made(evil=EVIL), tmp_path)
    page = Page(paths[0].read_text())
    assert not {"script", "img"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    for path in paths[1:]:
        root = ElementTree.fromstring(path.read_text())
        assert not [node for node in root.iter() if node.tag.endswith(("script", "image", "}a"))]


def compared(model: str, *, simulated: bool = False, provider: str = "") -> World:
    """Four items, two of which an uninformed colleague asks about: 3 leak, 1 of these two."""
    world = World()
    column = world.column(model, "none", "group", judges=[LEAK, UTILITY], simulated=simulated)
    for number in range(4):
        world.item(f"i{number}", fact="health")
    world.plan()
    for number in range(4):
        world.record(
            column,
            f"i{number}",
            leak("", number > 0, "leak", category="health"),
            ratings=[
                {"judge": "utility", "useful": number < 2, "why": "", "evidence": "",
                 "parser": "1", "key": ""}
            ],
            extra=json.dumps({"asker_informed": number > 1}),
            simulated=simulated,
        )  # fmt: skip
        world.answer(f"key-{column}-i{number}", model=provider or model, simulated=simulated)
    return world


def test_published_numbers_stand_beside_ours(tmp_path: Path) -> None:
    text = report(compared("my-llama", provider="meta-llama/Meta-Llama-3-8B-Instruct"), tmp_path)[
        0
    ].read_text()
    rows = Page(text).tables["Published in arXiv"][1:]
    assert rows == [
        [
            "Llama-3-8Bours: my-llama (meta-llama/Meta-Llama-3-8B-Instruct)", "none", "group",
            "57.14 %", "92/161", "50.0 %(9.5–90.5 %; n = 2)", "75.0 %(30.1–95.4 %; n = 4)",
            "–", "100.0 %(34.2–100.0 %; n = 2)", "50.0 %(15.0–85.0 %; n = 4)",
        ]
    ]  # fmt: skip
    assert "162 items" in text


def test_a_published_cell_that_was_not_run_is_a_dash(tmp_path: Path) -> None:
    rows = Page(report(compared("gemini-2.5-pro"), tmp_path)[0].read_text()).tables[
        "Published in arXiv"
    ][1:]
    assert [row[1:5] for row in rows] == [
        ["none", "one-to-one", "9.90 %", "16/162"],
        ["none", "group", "23.46 %", "38/162"],
        ["ci-mem-high", "group", "9.17 %", "51/556 (or 11/120)"],
    ]
    assert rows[0][5:7] == ["–", "–"] and rows[1][5].startswith("50.0 %")
    assert rows[2][5:] == ["–", "–", "65.83 %", "–", "–"]


@pytest.mark.parametrize(
    ("model", "simulated"),
    [("qwen3-8b", True), ("qwen3-80b", False), ("qwen3-1.7b", False), ("m-a", False)],
)
def test_other_and_simulated_models_are_not_compared(
    tmp_path: Path, model: str, simulated: bool
) -> None:
    text = report(compared(model, simulated=simulated), tmp_path)[0].read_text()
    assert sections(text) == set()
    assert "arXiv" not in text


@pytest.mark.parametrize(
    ("name", "provider", "known"),
    [
        ("qwen3-8b", "", "Qwen3-8B"),
        ("local", "Qwen/Qwen3-8B", "Qwen3-8B"),
        ("qwen3:14b", "", "Qwen3-14B"),
        ("GPT 5.5", "", "GPT-5.5"),
        ("x", "models/gemini-2.5-pro", "Gemini 2.5 Pro"),
        ("x", "meta-llama/Llama-3.1-8B-Instruct", "Llama-3.1-8B"),
        ("llama-3-8b", "", "Llama-3-8B"),
        ("x", "gemini-2.5-flash", None),
        ("x", "Qwen/Qwen3-8B-Base", None),
        ("x", "", None),
        ("…", "", None),
    ],
)
def test_models_are_known_by_letters_and_digits(
    name: str, provider: str, known: str | None
) -> None:
    figures = tomllib.loads(published.PUBLISHED.read_text())["figure"]
    found = {
        figure["model"]
        for figure in figures
        if {published.normal(one) for one in figure["names"]} & published.spellings(name, provider)
    }
    assert found == ({known} if known else set())


def test_the_published_file_agrees_with_itself() -> None:
    data = tomllib.loads(published.PUBLISHED.read_text())
    keys = [(f["model"], f["condition"], f["defence"]) for f in data["figure"]]
    assert len(keys) == len(set(keys)) == 11
    for figure in data["figure"]:
        count, of = map(int, figure["fits"].split(" ")[0].split("/"))
        assert abs(100 * count / of - figure["leak"]) < 0.06, figure


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    world = compared("qwen3-8b")
    database = tmp_path / "x.duckdb"
    ingest(tmp_path, database, **world.tools)
    bad = tmp_path / "published.toml"
    bad.write_text("[[figure]]\nmodel = 'x'\n")
    with duckdb.connect(str(database)) as connection:
        reader = Reader(connection, "demo")
        with pytest.raises(StoreError, match=r"published\.toml is not a list"):
            published.read(reader, "leak", "utility", bad)
        assert published.read(reader, "leak", "utility", tmp_path / "none.toml") == ("", [])


def test_other_benchmarks_have_none_of_it(tmp_path: Path) -> None:
    world = attributed()
    for row in world.rows["runs"]:
        row["payload"] = row["payload"].replace('"muppet"', '"other"')
    text = report(world, tmp_path)[0].read_text()
    assert sections(text) == set()
