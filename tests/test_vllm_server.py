"""vLLM as a managed server: started, named, watched, ended with everything it started."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from leakgrid.outcomes import InputError, ServerDown
from leakgrid.providers import vllm
from leakgrid.providers.servers import Ready, Server
from leakgrid.providers.vllm_config import VllmConfig, command_line, gpus_of, parse
from leakgrid.providers.vllm_identity import facts, remember, remembered, version_of
from leakgrid.providers.vllm_reaper import end_group
from tests.vllm_world import STAND_IN, alive, config_file, engine_environment

# A fork of pytest's own process can take longer than the guard allows on a busy machine.
pytestmark = pytest.mark.may_block

COMMAND = [sys.executable, "-m", "leakgrid.providers.vllm", "--config"]
SOON_S = 20.0


def server(path: Path, **options: Any) -> Server:
    arguments = ["--config", str(path)]
    options = {"stop_s": SOON_S, "last": 1, **options}
    return Server("vllm m", "leakgrid.providers.vllm", arguments, **options)


def started_and_stopped(path: Path, **options: Any) -> Ready:
    async def main() -> Ready:
        async with server(path, **options) as one:
            return one.ready

    return asyncio.run(main())


def run_alone(path: Path) -> subprocess.CompletedProcess[str]:
    """Run to its own end, with a parent that does not go before."""
    standing, parent = os.pipe()
    try:
        return subprocess.run(
            [*COMMAND, str(path)],
            env=engine_environment(),
            stdin=standing,
            capture_output=True,
            text=True,
        )
    finally:
        os.close(standing)
        os.close(parent)


@pytest.fixture(autouse=True)
def engine_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", engine_environment()["PYTHONPATH"])


def until(true: Any) -> None:
    """Wait until ``true()``; the test's own timeout is the limit."""
    while not true():
        time.sleep(0.02)


# --- the command line and its configuration ---------------------------------------------------


def test_every_key_of_the_job_reaches_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"r": 64}')
    config = VllmConfig(
        model="org/base",
        name="mine",
        revision="abc",
        dtype="bfloat16",
        quantization="fp8",
        max_model_len=4096,
        memory=0.45,
        tensor_parallel=2,
        chat_template="t.jinja",
        reasoning_parser="qwen3",
        adapter=str(tmp_path),
        arguments=("--max-num-seqs", "64"),
    )
    line = command_line(config, 8123)
    assert line[:3] == ["vllm", "serve", "org/base"]
    assert line[-2:] == ["--max-num-seqs", "64"]
    given = dict(zip(line[3:-3:2], line[4:-3:2], strict=False))
    wanted = {
        "--host": "127.0.0.1", "--port": "8123", "--served-model-name": "base",
        "--revision": "abc", "--dtype": "bfloat16", "--quantization": "fp8",
        "--max-model-len": "4096", "--gpu-memory-utilization": "0.45",
        "--tensor-parallel-size": "2", "--chat-template": "t.jinja", "--reasoning-parser": "qwen3",
    }  # fmt: skip
    assert wanted.items() <= given.items()
    module = json.loads(line[line.index("--lora-modules") + 1])
    assert module == {"name": "mine", "path": str(tmp_path)}, "requests name the adapter"
    assert line[line.index("--max-lora-rank") + 1] == "64"


@pytest.mark.parametrize(
    ("own", "shell", "count", "gpus"),
    [
        ("", "", 1, ("0",)),
        ("", "", 2, ("0", "1")),
        ("2", "", 1, ("2",)),
        ("2, 3", "", 1, ("2", "3")),  # for --data-parallel-size
        ("", "5,6,7", 2, ("5", "6")),
        ("1", "5,6,7", 1, ("1",)),
        ("", "-1", 1, ("0",)),
        ("GPU-8f2a", "", 1, ("GPU-8f2a",)),
    ],
)
def test_a_server_takes_the_gpus_it_is_shown(
    own: str, shell: str, count: int, gpus: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shell)
    environment = {"CUDA_VISIBLE_DEVICES": own} if own else {}
    config = VllmConfig(model="org/m", environment=environment, tensor_parallel=count)
    assert gpus_of(config) == gpus


