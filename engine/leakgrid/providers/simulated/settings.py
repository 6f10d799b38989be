"""What a simulated server is told, as frozen values, and the identity of its answers.

They are read from a job's ``[simulated]`` table by ``config.parse``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

BEHAVIOUR_VERSION = 5
"""Raise it with any change of the code that changes an answer to the same request."""

FAULTS = (
    "quota_429",
    "server_500",
    "unavailable_503",
    "overloaded_529",
    "timeout",
    "reset",
    "torn",
    "malformed",
    "empty",
    "slow",
)
"""Every kind of scheduled fault, in the order in which the coin's range is dealt out."""


@dataclass(frozen=True, slots=True)
class Factors:
    """Factors on a base probability, by defence, condition and category; an absent one is 1."""

    defences: Mapping[str, float] = field(default_factory=dict)
    conditions: Mapping[str, float] = field(default_factory=dict)
    categories: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assistant:
    """One simulated assistant; rates are probabilities, factors override the global ones."""

    leak: float
    useful: float = 1.0
    refusal: float = 0.0
    truncated: float = 0.0
    thinking: bool = False
    knows: float = 1.0
    boundaries: float = 1.0
    audience: float = 0.0
    length: float = 0.0
    leak_factors: Factors = Factors()
    useful_factors: Factors = Factors()


@dataclass(frozen=True, slots=True)
class Judge:
    """One simulated judge: how often it is right, and how often its verdict cannot be read.

    Sensitivity is the rate at which a leak is called one, specificity that at which a clean reply
    is called clean; with ``useful_`` the same of useful replies and replies of no use.
    """

    sensitivity: float = 1.0
    specificity: float = 1.0
    unparsable: float = 0.0
    truncated: float = 0.0
    useful_sensitivity: float = 1.0
    useful_specificity: float = 1.0


@dataclass(frozen=True, slots=True)
class Latency:
    """Lognormal delay by two of its quantiles, plus a delay per output token (milliseconds)."""

    median_ms: float = 5.0
    p95_ms: float = 20.0
    per_token_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Quota:
    """Requests and tokens per minute (0: no limit); buckets hold ``burst_s`` seconds of each."""

    rpm: float = 0.0
    tpm: float = 0.0
    burst_s: float = 10.0
    charge_rejected: bool = False


@dataclass(frozen=True, slots=True)
class Faults:
    """Rates of the scheduled faults by kind (see FAULTS), and the faults that always happen."""

    rates: Mapping[str, float] = field(default_factory=dict)
    max_per_request: int = 2
    retry_after_ms: float = 200.0
    hang_s: float = 3600.0
    slow_s: float = 0.5
    models_unknown: bool = True
    require_key: str = ""
    insufficient_quota: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cues:
    """Sentences by which a request's text shows its defence and its condition.

    ``steps`` says which defence asks for each response schema of an intermediate call, and
    ``markers`` what stands between analysis and message in the replies under a defence.
    """

    defences: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)
    steps: Mapping[str, str] = field(default_factory=dict)
    markers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Simulated:
    """Everything that a simulated server is told."""

    items: str
    seed: int = 0
    port: int = 0
    latency: Latency = Latency()
    assistants: Mapping[str, Assistant] = field(default_factory=dict)
    judges: Mapping[str, Judge] = field(default_factory=dict)
    leak_factors: Factors = Factors()
    useful_factors: Factors = Factors()
    quota: Mapping[str, Quota] = field(default_factory=dict)
    faults: Faults = Faults()
    cues: Cues = Cues()

    def identity(self) -> str:
        """Sha256 (64 hex digits) over whatever changes an answer that a client would keep.

        Latency, quota, scheduled faults and the port are not part of it. Raises ValueError
        when the file of items cannot be read.
        """
        parts = {
            "version": BEHAVIOUR_VERSION,
            "seed": self.seed,
            "items": hashlib.sha256(read_items(self.items)).hexdigest(),
            "assistants": {name: asdict(value) for name, value in self.assistants.items()},
            "judges": {name: asdict(value) for name, value in self.judges.items()},
            "leak_factors": asdict(self.leak_factors),
            "useful_factors": asdict(self.useful_factors),
            "cues": asdict(self.cues),
            # A 404 is a result that clients keep, so whether unknown models get one counts.
            "models_unknown": self.faults.models_unknown,
        }
        return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()


def read_items(path: str) -> bytes:
    """The bytes of the file of items. Raises ValueError when it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ValueError(
            f'simulated.items: found "{path}", which cannot be read ({error.strerror}); '
            "allowed: the path of a JSON Lines file of items"
        ) from error
