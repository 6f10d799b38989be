"""What every test gets: no keys from the environment, and a short word for running coroutines."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from leakgrid.jobs import guard

GUARD_MS = os.environ.get(guard.VARIABLE, "50")
"""The switch: LEAKGRID_GUARD_MS=0 lets a debugger hold the loop."""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may depend on, or spend from, a key of whoever runs it."""
    for name in list(os.environ):
        if name.endswith("_API_KEY") or name.startswith("LEAKGRID_"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def loop_guard(
    clean_environment: None, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[None]:
    """No callback may hold an event loop for 50 ms, in this process or in a run it starts."""
    most_s = float(GUARD_MS) / 1000
    if not most_s or request.node.get_closest_marker("may_block"):
        yield
        return
    monkeypatch.setenv(guard.VARIABLE, GUARD_MS)
    found: list[guard.Block] = []
    before = guard.install(most_s, found, collections_count=False)
    yield
    guard.remove(before)
    if found:
        pytest.fail(guard.told(found))
