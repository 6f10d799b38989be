"""Prompt files: text with ``{{name}}`` places, filled in one pass and never twice.

What is filled in (notes, a model's reply) is data: a ``{{...}}`` inside it stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from leakgrid.outcomes import JobError

_PLACE = re.compile(r"\{\{\s*([a-z_]+)\s*\}\}")


class Prompt:
    """One prompt file. Raises JobError for a file that is not there or names an unknown place."""

    __slots__ = ("name", "places", "text")

    def __init__(self, path: Path, allowed: Iterable[str]) -> None:
        try:
            self.text = path.read_text("utf-8").strip()
        except OSError as error:
            raise JobError(f"{path}: the prompt cannot be read ({error.strerror})") from None
        self.name = path.stem
        self.places = frozenset(_PLACE.findall(self.text))
        known = set(allowed)
        for line, content in enumerate(self.text.splitlines(), start=1):
            for place in _PLACE.findall(content):
                if place not in known:
                    raise JobError(
                        f"{path}:{line}: {{{{{place}}}}} is not a place that can be filled here; "
                        f"allowed: {', '.join(sorted(known))}"
                    )

    def fill(self, values: Mapping[str, str]) -> str:
        """The text with every place filled."""
        return _PLACE.sub(lambda match: values[match.group(1)], self.text)

    def cue(self, others: Iterable[Prompt] = ()) -> str:
        """The longest piece between places that no other prompt has: it marks texts made from it.

        Numbers and dashes before a line are left off, since they say nothing of its content.
        """
        elsewhere = "\n".join(other.text for other in others if other is not self)
        pieces = _PLACE.sub("\n", self.text).splitlines()
        lines = (piece.strip().lstrip("0123456789.-# ") for piece in pieces)
        own = [line for line in lines if line not in elsewhere]
        return max(own, key=len, default="")


def bullets(lines: Iterable[str]) -> str:
    """Lines as a dashed list."""
    return "\n".join(f"- {line}" for line in lines)
