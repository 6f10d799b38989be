"""What a model wrote becomes a dataset file and a card with the drop rates."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pytest

from leakgrid.benchmarks.muppet_generate.program import Generate
from leakgrid.benchmarks.muppet_generate.stand_in import QUALITY
from leakgrid.datasets.items import load_items
from leakgrid.datasets.muppet_checks import reasons
from leakgrid.datasets.muppet_export import export_items
from leakgrid.datasets.muppet_groups import Planned
from leakgrid.datasets.muppet_seeds import MATERIAL, load_seeds
from leakgrid.jobs.dataexport import _items
from leakgrid.outcomes import DatasetError, Outcome
from leakgrid.types import Answer
from tests.written_items import Model, benchmark, fit, said, stage


@pytest.fixture(scope="module")
def world() -> Generate:
    return benchmark()


def rows(world: Generate, model: Model) -> list[tuple[str, str, Mapping[str, Any]]]:
    """What the records table gives: extra has been through JSON."""
    made = [model.cell(world, plan) for plan in world.items]
    return [(one.item, one.reply, orjson.loads(orjson.dumps(one.extra))) for one in made]


def test_kept_items_become_a_dataset_with_its_card(tmp_path: Path) -> None:
    categories = load_seeds(MATERIAL).categories
    world = benchmark(sizes=(5, 10), questions_per_group=3)
    bad = world.items[0].pair, world.items[6].pair

    def answer(plan: Planned, call: Any) -> Answer:
        if plan.pair == bad[0] and stage(call) == "notes":
            return said("no draft at all")
        if plan.pair == bad[1] and stage(call) == "quality":
            return said({**QUALITY, "leaks": True})
        return fit(plan, call)

    data, card = export_items(rows(world, Model(answer)))
    path = tmp_path / "items.jsonl"
    path.write_bytes(data)
    items = load_items(path)
    assert len(world.items) == 24 and len(items) == 20
    assert [item.id for item in items] == sorted(item.id for item in items)
    for line in data.splitlines():
        raw = orjson.loads(line)
        assert reasons(raw, categories[raw["category"]].words) == {}
    assert "20 items of 24 planned" in card
    assert "| notes | unreadable | 2 | 8.3% |" in card
    assert "| quality | leaks | 2 | 8.3% |" in card
    assert "| all |  | 4 | 16.7% |" in card
    assert "| notes | 24 | 2 (8.3%) | 2 (8.3%) |" in card
    assert "| conversation | 22 | 0 (0.0%) | 0 (0.0%) |" in card
    assert "| pairs with both askers | 10 |" in card
    assert "informed in 10, not informed in 10" in card
    assert "5: 10 of 12, 10: 10 of 12" in card
    assert f"| digest of the prompts | {world.prompts.digest} |" in card
    assert f"| seed of the plan | {world.settings.seed} |" in card
    assert "| model that wrote | writer |" in card and "| model that judged | judge |" in card


def test_the_order_of_rows_does_not_matter(world: Generate) -> None:
    made = rows(world, Model())
    assert export_items(made) == export_items(reversed(made))


def test_an_export_without_an_item_still_says_why(world: Generate) -> None:
    refused = Model(lambda plan, call: said("", outcome=Outcome.REFUSAL))
    data, card = export_items(rows(world, refused))
    assert data == b""
    assert "0 items of 8 planned" in card and "| notes | refusal | 8 | 100.0% |" in card


def test_rows_that_cannot_be_exported_are_told(world: Generate) -> None:
    made = rows(world, Model())
    with pytest.raises(DatasetError, match="no finished cells"):
        export_items([])
    with pytest.raises(DatasetError, match="two rows for the item"):
        export_items([*made, made[0]])
    with pytest.raises(DatasetError, match="muppet-generate"):
        export_items([("item-0001", "A reply.", {"topic": "Shifts"})])
    item, reply, extra = made[0]
    with pytest.raises(DatasetError, match="owner"):
        export_items([(item, reply.replace('"owner"', '"holder"'), extra)])


def test_simulated_items_are_called_so(world: Generate) -> None:
    def answer(plan: Planned, call: Any) -> Answer:
        return replace(fit(plan, call), simulated=plan.pair == world.items[0].pair)

    assert "**SIMULATED**: in 2 of these" in export_items(rows(world, Model(answer)))[1]
    assert "SIMULATED" not in export_items(rows(world, Model()))[1]


def test_items_of_models_named_like_paths_are_files_beside_each_other(
    tmp_path: Path, world: Generate
) -> None:
    database = duckdb.connect()
    database.execute(
        "CREATE TABLE cell (job TEXT, model TEXT, item TEXT, reply TEXT, extra TEXT, status TEXT)"
    )
    for model in ("org/one", "../../two", "three-3.1"):
        database.executemany(
            "INSERT INTO cell VALUES (?, ?, ?, ?, ?, ?)",
            [
                ("job", model, item, reply, orjson.dumps(extra).decode(), "done")
                for item, reply, extra in rows(world, Model(fit))
            ],
        )
    home = tmp_path / "far" / "out"
    home.mkdir(parents=True)
    said = io.StringIO()
    _items(database, "job", home / "items.jsonl", said)
    assert len(said.getvalue().splitlines()) == 3
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.parent for path in written} == {home} and len(written) == 6
    whole = (home / "items.three-3.1.jsonl").read_bytes()
    assert whole and {path.read_bytes() for path in written if path.suffix == ".jsonl"} == {whole}
