"""The files that a ``[simulated]`` table names, as bytes; ValueError names the key at fault."""

from __future__ import annotations

from pathlib import Path

ITEMS = "the path of a JSON Lines file of items"
LABELS = "the path of a label file, or nothing"
FOLDER = "with writers, the folder of a dataset whose seeds/ hold questions and categories"

SEEDS = ("questions-*.toml", "categories-*.toml")
"""The seeds that writers and their drafts depend on, below the folder's seeds/."""


def read_items(path: str) -> bytes:
    """The bytes of the file of items. Raises ValueError when it cannot be read."""
    return read_file(path, "items", ITEMS)


def read_file(path: str, key: str, what: str) -> bytes:
    """The bytes of the file that simulated.<key> names. Raises ValueError as above."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ValueError(
            f'simulated.{key}: found "{path}", which cannot be read ({error.strerror}); '
            f"allowed: {what}"
        ) from error


def read_seeds(path: str) -> bytes:
    """Names and bytes of the seeds in a dataset's folder. Raises ValueError where it has none."""
    found = [sorted(Path(path, "seeds").glob(pattern)) for pattern in SEEDS]
    if not all(found):
        raise ValueError(f'simulated.items: found "{path}", which has no seeds; allowed: {FOLDER}')
    parts = []
    for file in (file for files in found for file in files):
        data = read_file(str(file), "items", FOLDER)
        # With the length, so that bytes moved from one file to the next are a change.
        parts.append(f"{file.name}\0{len(data)}\0".encode() + data)
    return b"".join(parts)
