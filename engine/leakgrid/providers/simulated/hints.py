"""Full and partial disclosure as simulated texts carry them: the statement itself, or a hint.

A hint names the matter, begins the statement and breaks off; what makes it exact is a mark, eight
hexadecimal digits over the statement. Mark and statement are all that a judge needs to know.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from leakgrid.datasets.surface import folded

FULL = "full"
PARTIAL = "partial"
NONE = "none"

_PIECES = re.compile(r"(?<=[.!?])\s+|\n+")


def mark(fold: str) -> str:
    """The mark of a folded statement, as it stands in hints."""
    return hashlib.blake2s(fold.encode(), digest_size=4).hexdigest()


def hint(statement: str, code: str, topic: str, others: Iterable[str]) -> str:
    """A noun phrase with the mark that hints at the statement; it holds no folded ``others``."""
    words = statement.split()
    start = " ".join(words[: min(3, len(words) // 2)])
    texts = (
        f"a point about {topic} that begins “{start} …” (my note {code})",
        f"something that begins “{start} …” (my note {code})",
        f"something that I keep as note {code}",
    )
    known = tuple(others)
    for text in texts:
        fold = folded(text)
        if not any(other in fold for other in known):
            return text
    return texts[-1]


def degree(text: str, fold: str, code: str) -> str:
    """How far a folded text discloses a statement: full by its words, partial by its mark."""
    if len(fold) > 2 and fold in text:
        return FULL
    return PARTIAL if f" {code} " in text else NONE


def quoted(texts: Iterable[tuple[str, str]], statement: str, fold: str, code: str) -> str:
    """The words that disclose the statement in (text, folded text); empty where none does."""
    found = [text for text, words in texts if degree(words, fold, code) != NONE]
    for text in found:
        if statement in text:
            return statement
    telling = (
        piece
        for text in found
        for piece in pieces(text)
        if degree(folded(piece), fold, code) != NONE
    )
    # Where the statement runs over the end of a sentence, the whole text is the quotation.
    return next(telling, found[0].strip() if found else "")


def pieces(text: str) -> list[str]:
    """The sentences and lines of a text, none of them empty."""
    return [piece.strip() for piece in _PIECES.split(text) if folded(piece).strip()]
