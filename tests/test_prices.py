"""Prices: looked up by exact name or snapshot, dated, sourced, and unknown where unknown."""

from __future__ import annotations

import datetime
import tomllib
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

import pytest

from leakgrid.jobs.prices import TIERS, Listed, listed_price, price_of, table, vendor_of
from leakgrid.types import Price, Usage

DAY = datetime.date


@pytest.mark.parametrize("row", table(), ids=lambda row: f"{row.model}-{row.tier}-{row.first}")
def test_every_row_is_whole(row: Listed) -> None:
    assert row.provider in ("openai", "google") and row.tier in TIERS
    assert urlsplit(row.source).scheme == "https" and urlsplit(row.source).hostname
    assert DAY(2025, 1, 1) <= row.date <= DAY.today()
    assert row.first <= row.last
    price = row.price
    assert 0 < price.input < price.output < 1000
    assert price.cached is None or 0 < price.cached < price.input


def test_rows_do_not_contradict_each_other() -> None:
    for row in table():
        same = [
            other
            for other in table()
            if (other.provider, other.model, other.tier) == (row.provider, row.model, row.tier)
            and other.first <= row.last
            and row.first <= other.last
        ]
        assert same == [row]


def test_batch_costs_half_of_online() -> None:
    batch = [row for row in table() if row.tier == "batch"]
    assert len(batch) > 20
    for row in batch:
        day = min(row.last, max(row.first, DAY(2026, 11, 30)))
        online = price_of(row.provider, row.model, on=day)
        assert online is not None
        assert row.price.input == pytest.approx(online.input / 2)
        assert row.price.output == pytest.approx(online.output / 2)


def test_every_source_is_used_and_every_row_has_one() -> None:
    text = resources.files("leakgrid.jobs").joinpath("prices.toml").read_text(encoding="utf-8")
    data: dict[str, Any] = tomllib.loads(text)
    used = {row["source"] for rows in data["prices"].values() for row in rows}
    assert used == set(data["sources"])
    assert {source["url"] for source in data["sources"].values()} == {row.source for row in table()}


@pytest.mark.parametrize(
    ("provider", "model", "tier", "price"),
    [
        ("openai", "gpt-4.1-mini", "online", Price(0.40, 1.60, 0.10)),
        ("openai", "gpt-4.1-mini-2025-04-14", "online", Price(0.40, 1.60, 0.10)),
        ("openai", "gpt-4.1-mini-2025-04-14", "batch", Price(0.20, 0.80, None)),
        ("openai", "gpt-4o-2024-08-06", "online", Price(2.50, 10.00, 1.25)),
        ("openai", "gpt-4o-2024-05-13", "online", Price(5.00, 15.00, None)),
        ("openai", "gpt-5-mini", "online", Price(0.25, 2.00, 0.025)),
        ("google", "gemini-2.5-flash", "online", Price(0.30, 2.50, None)),
        ("google", "models/gemini-2.5-flash", "online", Price(0.30, 2.50, None)),
        ("google", "gemini-2.0-flash-001", "online", Price(0.10, 0.40, None)),
    ],
)
def test_a_model_is_found_by_its_name_or_a_snapshot_of_it(
    provider: str, model: str, tier: str, price: Price
) -> None:
    assert price_of(provider, model, tier) == price


@pytest.mark.parametrize(
    ("provider", "model", "tier"),
    [
        ("openai", "gpt-4.1-micro", "online"),
        ("openai", "gpt-4.1-mini-tuned", "online"),
        ("openai", "ft:gpt-4.1-mini-2025-04-14:lab::1", "online"),
        ("openai", "gpt-4", "online"),
        ("openai", "GPT-4.1-mini", "online"),
        ("openai", "", "online"),
        ("openai", "o3", "batch"),
        ("openai", "gpt-4.1-mini", "flex"),
        ("google", "gpt-4.1-mini", "online"),
        ("azure", "gpt-4.1-mini", "online"),
        ("google", "gemini-2.5-flash-preview-05-20", "online"),
    ],
)
def test_what_is_not_listed_has_no_price(provider: str, model: str, tier: str) -> None:
    assert price_of(provider, model, tier) is None


def test_a_price_of_the_job_goes_first() -> None:
    own = Price(1.0, 2.0)
    assert price_of("openai", "gpt-4.1-mini", own=own) is own
    assert price_of("openai", "unheard-of", own=own) is own


@pytest.mark.parametrize(
    ("model", "day", "price"),
    [
        ("gemini-4-argon", DAY(2026, 11, 30), Price(2.00, 10.00, 0.10)),
        ("gemini-4-argon", DAY(2026, 12, 1), Price(4.00, 20.00, 0.20)),
        ("gemini-3.8-flash", DAY(2026, 12, 31), Price(0.75, 3.75)),
        ("gemini-3.8-flash", DAY(2027, 1, 1), Price(1.50, 7.50)),
    ],
)
def test_an_announced_change_holds_from_its_day(
    model: str, day: datetime.date, price: Price
) -> None:
    assert price_of("google", model, on=day) == price


def test_a_row_tells_its_source_and_date() -> None:
    row = listed_price("openai", "gpt-5.4")
    assert row is not None
    assert row.told.startswith("https://github.com/api-evangelist/openai")
    assert row.told.endswith("(2026-05-04)")
    undated = listed_price("openai", "gpt-5.4", "batch")
    assert undated is not None and undated.told.endswith("(read 2026-11-30)")


def test_cached_input_without_a_figure_is_counted_in_full() -> None:
    price = price_of("openai", "gpt-4.1-mini", "batch")
    assert price is not None
    assert price.usd(Usage(1_000_000, 500_000, 0)) == pytest.approx(0.20)


@pytest.mark.parametrize(
    ("provider", "base_url", "params", "vendor"),
    [
        ("openai", "https://api.openai.com/v1", {}, "openai"),
        ("openai", "", {}, "openai"),
        ("openai", "https://api.openai.com/v1/", {"service_tier": "default"}, "openai"),
        ("openai", "https://api.openai.com/v1", {"service_tier": "flex"}, ""),
        ("openai", "https://api.openai.com/v1", {"service_tier": "priority"}, ""),
        ("openai", "https://eu.api.openai.com/v1", {}, ""),
        ("openai", "https://openrouter.ai/api/v1", {}, ""),
        ("openai", "http://localhost:8000/v1", {}, ""),
        ("openai", "https://api.openai.com.evil.example/v1", {}, ""),
        ("gemini", "", {}, "google"),
        ("gemini", "https://generativelanguage.googleapis.com/v1beta", {}, "google"),
        ("google", "https://generativelanguage.googleapis.com", {}, "google"),
        ("gemini", "https://proxy.example/v1beta", {}, ""),
        ("vertex", "", {}, ""),
        ("azure", "https://lab.openai.azure.com", {}, ""),
        ("simulated", "", {}, ""),
    ],
)
def test_only_the_vendors_own_hosts_have_its_prices(
    provider: str, base_url: str, params: dict[str, Any], vendor: str
) -> None:
    assert vendor_of(provider, base_url, params) == vendor
