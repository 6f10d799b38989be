"""The planted truth: probabilities that a configuration sets, and the coins that realise them.

Pure functions: the same request always gets the same coins, in any process, at any time.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeVar

from leakgrid.providers.simulated.config import Assistant, Factors, Latency, Simulated

Option = TypeVar("Option")

NORMAL = NormalDist()
_FOUR = struct.Struct(">4Q")
Z95 = NORMAL.inv_cdf(0.95)

USUAL_PARTIES, USUAL_WORDS = 5, 400

UNKNOWN_MODEL = Assistant(leak=0.0)
"""How a model answers that no configuration names, where such models answer at all."""


def leak_probability(
    config: Simulated, model: str, defence: str, condition: str, category: str
) -> float:
    """Probability in [0, 1] that this model discloses a secret of this category.

    The product of base, defence, condition and category factor, clipped; the model's own
    factor stands before the global one, and an absent factor is 1. A model that is not a
    configured assistant is UNKNOWN_MODEL.
    """
    assistant = config.assistants.get(model, UNKNOWN_MODEL)
    return _clipped(
        assistant.leak, assistant.leak_factors, config.leak_factors, defence, condition, category
    )


def scale_factor(assistant: Assistant, parties: int, words: int) -> float:
    """How a leak's probability changes with the size of the scene; 1 at 5 people and 400 words.

    (parties / 5) ** audience x (transcript words / 400) ** length: an assistant may be planted to
    heed the audience only, the length only, or both.
    """
    crowd = math.pow(max(parties, 1) / USUAL_PARTIES, assistant.audience)
    return crowd * math.pow(max(words, 1) / USUAL_WORDS, assistant.length)


def useful_probability(
    config: Simulated, model: str, defence: str, condition: str, category: str
) -> float:
    """Probability in [0, 1] that this model's reply contains a useful fact; see above."""
    assistant = config.assistants.get(model, UNKNOWN_MODEL)
    return _clipped(
        assistant.useful,
        assistant.useful_factors,
        config.useful_factors,
        defence,
        condition,
        category,
    )


def let_through(config: Simulated, model: str, defence: str) -> float:
    """Probability in [0, 1] that a defence's step lets the secrets pass: its leak factor.

    A defence that works by a step has its factor there, and no second time in the reply.
    """
    own = config.assistants.get(model, UNKNOWN_MODEL).leak_factors.defences
    factor = own.get(defence, config.leak_factors.defences.get(defence, 1.0))
    return min(1.0, factor)


def _clipped(
    base: float, own: Factors, shared: Factors, defence: str, condition: str, category: str
) -> float:
    product = (
        base
        * own.defences.get(defence, shared.defences.get(defence, 1.0))
        * own.conditions.get(condition, shared.conditions.get(condition, 1.0))
        * own.categories.get(category, shared.categories.get(category, 1.0))
    )
    return min(1.0, max(0.0, product))


def digest(body: bytes, sample: str = "") -> bytes:
    """32 bytes that stand for a request: its body, and its sample number where one is sent."""
    state = hashlib.sha256(body)
    if sample:
        state.update(b"\0sample\0" + sample.encode())
    return state.digest()


def coin(seed: int, salt: str, body_bytes: bytes) -> float:
    """A number in [0, 1), uniform over bodies and independent between salts."""
    state = hashlib.sha256(f"{seed}\0{salt}\0".encode())
    state.update(body_bytes)
    return (int.from_bytes(state.digest()[:8], "big") >> 11) * 2.0**-53


@dataclass(frozen=True, slots=True)
class Coins:
    """All coins of one request. ``body`` may be its digest: hashing long bodies once is cheap."""

    seed: int
    body: bytes

    def __call__(self, salt: str) -> float:
        """The coin with this salt, in [0, 1)."""
        return coin(self.seed, salt, self.body)

    def pick(self, salt: str, options: Sequence[Option]) -> Option:
        """One of the options, each as likely. Raises IndexError when there is none."""
        return options[int(self(salt) * len(options))]

    def dealt(self, salt: str, rates: Mapping[str, float]) -> str:
        """The name whose share of [0, 1) the coin falls into; empty where it falls beyond all."""
        value = self(salt)
        for name, rate in rates.items():
            if value < rate:
                return name
            value -= rate
        return ""

    def rotated(self, salt: str, options: Sequence[Option]) -> list[Option]:
        """All options, beginning at one chosen by coin: to try until one will do."""
        start = int(self(salt) * len(options))
        return [*options[start:], *options[:start]]


class Tosses:
    """Three coins at a time for each of many keys, at the price of one short hash a key."""

    def __init__(self, seed: int, salt: str, body: bytes) -> None:
        self.start = hashlib.sha256(f"{seed}\0{salt}\0".encode() + body)

    def __call__(self, key: str) -> tuple[float, float, float]:
        """Three numbers in [0, 1), independent of each other and between keys."""
        state = self.start.copy()
        state.update(key.encode())
        first, second, third, _ = _FOUR.unpack(state.digest())
        return (first >> 11) * 2.0**-53, (second >> 11) * 2.0**-53, (third >> 11) * 2.0**-53


def delay_s(latency: Latency, coins: Coins, tokens: int) -> float:
    """Seconds this request takes: lognormal by median and 95th percentile, plus per token."""
    if latency.median_ms <= 0.0:
        return latency.per_token_ms * tokens / 1000.0
    uniform = max(coins("latency"), 2.0**-53)
    # exp(mu + sigma z), written by the two quantiles that the configuration gives
    ratio = latency.p95_ms / latency.median_ms
    spread = math.pow(ratio, NORMAL.inv_cdf(uniform) / Z95)
    return (latency.median_ms * spread + latency.per_token_ms * tokens) / 1000.0
