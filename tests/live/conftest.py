"""Live tests cost money (under a cent together), so they run only when asked for: ``-m live``."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "live: asks a real provider, with a key and for money")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what is in this folder unless the marker was chosen by name."""
    if "live" in (config.option.markexpr or ""):
        return
    skip = pytest.mark.skip(reason="asks a provider for money: just live openai|google")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(skip)
