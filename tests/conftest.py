"""What every test gets: no keys from the environment, and a short word for running coroutines."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test may depend on, or spend from, a key of whoever runs it."""
    for name in list(os.environ):
        if name.endswith("_API_KEY") or name.startswith("LEAKGRID_"):
            monkeypatch.delenv(name)
    yield
