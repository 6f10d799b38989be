"""Clients in processes of their own: started, bounded, and read."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".venv-bench"
REQUIREMENTS = Path(__file__).with_name("requirements-peers.txt")


class NotMeasuredError(Exception):
    """Why a number is missing, in one line."""


def say(text: str) -> None:
    """One line of progress."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def told(error: BaseException) -> str:
    """An error in one short line that fits a table."""
    name = "" if isinstance(error, NotMeasuredError) else f"{type(error).__name__}: "
    return _last(f"{name}{error}") or name


@contextmanager
def folder() -> Iterator[Path]:
    """A folder that goes with the block."""
    with TemporaryDirectory(prefix="leakgrid-bench-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def client(module: str, *arguments: object, python: Path | None = None, timeout: float) -> Any:
    """What a client printed. Raises NotMeasuredError when it failed or took too long."""
    command = [str(python or sys.executable), "-m", f"tests.bench.{module}", *map(str, arguments)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotMeasuredError(f"{module} took more than {timeout:g} s") from None
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        raise NotMeasuredError(f"{module}: {_last(done.stderr) or 'it printed nothing'}")
    result = json.loads(lines[-1])
    told = f"{result['calls'] / result['wall_s']:,.0f} calls/s"
    told += f", {result['cpu_s'] / result['calls'] * 1e6:,.0f} us CPU a call"
    say(f"  {' '.join([module, *map(str, arguments[1:])])}: {told}, {result['peak_mb']:.0f} MB")
    return result


def peers() -> Path:
    """The interpreter that has the peers, installed on first use. Raises NotMeasuredError."""
    python, mark = PEERS / "bin" / "python", PEERS / "installed.txt"
    wanted = REQUIREMENTS.read_text("utf-8")
    if mark.exists() and mark.read_text("utf-8") == wanted:
        return python
    say(f"installing the peers into {PEERS.name} (first use; a minute)")
    began = time.monotonic()
    for command in (
        [sys.executable, "-m", "venv", str(PEERS)],
        [str(python), "-m", "pip", "install", "-q", "-U", "-r", str(REQUIREMENTS)],
    ):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        except subprocess.TimeoutExpired:
            raise NotMeasuredError("the peers were not installed within 10 minutes") from None
        if done.returncode:
            raise NotMeasuredError(f"the peers cannot be installed: {_last(done.stderr)}")
    (PEERS / ".gitignore").write_text("*\n", "utf-8")
    mark.write_text(wanted, "utf-8")
    say(f"  installed in {time.monotonic() - began:.0f} s")
    return python


def _last(text: str) -> str:
    """The last line that says something, cut to what fits into a table."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:160].replace("|", "/") if lines else ""