@pytest.mark.parametrize(
    ("arguments", "gpus"),
    [
        (("--pipeline-parallel-size", "2"), 4),
        (("--data-parallel-size=3",), 6),
        (("-pp", "2", "-dp", "2"), 8),
        (("--seed", "2", "-pp"), 2),
        (("-dp", "many"), 2),
    ],
)
def test_parallelism_among_the_arguments_takes_gpus_too(
    arguments: tuple[str, ...], gpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    config = VllmConfig(model="org/m", arguments=arguments, tensor_parallel=2)
    assert len(gpus_of(config)) == gpus


def test_guided_json_has_no_white_space_unless_the_job_says_otherwise() -> None:
    line = command_line(VllmConfig(model="m"), 1)
    assert json.loads(line[line.index("--structured-outputs-config") + 1]) == {
        "backend": "xgrammar",
        "disable_any_whitespace": True,
    }
    own = ("--structured-outputs-config", '{"backend":"guidance"}')
    line = command_line(VllmConfig(model="m", arguments=own), 1)
    assert line.count("--structured-outputs-config") == 1
    module = VllmConfig(model="m", command=("python", "-m", "vllm.entrypoints.openai.api_server"))
    assert command_line(module, 1)[3:5] == ["--model", "m"]


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({}, "model"),
        ({"model": "m", "modle": 1}, "modle"),
        ({"model": "m", "command": "vllm serve"}, "command"),
        ({"model": "m", "command": []}, "command"),
        ({"model": "m", "memory": 1.5}, "memory"),
        ({"model": "m", "memory": 0}, "memory"),
        ({"model": "m", "tensor_parallel": 0}, "tensor_parallel"),
        ({"model": "m", "arguments": ["--port=1"]}, "--port"),
        ({"model": "m", "arguments": ["--max_model_len", "9"]}, "--max-model-len"),
        ({"model": "m", "environment": {"HF_TOKEN": "hf_x"}}, "environment.HF_TOKEN"),
        ({"model": "m", "passes": ["HF_TOKEN=hf_x"]}, "passes"),
    ],
)
def test_mistakes_in_the_configuration_name_the_key(data: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named) as caught:
        parse(data)
    assert "hf_x" not in str(caught.value) or named == "passes"


# --- ready, and gone again --------------------------------------------------------------------


