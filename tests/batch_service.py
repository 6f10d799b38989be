"""The simulated server as a batch service, as the tests of batches want it.

Batches end at the first look unless a plan says otherwise. Faults, plans and orders for lines go
through ``control`` (see ``providers/simulated/batch_faults.py``). The text of a request may carry
an order for its line: ``!500*1`` fails the first time it is carried out and works then,
``!missing*1``, ``!repeated``, ``!torn``, ``!400``, ``!429``...
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakgrid.providers.simulated import process
from tests.simulated_world import table

# A quote ends the text: else an order without a number would fit those with one.
WORDS = ("400", "429", "500", "missing", "repeated", "strange", "wrong_id", "no_id", "torn")
ORDERS = [
    {"contains": f"!{word}*{times}", "do": f"line_{word}", "times": times}
    for word in WORDS
    for times in (1, 2)
] + [{"contains": f'!{word}"', "do": f"line_{word}"} for word in WORDS]


@dataclass(frozen=True, slots=True)
class Running:
    """The service seen from a test."""

    port: int

    @property
    def root(self) -> str:
        """Without the version that the API's paths begin with."""
        return f"http://127.0.0.1:{self.port}"

    def control(self, **told: Any) -> None:
        """Add faults and plans; ``reset`` forgets all but the orders for lines."""
        if told.get("reset"):
            told["lines"] = ORDERS
        data = json.dumps(told).encode()
        with urllib.request.urlopen(f"{self.root}/batches/control", data) as response:
            response.read()

    def state(self) -> dict[str, Any]:
        """All that the service was asked to do."""
        with urllib.request.urlopen(f"{self.root}/batches/state") as response:
            state: dict[str, Any] = json.load(response)
        return state


@contextlib.contextmanager
def running(**changes: Any) -> Iterator[Running]:
    """The server in a process of its own, ended when the block is left.

    ``changes`` go into its [simulated] table; it answers for models of any name.
    """
    with tempfile.TemporaryDirectory(prefix="leakgrid-tests-") as folder:
        usual = {"batches": {"turnaround_s": 0}, "faults": {"models_unknown": False}}
        with process.running(table(Path(folder), **{**usual, **changes})) as server:
            service = Running(server.port)
            service.control(reset=True)
            yield service
