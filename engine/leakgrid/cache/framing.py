"""One journal line: a checksum and a JSON payload, readable by any JSON-lines tool.

``{"c":"<crc32 of the payload bytes, 8 hex digits>","r":<payload>}`` and a newline. The payload
holds no newline (JSON escapes them), so a torn write can only damage the last line.
"""

from __future__ import annotations

import re
import zlib

_HEAD = b'{"c":"'
_MIDDLE = b'","r":'
_START = len(_HEAD) + 8 + len(_MIDDLE)
_FRAME = re.compile(rb'\{"c":"[0-9a-f]{8}","r":')
"""How a line begins. No payload holds this: inside a JSON string the quotes are escaped."""


def seal(payload: bytes) -> bytes:
    """The journal line of one JSON payload, newline included."""
    return b'{"c":"%08x","r":%b}\n' % (zlib.crc32(payload), payload)


def unseal(line: bytes) -> bytes | None:
    """The payload of one line (with or without its newline), or None if the line is damaged."""
    if line[-1:] != b"\n":
        line += b"\n"
    payload = line[_START:-2]
    # Sealing it anew is quicker than looking at each part of the frame.
    return payload if seal(payload) == line else None


def beginnings(line: bytes) -> list[int]:
    """Where the rows of a damaged line begin: more than one where newlines were lost."""
    return [0, *(found.start() for found in _FRAME.finditer(line, 1))]


def split_row(first: bytes, second: bytes) -> bool:
    """Whether two damaged lines are one row, of which a byte has become a newline."""
    if _FRAME.match(second) or not (len(first) <= _START or _FRAME.match(first)):
        return False
    return any(unseal(b"%b%c%b" % (first[:-1], byte, second)) is not None for byte in range(256))