def test_it_says_when_it_is_ready_and_takes_all_along_when_it_ends(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    path = config_file(tmp_path, {"pids": str(pids), "delay": 0.5})
    heard: list[int] = []

    async def main() -> Ready:
        async with server(path) as one:
            heard.extend(map(int, pids.read_text().split()))
            assert all(map(alive, heard))
            assert one.base_url.endswith(f":{one.ready.port}/v1")
            return one.ready

    ready = asyncio.run(main())
    assert ready.identity.startswith("vllm-")
    assert ready.facts["facts"]["engine"] == "vllm 0.99.0"
    assert ready.facts["template"]["refuses_system"] is True
    until(lambda: not any(map(alive, heard)))
    assert "--served-model-name" in (tmp_path / "vllm.log").read_text()


def test_the_same_server_twice_is_the_same_server(tmp_path: Path) -> None:
    first = started_and_stopped(config_file(tmp_path / "a"))
    again = started_and_stopped(config_file(tmp_path / "b", memory=0.5))
    other = started_and_stopped(config_file(tmp_path / "c", {"version": "1.0.0"}))
    assert first.identity == again.identity != other.identity


def test_kill_minus_nine_of_the_supervisor_ends_vllm_too(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    path = config_file(tmp_path, {"pids": str(pids)})
    process = subprocess.Popen(
        [*COMMAND, str(path)],
        env=engine_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    with process.stdin, process.stdout:
        assert json.loads(process.stdout.readline())["ready"] is True
        process.kill()
        process.wait()
    until(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()))


@pytest.mark.parametrize("end", ["SIGTERM", "stdin"])
@pytest.mark.parametrize("delay", [0, 600])
def test_it_ends_well_when_told_to_ready_or_not(tmp_path: Path, end: str, delay: int) -> None:
    pids = tmp_path / "pids"
    path = config_file(tmp_path, {"pids": str(pids), "delay": delay})
    process = subprocess.Popen(
        [*COMMAND, str(path)],
        env=engine_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    with process.stdin, process.stdout:
        until(pids.exists)
        if end == "stdin":
            process.stdin.close()
        else:
            process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    assert not any(alive(int(pid)) for pid in pids.read_text().split())


def test_one_that_will_not_end_is_killed_with_its_workers(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    plan = json.dumps({"pids": str(pids), "stubborn": True})
    process = subprocess.Popen(
        [*STAND_IN, "m", "--port", "0"],
        env=engine_environment(STAND_IN=plan),
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    until(pids.exists)
    ending = threading.Thread(target=end_group, args=(process.pid, 0.3))
    ending.start()
    assert process.wait() == -signal.SIGKILL
    ending.join()
    until(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()))


# --- what goes wrong --------------------------------------------------------------------------


def test_a_failed_start_is_told_in_one_line_with_its_log(tmp_path: Path) -> None:
    log = ["INFO loading", "ValueError: Model architectures ['OddLM'] are not supported for now."]
    path = config_file(tmp_path, {"log": log, "code": 1})
    heard: list[str] = []
    with pytest.raises(ServerDown) as caught:
        started_and_stopped(path, progress=heard.append)
    told = str(caught.value)
    assert heard[-1].startswith("leakgrid vllm: vLLM did not start")
    assert "vllm m server did not start (exit code 1)" in told
    assert "does not know the architecture ['OddLM']" in told
    assert str(tmp_path / "vllm.log") in told and "\n" not in told


def test_a_death_while_running_is_told_by_the_watch(tmp_path: Path) -> None:
    log = ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."]
    path = config_file(tmp_path, {"log": log, "dies": 1.5})

    async def main() -> ServerDown | None:
        async with server(path) as one:
            return await one.watch()

    down = asyncio.run(main())
    assert down is not None
    assert "vLLM died (exit code 7): the GPU ran out of memory: lower memory" in str(down)
    assert "run the same command again" in str(down)


def test_a_killed_vllm_is_told_as_such(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    path = config_file(tmp_path, {"pids": str(pids)})

    async def main() -> ServerDown | None:
        async with server(path) as one:
            os.kill(int(pids.read_text().split()[0]), signal.SIGKILL)
            return await one.watch()

    down = asyncio.run(main())
    assert "killed (SIGKILL)" in str(down)
    until(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()))


def test_a_command_that_is_not_there_and_a_wrong_file_are_2(tmp_path: Path) -> None:
    ended = run_alone(config_file(tmp_path, command=["/nowhere/vllm", "serve"]))
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert "/nowhere/vllm cannot be run" in ended.stderr
    (tmp_path / "config.json").write_text("{")
    ended = run_alone(tmp_path / "config.json")
    assert ended.returncode == 2 and "config.json" in ended.stderr


def test_a_taken_port_is_98_before_anything_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run_alone(config_file(tmp_path, port=port))
    assert ended.returncode == vllm.PORT_IN_USE and f"port {port} is taken" in ended.stderr
    assert not (tmp_path / "vllm.log").exists()


def test_a_free_port_that_is_gone_a_moment_later_is_tried_again(tmp_path: Path) -> None:
    log = ["OSError: [Errno 98] Address already in use"]
    ended = run_alone(config_file(tmp_path, {"log": log, "code": 1}))
    assert ended.returncode == vllm.PORT_IN_USE and "the port is taken" in ended.stderr


def test_patience_ends(tmp_path: Path) -> None:
    ended = run_alone(config_file(tmp_path, {"delay": 600}, patience_s=0.5))
    assert ended.returncode == 1 and "patience_s" in ended.stderr


def test_progress_is_told_while_it_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(vllm, "PROGRESS_S", 0.3)
    log = ["(Worker pid=7) INFO 11-30 10:54:01 [loader.py:9] Loading weights: 3 of 7"]
    path = config_file(tmp_path, {"log": log, "delay": 1.5})
    stop = threading.Event()
    with vllm._Vllm(parse(json.loads(path.read_bytes())), vllm._free_port()) as one:
        assert one._wait_healthy(stop)
    told = capfd.readouterr().err.splitlines()
    assert told and all(" s: Loading weights: 3 of 7" in line for line in told[1:])


# --- secrets ----------------------------------------------------------------------------------


def test_the_hubs_token_goes_by_name_and_into_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_quite_secret")
    monkeypatch.setenv("OTHER_TOKEN", "not_for_vllm")
    path = config_file(tmp_path, {"show": ["HF_TOKEN", "OTHER_TOKEN"]})
    started_and_stopped(path, passes=["HF_TOKEN"])
    log = (tmp_path / "vllm.log").read_text()
    assert "HF_TOKEN=[redacted]" in log and "OTHER_TOKEN=None" in log
    started_and_stopped(path)
    assert "HF_TOKEN=None" in (tmp_path / "vllm.log").read_text(), "only what the engine passes on"
    assert "hf_quite_secret" not in path.read_text()


# --- identity ---------------------------------------------------------------------------------


def weights(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    content = {"config.json": "{}", "model.safetensors": "x" * 99, **files}
    for name, text in content.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def digest(version: str = "1", fingerprint: str = "", **changes: Any) -> str:
    return facts(VllmConfig(**{"model": "org/m", **changes}), version, fingerprint).digest


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "org/n"},
        {"revision": "abc"},
        {"dtype": "half"},
        {"quantization": "fp8"},
        {"chat_template": "{{ messages }}"},
        {"adapter": "org/lora"},
        {"version": "2"},
        {"fingerprint": "other"},
        {"max_model_len": 99},
        {"reasoning_parser": "qwen3"},
        {"arguments": ("--kv-cache-dtype", "fp8")},
        {"environment": {"VLLM_ATTENTION_BACKEND": "FLASHINFER"}},
    ],
)
def test_what_may_change_an_answer_changes_the_identity(changes: dict[str, Any]) -> None:
    assert digest(**changes) != digest()


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "1+cu129"},
        {"memory": 0.5},
        {"tensor_parallel": 2},
        {"port": 8000},
        {"patience_s": 9.0},
        {"log": "x"},
        {"name": "other"},
        {"command": ("/opt/vllm", "serve")},
        {"arguments": ("--max-num-seqs", "64", "--enforce-eager", "--swap-space=2")},
        {"environment": {"CUDA_VISIBLE_DEVICES": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}},
    ],
)
def test_speed_and_place_do_not(changes: dict[str, Any]) -> None:
    assert digest(**changes) == digest()


