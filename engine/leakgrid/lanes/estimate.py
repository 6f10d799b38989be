"""What a call will cost, learned from the calls before it: no tokenizer needed."""

from __future__ import annotations

import math

START_TOKENS_PER_BYTE = 0.30
HIGH_QUANTILE = 0.9


class _Outputs:
    """Output lengths of one role in geometric classes, old ones fading."""

    __slots__ = ("_classes", "_total")

    def __init__(self) -> None:
        self._classes = [0.0] * 64
        self._total = 0.0

    def add(self, tokens: int) -> None:
        self._classes[min(63, int(4 * math.log2(tokens + 1)))] += 1
        self._total += 1
        if self._total > 2000:
            self._classes = [count / 2 for count in self._classes]
            self._total /= 2

    def quantile(self, share: float) -> float | None:
        """Upper edge of the class where ``share`` of the calls is reached; None before 20."""
        if self._total < 20:
            return None
        below = 0.0
        for number, count in enumerate(self._classes):
            below += count
            if below >= share * self._total:
                return 2 ** ((number + 1) / 4)
        return 2**16


class Estimator:
    """Tokens a call will take: input from its bytes, output from its role's past."""

    __slots__ = ("_mean_total", "_outputs", "tokens_per_byte")

    def __init__(self, tokens_per_byte: float = START_TOKENS_PER_BYTE) -> None:
        self.tokens_per_byte = tokens_per_byte
        self._outputs: dict[str, _Outputs] = {}
        self._mean_total = 0.0

    def input(self, size: int) -> float:
        """Expected input tokens of a body of ``size`` bytes."""
        return size * self.tokens_per_byte

    def output(self, role: str, most: int | None) -> float:
        """Output tokens that 9 of 10 calls of this role stay below, capped by ``most``."""
        outputs = self._outputs.get(role)
        high = outputs.quantile(HIGH_QUANTILE) if outputs else None
        if high is None:
            return float(most or 512)
        return min(high, float(most)) if most else high

    @property
    def mean_total(self) -> float:
        """Mean tokens of a call, input and output; 0 before the first."""
        return self._mean_total

    def learn(self, size: int, role: str, input_tokens: int, output_tokens: int) -> None:
        """Take in the usage of one answered call."""
        if input_tokens <= 0 or size <= 0:
            return
        self.tokens_per_byte += 0.05 * (input_tokens / size - self.tokens_per_byte)
        total = input_tokens + output_tokens
        self._mean_total += (0.05 if self._mean_total else 1.0) * (total - self._mean_total)
        outputs = self._outputs.get(role)
        if outputs is None:
            outputs = self._outputs[role] = _Outputs()
        outputs.add(output_tokens)
