"""The files and batches of the simulated batch service, in a folder: they outlive its process.

A batch of an engine that was killed, and its simulated server with it, is found again when the
next run starts the server anew. Every write is a whole file put in place, so a kill leaves no
half of one that is believed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

KEEP_S = 7 * 86_400.0
"""What ended longer ago is removed when the service starts."""

ENDED = frozenset({"completed", "expired", "cancelled", "failed"})
OPENAI_CHAT = "/v1/chat/completions"
GEMINI = "gemini"
"""Endpoints that a batch may be for; the latter is no path but Google's way of asking."""

_FILE, _DATA, _BATCH = ".file.json", ".data", ".batch.json"


@dataclass(slots=True, kw_only=True)
class File:
    """A file as it is listed; ``sha256`` stands for its content."""

    id: str
    name: str
    purpose: str
    bytes: int
    sha256: str
    created: float


@dataclass(slots=True, kw_only=True)
class Plan:
    """How a batch is to go. ``end``: completed, expired, cancelled, failed or never.

    ``done``: how many lines are carried out when it ends otherwise than complete. ``polls``: the
    look at which it ends, instead of the clock. ``early``: it is called completed one look before
    it has files. ``hidden``: listings that miss it. ``strange``: lines too many. ``errors``: what
    a failed batch says.
    """

    end: str = "completed"
    done: int | None = None
    polls: int | None = None
    early: bool = False
    hidden: int = 0
    torn: bool = False
    strange: int = 0
    errors: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Batch:
    """One batch; ``name`` is Google's word for what OpenAI keeps in ``metadata``.

    ``share``: how much of its time was over when it was cancelled. ``output`` and ``error`` are
    ids of files, empty where there are none.
    """

    id: str
    file: str
    endpoint: str
    model: str
    total: int
    created: float
    plan: Plan
    name: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    status: str = "in_progress"
    share: float = 0.0
    output: str = ""
    error: str = ""


class Store:
    """All files and batches, the oldest first. Its methods block, for a moment each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, File] = {}
        self.batches: dict[str, Batch] = {}
        folder.mkdir(parents=True, exist_ok=True)
        for told in sorted(self._read(_FILE), key=_created):
            self.files[told["id"]] = File(**told)
        for told in sorted(self._read(_BATCH), key=_created):
            self.batches[told["id"]] = Batch(**{**told, "plan": Plan(**told["plan"])})
        self._clear()

    def _read(self, ending: str) -> Iterator[dict[str, Any]]:
        for path in self.folder.glob(f"*{ending}"):
            yield orjson.loads(path.read_bytes())

    def _clear(self) -> None:
        """Remove what nobody will ask for any more."""
        old = time.time() - KEEP_S
        for batch in [one for one in self.batches.values() if one.status in ENDED]:
            if batch.created < old:
                del self.batches[batch.id]
                (self.folder / f"{batch.id}{_BATCH}").unlink(missing_ok=True)
        for path in self.folder.glob("*.draft"):
            with contextlib.suppress(FileNotFoundError):  # another server has put it in place
                if path.stat().st_mtime < old:
                    path.unlink()
        used = {id for one in self.batches.values() for id in (one.file, one.output, one.error)}
        for file in [one for one in self.files.values() if one.id not in used]:
            if file.created < old:
                del self.files[file.id]
                (self.folder / f"{file.id}{_FILE}").unlink(missing_ok=True)
                self.data(file).unlink(missing_ok=True)

    def forget(self) -> None:
        """Remove everything."""
        self.files.clear()
        self.batches.clear()
        for path in self.folder.iterdir():
            path.unlink(missing_ok=True)

    def data(self, file: File) -> Path:
        """Where a file's content is."""
        return self.folder / f"{file.id}{_DATA}"

    def draft(self) -> Draft:
        """A new file, to be written."""
        return Draft(self, new_id("file"))

    def added(self, file: File) -> File:
        """List a file whose content is in its place."""
        self.files[file.id] = file
        self._write(f"{file.id}{_FILE}", asdict(file))
        return file

    def save(self, batch: Batch) -> Batch:
        """Keep a batch as it is now."""
        self.batches[batch.id] = batch
        self._write(f"{batch.id}{_BATCH}", asdict(batch))
        return batch

    def _write(self, name: str, told: dict[str, Any]) -> None:
        path = self.folder / name
        draft = path.with_suffix(".draft")
        draft.write_bytes(orjson.dumps(told))
        os.replace(draft, path)


class Draft:
    """A file that is being written; it is listed only when it is finished."""

    def __init__(self, store: Store, id: str) -> None:
        self._store, self._id = store, id
        self._path = store.folder / f"{id}.draft"
        self._hash, self._size = hashlib.sha256(), 0
        self._file = self._path.open("wb")

    def write(self, data: bytes) -> None:
        """Add to it."""
        self._file.write(data)
        self._hash.update(data)
        self._size += len(data)

    async def take(self, chunks: AsyncIterator[bytes]) -> None:
        """Add all chunks to it."""
        async for chunk in chunks:
            self.write(chunk)

    def cut(self, size: int) -> None:
        """Take so many bytes off its end."""
        self._size -= size
        self._file.flush()
        self._file.truncate(self._size)
        self._file.seek(self._size)
        # Its content is another now; nobody asks for the digest of a result file.
        self._hash = hashlib.sha256(b"cut" + self._hash.digest())

    def drop(self) -> None:
        """Leave it; nothing of it stays. Nothing happens to one that is finished."""
        if not self._file.closed:
            self._file.close()
            self._path.unlink(missing_ok=True)

    def finish(self, name: str, purpose: str) -> File:
        """Put it in its place."""
        self._file.close()
        file = File(
            id=self._id,
            name=name,
            purpose=purpose,
            bytes=self._size,
            sha256=self._hash.hexdigest(),
            created=time.time(),
        )
        os.replace(self._path, self._store.data(file))
        return self._store.added(file)


def new_id(kind: str) -> str:
    """An id that no other server with the same folder gives: it may be started twice."""
    return f"{kind}-{os.urandom(12).hex()}"


def _created(told: dict[str, Any]) -> float:
    return float(told["created"])
