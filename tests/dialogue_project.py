"""A small project of dialogues and labels, and the command line run on it as a user would."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from leakgrid.cli import main
from leakgrid.providers.simulated import config
from tests.dialogue_cells import REAL, SAMPLE
from tests.project import ROOT, Project, merged, toml

PERSONAS = ("fundamentalist", "pragmatic", "unconcerned")
FLAT = ("job", "subset", "labels", "simulated")
"""Tables whose keys stand under one header; of the others each inner table has its own."""

needs_real = pytest.mark.skipif(
    not REAL.exists(), reason=f"the released profiles are not at {REAL} (they are not shipped)"
)

QUICK = {"median_ms": 2, "p95_ms": 5}

DIALOGUE: dict[str, Any] = {
    "job": {
        "benchmark": "dialogue",
        "dataset": "profiles.json",
        "models": ["sim-open"],
        "receivers": ["sim-discreet"],
        "conditions": ["pc0"],
        "turns": [2],
        "judges": ["reveal"],
        "patience": 0.02,
    },
    "subset": {"instances": 6, "seed": 1},
    "labels": {"file": "labels.jsonl"},
    "models": {
        name: {"provider": "simulated", "params": {"max_tokens": 8000}}
        for name in ("sim-open", "sim-discreet", "sim-judge")
    },
    "judges": {"reveal": {"model": "sim-judge"}},
    "simulated": {
        "seed": 5,
        "latency": QUICK,
        "agents": {
            "sim-open": {"necessary": 0.7, "inappropriate": 0.3, "other": 0.2, "partial": 0.2},
            "sim-discreet": {"necessary": 0.5, "inappropriate": 0.1, "other": 0.1, "partial": 0.3},
        },
        "judges": {"sim-judge": {}},
    },
}

LABELS: dict[str, Any] = {
    "job": {
        "benchmark": "ci-labels",
        "dataset": "profiles.json",
        "models": ["sim-labeller"],
        "conditions": list(PERSONAS),
        "samples": 2,
        "patience": 0.02,
    },
    "models": {"sim-labeller": {"provider": "simulated", "params": {"max_tokens": 2000}}},
    "simulated": {
        "seed": 5,
        "labels": "labels.jsonl",
        "latency": QUICK,
        "labellers": {"sim-labeller": {}},
    },
}


class DialogueProject(Project):
    """jobs/, prompts, profiles.json and labels.jsonl under ``folder``; jobs/job.toml is usual.

    ``profiles`` is the file that profiles.json leads to; labels are those of the sample.
    """

    def __init__(
        self, folder: Path, *, profiles: Path = SAMPLE / "profiles.json", **changes: Any
    ) -> None:
        self.folder = folder
        (folder / "jobs").mkdir(parents=True)
        (folder / "jobs" / "prompts").symlink_to(ROOT / "jobs" / "prompts")
        (folder / "profiles.json").symlink_to(profiles)
        (folder / "labels.jsonl").write_bytes((SAMPLE / "labels.jsonl").read_bytes())
        self.write_job(**changes)

    def write_job(
        self, name: str = "job", usual: Mapping[str, Any] = DIALOGUE, **changes: Any
    ) -> None:
        """jobs/NAME.toml: the usual dialogue job, or ``usual``, with changes at any depth."""
        lines = []
        for title, table in merged(dict(usual), changes).items():
            for header, values in (
                [(title, table)]
                if title in FLAT
                else [(f'{title}."{inner}"', values) for inner, values in table.items()]
            ):
                lines.append(f"[{header}]")
                lines += [f"{key} = {toml(value)}" for key, value in values.items()]
        (self.folder / "jobs" / f"{name}.toml").write_text("\n".join(lines) + "\n")

    def write_labels_job(self, name: str = "labels", **changes: Any) -> None:
        """jobs/NAME.toml: the usual labelling job with changes at any depth."""
        self.write_job(name, LABELS, **changes)

    def main(self, *words: str) -> int:
        """The command line in this process, run in the project's folder."""
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            return main(words)
        finally:
            os.chdir(before)

    def table(self, name: str = "job") -> dict[str, Any]:
        """What the engine would tell a simulated server for a job."""
        from leakgrid.jobs.jobfile import load_job
        from leakgrid.jobs.plan import Plan

        plan = Plan(load_job(self.folder / "jobs" / f"{name}.toml"))
        assert plan.simulated is not None
        return dict(plan.simulated["table"])

    def planted(self, name: str = "job") -> config.Simulated:
        """The configuration whose truth a job's simulation has."""
        return config.parse(self.table(name))

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Rows of a query over the database that runs landed in."""
        import duckdb

        path = self.folder / "reports" / "leakgrid.duckdb"
        with duckdb.connect(str(path), read_only=True) as database:
            found = database.execute(query)
            names = [column[0] for column in found.description or ()]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def at_server(base_url: str, *names: str) -> dict[str, Any]:
    """[models] that speak to a simulated server which outlives the engine and counts."""
    return {name: {"base_url": base_url} for name in names}
