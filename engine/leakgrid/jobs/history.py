"""What is kept of a run itself: its lock, its code, its plan, and how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import fcntl
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from leakgrid import __version__
from leakgrid.cache.journal import Journal
from leakgrid.jobs.plan import Plan
from leakgrid.outcomes import CacheError, InputError

if TYPE_CHECKING:
    from leakgrid.jobs.run import RunReport


class History:
    """The events of one run in the ``runs`` stream (see ``cache/tables.py``)."""

    def __init__(self, journal: Journal, plan: Plan, cache: Path, run: str) -> None:
        self._journal = journal
        self._plan = plan
        self._cache = cache
        self._run = run

    async def start(self) -> None:
        """Note what is run, by which code, and the plan where it changed."""
        state = await asyncio.to_thread(git_state, self._plan.job.home)
        await self._event(
            "start",
            {
                "job_file": str(self._plan.job.path),
                "argv": sys.argv,
                "git": state,
                "versions": {"leakgrid": __version__, "python": platform.python_version()},
                "started": _now(),
            },
        )
        described = await asyncio.to_thread(self._plan.described)
        if (
            await asyncio.to_thread(known_plan, self._cache, self._plan.job.name)
            != (described["plan_id"])
        ):
            await self._event("plan", described)
            await asyncio.to_thread(self._keep_plan, described["plan_id"])

    async def end(self, report: RunReport) -> None:
        """Note how the run ended."""
        await self._event("lanes", {lane.name: asdict(lane) for lane in report.lanes})
        await self._event(
            "end",
            {
                "exit_code": report.exit_code,
                "ended": _now(),
                "sent": report.counts.sent,
                "answered_from_cache": report.counts.from_cache + report.counts.joined,
                "cells_done": report.done,
                "cells_open": report.open,
                "spend_usd": report.usd,
                "seconds": report.seconds,
            },
        )

    async def _event(self, event: str, payload: Any) -> None:
        row = {
            "event": event,
            "run": self._run,
            "job": self._plan.job.name,
            "ts": time.time(),
            "payload": (await asyncio.to_thread(orjson.dumps, payload)).decode(),
        }
        self._journal.append_soon(orjson.dumps(row))
        await self._journal.flush()

    def _keep_plan(self, plan_id: str) -> None:
        path = _plan_file(self._cache, self._plan.job.name)
        with _written(path):
            path.parent.mkdir(exist_ok=True)
            path.write_text(plan_id)


def known_plan(cache: Path, job: str) -> str:
    """The id of the plan that was noted last for a job; empty if none was."""
    try:
        return _plan_file(cache, job).read_text()
    except OSError:
        return ""


def _plan_file(cache: Path, job: str) -> Path:
    return cache / "plans" / f"{job}.id"


@contextlib.contextmanager
def only_run(cache: Path, job: str) -> Iterator[None]:
    """Hold the lock of a job: two runs of one job would pay for the same calls twice.

    Raises InputError when another process holds it, CacheError when it cannot be made.
    """
    path = cache / "locks" / f"{job}.lock"
    with _written(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.pread(descriptor, 20, 0).decode() or "?"
        os.close(descriptor)
        raise InputError(
            f"job {job} is already running (process {holder}) with the cache {cache}; wait for "
            "it, or stop it with Ctrl-C and run again"
        ) from None
    try:
        with _written(path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _written(path: Path) -> Iterator[None]:
    """CacheError instead of what the disk says when ``path`` cannot be written."""
    try:
        yield
    except OSError as error:
        raise CacheError(
            f"{error.filename or path}: cannot be written ({error.strerror}); "
            "make room, or choose another folder with --cache"
        ) from error


def git_state(folder: Path) -> dict[str, Any]:
    """Commit and whether the tree is dirty; empty values outside a repository."""

    def ask(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain"))}
    except OSError:
        return {"commit": "", "dirty": False}


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
