"""Generated parts of the README: ``python -m tests.docs`` writes them, a test checks them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"


def help_text() -> str:
    """``leakgrid --help`` at 80 columns."""
    done = subprocess.run(
        [sys.executable, "-m", "leakgrid", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={"COLUMNS": "80", "PATH": ""},
    )
    return done.stdout.strip()


def expected(text: str) -> str:
    """The README with every generated part as it should be."""
    block = f"<!-- help -->\n## The command line\n\n```text\n{help_text()}\n```\n<!-- /help -->"
    return re.sub(r"<!-- help -->.*<!-- /help -->", lambda _: block, text, flags=re.DOTALL)


def commands(text: str, part: str) -> list[str]:
    """The commands of a marked block: what ``.ci/run`` runs and a newcomer types."""
    (block,) = re.findall(rf"<!-- ci:{part} -->\n```sh\n(.*?)```\n<!-- /ci -->", text, re.DOTALL)
    return [line for line in block.splitlines() if line]


if __name__ == "__main__":
    README.write_text(expected(README.read_text("utf-8")), "utf-8")
