"""Writing items from the command line, keyless: run, export, use what was written."""

from __future__ import annotations

import contextlib
import random
import re
import shutil
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from leakgrid.benchmarks.muppet_generate.program import ATTEMPTS
from leakgrid.datasets.items import load_items
from leakgrid.datasets.muppet_checks import reasons
from leakgrid.datasets.muppet_seeds import MATERIAL, load_seeds
from leakgrid.jobs.jobfile import load_job
from leakgrid.jobs.plan import Plan
from leakgrid.providers.simulated.process import Running, running
from leakgrid.providers.simulated.settings import DRAFT_FAULTS, ITEM_FAULTS
from leakgrid.store.live import open_live
from tests.project import JOB, ROOT, Project, merged, stats, toml, wait_until
from tests.simulated_world import plausible

DEMO = tomllib.loads((ROOT / "jobs" / "muppet-generate-demo.toml").read_text())
QUICK: dict[str, Any] = {"latency": {"median_ms": 2, "p95_ms": 5}, "faults": None}
SMALL: dict[str, Any] = {
    "generate": {"sizes": [5], "groups_per_size": 2, "questions_per_group": 3},
    "simulated": QUICK,
}
PAIRS = 6


class Writing(Project):
    """A project whose job is the demo, with changes, and its own copy of the prompts."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.folder = folder
        (folder / "datasets").mkdir(parents=True)
        (folder / "datasets" / "muppet").symlink_to(MATERIAL)
        shutil.copytree(ROOT / "jobs" / "prompts", folder / "jobs" / "prompts")
        self.write_job(**changes)

    def write_job(self, **changes: Any) -> None:
        self.write("job", merged(DEMO, changes))

    def write(self, name: str, tables: Mapping[str, Any]) -> None:
        """jobs/<name>.toml."""
        lines = []
        for table, values in tables.items():
            inside = values if table in ("models", "judges") else {"": values}
            for inner, pairs in inside.items():
                lines.append(f"[{table}.{inner}]" if inner else f"[{table}]")
                lines += [f"{key} = {toml(value)}" for key, value in pairs.items()]
        (self.folder / "jobs" / f"{name}.toml").write_text("\n".join(lines) + "\n")

    def edit(self, prompt: str) -> None:
        """Add a sentence to one prompt of the pipeline."""
        path = self.folder / "jobs" / "prompts" / "muppet-generate" / f"{prompt}.md"
        with path.open("a") as file:
            file.write("\nTake your time.\n")

    def written(self) -> tuple[int, str]:
        """Number of calls that a run sends, and what it says. It must go well."""
        done = self.run_job()
        assert done.returncode == 0, done.stderr
        found = re.search(r"(\d+) calls sent", done.stdout)
        assert found is not None, done.stdout
        return int(found[1]), done.stdout

    def keys(self) -> dict[str, str]:
        """Role by key of all calls that finished cells have made, whenever that was."""
        with contextlib.closing(open_live(self.folder / "cache")) as database:
            return dict(database.execute("SELECT DISTINCT key, role FROM call").fetchall())

    def export(self) -> tuple[Path, str]:
        """The exported file and its card."""
        target = self.folder / "items.jsonl"
        done = self.run("data", "export", "items", "job", "--out", str(target))
        assert done.returncode == 0, done.stderr
        return target, Path(f"{target}.md").read_text()


def rows_of(card: str) -> list[list[str]]:
    """The cells of every row of the card's tables."""
    lines = [line for line in card.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


# --- from the run to a job over what was written ----------------------------------------------


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Writing:
    """The demo as it is shipped, run once."""
    project = Writing(tmp_path_factory.mktemp("demo"))
    shutil.copy(ROOT / "jobs" / "muppet-generate-demo.toml", project.folder / "jobs" / "job.toml")
    _, told = project.written()
    assert "(SIMULATED)" in told and "80 of 80 open cells done" in told
    return project


def test_the_demo_writes_items_that_load_and_pass_the_checks(demo: Writing) -> None:
    target, card = demo.export()
    items, categories = load_items(target), load_seeds(MATERIAL).categories
    assert 20 <= len(items) < 80
    for line in target.read_bytes().splitlines():
        raw = orjson.loads(line)
        assert reasons(raw, categories[raw["category"]].words) == {}
    checked = demo.run("data", "check", str(target))
    assert checked.returncode == 0 and f"items {len(items)}," in checked.stdout
    assert f"{len(items)} items of 80 planned" in card
    # Both items of a pair share every call, so they are kept or dropped together.
    assert f"| pairs with both askers | {len(items) // 2} |" in card


def test_the_card_says_that_it_is_simulated(demo: Writing) -> None:
    _, card = demo.export()
    assert "**SIMULATED**: in 80 of these a simulation answered, not a model." in card
    assert "| model that wrote | sim-writer |" in card
    (row,) = demo.sql("SELECT count(*) AS n, count_if(simulated) AS fake FROM response_now")
    assert row["n"] == row["fake"] > 0


def test_the_judge_drops_items_for_each_of_its_reasons(demo: Writing) -> None:
    _, card = demo.export()
    found = {row[1] for row in rows_of(card) if row[0] == "quality"}
    assert {key.replace("_", " ") for key in ITEM_FAULTS} <= found


def test_a_second_run_sends_nothing(demo: Writing) -> None:
    sent, told = demo.written()
    assert sent == 0 and "all 80 cells are done" in told


def test_a_muppet_job_runs_over_what_was_written(demo: Writing) -> None:
    target, _ = demo.export()
    changes = {
        "job": {"dataset": target.name, "models": ["sim-a", "sim-b"], "defences": ["none"]},
        "simulated": {"assistants": {"sim-a": {"leak": 1.0}, "sim-b": {"leak": 0.0}}},
    }
    demo.write("over", merged(JOB, changes))
    done = demo.run("run", "jobs/over.toml", "--quiet")
    assert done.returncode == 0, done.stderr
    verdicts = demo.sql(
        "SELECT model, judge, leaked, count(*) AS n FROM verdict_now "
        "WHERE job = 'over' GROUP BY ALL"
    )
    found = {(row["model"], row["judge"], row["leaked"]): row["n"] for row in verdicts}
    each = 2 * len(load_items(target))  # two conditions
    # Whoever always leaks is caught by surface form and by the model; the discreet one by neither.
    assert found == {
        (model, judge, leaked): each
        for model, leaked in (("sim-a", True), ("sim-b", False))
        for judge in ("exact", "leak")
    }


def test_a_plan_needs_no_server(tmp_path: Path) -> None:
    project = Writing(tmp_path, **SMALL)
    done = project.run("plan", "jobs/job.toml")
    assert done.returncode == 0, done.stderr
    assert f"{2 * PAIRS} items x 1 columns" in done.stdout
    assert not list(project.folder.glob("cache/servers/*"))


def test_a_wrong_key_of_a_writer_is_told_with_its_line(tmp_path: Path) -> None:
    project = Writing(tmp_path, **SMALL)
    path = project.folder / "jobs" / "job.toml"
    path.write_text(path.read_text().replace("stranger", "strangers"))
    done = project.run("plan", "jobs/job.toml")
    assert done.returncode == 2
    assert "strangers" in done.stderr and "did you mean stranger" in done.stderr
    assert re.search(r"job\.toml:\d+", done.stderr)


# --- the planted rates ------------------------------------------------------------------------

WRITER = {
    "refusal": 0.08, "truncated": 0.08, "unreadable": 0.10,
    "secret_in_notes": 0.10, "wrong_person": 0.08, "wrong_useful_fact": 0.08,
    "secret_in_chat": 0.12, "stranger": 0.08, "asked_early": 0.10,
}  # fmt: skip
REASON = {
    "secret_in_notes": "secret in shared text", "secret_in_chat": "secret in shared text",
    "wrong_person": "note", "wrong_useful_fact": "useful fact", "stranger": "senders",
    "asked_early": "turns",
}  # fmt: skip
JUDGE = {
    "unparsable": 0.2, "truncated": 0.1,
    "leaks": 0.15, "not_coherent": 0.1, "off_topic": 0.08, "not_consistent": 0.06,
}  # fmt: skip


@pytest.mark.timeout(120)
def test_the_card_recovers_the_planted_rates(tmp_path: Path) -> None:
    pairs = 24 * 10
    project = Writing(
        tmp_path,
        generate={"sizes": [5], "groups_per_size": 24, "questions_per_group": 10},
        simulated={**QUICK, "writers": {"sim-writer": WRITER}, "judges": {"sim-judge": JUDGE}},
    )
    project.written()
    _, card = project.export()
    rows = rows_of(card)
    drops = {(row[0], row[1]): int(row[2]) for row in rows if len(row) == 5 and row[2].isdigit()}
    stages = {row[0]: [int(cell.split()[0]) for cell in row[1:]] for row in rows if len(row) == 4
              and row[1].isdigit()}  # fmt: skip

    def check(stage: str, expected: Mapping[str, float], once: float) -> int:
        """Drops by reason and second drafts of a stage, in pairs; how many pairs are left."""
        reached, second, dropped = (count / 2 for count in stages[stage])
        found = {reason: drops.get((stage, reason), 0) / 2 for reason in expected}
        assert all(count == int(count) for count in (reached, second, *found.values()))
        for reason, rate in expected.items():
            assert plausible(int(found[reason]), int(reached), rate), (stage, reason, found)
        assert plausible(int(second), int(reached), once), (stage, second, reached)
        assert sum(found.values()) == dropped
        return int(reached - dropped)

    assert stages["notes"][0] == 2 * pairs
    left = pairs
    for stage, kind in (("notes", "notes"), ("conversation", "chat")):
        rates = {fault: WRITER[fault] for fault in DRAFT_FAULTS[kind]}
        once = sum(rates.values())
        # Dropped only when both drafts have a fault, for that of the second.
        assert ATTEMPTS == 2
        left = check(stage, {REASON.get(f, f): once * rate for f, rate in rates.items()}, once)
    cut = (1 - JUDGE["unparsable"]) * JUDGE["truncated"]
    unread = JUDGE["unparsable"] + cut
    expected = {"unreadable": unread * JUDGE["unparsable"], "truncated": unread * cut}
    expected |= {key.replace("_", " "): (1 - unread * unread) * JUDGE[key] for key in ITEM_FAULTS}
    left = check("quality", expected, unread)
    assert f"{2 * left} items of {2 * pairs} planned" in card


# --- what is sent again -----------------------------------------------------------------------


@contextmanager
def served(project: Writing, **changes: Any) -> Iterator[Running]:
    """A server that outlives the engine and counts; the job is pointed at it."""
    plan = Plan(load_job(project.folder / "jobs" / "job.toml"))
    assert plan.simulated is not None
    with running(plan.simulated["table"]) as server:
        models = {name: {"base_url": server.base_url} for name in ("sim-writer", "sim-judge")}
        project.write_job(**merged(changes, {"models": models}))
        yield server


@pytest.mark.timeout(120)
def test_kill_9_and_resume_pays_no_call_twice(tmp_path: Path) -> None:
    slow = merged(
        SMALL,
        {
            # Enough calls that no kill comes after the last of them.
            "generate": {"questions_per_group": 8},
            "simulated": {"latency": {"median_ms": 60, "p95_ms": 150}},
        },
    )
    straight = Writing(tmp_path / "straight", **slow)
    straight.written()
    project = Writing(tmp_path / "killed", **slow)
    moments, at_once, lost = random.Random(5), 4, 0
    with served(project, **merged(slow, {"job": {"cells_at_once": at_once}})) as server:

        def seen() -> dict[str, Any]:
            return stats(server.root_url)

        for _ in range(3):
            process = project.start("run", "jobs/job.toml", "--quiet")
            target = seen()["received"] + moments.randrange(2, 6)
            wait_until(lambda target=target: seen()["received"] >= target, 30)
            time.sleep(moments.random() * 0.1)
            assert process.poll() is None
            process.kill()
            process.communicate()
            wait_until(lambda: seen()["in_flight"] == 0)
            # What was received and is not on disk was in flight when the run was killed.
            lost_now = seen()["received"] - project.kept()
            assert 0 <= lost_now - lost <= at_once
            lost = lost_now
        project.written()
        assert seen()["received"] == project.kept() + lost
        assert seen()["duplicates"] <= lost
    (row,) = project.sql("SELECT count(*) AS n, count(DISTINCT key) AS keys FROM response_now")
    assert row["n"] == row["keys"] == project.kept()
    assert project.export()[0].read_bytes() == straight.export()[0].read_bytes()
    assert project.export()[1] == straight.export()[1]


NOTES, CHAT, QUALITY = "generate:notes", "generate:conversation", "judge:quality"


@pytest.mark.timeout(180)
def test_a_changed_prompt_asks_again_what_depends_on_it(tmp_path: Path) -> None:
    # All drafts are fit, so that every stage has exactly one call a pair.
    fit = {
        "writers": {"sim-writer": dict.fromkeys(WRITER, 0.0)},
        "judges": {"sim-judge": dict.fromkeys(JUDGE, 0.0)},
    }
    changes = merged(SMALL, {"simulated": fit})
    project = Writing(tmp_path, **changes)
    with served(project, **changes) as server:
        assert project.written()[0] == 3 * PAIRS
        known, paid = project.keys(), stats(server.root_url)
        assert len(known) == paid["received"] == 3 * PAIRS
        for prompt, again in (
            ("quality", {QUALITY}),
            ("conversation-user", {CHAT, QUALITY}),
            ("notes", {NOTES, CHAT, QUALITY}),
        ):
            project.edit(prompt)
            sent, told = project.written()
            assert f"{2 * PAIRS} of {2 * PAIRS} open cells done" in told
            before, paid = paid, stats(server.root_url)
            assert paid["received"] - before["received"] == sent == len(again) * PAIRS
            assert paid["duplicates"] == 0
            found = project.keys()
            fresh = [role for key, role in found.items() if key not in known]
            assert {role: fresh.count(role) for role in fresh} == dict.fromkeys(again, PAIRS)
            known = found
        assert project.written()[0] == 0
        assert stats(server.root_url)["received"] == paid["received"]


@pytest.mark.timeout(120)
def test_more_groups_leave_the_earlier_ones_as_they_are(tmp_path: Path) -> None:
    project = Writing(tmp_path, **SMALL)
    project.written()
    _, first = project.export()
    kept = set((project.folder / "items.jsonl").read_bytes().splitlines())
    project.write_job(**merged(SMALL, {"generate": {"groups_per_size": 3}}))
    sent, told = project.written()
    assert 0 < sent and f"{PAIRS} of {PAIRS} open cells done" in told
    _, card = project.export()
    assert kept <= set((project.folder / "items.jsonl").read_bytes().splitlines())
    assert "of 12 planned" in first and "of 18 planned" in card
