"""The released MuPPET form on disk: one table, batches of conversations, batches of memories.

The rows of the three belong together by their position only. Raises DatasetError when a part is
missing, unreadable, given twice, or when the counts cannot be brought together.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import orjson

from leakgrid.outcomes import DatasetError

COLUMNS = (
    "id", "members", "topic", "assistant_member", "group_description", "shared_notes",
    "agent_task", "member_notes",
)  # fmt: skip
BATCH = re.compile(r"batch-(\d+)\.json")
BATCH_SIZE = 50
LARGEST = 256 * 2**20
HOLDER_KEYS = ("user_with_secret", "holder", "secret_holder")


@dataclass(frozen=True, slots=True)
class Oddity:
    """One thing out of the ordinary. row: position in the table from 0, -1 for whole files.

    done is kept, repaired or dropped (the row, or what `found` names).
    """

    row: int
    kind: str
    found: str
    done: str


@dataclass(frozen=True, slots=True)
class Source:
    """The three parts, aligned: entry n of each belongs to row n. A part may be None."""

    rows: tuple[dict[str, str], ...]
    conversations: tuple[Any, ...]
    memories: tuple[Any, ...]
    oddities: tuple[Oddity, ...]


def read_source(folder: Path) -> Source:
    """The folder's parts, wherever below it they lie."""
    if not folder.is_dir():
        fail(folder, "no folder", "the folder that holds the released files")
    rows = _table(folder)
    odd: list[Oddity] = []
    conversations = _batches(folder, "conversation", odd)
    memories = _batches(folder, "memor", odd)
    if len(memories) != len(rows):
        memories = _usable(memories, len(rows), odd, folder)
    if len(conversations) != len(rows):
        found = f"{len(conversations)} conversations for {len(rows)} rows"
        if len(conversations) < len(rows):
            odd.append(Oddity(-1, "conversations missing", found, "kept"))
            conversations += [None] * (len(rows) - len(conversations))
        else:
            odd.append(Oddity(-1, "conversations without a row", found, "dropped"))
    return Source(tuple(rows), tuple(conversations[: len(rows)]), tuple(memories), tuple(odd))


def pick(record: Any, *names: str) -> Any:
    """The first of these keys that the record has, spelling and capitals aside; else None."""
    if not isinstance(record, dict):
        return None
    plain = {re.sub(r"[\W_]+", "", str(key)).casefold(): value for key, value in record.items()}
    for name in names:
        value = plain.get(name.replace("_", ""))
        if value not in (None, "", [], {}):
            return value
    return None


def holder_of(memory: Any) -> str:
    """The full name of the person whose secret a memory is; empty if it does not say."""
    return full_name(pick(memory, *HOLDER_KEYS))


def full_name(record: Any) -> str:
    """First and last name of a profile, or a name given as text, with single spaces."""
    if isinstance(record, str):
        return " ".join(record.split())
    parts = (pick(record, "first_name"), pick(record, "last_name"))
    name = " ".join(str(part) for part in parts if part) or str(pick(record, "name") or "")
    return " ".join(name.split())


def carriers(memory: Any) -> list[dict[str, Any]]:
    """The members of a memory that have a sensitive-information field."""
    members = pick(pick(memory, "content"), "members")
    if not isinstance(members, list):
        return []
    return [m for m in members if pick(m, "sensitive_information", "sensitive_info")]


def fault_of(memory: Any) -> str:
    """Why a memory is unusable, by the authors' own filter; empty if it is not."""
    content = pick(memory, "content")
    if not isinstance(memory, dict) or not isinstance(content, dict):
        return "no content"
    if "error" in memory or "error" in content:
        return "an error in place of content"
    holder, carrying = holder_of(memory), [full_name(m) for m in carriers(memory)]
    if holder.casefold() not in (name.casefold() for name in carrying):
        return f"holder {holder!r}, sensitive information with {', '.join(carrying) or 'nobody'}"
    return ""


def fail(path: Path, found: str, allowed: str) -> NoReturn:
    """Raise DatasetError in its usual form."""
    raise DatasetError(f"{path}: found {found}; allowed: {allowed}; check the folder")


def _table(folder: Path) -> list[dict[str, str]]:
    """The rows of the one CSV file that has the columns."""
    found: list[tuple[Path, list[dict[str, str]]]] = []
    for path in sorted(folder.rglob("*.csv")):
        _small(path)
        try:
            with path.open(encoding="utf-8-sig", newline="") as stream:
                reader = csv.DictReader(stream, strict=True)
                if set(COLUMNS) - set(reader.fieldnames or ()):
                    continue
                found.append((path, [{c: row[c] or "" for c in COLUMNS} for row in reader]))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            fail(path, f"a table that cannot be read ({error})", "a CSV file in UTF-8")
    if len(found) != 1:
        paths = ", ".join(str(path) for path, _ in found) or "none"
        fail(folder, f"as tables with the columns {', '.join(COLUMNS)}: {paths}", "exactly one")
    return found[0][1]


def _batches(folder: Path, word: str, odd: list[Oddity]) -> list[Any]:
    """All entries of the batch files below a folder named after `word`, by batch number."""
    places: dict[Path, list[tuple[int, Path]]] = {}
    for path in folder.rglob("batch-*.json"):
        named = BATCH.fullmatch(path.name)
        parts = path.relative_to(folder).parts[:-1]
        if named and any(word in part.casefold() for part in parts):
            places.setdefault(path.parent, []).append((int(named[1]), path))
    if len(places) != 1:
        names = ", ".join(str(place) for place in sorted(places)) or "none"
        fail(folder, f"as folders of {word}* batches: {names}", "exactly one")
    # By number: as text, batch-10 would stand before batch-2 and shift every row after it.
    ((place, files),) = places.items()
    files.sort()
    if [number for number, _ in files] != list(range(len(files))):
        numbers = ", ".join(str(number) for number, _ in files)
        fail(place, f"the batches {numbers}", "batches numbered from 0 without a gap")
    entries: list[Any] = []
    for number, batch in _read(files):
        if len(batch) != BATCH_SIZE and number != files[-1][0]:
            found = f"{files[number][1].name} of {place.name}: {len(batch)} entries"
            odd.append(Oddity(-1, f"a batch of other than {BATCH_SIZE}", found, "kept"))
        entries += batch
    return entries


def _read(files: list[tuple[int, Path]]) -> Iterator[tuple[int, list[Any]]]:
    """Each batch as a list."""
    for number, path in files:
        _small(path)
        try:
            batch = orjson.loads(path.read_bytes())
        except (OSError, orjson.JSONDecodeError) as error:
            fail(path, f"a batch that cannot be read ({error})", "a JSON list")
        if not isinstance(batch, list):
            fail(path, f"a JSON {type(batch).__name__}", "a JSON list")
        yield number, batch


def _usable(memories: list[Any], rows: int, odd: list[Oddity], folder: Path) -> list[Any]:
    """The memories that the authors' filter lets through, if that gives one for each row."""
    kept = []
    for index, memory in enumerate(memories):
        if why := fault_of(memory):
            found = f"memory {index}: {why}"
            odd.append(Oddity(-1, "memory filtered out", found, "dropped"))
        else:
            kept.append(memory)
    if len(kept) != rows:
        found = f"{len(memories)} memories, {len(kept)} of them usable, for {rows} rows"
        fail(folder, found, "one usable memory for each row")
    return kept


def _small(path: Path) -> None:
    """Refuse files that are far larger than the released ones."""
    size = path.stat().st_size
    if size > LARGEST:
        fail(path, f"{size:,} bytes", f"at most {LARGEST:,} bytes")
