"""Ends a process group when whoever watches it is gone, in whatever way it went.

Run with a pipe as standard input: each line is the id of a group to end at EOF, or ``-ID`` to
forget one that has ended by itself. Standard library only: it must start in no time.
"""

from __future__ import annotations

import os
import signal
import sys
import time

GRACE_S = 10.0


def end_group(group: int, grace_s: float = GRACE_S) -> None:
    """SIGTERM to a whole process group, and SIGKILL to what is left of it after ``grace_s``."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + grace_s
        try:
            os.killpg(group, number)
            while time.monotonic() < deadline:
                time.sleep(0.05)
                os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return  # macOS says EPERM where only zombies are left


def main() -> None:
    """Read groups until EOF, then end those that are left."""
    groups: set[int] = set()
    for line in sys.stdin:
        number = int(line)
        if number < 0:
            groups.discard(-number)
        else:
            groups.add(number)
    for group in groups:
        end_group(group)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main()
