"""The stand-in server (``standin.mjs``) in a process of its own."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("standin.mjs")


@dataclass(frozen=True, slots=True)
class Standin:
    """A running stand-in."""

    port: int

    @property
    def base_url(self) -> str:
        """The API's base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    def stats(self) -> dict[str, Any]:
        """What it has counted since the last ``set``."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/stats") as response:
            counted: dict[str, Any] = json.load(response)
            return counted

    def set(self, **settings: Any) -> None:
        """Change settings and start counting anew."""
        data = json.dumps(settings).encode()
        urllib.request.urlopen(f"http://127.0.0.1:{self.port}/set", data).close()


@contextmanager
def standin(**settings: Any) -> Iterator[Standin]:
    """A server that ends with the block."""
    process = subprocess.Popen(
        ["node", str(SCRIPT), json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield Standin(json.loads(process.stdout.readline())["port"])
    finally:
        process.stdin.close()
        process.wait(timeout=10)
        process.stdout.close()
