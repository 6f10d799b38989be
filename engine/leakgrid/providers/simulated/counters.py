"""What a server has received and answered, for GET /stats."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Counters:
    """Counts of chat-completion requests; ``bodies`` says which digests got a whole answer."""

    received: int = 0
    answered: int = 0
    answered_again: int = 0
    duplicates: int = 0
    in_flight: int = 0
    max_in_flight: int = 0
    by_status: Counter[str] = field(default_factory=Counter)
    by_model: Counter[str] = field(default_factory=Counter)
    by_fault: Counter[str] = field(default_factory=Counter)
    bodies: dict[bytes, bool] = field(default_factory=dict)

    def enter(self) -> None:
        """A request has come."""
        self.received += 1
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)

    def saw(self, digest: bytes, model: str) -> None:
        """The request's digest and the model it names are known."""
        self.duplicates += digest in self.bodies
        self.bodies.setdefault(digest, False)
        self.by_model[model] += 1

    def answer(self, digest: bytes) -> None:
        """A whole answer goes out."""
        self.answered += 1
        self.answered_again += self.bodies.get(digest, False)
        self.bodies[digest] = True

    def leave(self, status: str) -> None:
        """The request is over; status is its number, or "dropped" when there was no response."""
        self.in_flight -= 1
        self.by_status[status] += 1

    def reset(self) -> None:
        """Start counting anew; what is in flight stays so."""
        now = self.in_flight
        fresh = Counters(in_flight=now, max_in_flight=now)
        for name in self.__slots__:
            setattr(self, name, getattr(fresh, name))

    def shown(self) -> dict[str, Any]:
        """As JSON. ``duplicates`` are requests whose very body had come before."""
        return {
            "simulated": True,
            "received": self.received,
            "answered": self.answered,
            "answered_again": self.answered_again,
            "in_flight": self.in_flight,
            "max_in_flight": self.max_in_flight,
            "distinct": len(self.bodies),
            "duplicates": self.duplicates,
            "by_status": dict(self.by_status),
            "by_model": dict(self.by_model),
            "by_fault": dict(self.by_fault),
        }
