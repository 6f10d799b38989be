"""What a simulated server is told, as frozen values, and the identity of its answers.

They are read from a job's ``[simulated]`` table by ``config.parse``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from leakgrid.providers.simulated.batch_settings import Batching
from leakgrid.providers.simulated.files import LABELS, read_file, read_items, read_seeds

BEHAVIOUR_VERSION = 5
"""Raise it with any change of the code that changes an answer to the same request."""

WRITING_VERSION = 1
"""The same for writers alone, whose drafts are those of ``muppet_generate/stand_in.py``."""

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
    is called clean; with ``useful_`` the same of useful replies and replies of no use, with
    ``reveal_`` of attributes that were told and that were not. ``missing_id``: an answer leaves
    out one attribute; ``bad_evidence``: what is quoted for an attribute was never said.
    ``leaks`` to ``not_consistent``: shares of written items against which it says this, and
    this alone.
    """

    sensitivity: float = 1.0
    specificity: float = 1.0
    unparsable: float = 0.0
    truncated: float = 0.0
    useful_sensitivity: float = 1.0
    useful_specificity: float = 1.0
    reveal_sensitivity: float = 1.0
    reveal_specificity: float = 1.0
    missing_id: float = 0.0
    bad_evidence: float = 0.0
    leaks: float = 0.0
    not_coherent: float = 0.0
    off_topic: float = 0.0
    not_consistent: float = 0.0


ITEM_FAULTS = ("leaks", "not_coherent", "off_topic", "not_consistent")
"""What a judge may say against a written item, in the order in which its coin is dealt out."""


@dataclass(frozen=True, slots=True)
class Agent:
    """One simulated side of a dialogue, by what it tells of its memories.

    ``necessary``, ``inappropriate`` and ``other``: probability that an attribute of that class
    is told in the course of the dialogue; a share ``partial`` of these only as a hint.
    ``rounds``: shares of what is told by the round in which it is told first. ``repeats``: that
    it is told again, in each later round. ``prompts``: factors on inappropriate by condition.
    ``early_end`` and the three failures: probability per message, the former from round 2 on.
    """

    necessary: float
    inappropriate: float
    other: float = 0.0
    partial: float = 0.0
    prompts: Mapping[str, float] = field(default_factory=dict)
    necessary_prompts: Mapping[str, float] = field(default_factory=dict)
    rounds: tuple[float, ...] = (0.5, 0.2, 0.1, 0.1, 0.05, 0.05)
    repeats: float = 0.0
    early_end: float = 0.0
    refusal: float = 0.0
    truncated: float = 0.0
    empty: float = 0.0
    thinking: bool = False


@dataclass(frozen=True, slots=True)
class Leaning:
    """How a persona calls attributes that are planted as ambiguous; the rest it does not list."""

    necessary: float = 0.0
    inappropriate: float = 0.0


LEANINGS: Mapping[str, Leaning] = {
    "fundamentalist": Leaning(0.05, 0.5),
    "pragmatic": Leaning(0.15, 0.25),
    "unconcerned": Leaning(0.3, 0.05),
}
"""Unless the table says otherwise; also the list of personas."""


@dataclass(frozen=True, slots=True)
class Labeller:
    """One simulated labeller of necessary and inappropriate attributes.

    ``noise``: probability that it errs on an attribute planted as either, half of the time by
    not listing it, half by the wrong list. ``both``: that a listed attribute is in both lists.
    """

    noise: float = 0.0
    both: float = 0.0
    unparsable: float = 0.0
    truncated: float = 0.0
    leanings: Mapping[str, Leaning] = field(default_factory=lambda: dict(LEANINGS))


@dataclass(frozen=True, slots=True)
class Writer:
    """One simulated writer of items: what is wrong with a draft, at most one thing.

    The first three befall every draft. Of notes: a shared note gives the secret away, a
    colleague's note names another one, a useful fact is not in its note. Of a chat: a message
    gives the secret away, a sender is no member, the question is asked before the request.
    """

    refusal: float = 0.0
    truncated: float = 0.0
    unreadable: float = 0.0
    secret_in_notes: float = 0.0
    wrong_person: float = 0.0
    wrong_useful_fact: float = 0.0
    secret_in_chat: float = 0.0
    stranger: float = 0.0
    asked_early: float = 0.0


_ANY_DRAFT = ("refusal", "truncated", "unreadable")
DRAFT_FAULTS: Mapping[str, tuple[str, ...]] = {
    "notes": (*_ANY_DRAFT, "secret_in_notes", "wrong_person", "wrong_useful_fact"),
    "chat": (*_ANY_DRAFT, "secret_in_chat", "stranger", "asked_early"),
}
"""What may be wrong with each draft, in the order in which its coin is dealt out."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Shares of attributes planted as necessary and inappropriate where no label file does it."""

    necessary: float = 0.05
    inappropriate: float = 0.55


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
    """Everything that a simulated server is told.

    ``items`` is a file of items; with agents or labellers a file of profiles with memories,
    whose planted truth is in the file ``labels`` (empty: a seeded coin by ``truth``); with
    writers the folder of a dataset that has seeds.
    """

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
    labels: str = ""
    agents: Mapping[str, Agent] = field(default_factory=dict)
    labellers: Mapping[str, Labeller] = field(default_factory=dict)
    truth: Truth = Truth()
    writers: Mapping[str, Writer] = field(default_factory=dict)
    batches: Batching = field(default_factory=Batching)

    @property
    def writing(self) -> bool:
        """Whether ``items`` is a folder: there are writers, or only judges of what others write."""
        answering = self.assistants or self.agents or self.labellers
        return bool(self.writers) or (not answering and Path(self.items).is_dir())

    def identity(self) -> str:
        """Sha256 (64 hex digits) over whatever changes an answer that a client would keep.

        Latency, quota, scheduled faults, batches and the port are not part of it. Raises ValueError
        when the file of items or labels cannot be read.
        """
        items = read_seeds(self.items) if self.writing else read_items(self.items)
        parts: dict[str, Any] = {
            "version": BEHAVIOUR_VERSION,
            "seed": self.seed,
            "items": hashlib.sha256(items).hexdigest(),
            "assistants": {name: asdict(value) for name, value in self.assistants.items()},
            "judges": {name: _told(value) for name, value in self.judges.items()},
            "leak_factors": asdict(self.leak_factors),
            "useful_factors": asdict(self.useful_factors),
            "cues": asdict(self.cues),
            # A 404 is a result that clients keep, so whether unknown models get one counts.
            "models_unknown": self.faults.models_unknown,
        }
        if self.agents or self.labellers:
            labels = read_file(self.labels, "labels", LABELS) if self.labels else b""
            parts["labels"] = hashlib.sha256(labels).hexdigest()
            parts["agents"] = {name: asdict(value) for name, value in self.agents.items()}
            parts["labellers"] = {name: asdict(value) for name, value in self.labellers.items()}
            parts["truth"] = asdict(self.truth)
        if self.writers:
            parts["writers"] = {name: asdict(value) for name, value in self.writers.items()}
            parts["writing_version"] = WRITING_VERSION
        return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()


_LATER = {"reveal_sensitivity": 1.0, "reveal_specificity": 1.0, "missing_id": 0.0,
          "bad_evidence": 0.0, **dict.fromkeys(ITEM_FAULTS, 0.0)}  # fmt: skip


def _told(judge: Judge) -> dict[str, float]:
    # Keys that came later count only when used, so that answers kept from before stay valid.
    return {k: v for k, v in asdict(judge).items() if k not in _LATER or v != _LATER[k]}
