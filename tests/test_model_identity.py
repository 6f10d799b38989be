"""What shapes a model's requests is part of its cells, and a key goes to its own host only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leakgrid.jobs.jobfile import load_job
from leakgrid.jobs.models import ModelSpec, secret_of
from leakgrid.jobs.plan import Plan
from tests.project import Project

VLLM = {"provider": "vllm", "model": "m", "base_url": "http://host:1/v1"}
MANAGED = {"provider": "vllm", "model": "m"}
OPENAI = {"provider": "openai", "model": "gpt-4o-mini"}


def plan_of(folder: Path, **model: Any) -> Plan:
    others = {name: {"provider": "simulated"} for name in ("sim-b", "sim-judge")}
    cleared = {"provider": "simulated", "params": None}
    project = Project(folder, items=2, models={"sim-a": {**cleared, **model}, **others})
    return Plan(load_job(project.folder / "jobs" / "job.toml"))


def columns(folder: Path, **model: Any) -> set[str]:
    plan = plan_of(folder, **model)
    return {column.id for column in plan.columns if column.point.model == "sim-a"}


@pytest.mark.parametrize(
    ("model", "change"),
    [
        (VLLM, {"system": "fold"}),
        (MANAGED, {"system": "fold"}),
        (MANAGED, {"dtype": "float32"}),
        (OPENAI, {"api": "responses"}),
        (OPENAI, {"headers": {"x-beta": "1"}}),
        (OPENAI, {"base_url": "https://elsewhere.example/v1"}),
        ({**VLLM, "identity": "one"}, {"identity": "two"}),
    ],
)
def test_what_shapes_requests_makes_other_cells(
    tmp_path: Path, model: dict[str, Any], change: dict[str, Any]
) -> None:
    before = columns(tmp_path / "before", **model)
    assert columns(tmp_path / "same", **model) == before
    assert not columns(tmp_path / "changed", **{**model, **change}) & before


@pytest.mark.parametrize(
    ("model", "change"),
    [(OPENAI, {"api": "chat"}), (VLLM, {"system": "send"}), (OPENAI, {"note": "n", "rpm": 5})],
)
def test_what_does_not_shape_them_makes_no_others(
    tmp_path: Path, model: dict[str, Any], change: dict[str, Any]
) -> None:
    assert columns(tmp_path / "a", **model) == columns(tmp_path / "b", **{**model, **change})


def spec_of(folder: Path, **model: Any) -> ModelSpec:
    return plan_of(folder, **model).job.specs["sim-a"]


@pytest.mark.parametrize(
    ("provider", "variable"), [("openai", "OPENAI_API_KEY"), ("gemini", "GEMINI_API_KEY")]
)
def test_a_key_is_shown_to_its_own_host_and_to_others_only_where_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str, variable: str
) -> None:
    monkeypatch.setenv(variable, "the-key")
    other = {"provider": provider, "model": "m", "base_url": "https://elsewhere.example/v1"}
    assert secret_of(spec_of(tmp_path / "own", provider=provider, model="m")) == "the-key"
    assert secret_of(spec_of(tmp_path / "other", **other)) == ""
    assert secret_of(spec_of(tmp_path / "named", **other, key_env=variable)) == "the-key"
