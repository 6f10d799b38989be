"""Everything a user can get wrong, or a machine: a clear message, an exit code, nothing lost."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from leakgrid.providers.simulated.process import running
from tests.project import Project, item, stats
from tests.test_kill_and_resume import table_of

KEY = "sk-secret-0123456789abcdef"


def as_openai(base_url: str, **changes: Any) -> dict[str, Any]:
    """The usual models as a user of some OpenAI-compatible host writes them."""
    model = {"provider": "openai", "base_url": base_url, "key_env": "TEST_API_KEY", **changes}
    return {name: dict(model) for name in ("sim-a", "sim-b", "sim-judge")}


# --- a job file with each kind of mistake -------------------------------------------------------

MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "benchmark": (
        {"job": {"benchmark": "mupet"}},
        "job.toml:2: job.benchmark: 'mupet' is not known here; did you mean 'muppet'?",
    ),
    "no dataset": (
        {"job": {"dataset": None}},
        "job.toml:1: job: the key 'dataset' is missing; it must be a string",
    ),
    "dataset that is not there": ({"job": {"dataset": "gone.jsonl"}}, "gone.jsonl does not exist"),
    "unknown key": (
        {"job": {"sampels": 3}},
        "job.sampels: 'sampels' is not known here; did you mean 'samples'?",
    ),
    "no such model": (
        {"job": {"models": ["sim-x"]}},
        "job.models: 'sim-x' is not known here; did you mean 'sim-",
    ),
    "a model twice": ({"job": {"models": ["sim-a", "sim-a"]}}, "names something twice"),
    "no model": (
        {"job": {"models": []}},
        "job.models: [] does not fit; it must be a list of names",
    ),
    "no such defence": ({"job": {"defences": ["privacy-promt"]}}, "did you mean 'privacy-prompt'?"),
    "no such condition": (
        {"job": {"conditions": ["one-to-two"]}},
        "allowed: group, group-boundaries, one-to-one",
    ),
    "no such judge": (
        {"job": {"judges": ["leek"]}},
        "job.judges: 'leek' is not known here; did you mean 'leak'?",
    ),
    "provider": ({"models": {"sim-a": {"provider": "opnai"}}}, "did you mean 'openai'?"),
    "model key": (
        {"models": {"sim-a": {"temprature": 1}}},
        "models.sim-a.temprature: 'temprature' is not known here",
    ),
    "own parameter": (
        {"models": {"sim-a": {"params": {"messages": []}}}},
        "'messages' is set by leakgrid and cannot be a parameter",
    ),
    "base_url": (
        {"models": {"sim-a": {"base_url": "localhost:80"}}},
        "must begin with http:// or https://",
    ),
    "rpm": (
        {"models": {"sim-a": {"rpm": "many"}}},
        "models.sim-a.rpm: 'many' does not fit; it must be a number of at least 1",
    ),
    "price": ({"models": {"sim-a": {"price": {"input": 1}}}}, "the key 'output' is missing"),
    "judge without model": (
        {"judges": {"leak": {"model": None}}},
        "judges.leak: the key 'model' is missing",
    ),
    "judge with no such model": (
        {"judges": {"leak": {"model": "sim-z"}}},
        "judges.leak.model: 'sim-z' is not known here",
    ),
    "samples": (
        {"job": {"samples": 0}},
        "job.samples: 0 does not fit; it must be a whole number of at least 1",
    ),
    "budget": ({"job": {"budget_usd": -1}}, "must be a number of at least 0"),
    "simulated key": ({"simulated": {"sede": 1}}, "simulated.sede"),
    "simulated rate": (
        {"simulated": {"assistants": {"sim-a": {"leak": 2}}}},
        "simulated.assistants.sim-a.leak",
    ),
    "prompts": (
        {"job": {"prompts": "nowhere", "defences": ["none"]}},
        "system.md: the prompt cannot be read",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_in_a_job_names_file_line_key_and_what_is_allowed(
    tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from leakgrid.cli import main

    changes, told = MISTAKES[case]
    Project(tmp_path, **changes)
    monkeypatch.chdir(tmp_path)
    for command in ("plan", "run"):
        assert main([command, "jobs/job.toml"]) == 2
        said = capsys.readouterr().err
        assert told in said
        if case != "prompts":
            assert "jobs/job.toml:" in said
    assert not (tmp_path / "cache").exists()


def test_all_mistakes_are_told_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from leakgrid.cli import main

    Project(tmp_path, job={"benchmark": "mupet", "sampels": 3}, models={"sim-a": {"rpm": "x"}})
    monkeypatch.chdir(tmp_path)
    assert main(["plan", "jobs/job.toml"]) == 2
    said = capsys.readouterr().err
    assert all(key in said for key in ("job.benchmark", "job.sampels", "models.sim-a.rpm"))


@pytest.mark.parametrize(
    ("text", "told"),
    [("[job\n", "is not TOML"), ("", "the table [job] is missing"), ("job = 3\n", "job")],
)
def test_a_file_that_is_no_job(tmp_path: Path, text: str, told: str) -> None:
    from leakgrid.jobs.jobfile import load_job
    from leakgrid.outcomes import JobError

    project = Project(tmp_path)
    path = project.folder / "jobs" / "job.toml"
    path.write_text(text)
    with pytest.raises(JobError, match=r"jobs/job\.toml") as caught:
        load_job(path)
    assert told in str(caught.value)


def test_a_job_file_that_is_not_there_lists_those_that_are(tmp_path: Path) -> None:
    project = Project(tmp_path)
    done = project.run("run", "jobs/jib.toml")
    assert done.returncode == 2
    assert "there is no such job file" in done.stderr and "job.toml" in done.stderr


def test_a_prompt_with_an_unknown_place_is_named_by_line(tmp_path: Path) -> None:
    from leakgrid.benchmarks.prompts import Prompt
    from leakgrid.outcomes import JobError

    path = tmp_path / "system.md"
    path.write_text("Hello.\nYou are {{ownr}}.")
    with pytest.raises(JobError, match=r"system\.md:2: \{\{ownr\}\} .* allowed: owner"):
        Prompt(path, ["owner"])


# --- datasets, keys, servers, disks ---------------------------------------------------------------


def test_a_dataset_line_that_is_not_json_is_named(tmp_path: Path) -> None:
    project = Project(tmp_path)
    with (project.folder / "items.jsonl").open("a") as file:
        file.write("{not json\n")
    done = project.run_job()
    assert done.returncode == 2
    assert "items.jsonl:7:" in done.stderr
    assert not (project.folder / "cache").exists()


def test_a_bad_line_added_later_loses_nothing_that_was_paid(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert project.run_job().returncode == 0
    kept = project.kept()
    with (project.folder / "items.jsonl").open("a") as file:
        file.write("{not json\n")
    assert project.run_job().returncode == 2
    project.write_items([item(number) for number in range(6)])
    assert "0 calls sent" in project.run_job().stdout
    assert project.kept() == kept


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        project = Project(tmp_path, simulated={"port": taken.getsockname()[1]})
        done = project.run_job()
    assert done.returncode == 3
    assert "did not start" in done.stderr and "already in use" in done.stderr


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    project = Project(tmp_path, items=1, models=as_openai(f"http://127.0.0.1:{port}/v1"))
    done = project.run_job(env={"TEST_API_KEY": KEY})
    assert done.returncode == 4
    assert "8 cells had a call that failed" in done.stderr
    rows = project.sql("SELECT DISTINCT leaked, why FROM verdict_now")
    assert all(row["leaked"] is None and "transient" in row["why"] for row in rows)
    with running(table_of(Project(tmp_path / "cues")), port=port):
        assert project.run_job(env={"TEST_API_KEY": KEY}).returncode == 0


def test_a_wrong_key(tmp_path: Path) -> None:
    table = table_of(Project(tmp_path / "cues"))
    with running({**table, "faults": {"require_key": "sk-other"}}) as server:
        project = Project(tmp_path / "p", models=as_openai(server.base_url))
        done = project.run_job(env={"TEST_API_KEY": KEY})
        assert done.returncode == 3
        assert "the server refuses the key" in done.stderr
        assert stats(server.root_url)["received"] <= 10
        right = project.run_job(env={"TEST_API_KEY": "sk-other"})
        assert right.returncode == 0, right.stderr


def test_a_key_that_is_not_set(tmp_path: Path) -> None:
    project = Project(tmp_path, models=as_openai("https://api.example.com/v1"))
    done = project.run_job()
    assert done.returncode == 2
    assert "the environment variable TEST_API_KEY is not set" in done.stderr
    # Planning needs no key.
    assert project.run("plan", "jobs/job.toml").returncode == 0


def test_an_unknown_model_costs_five_calls(tmp_path: Path) -> None:
    table = table_of(Project(tmp_path / "cues"))
    with running(table) as server:
        models = as_openai(server.base_url)
        models["sim-a"]["model"] = "sim-aa"
        project = Project(tmp_path / "p", items=12, models=models)
        done = project.run_job(env={"TEST_API_KEY": KEY})
        assert done.returncode == 3
        assert "lane sim-a" in done.stderr and "check the model's name" in done.stderr
        by_status = stats(server.root_url)["by_status"]
        assert by_status["404"] == 5
    # The other lane went on to its end.
    rows = project.sql("SELECT model, status, count(*) AS n FROM cell GROUP BY ALL")
    found = {(row["model"], row["status"]): row["n"] for row in rows}
    assert found[("sim-b", "done")] == 48
    assert found[("sim-a", "missing")] == 43


def test_an_account_without_credit_stops_only_its_lane(tmp_path: Path) -> None:
    table = table_of(Project(tmp_path / "cues"))
    with running({**table, "faults": {"insufficient_quota": ["sim-a"]}}) as server:
        project = Project(tmp_path / "p", models=as_openai(server.base_url))
        done = project.run_job(env={"TEST_API_KEY": KEY})
    assert done.returncode == 3
    assert "no quota or credit is left" in done.stderr
    rows = project.sql("SELECT count(*) AS n FROM cell WHERE model = 'sim-b' AND status = 'done'")
    assert rows[0]["n"] == 24


def test_a_budget_ends_the_run_and_more_budget_goes_on(tmp_path: Path) -> None:
    price = {"price": {"input": 1.0, "output": 2.0}}
    models = dict.fromkeys(("sim-a", "sim-b", "sim-judge"), price)
    project = Project(tmp_path, items=12, job={"budget_usd": 0.05}, models=models)
    done = project.run_job()
    assert done.returncode == 3
    assert "would pass the budget of $0.05" in done.stderr
    (spent,) = project.sql("SELECT sum(usd) AS usd, count(*) AS n FROM response")
    assert 0 < spent["usd"] <= 0.05
    project.write_job(job={"budget_usd": 5}, models=models)
    assert project.run_job().returncode == 0
    (whole,) = project.sql("SELECT count(*) AS n, count(DISTINCT key) AS keys FROM response")
    assert whole["n"] == whole["keys"] > spent["n"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A file system of 12 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("this user may not mount a small file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_full_disk_ends_the_run_and_keeps_what_was_paid(tmp_path: Path, small_disk: Path) -> None:
    table = table_of(Project(tmp_path / "cues", items=260))
    filler = small_disk / "filler"
    with running(table) as server:
        project = Project(
            tmp_path / "p",
            items=260,
            job={"cells_at_once": 64},
            models=as_openai(server.base_url),
        )
        cache = ["--cache", str(small_disk / "cache"), "--database", str(tmp_path / "d.duckdb")]
        filler.write_bytes(b"x" * 6 * 2**20)
        done = project.run("run", "jobs/job.toml", "--quiet", *cache, env={"TEST_API_KEY": KEY})
        assert done.returncode == 5, done.stderr
        assert "the disk is full" in done.stderr and "make room" in done.stderr
        received = stats(server.root_url)["received"]
        assert 0 < received < 260 * 8 * 2
        journals = (small_disk / "cache" / "answers").glob("*.jsonl")
        assert sum(path.read_bytes().count(b"\n") for path in journals) == received
        filler.unlink()
        again = project.run("run", "jobs/job.toml", "--quiet", *cache, env={"TEST_API_KEY": KEY})
        assert again.returncode == 0, again.stderr


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    project = Project(tmp_path)
    (project.folder / "cache").write_text("a file, no folder")
    done = project.run_job()
    assert done.returncode == 5
    assert "cannot be written" in done.stderr


def test_a_locked_database_does_not_fail_the_run(tmp_path: Path) -> None:
    import duckdb

    project = Project(tmp_path, items=1)
    (project.folder / "reports").mkdir()
    with duckdb.connect(str(project.folder / "reports" / "leakgrid.duckdb")):
        done = project.run_job()
    assert done.returncode == 0
    assert "results are safe in cache" in done.stderr
    assert project.run("rebuild").returncode == 0


def texts_in(database: Path) -> list[str]:
    """Every row of every table as text: what a file has compressed hides from a byte search."""
    import duckdb

    with duckdb.connect(str(database), read_only=True) as connection:
        tables = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        whole = " UNION ALL ".join(f"SELECT CAST(t AS VARCHAR) FROM {name} t" for (name,) in tables)
        return [text for (text,) in connection.execute(whole).fetchall()]


def test_secrets_are_nowhere(tmp_path: Path) -> None:
    table = table_of(Project(tmp_path / "cues"))
    with running({**table, "faults": {"require_key": KEY}}) as server:
        project = Project(tmp_path / "p", models=as_openai(server.base_url))
        env = {"TEST_API_KEY": KEY}
        done = project.run("run", "jobs/job.toml", "--report", env=env)
        assert done.returncode == 0, done.stderr
        database = project.folder / "reports" / "leakgrid.duckdb"
        before = texts_in(database)
        wrong = {"TEST_API_KEY": KEY + "-wrong"}
        project.write_job(models=as_openai(server.base_url), job={"samples": 2})
        refused = project.run("run", "jobs/job.toml", env=wrong)
        assert refused.returncode == 3
        after = texts_in(database)
    # What was sent, what was said and how the server refused are there; the key is not.
    assert any("secret matter 0 of the owner" in text for text in before)
    assert len(after) > len(before) and any("'status': 401" in text for text in after)
    assert not any(KEY in text for text in before + after)
    files = project.files()
    assert len(files) > 5
    for path in files:
        assert KEY.encode() not in path.read_bytes(), path
    for out in (done.stdout, done.stderr, refused.stdout, refused.stderr):
        assert KEY not in out


def test_a_server_that_echoes_the_key_does_not_get_it_into_the_journal() -> None:
    import asyncio

    import aiohttp
    from aiohttp import web

    from leakgrid.providers.openai import ChatCompletions

    async def echo(request: web.Request) -> web.Response:
        return web.Response(status=401, text=f"bad key: {request.headers['authorization']}")

    async def main() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", echo)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        async with aiohttp.ClientSession() as session:
            provider = ChatCompletions(
                name="m",
                kind="openai",
                model="m",
                base_url=f"http://127.0.0.1:{port}/v1",
                session=session,
                identity="i",
                params={},
                key=KEY,
            )
            exchange = await provider.exchange(b"{}")
            assert KEY.encode() not in exchange.body
            assert KEY not in provider.read(exchange).error
            assert b"[redacted]" in exchange.body
        await runner.cleanup()

    asyncio.run(main())


def test_the_key_of_a_user_does_not_reach_a_managed_server(tmp_path: Path) -> None:
    from leakgrid.providers.servers import _environment

    os.environ["SOME_API_KEY"] = KEY
    try:
        assert KEY not in _environment(()).values()
    finally:
        del os.environ["SOME_API_KEY"]
