"""The durable book of batches: what we meant to send, what it became, and which calls it holds.

One folder per lane. ``book.jsonl`` is a journal of events, each on disk (fsync) before the next
step is taken::

    began                          the first batch of a piece of work: deadlines count from here
    intent     id calls usd ...    the manifest of the calls is complete; nothing is sent yet
    uploaded   id file             the input file is at the service
    created    id batch            the batch exists and will be paid
    harvested  id ...              all its answers are in the cache (of an expired batch: what it
                                   had); the manifest is gone
    abandoned  id why              it never ran, so its calls are planned anew
    finished                       nothing is parked any more

``ID.calls`` is the manifest: one call a line, with its request key and its body. A kill -9
between two steps leaves an intent without the id of the next one; the service is then asked for
a file or a batch that carries the intent's id before anything is sent again.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from leakgrid.cache.framing import seal
from leakgrid.cache.journal_file import JournalFile, lock, mend, sync_folder
from leakgrid.outcomes import CacheError, InputError

CALLS = ".calls"
_BODY = b',"body":'


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One batch that we mean to have or have: ``began`` in seconds since 1970.

    ``file`` and ``batch`` are the service's ids, empty until they are known. ``usd`` is the
    estimate, ``fresh`` False for one that an earlier run left behind.
    """

    id: str
    calls: int
    usd: float
    began: float
    file: str = ""
    batch: str = ""
    fresh: bool = True


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of a manifest without its body; ``size`` is the body's in bytes."""

    key: str
    role: str
    sample: int
    most: int | None
    job: str
    size: int


class Book:
    """The book of one lane, held by one process. All methods block; ``note`` takes any thread."""

    def __init__(self, folder: Path) -> None:
        """Open and lock it. Raises InputError if another run holds it, CacheError if it cannot."""
        self.folder = folder
        self.live: dict[str, Intent] = {}
        self.began: float | None = None
        self._guard = threading.Lock()
        path = folder / "book.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = lock(path)
        except OSError as error:
            raise CacheError(f"{folder}: cannot be written ({error.strerror})") from error
        if descriptor is None:
            raise InputError(
                f"{folder}: another run is waiting for batches of this model with this cache; "
                "wait for it, or stop it with Ctrl-C (its batches go on) and run again"
            )
        self._descriptor = descriptor
        try:
            self._load(path)
        except BaseException:
            self.close()
            raise

    def _load(self, path: Path) -> None:
        file = JournalFile(path)
        file.read(lambda _, payload: self._apply(orjson.loads(payload)))
        if file.damage:
            raise CacheError(
                f"{path}: line {file.damage[0].line} is damaged, so it is not known which batches "
                "are paid. Look at the provider's list of batches; then move the folder away"
            )
        mend(self._descriptor, file)
        self.live = {name: replace(intent, fresh=False) for name, intent in self.live.items()}
        for name in self.live:
            if not self.manifest(name).exists():
                raise CacheError(f"{self.manifest(name)} is missing: a batch is open for its calls")
        for stray in self.folder.iterdir():
            if stray != path and (stray.suffix != CALLS or stray.stem not in self.live):
                with contextlib.suppress(OSError):
                    stray.unlink()

    def close(self) -> None:
        """Let it go; a thread that still works for a run that was left can write no more."""
        with self._guard:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    # --- events -------------------------------------------------------------------------------

    def note(self, event: str, intent: str = "", **more: Any) -> None:
        """Write one event; on disk when this returns. Raises CacheError."""
        row = {"event": event, "id": intent, "ts": time.time(), **more}
        line = seal(orjson.dumps(row))
        with self._guard:
            if self._descriptor < 0:
                raise CacheError(f"{self.folder}: the book is closed")
            size = os.fstat(self._descriptor).st_size
            try:
                view = memoryview(line)
                while view:
                    view = view[os.write(self._descriptor, view) :]
                os.fsync(self._descriptor)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._descriptor, size)
                raise CacheError(f"{self.folder}: write failed ({error.strerror})") from error
            self._apply(row)

    def _apply(self, row: dict[str, Any]) -> None:
        event, name = row["event"], row["id"]
        if event == "began":
            self.began = row["ts"]
        elif event == "finished":
            self.began = None
        elif event == "intent":
            self.live[name] = Intent(id=name, calls=row["calls"], usd=row["usd"], began=row["ts"])
        elif event == "uploaded":
            self.live[name] = replace(self.live[name], file=row["file"])
        elif event == "created":
            self.live[name] = replace(self.live[name], batch=row["batch"])
        else:  # harvested, abandoned
            self.live.pop(name, None)

    # --- manifests ----------------------------------------------------------------------------

    def manifest(self, intent: str) -> Path:
        """Where the calls of an intent stand."""
        return self.folder / f"{intent}{CALLS}"

    def intend(self, draft: Path, calls: int, usd: float, **about: Any) -> Intent:
        """Make a draft the manifest of a new batch, then write its intent; both on disk then.

        ``about`` is for tables: whose batch it is.
        """
        name = f"lg{time.time_ns() // 1_000_000:013d}{os.urandom(4).hex()}"
        path = self.manifest(name)
        try:
            with draft.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(draft, path)
            sync_folder(self.folder)
        except OSError as error:
            raise CacheError(f"{path}: write failed ({error.strerror})") from error
        if self.began is None:
            self.note("began")
        self.note("intent", name, calls=calls, usd=usd, **about)
        return self.live[name]

    def closed(self, intent: str, event: str, **more: Any) -> None:
        """Note how an intent ended, and remove its manifest."""
        self.note(event, intent, **more)
        with contextlib.suppress(OSError):
            self.manifest(intent).unlink()

    def calls(self, intent: str) -> Iterator[tuple[Asked, bytes]]:
        """Every call of a manifest with its body, in order. Raises CacheError if it is damaged."""
        path = self.manifest(intent)
        try:
            with path.open("rb") as lines:
                yield from map(call_of, lines)
        except (OSError, ValueError, KeyError) as error:
            raise CacheError(f"{path}: cannot be read ({error})") from error


def line_of(key: bytes, role: str, sample: int, most: int | None, job: str, body: bytes) -> bytes:
    """One call as a line of a manifest; the body comes last and as it is."""
    head = orjson.dumps(
        {"key": key.hex(), "role": role, "sample": sample, "most": most, "job": job}
    )
    return b'%b,"body":%b}\n' % (head[:-1], body)


def call_of(line: bytes) -> tuple[Asked, bytes]:
    """(call, body) of a line. Raises ValueError or KeyError where it is none."""
    # A quote inside a JSON string is escaped, so the first match can only be the key itself.
    cut = line.index(_BODY)
    head = orjson.loads(line[:cut] + b"}")
    body = line[cut + len(_BODY) : -2]
    if not line.endswith(b"}\n"):
        raise ValueError("a line is torn")
    asked = Asked(head["key"], head["role"], head["sample"], head["most"], head["job"], len(body))
    return asked, body
