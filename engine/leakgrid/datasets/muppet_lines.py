"""Checks of one JSON line's values: each failure names file, line, key, found, allowed and fix.

Raises DatasetError only.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from leakgrid.outcomes import DatasetError

Built = TypeVar("Built")


def _describe(value: object) -> str:
    """A value as an error message shows it: short, with its JSON type."""
    kinds = {dict: "object", list: "list", str: "text", bool: "boolean", type(None): "null"}
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return f"{shown} ({kinds.get(type(value), 'number')})"


class Line:
    """Checks of one line's values; every failure is a DatasetError with file and line."""

    def __init__(self, path: Path, number: int) -> None:
        self.where = f"{path}:{number}"

    def fail(self, key: str, found: str, allowed: str, fix: str) -> NoReturn:
        """Raise the one error form that this module has."""
        raise DatasetError(f"{self.where}: {key}: found {found}; allowed: {allowed}; fix: {fix}")

    def keys(
        self, value: object, key: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """The value, if it is an object with exactly these keys."""
        name = key or "(whole line)"
        if not isinstance(value, dict):
            self.fail(name, _describe(value), "an object", "write a JSON object here")
        allowed = (*required, *optional)
        for found in value:
            if found not in allowed:
                self.fail(
                    f"{key}.{found}" if key else found,
                    "an unknown key",
                    f"the keys {', '.join(allowed)}",
                    "remove or rename it",
                )
        for wanted in required:
            if wanted not in value:
                self.fail(
                    f"{key}.{wanted}" if key else wanted,
                    "no such key",
                    f"an object with the keys {', '.join(required)}",
                    "add it",
                )
        return value

    def text(self, value: object, key: str) -> str:
        """A non-empty string."""
        if not isinstance(value, str) or not value.strip():
            self.fail(key, _describe(value), "a text that is not empty", "write one")
        return value

    def boolean(self, value: object, key: str) -> bool:
        """true or false."""
        if not isinstance(value, bool):
            self.fail(key, _describe(value), "true or false", "write one of the two")
        return value

    def number(self, value: object, key: str, low: int, high: int) -> int:
        """A whole number in low..high; booleans are no numbers."""
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self.fail(key, _describe(value), f"a whole number {low} to {high}", "correct it")
        return value

    def real(self, value: object, key: str) -> float:
        """A finite number of at least 0; JSON has no other kinds of number than finite ones."""
        if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
            self.fail(key, _describe(value), "a number of at least 0", "correct it")
        return float(value)

    def texts(self, value: object, key: str, *, empty: bool = False) -> tuple[str, ...]:
        """A list of non-empty strings."""
        if not isinstance(value, list) or not (value or empty):
            kind = "a list of texts" if empty else "a list with at least one text"
            self.fail(key, _describe(value), kind, "write a JSON list of strings")
        return tuple(self.text(entry, f"{key}[{index}]") for index, entry in enumerate(value))

    def objects(
        self,
        value: object,
        key: str,
        keys: tuple[str, ...],
        build: Callable[[dict[str, Any], str], Built],
    ) -> tuple[Built, ...]:
        """A list of at least one object with exactly these keys, each built by `build`."""
        if not isinstance(value, list) or not value:
            self.fail(key, _describe(value), "a list with at least one object", "write one")
        return tuple(
            build(self.keys(entry, f"{key}[{index}]", keys), f"{key}[{index}]")
            for index, entry in enumerate(value)
        )
