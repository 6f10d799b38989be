"""Reading a TOML job with errors that name file, line, key, and what is allowed.

All mistakes of a file are collected and told together.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from leakgrid.outcomes import JobError


class Mistakes:
    """The mistakes found so far in one file."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.lines = text.splitlines()
        self.found: list[str] = []

    def add(self, keys: tuple[str, ...], told: str) -> None:
        """Note one mistake at ``keys`` (the path of tables and the key)."""
        line = self._line(keys)
        where = f"{self.path}:{line}" if line else str(self.path)
        name = ".".join(keys)
        self.found.append(f"{where}: {name}: {told}" if name else f"{where}: {told}")

    def stop(self) -> None:
        """Raise JobError if there was any mistake."""
        if self.found:
            raise JobError("\n".join(self.found))

    def _line(self, keys: tuple[str, ...]) -> int:
        """The line that sets ``keys``, or that of the nearest table around it; 0 if unknown."""
        for depth in range(len(keys), -1, -1):
            table, rest = keys[:depth], keys[depth:]
            start, end = self._table(table)
            if start < 0:
                continue
            if not rest:
                return start
            pattern = re.compile(rf"""^\s*["']?{re.escape(rest[0])}["']?\s*[.=]""")
            for number in range(start, end):
                if pattern.match(self.lines[number]):
                    return number + 1
            if depth:
                return start
        return 0

    def _table(self, keys: tuple[str, ...]) -> tuple[int, int]:
        """(first line after the header, last line) of a table; (-1, -1) if it has no header."""
        begin = 0 if not keys else -1
        for number, line in enumerate(self.lines):
            header = _header(line)
            if not header:
                continue
            if begin >= 0:
                return begin, number
            if header == keys:
                begin = number + 1
        return (begin, len(self.lines)) if begin >= 0 else (-1, -1)


def _header(line: str) -> tuple[str, ...]:
    """The keys of a line that begins a table; empty for any other line."""
    if not line.lstrip().startswith("["):
        return ()
    try:
        inside: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:  # part of a list over several lines
        return ()
    keys: list[str] = []
    while inside:
        ((key, inside),) = (inside[0] if isinstance(inside, list) else inside).items()
        keys.append(key)
    return tuple(keys)


class Table:
    """One table of the file; every key that is read is known, the rest is a mistake."""

    def __init__(self, data: Mapping[str, Any], keys: tuple[str, ...], mistakes: Mistakes) -> None:
        self.data = data
        self.keys = keys
        self.mistakes = mistakes
        self._known: set[str] = set()

    def wrong(self, key: str, told: str) -> None:
        """Note a mistake at a key of this table."""
        self.mistakes.add((*self.keys, key), told)

    def _take(self, key: str, default: Any, fits: Callable[[Any], bool], allowed: str) -> Any:
        self._known.add(key)
        if key not in self.data:
            if default is ...:
                self.mistakes.add(self.keys, f"the key {key!r} is missing; it must be {allowed}")
                return None
            return default
        value = self.data[key]
        if not fits(value):
            self.wrong(key, f"{value!r} does not fit; it must be {allowed}")
            return None if default is ... else default
        return value

    def text(self, key: str, default: Any = ..., choices: Iterable[str] | None = None) -> Any:
        """A string, one of ``choices`` where given."""
        if choices is None:
            return self._take(
                key, default, lambda value: isinstance(value, str) and bool(value), "a string"
            )
        value = self._take(
            key, default, lambda value: isinstance(value, str), one_of(sorted(choices))
        )
        if key in self.data and value is not None and value not in choices:
            self.wrong(key, unknown_name(value, choices))
        return value

    def number(self, key: str, default: Any = ..., least: float = 0.0) -> Any:
        """A number of at least ``least``."""
        return self._take(
            key,
            default,
            lambda value: (
                isinstance(value, int | float) and not isinstance(value, bool) and value >= least
            ),
            f"a number of at least {least:g}",
        )

    def whole(self, key: str, default: Any = ..., least: int = 0) -> Any:
        """A whole number of at least ``least``."""
        return self._take(
            key,
            default,
            lambda value: type(value) is int and value >= least,
            f"a whole number of at least {least}",
        )

    def flag(self, key: str, default: Any = ...) -> Any:
        """True or false."""
        return self._take(
            key, default, lambda value: isinstance(value, bool), "true or false (no quotes)"
        )

    def wholes(self, key: str, default: Any = ..., least: int = 0) -> Any:
        """A list of different whole numbers of at least ``least``, not empty."""
        return self._different(
            key,
            default,
            lambda part: type(part) is int and part >= least,
            f"a list of whole numbers of at least {least}, like [1, 6]",
        )

    def texts(self, key: str, default: Any = ...) -> Any:
        """A list of different strings, not empty."""
        return self._different(
            key,
            default,
            lambda part: isinstance(part, str),
            'a list of names, like ["one", "two"]',
        )

    def _different(self, key: str, default: Any, fits: Callable[[Any], bool], allowed: str) -> Any:
        """A list, not empty, of parts that fit and differ."""
        value = self._take(
            key,
            default,
            lambda value: isinstance(value, list) and bool(value) and all(map(fits, value)),
            allowed,
        )
        if value and len(set(value)) != len(value):
            self.wrong(key, f"{value!r} names something twice")
        return value

    def words(self, key: str, default: Any = ...) -> Any:
        """A list of strings, which may be empty."""
        return self._take(
            key,
            default,
            lambda value: isinstance(value, list) and all(isinstance(part, str) for part in value),
            'a list of strings, like ["--enforce-eager"]',
        )

    def value(self, key: str) -> Any:
        """A value of any kind, for the caller to check."""
        return self._take(key, None, lambda value: True, "")

    def mapping(self, key: str, default: Any = ...) -> Any:
        """A table taken as it is (parameters for a provider, headers)."""
        return self._take(key, default, lambda value: isinstance(value, dict), "a table")

    def table(self, key: str) -> Table:
        """A table inside this one; empty if it is not there."""
        return Table(self.mapping(key, {}), (*self.keys, key), self.mistakes)

    def tables(self, key: str) -> dict[str, Table]:
        """All named tables under ``key``: [models.one], [models.two]."""
        inside = self.table(key)
        found = {}
        for name, data in inside.data.items():
            if isinstance(data, dict):
                found[name] = Table(data, (*inside.keys, name), self.mistakes)
            else:
                inside.wrong(name, f"{data!r} does not fit; it must be a table")
        return found

    def end(self) -> None:
        """Note every key that nobody asked for."""
        for key in self.data:
            if key not in self._known:
                self.wrong(key, unknown_name(key, self._known))


def one_of(names: Iterable[str]) -> str:
    """Names as a phrase."""
    return "one of " + ", ".join(names)


def unknown_name(name: str, known: Iterable[str]) -> str:
    """What to say of a name that is not known: the nearest one, and all that are."""
    near = difflib.get_close_matches(str(name), list(known), 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{name!r} is not known here; {hint}allowed: {', '.join(sorted(known))}"


def read_toml(path: Path) -> tuple[Table, Mistakes]:
    """The root table of a job file. Raises JobError if it is not there or not TOML."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        beside = sorted(entry.name for entry in path.parent.glob("*.toml"))
        have = f"; in {path.parent} there are: {', '.join(beside)}" if beside else ""
        raise JobError(f"{path}: there is no such job file{have}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"{path}: cannot be read ({error})") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"{path}: is not TOML: {error}") from None
    mistakes = Mistakes(path, text)
    return Table(data, (), mistakes), mistakes
