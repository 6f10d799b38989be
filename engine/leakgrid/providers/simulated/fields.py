"""A reader of plain mappings that collects every mistake instead of stopping at the first.

A mistake reads "<dotted.key>: found X; allowed: Y".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any


def shown(value: object) -> str:
    """A value as a message shows it: short, as one would write it in a job file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a table"
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def suggestion(word: str, allowed: Sequence[str]) -> str:
    """' (did you mean X?)', or nothing when no allowed word is near."""
    near = get_close_matches(word, allowed, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


@dataclass(slots=True)
class Table:
    """One table being read: ``key`` is its dotted place, ``mistakes`` is shared by all tables.

    Every method returns its default when it notes a mistake, so that reading goes on.
    """

    values: Mapping[str, Any]
    key: str
    mistakes: list[str] = field(default_factory=list)

    def wrong(self, name: str, found: str, allowed: str) -> None:
        """Note one mistake at this table's key ``name``."""
        self.mistakes.append(f"{self.key}.{name}: found {found}; allowed: {allowed}")

    def only(self, *allowed: str) -> None:
        """Note every key that is not among ``allowed``."""
        for name in self.values:
            if name not in allowed:
                names = ", ".join(sorted(allowed))
                hint = suggestion(str(name), allowed)
                self.wrong(str(name), "an unknown key", names + hint)

    def number(self, name: str, default: float | None, low: float, high: float) -> float:
        """A number in [low, high]; a default of None makes the key required."""
        value = self.values.get(name, default)
        allowed = f"a number from {low:g} to {high:g}"
        # The comparison also refuses NaN, which JSON files cannot carry but callers can.
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong(name, shown(value), allowed)
        elif not low <= value <= high:
            self.wrong(name, shown(value), allowed)
        else:
            return float(value)
        return low if default is None else default

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        value = self.values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.wrong(name, shown(value), f"a whole number from {low} to {high}")
            return default
        return value

    def flag(self, name: str, default: bool) -> bool:
        """true or false."""
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            self.wrong(name, shown(value), "true or false")
            return default
        return value

    def text(self, name: str, default: str | None, what: str) -> str:
        """A text; ``what`` says in words what it should be; a default of None: required."""
        value = self.values.get(name, default)
        if not isinstance(value, str) or (default is None and not value):
            self.wrong(name, shown(value), what)
            return default or ""
        return value

    def names(self, name: str, what: str) -> tuple[str, ...]:
        """A list of texts, empty when the key is absent."""
        value = self.values.get(name, ())
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            self.wrong(name, shown(value), what)
            return ()
        return tuple(value)

    def shares(self, name: str, default: tuple[float, ...]) -> tuple[float, ...]:
        """A list of numbers from 0 to 1 that add up to 1."""
        value = self.values.get(name, default)
        if (
            not isinstance(value, list | tuple)
            or not all(isinstance(v, int | float) and not isinstance(v, bool) for v in value)
            or not all(0.0 <= v <= 1.0 for v in value)
            or abs(sum(value) - 1.0) > 1e-6
        ):
            self.wrong(name, shown(value), "a list of numbers from 0 to 1 that add up to 1")
            return default
        return tuple(float(v) for v in value)

    def table(self, name: str) -> Table:
        """The table below ``name``; an empty one when it is absent."""
        value = self.values.get(name, {})
        if not isinstance(value, Mapping):
            self.wrong(name, shown(value), "a table")
            value = {}
        return Table(value, f"{self.key}.{name}", self.mistakes)

    def tables(self, name: str) -> dict[str, Table]:
        """The tables below the table ``name``, by their own names."""
        parent = self.table(name)
        return {child: parent.table(child) for child in parent.values}

    def factors(self, name: str) -> dict[str, float]:
        """A table of factors, each from 0 to 100."""
        below = self.table(name)
        return {child: below.number(child, None, 0.0, 100.0) for child in below.values}

    def at_most_one(self, rates: Mapping[str, float], of: str = "") -> None:
        """Note rates that add up to more than 1, as one coin decides between them."""
        if (total := sum(rates.values())) > 1.0 + 1e-9:
            self.mistakes.append(
                f"{self.key}: found rates{of} ({', '.join(rates)}) that add up to {total:g}; "
                "allowed: a sum of at most 1"
            )

    def texts(self, name: str, what: str) -> dict[str, str]:
        """A table of texts that are not empty."""
        below = self.table(name)
        return {child: below.text(child, None, what) for child in below.values}