def test_a_folder_is_known_by_content_not_by_place(tmp_path: Path) -> None:
    first = digest(model=str(weights(tmp_path / "a")))
    assert first == digest(model=str(weights(tmp_path / "b", README__md="words", __lock="")))
    assert first != digest(model=str(weights(tmp_path / "c", config__json='{"x": 1}')))
    templated = weights(tmp_path / "d", chat_template__jinja="{{ messages }}")
    known = facts(VllmConfig(model=str(templated)), "1").known
    assert len(known["template"]) == 32 and known["revision"].startswith("content ")
    inside = weights(tmp_path / "e", tokenizer_config__json='{"chat_template": "{{ messages }}"}')
    assert facts(VllmConfig(model=str(inside)), "1").known["template"] == known["template"]


def test_a_large_file_is_known_by_size_and_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from leakgrid.providers import vllm_identity

    monkeypatch.setattr(vllm_identity, "WHOLE", 10)
    monkeypatch.setattr(vllm_identity, "PIECE", 10)
    seen = {
        digest(model=str(weights(tmp_path / name, model__safetensors=text)))
        for name, text in {
            "same": "a" * 99, "again": "a" * 99, "longer": "a" * 100, "begin": "b" + "a" * 98,
            "end": "a" * 98 + "b", "middle": "a" * 49 + "b" + "a" * 49,
        }.items()
    }  # fmt: skip
    assert len(seen) == 5


def test_a_commit_is_read_from_the_hubs_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    before = facts(VllmConfig(model="org/m"), "1").known["revision"]
    assert before == "main (commit unknown)"
    repository = tmp_path / "models--org--m"
    weights(repository / "snapshots" / "c0ffee", chat_template__jinja="{{ messages }}")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("c0ffee")
    known = facts(VllmConfig(model="org/m"), "1").known
    assert known["revision"] == "c0ffee" and known["template"] != "unknown"
    by_commit = facts(VllmConfig(model="org/m", revision="c0ffee"), "1")
    assert by_commit.known == known


def test_the_version_is_asked_of_a_python_and_of_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "vllm-7.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 7.1\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")

    def script(first: str) -> list[str]:
        path = tmp_path / "vllm"
        path.write_text(f"{first}\n")
        path.chmod(0o755)
        return [str(path), "serve"]

    assert version_of([sys.executable, "-m", "vllm"]) == "7.1"
    assert version_of(script(f"#!{sys.executable}")) == "7.1"
    assert version_of(script("#!/usr/bin/env python3")) == "7.1"
    # With -c a shell's, a container's or a cluster's command would do who knows what.
    for command in (script("#!/bin/sh"), ["echo", "vllm", "serve"], ["/nowhere/vllm", "serve"]):
        assert version_of(command) == ""


def test_an_identity_is_remembered_for_its_configuration(tmp_path: Path) -> None:
    memory = tmp_path / "deep" / "vllm.json"
    config = VllmConfig(model="org/m")
    assert remembered(memory, config) is None
    remember(memory, config, "vllm-1")
    remember(memory, VllmConfig(model="org/n"), "vllm-2")
    assert remembered(memory, VllmConfig(model="org/m", memory=0.3)) == "vllm-1"
    assert remembered(memory, VllmConfig(model="org/m", dtype="half")) is None
    memory.write_text("[torn")
    assert remembered(memory, config) is None
    remember(memory, config, "vllm-3")
    assert remembered(memory, config) == "vllm-3"
