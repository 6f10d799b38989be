"""Request keys: what makes two calls the same call.

The key hashes the exact canonical bytes of the body. Fields that steer only the transport are
on a deny-list; anything not on it is part of the key, so a parameter that a provider invents
tomorrow cannot be forgotten.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

KEY_VERSION = b"leakgrid-key-1"
HOLDS_LOCK = 2047
"""Bytes that hashlib hashes without releasing the interpreter's lock."""

TRANSPORT_FIELDS = frozenset(
    {
        "stream",
        "stream_options",
        "user",
        "safety_identifier",
        "metadata",
        "store",
        "service_tier",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "timeout",
        "serviceTier",
        "labels",
    }
)
"""Top-level body fields that change how an answer travels or is billed, never what it says."""


def canonical(body: Mapping[str, Any]) -> bytes:
    """The body as sorted JSON bytes without transport fields: equal calls give equal bytes."""
    if TRANSPORT_FIELDS.isdisjoint(body):
        return orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
    kept = {name: value for name, value in body.items() if name not in TRANSPORT_FIELDS}
    return orjson.dumps(kept, option=orjson.OPT_SORT_KEYS)


def sent(body: Mapping[str, Any], keyed: bytes, *, ordered: bool = False) -> bytes:
    """What goes to the server: all of the body, where ``keyed`` are its canonical bytes.

    ``ordered`` keeps the order of its keys: models write the fields of a response schema in the
    schema's order, and a judge must give its reasons before its verdict.
    """
    if ordered:
        return orjson.dumps(body)
    if TRANSPORT_FIELDS.isdisjoint(body):
        return keyed
    rest = orjson.dumps({name: body[name] for name in body if name in TRANSPORT_FIELDS})
    return rest if keyed == b"{}" else keyed[:-1] + b"," + rest[1:]


class KeySpace:
    """Keys of one lane: provider, endpoint family and server identity are hashed once.

    Every part is preceded by its length, so that no two lists of parts share their bytes.
    """

    __slots__ = ("_prefix",)

    def __init__(self, provider: str, family: str, identity: str) -> None:
        prefix = hashlib.sha256(KEY_VERSION)
        for part in (provider, family, identity):
            data = part.encode()
            prefix.update(len(data).to_bytes(8, "big") + data)
        self._prefix = prefix

    def key(self, body: bytes, sample: int) -> bytes:
        """The 32-byte request key of canonical ``body`` drawn as sample number ``sample``."""
        digest = self._prefix.copy()
        digest.update(b"%d:" % sample)
        if len(body) < HOLDS_LOCK:
            digest.update(body)
        else:
            # A larger piece would let the journal's thread take the interpreter in between, and
            # the event loop would wait milliseconds for microseconds of hashing.
            view = memoryview(body)
            for start in range(0, len(body), HOLDS_LOCK):
                digest.update(view[start : start + HOLDS_LOCK])
        return digest.digest()
