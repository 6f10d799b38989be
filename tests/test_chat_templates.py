"""A vLLM server of someone else: its template is asked once, and what it does is told."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Any

import aiohttp  # noqa: F401 - as the command does, before its loop runs
import pytest

from leakgrid.jobs.chat_templates import ask_templates, warnings
from leakgrid.jobs.jobfile import load_job
from leakgrid.jobs.models import ModelSpec
from leakgrid.jobs.plan import Plan
from leakgrid.jobs.routes import open_ways
from leakgrid.providers.vllm_templates import TemplateFacts
from tests.project import Project
from tests.vllm_world import config_file, started

NOBODY = "http://127.0.0.1:9/v1"


def plan_of(folder: Path, *urls: str, **more: Any) -> Plan:
    """A job whose models are all at the same attached servers."""
    table = {"provider": "vllm", "model": "org/model", "base_urls": list(urls), **more}
    models = dict.fromkeys(("sim-a", "sim-b", "sim-judge"), table)
    made = Project(folder, items=1, models=models, simulated=None)
    return Plan(load_job(made.folder / "jobs" / "job.toml"))


def spec_of(folder: Path, *urls: str, **more: Any) -> ModelSpec:
    return plan_of(folder, *urls, **more).job.specs["sim-a"]


def asked(*specs: ModelSpec) -> dict[str, dict[str, Any]]:
    return asyncio.run(ask_templates(specs))


def test_the_first_server_that_tells_is_believed(tmp_path: Path) -> None:
    with started(config_file(tmp_path / "server")) as ready:
        url = f"http://127.0.0.1:{ready['port']}/v1"
        spec = spec_of(tmp_path / "a", NOBODY, url)
        facts = asked(spec)[spec.name]
    assert facts == {"template": ready["template"]}
    (line,) = warnings(spec, facts)
    assert "models.sim-a" in line and 'system = "fold"' in line
    assert warnings(spec_of(tmp_path / "b", url, system="fold"), facts) == []


def test_a_server_that_tells_nothing_is_no_error(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, NOBODY)
    facts = asked(spec)[spec.name]
    assert facts["template"]["asked"] is False and warnings(spec, facts) == []


def test_a_template_with_words_of_its_own_is_quoted(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, NOBODY)
    own = TemplateFacts(injects_system=True, injected="You are\nHelper. " + "Be kind. " * 40)
    (line,) = warnings(spec, {"template": asdict(own)})
    assert '("You are Helper. Be kind.' in line and '..."' in line and "\n" not in line
    assert "an empty system prompt is not empty" in line


def test_a_run_says_it_once_for_each_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with started(config_file(tmp_path / "server")) as ready:
        plan = plan_of(tmp_path / "run", f"http://127.0.0.1:{ready['port']}/v1")

        async def main() -> None:
            cache = tmp_path / "cache"
            cache.mkdir()
            async with open_ways(
                plan, ["sim-a", "sim-judge"], cache, budget=None, on_failed=lambda *_: None
            ):
                pass

        asyncio.run(main())
    said = capsys.readouterr().err.splitlines()
    assert [line.split(":")[1] for line in said] == [" models.sim-a", " models.sim-judge"]


def test_a_named_identity_holds_wherever_the_servers_are(tmp_path: Path) -> None:
    def columns(folder: str, *urls: str, **more: Any) -> list[str]:
        return [column.id for column in plan_of(tmp_path / folder, *urls, **more).columns]

    named = {"identity": "Qwen3-8B at 9c925d6"}
    here = columns("a", "http://gpu-1:8000/v1", "http://gpu-2:8000/v1", **named)
    assert here == columns("b", "http://gpu-7:8000/v1", **named)
    assert here != columns("c", "http://gpu-7:8000/v1", identity="another")
    assert here != columns("d", "http://gpu-7:8000/v1")
