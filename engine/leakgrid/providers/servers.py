"""Servers that leakgrid starts, watches and stops: the simulation, the embedded model, vLLM.

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
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from leakgrid.outcomes import Outcome, ServerDown

READY_SECONDS = 120.0
STOP_SECONDS = 5.0
LAST_WORDS_S = 1.0
TOLD_LINES = 12
SECRET_ENDINGS = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")


@dataclass(frozen=True, slots=True)
class Ready:
    """What a server said when it was ready; ``facts`` is the rest of its line, for notes."""

    port: int
    identity: str
    facts: Mapping[str, Any] = field(default_factory=dict)


class Server:
    """One managed server process. Use as an async context manager; ``watch`` in a task group."""

    def __init__(
        self,
        name: str,
        module: str,
        arguments: list[str],
        *,
        ready_s: float = READY_SECONDS,
        stop_s: float = STOP_SECONDS,
        last: int = 3,
        passes: Collection[str] = (),
        progress: Callable[[str], None] | None = None,
        closes: bool = False,
    ) -> None:
        """``ready_s`` and ``stop_s``: seconds it may take to be ready, and to end when told to.

        ``last``: how many of its last lines explain its end. ``passes``: names of secret
        variables that it may see. ``progress`` gets what it prints while it starts. ``closes``:
        it closes its stdout as soon as it serves no more, before it has ended.
        """
        self.name = name
        self._command = [sys.executable, "-m", module, *arguments]
        self._ready_s = ready_s
        self._stop_s = stop_s
        self._last = last
        self._passes = frozenset(passes)
        self._progress = progress
        self._closes = closes
        self._told: deque[str] = deque(maxlen=TOLD_LINES)
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
            env=_environment(self._passes),
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
        """Return when the process ends, or (``closes``) closes its stdout and serves no more.

        Why, or None if it was told to end.
        """
        what = "died"
        async with asyncio.TaskGroup() as group:
            speaking = group.create_task(self._drain(self._process.stderr))
            await self._drain(self._process.stdout)
            if not self._closes:  # some libraries close it when they have begun
                await self._process.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS_S):
                    what = f"died (exit code {await self._process.wait()})"
                    await asyncio.shield(speaking)
            speaking.cancel()
        return None if self._stopping else self._down(what)

    async def _wait_ready(self) -> Ready:
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(self._ready_s), asyncio.TaskGroup() as group:
                # Read what it says meanwhile: a long start would fill the pipe and stand still.
                listening = group.create_task(self._drain(self._process.stderr, self._progress))
                line = await self._process.stdout.readline()
                listening.cancel()
        except TimeoutError:
            raise self._down(f"was not ready within {self._ready_s:.0f} s") from None
        if not line:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self._drain(self._process.stderr)
                    await self._process.wait()
            raise self._down(f"did not start (exit code {self._process.returncode})")
        said = orjson.loads(line)
        return Ready(said.pop("port"), said.pop("identity"), said)

    async def _drain(
        self, stream: asyncio.StreamReader | None, heard: Callable[[str], None] | None = None
    ) -> None:
        assert stream is not None
        async for line in stream:
            text = line.decode("utf-8", "replace").rstrip()
            if text:
                self._told.append(text)
                if heard is not None:
                    heard(text)

    def _down(self, what: str) -> ServerDown:
        told = list(self._told)[-self._last :]
        last = f"; it said: {' | '.join(told)}" if told else ""
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
                async with asyncio.timeout(self._stop_s):
                    await process.wait()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()


def _environment(passes: Collection[str]) -> dict[str, str]:
    """The environment without anything that looks like a secret, but for what is in ``passes``."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in passes or not name.upper().endswith(SECRET_ENDINGS)
    }


def write_config(folder: Path, name: str, config: object) -> Path:
    """A server's configuration as a JSON file under ``folder``; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    draft = folder / f"{name}.{os.getpid()}.draft"
    draft.write_bytes(orjson.dumps(config, option=orjson.OPT_INDENT_2))
    os.replace(draft, path)
    return path
