"""Python literals from an untrusted table: text in, plain data out, nothing ever run.

Raises LiteralFault for what is too long, too deep, no literal, or holds other than plain data.
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any

LONGEST = 131_072
"""Characters of one cell, which is also where Python's csv module stops by default."""
DEEPEST = 30
"""Brackets inside brackets: profiles in a list need three."""
BIGGEST = 2**63
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_NESTED = re.compile(r"[\[({]|[\])}]")
_SIGNS = re.compile(r"(?:[-+~]\s*){8}|\bnot\b")


class LiteralFault(ValueError):
    """A text that is no literal of plain data; the message says why in a few words."""


def literal(text: str) -> Any:
    """The value of a Python literal made of str, int, float, bool, None, list, tuple and dict."""
    if len(text) > LONGEST:
        raise LiteralFault(f"{len(text)} characters, allowed are {LONGEST}")
    _check_shape(text)
    try:
        with warnings.catch_warnings():
            # A stray backslash is data here; Python would warn about it as about a program.
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise LiteralFault(f"no Python literal ({type(error).__name__})") from None
    _check_plain(value)
    return value


def doubled_literal(text: str) -> tuple[Any, bool]:
    """literal(text); if that fails, of the text with doubled quotes halved, and then True."""
    try:
        return literal(text), False
    except LiteralFault:
        # A table that was exported twice still has doubled quotes after the CSV reader.
        if '""' not in text:
            raise
        return literal(text.replace('""', '"')), True


def _check_shape(text: str) -> None:
    """Refuse before parsing what would make the parser itself recurse far."""
    bare = _QUOTED.sub("", text)
    if _SIGNS.search(bare):
        raise LiteralFault("an expression and no literal")
    depth = 0
    for match in _NESTED.finditer(bare):
        depth += 1 if match[0] in "[({" else -1
        if depth > DEEPEST:
            raise LiteralFault(f"more than {DEEPEST} brackets inside each other")


def _check_plain(value: Any) -> None:
    """Refuse sets, bytes, complex numbers and the ellipsis at any level."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple):
            waiting += one
        elif isinstance(one, int) and abs(one) > BIGGEST:
            # Such a number cannot even be printed into a report.
            raise LiteralFault("a whole number of more than 64 bits")
        elif one is not None and not isinstance(one, str | int | float):
            raise LiteralFault(f"a value of the type {type(one).__name__}")
