"""``python -m leakgrid.cache.sealing STREAM JOURNAL``: seal one full journal, in a process apart.

Making a segment takes a second of Python and Arrow; in the engine's own process it would share
the interpreter with the event loop, and cost it a fifth of its calls and 100 MB of memory.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from leakgrid.cache.journal_file import JournalFile

MODULE = "leakgrid.cache.sealing"


def seal_apart(stream: str, journal: JournalFile) -> None:
    """Seal ``journal`` in a child process and wait for it (blocking: call it in a thread).

    The caller holds the journal's lock. When the child fails the journal stays as it is, and
    the next run seals it. Ctrl-C in the terminal does not reach the child.
    """
    subprocess.run(
        [sys.executable, "-m", MODULE, stream, str(journal.path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=False,
    )


def main(stream: str, path: Path) -> None:
    """Seal and make the small index beside the segment."""
    # Arrow loads it where there is one, and nothing here needs it: a third of the start.
    sys.modules.setdefault("numpy", None)  # type: ignore[arg-type]
    from leakgrid.cache import answers, cells
    from leakgrid.cache.segments import seal_journal

    segment = seal_journal(stream, JournalFile(path))
    if stream == answers.STREAM:
        answers.load_keys(segment)
    elif stream == cells.STREAM:
        cells.load_cells(segment)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
