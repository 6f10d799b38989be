"""Surface forms: the words by which a private detail shows in a text.

A form is found where it begins a word, in any case and with any hyphens, quotes or spacing;
it may go on, so that "migraine" finds "migraines" and a stem finds its whole family.
"""

from __future__ import annotations

import re
import unicodedata

_NOT_WORD = re.compile(r"[\W_]+")


def folded(text: str) -> str:
    """Text for comparison: NFKC, case folded, everything that is no word character one space.

    It begins and ends with a space.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return f" {_NOT_WORD.sub(' ', text.casefold()).strip()} "


def shows(text: str, form: str) -> bool:
    """Whether a folded form begins a word of a folded text; an empty form never does."""
    return len(form) > 2 and form[:-1] in text
