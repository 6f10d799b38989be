"""Start the simulated server as a child process and stop it again; for tests and for tools."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODULE = "leakgrid.providers.simulated.server"


@dataclass(frozen=True, slots=True)
class Running:
    """A server that listens; ``base_url`` ends with /v1, ``root_url`` stops before it."""

    port: int
    identity: str
    process: subprocess.Popen[bytes]

    @property
    def root_url(self) -> str:
        """Where /health and /stats are."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """What clients of an OpenAI-compatible server call the base URL."""
        return f"{self.root_url}/v1"


def command(config: Path, port: int | None = None, stay: bool = False) -> list[str]:
    """The command line of a server with this configuration file."""
    parts = [sys.executable, "-m", MODULE, "--config", str(config)]
    return parts + ([] if port is None else ["--port", str(port)]) + (["--stay"] if stay else [])


def environment() -> dict[str, str]:
    """This environment, in which the child also finds a package that is not installed."""
    root = str(Path(__file__).resolve().parents[3])
    path = os.environ.get("PYTHONPATH")
    return os.environ | {"PYTHONPATH": root + (os.pathsep + path if path else "")}


@contextmanager
def running(table: Mapping[str, Any], port: int | None = None) -> Iterator[Running]:
    """A server with this ``[simulated]`` table, ended when the block is left.

    Raises RuntimeError with the server's own message when it does not start.
    """
    with tempfile.TemporaryDirectory(prefix="leakgrid-simulated-") as folder:
        config, noise = Path(folder, "simulated.json"), Path(folder, "stderr")
        config.write_text(json.dumps(table), encoding="utf-8")
        with noise.open("wb") as stderr:
            process = subprocess.Popen(
                command(config, port),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment(),
            )
        assert process.stdin is not None and process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                code = process.wait()
                message = noise.read_text(encoding="utf-8", errors="replace").strip()
                raise RuntimeError(f"the simulated server ended with {code}: {message}")
            ready = json.loads(line)
            yield Running(ready["port"], ready["identity"], process)
        finally:
            process.stdin.close()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
