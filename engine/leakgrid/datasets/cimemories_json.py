"""Strict reading of one JSON document: doubled keys and NaN are seen, and told with their place.

Raises DatasetError.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from leakgrid.datasets.muppet_lines import Line
from leakgrid.outcomes import DatasetError

_KINDS = {dict: "object", list: "list", str: "text", bool: "boolean", type(None): "null"}


class Broken:
    """A value that JSON does not have (NaN, Infinity), as the file wrote it."""

    def __init__(self, written: str) -> None:
        self.written = written

    def __repr__(self) -> str:
        return self.written


class Doubled(dict[str, Any]):
    """An object in which one key stands twice."""

    key = ""


class Spot(Line):
    """Checks of values at one place of a document, in words: file and profile."""

    def __init__(self, where: str) -> None:
        self.where = where

    def wrong(self, key: str, value: object, allowed: str) -> NoReturn:
        """Raise for a value of the wrong kind."""
        shown = repr(value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        kind = "no JSON value" if isinstance(value, Broken) else _KINDS.get(type(value), "number")
        self.fail(key, f"{shown} ({kind})", allowed, "correct it in the file")

    def text(self, value: object, key: str) -> str:
        """A string that is not empty and can be written as UTF-8."""
        if not isinstance(value, str) or not value.strip():
            self.wrong(key, value, "a text that is not empty")
        try:
            value.encode()
        except UnicodeEncodeError:
            self.fail(key, "half a surrogate pair", "text", "correct the \\u escape in the file")
        return value

    def object(self, value: object, key: str, required: tuple[str, ...]) -> dict[str, Any]:
        """An object with at least these keys, none of its keys written twice."""
        if not isinstance(value, dict):
            self.wrong(key, value, "an object")
        if isinstance(value, Doubled):
            allowed = "every key once in an object"
            self.fail(key, f"the key {value.key!r} twice", allowed, "remove one of the two")
        for wanted in required:
            if wanted not in value:
                allowed = f"an object with the keys {', '.join(required)}"
                self.fail(f"{key}: {wanted}", "no such key", allowed, "add it")
        return value


def read_json(path: Path, expected: str) -> tuple[Any, tuple[str, ...]]:
    """The document, and notes on its bytes. `expected` says in a message what the file should be.

    Doubled keys come as Doubled, NaN and Infinity as Broken: the caller refuses them in place.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DatasetError(
            f"{path}: cannot be read ({error.strerror}); allowed: {expected}; check the path "
            "(datasets/cimemories/README.md says how to get the released file)"
        ) from error
    notes = ("the file begins with a byte order mark",) if data[:3] == b"\xef\xbb\xbf" else ()
    try:
        text = data.decode("utf-8-sig")
        return json.loads(text, object_pairs_hook=_pairs, parse_constant=Broken), notes
    except (ValueError, RecursionError) as error:
        raise DatasetError(
            f"{path}: found text that is not JSON ({error}); allowed: {expected}; "
            "fetch or write the file again"
        ) from error


def refuse_broken(path: Path, document: object) -> None:
    """Raise if a doubled key or a NaN is left anywhere in the document, with its path in it."""
    try:
        found_all = list(_walk(document, ""))
    except RecursionError:
        Spot(str(path)).fail("(whole file)", "very deep nesting", "plain JSON", "flatten it")
    for where, value in found_all:
        found = f"the key {value.key!r} twice" if isinstance(value, Doubled) else repr(value)
        Spot(str(path)).fail(where or "(whole file)", found, "plain JSON", "correct it in the file")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object from its pairs."""
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    seen: set[str] = set()
    doubled = Doubled(plain)
    doubled.key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    return doubled


def _walk(value: object, where: str) -> Iterator[tuple[str, Any]]:
    """Every Doubled and Broken below a value, with the way to it."""
    if isinstance(value, Doubled | Broken):
        yield where, value
    elif isinstance(value, dict):
        for key, entry in value.items():
            if isinstance(entry, dict | list | Broken):
                yield from _walk(entry, f"{where}.{key}" if where else key)
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            if isinstance(entry, dict | list | Broken):
                yield from _walk(entry, f"{where}[{index}]")
