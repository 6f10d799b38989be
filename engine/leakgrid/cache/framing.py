"""One journal line: a checksum and a JSON payload, readable by any JSON-lines tool.

``{"c":"<crc32 of the payload bytes, 8 hex digits>","r":<payload>}`` and a newline. The payload
holds no newline (JSON escapes them), so a torn write can only damage the last line.
"""

from __future__ import annotations

import zlib

_HEAD = b'{"c":"'
_MIDDLE = b'","r":'
_START = len(_HEAD) + 8 + len(_MIDDLE)


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
