"""Servers that leakgrid starts, watches and stops: the simulation and the embedded model.

Such a server is a process of its own. It prints one JSON line when it is ready
(``{"ready": true, "port": N, "identity": "..."}``) and ends when its standard input closes, so
it never outlives the engine, however the engine ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import orjson

from leakgrid.outcomes import Outcome, ServerDown

READY_SECONDS = 120.0
STOP_SECONDS = 5.0
TOLD_LINES = 12


@dataclass(frozen=True, slots=True)
class Ready:
    """What a server said when it was ready."""

    port: int
    identity: str


class Server:
    """One managed server process. Use as an async context manager; ``watch`` in a task group."""

    def __init__(self, name: str, module: str, arguments: list[str]) -> None:
        self.name = name
        self._command = [sys.executable, "-m", module, *arguments]
        self._told: deque[str] = deque(maxlen=TOLD_LINES)
        self._reading: asyncio.Task[None] | None = None
        self._stopping = False
        self.ready: Ready

    async def __aenter__(self) -> Server:
        # A group of its own: Ctrl-C in the terminal reaches the engine, which ends the server
        # only after the calls in flight are answered.
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env=_environment(),
        )
        try:
            self.ready = await self._wait_ready()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._end()

    @property
    def base_url(self) -> str:
        """Where its OpenAI-compatible API is."""
        return f"http://127.0.0.1:{self.ready.port}/v1"

    async def watch(self) -> ServerDown | None:
        """Return when the process ends: why, or None if it was told to."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._drain(self._process.stdout))
            group.create_task(self._drain(self._process.stderr))
            code = await self._process.wait()
        return None if self._stopping else self._down(f"died (exit code {code})")

    async def _wait_ready(self) -> Ready:
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(READY_SECONDS):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise self._down(f"was not ready within {READY_SECONDS:.0f} s") from None
        if not line:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self._drain(self._process.stderr)
                    await self._process.wait()
            raise self._down(f"did not start (exit code {self._process.returncode})")
        said = orjson.loads(line)
        return Ready(said["port"], said["identity"])

    async def _drain(self, stream: asyncio.StreamReader | None) -> None:
        assert stream is not None
        async for line in stream:
            text = line.decode("utf-8", "replace").rstrip()
            if text:
                self._told.append(text)

    def _down(self, what: str) -> ServerDown:
        last = f"; it said: {' | '.join(list(self._told)[-3:])}" if self._told else ""
        message = (
            f"the {self.name} server {what}{last}. Answers so far are kept; "
            "run the same command again to go on"
        )
        return ServerDown(self.name, Outcome.TRANSIENT, message)

    async def _end(self) -> None:
        self._stopping = True
        process = self._process
        if process.stdin is not None:
            process.stdin.close()
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await process.wait()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()


def _environment() -> dict[str, str]:
    """The environment without anything that looks like a secret: no managed server needs one."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.upper().endswith(("_KEY", "_TOKEN", "_SECRET", "_PASSWORD"))
    }


def write_config(folder: Path, name: str, config: object) -> Path:
    """A server's configuration as a JSON file under ``folder``; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    draft = folder / f"{name}.{os.getpid()}.draft"
    draft.write_bytes(orjson.dumps(config, option=orjson.OPT_INDENT_2))
    os.replace(draft, path)
    return path
