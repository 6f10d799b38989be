"""What a model costs: the shipped table ``prices.toml``, with source and date of every figure.

A model that is not in it has no known price, which is never zero.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

from leakgrid.types import Price

TIERS = ("online", "batch")
USUAL_SERVICE = frozenset({None, "auto", "default", "standard"})
"""Values of ``service_tier`` that are charged at the listed rate."""

_GEMINI = ("google", "generativelanguage.googleapis.com")
_VENDORS = {"openai": ("openai", "api.openai.com"), "gemini": _GEMINI, "google": _GEMINI}
"""Provider of a job to (whose prices, the one host where they hold)."""

_SNAPSHOT = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{3})$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One row: a price, for which days it holds, and where and when it was read.

    ``exact_date`` is False where the source gives no day, and ``date`` is when it was read.
    """

    provider: str
    model: str
    tier: str
    price: Price
    source: str
    date: datetime.date
    exact_date: bool = True
    first: datetime.date = datetime.date.min
    last: datetime.date = datetime.date.max

    @property
    def told(self) -> str:
        """Where the figures come from, for people."""
        when = self.date.isoformat() if self.exact_date else f"read {self.date.isoformat()}"
        return f"{self.source} ({when})"


def price_of(
    provider: str,
    model: str,
    tier: str = "online",
    *,
    own: Price | None = None,
    on: datetime.date | None = None,
) -> Price | None:
    """The price of a model on a day (today); None where it is not known.

    ``provider`` is openai or google, meaning the company's own API. ``own`` is the job's price
    and goes first. A dated snapshot costs what its model does, unless it has a row of its own.
    """
    if own is not None:
        return own
    listed = listed_price(provider, model, tier, on=on)
    return None if listed is None else listed.price


def listed_price(
    provider: str, model: str, tier: str = "online", *, on: datetime.date | None = None
) -> Listed | None:
    """The row of the table that holds for a model on a day (today); None where there is none."""
    day = on or datetime.date.today()
    name = model.removeprefix("models/")
    for known in (name, _SNAPSHOT.sub("", name)):
        rows = [row for row in table() if (row.provider, row.model) == (provider, known)]
        if rows:
            fit = [row for row in rows if row.tier == tier and row.first <= day <= row.last]
            return fit[0] if fit else None
    return None


def vendor_of(provider: str, base_url: str, params: Mapping[str, Any]) -> str:
    """Whose list of prices holds for a model of a job: openai, google, or empty for nobody's.

    Other hosts, regional ones and other service tiers have prices of their own.
    """
    if provider not in _VENDORS or params.get("service_tier") not in USUAL_SERVICE:
        return ""
    vendor, host = _VENDORS[provider]
    return vendor if urlsplit(base_url or f"https://{host}").hostname == host else ""


@functools.cache
def table() -> tuple[Listed, ...]:
    """Every row of ``prices.toml``."""
    import tomllib

    text = resources.files("leakgrid.jobs").joinpath("prices.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    rows = []
    for provider, listed in data["prices"].items():
        for row in listed:
            source = data["sources"][row["source"]]
            rows.append(
                Listed(
                    provider=provider,
                    model=row["model"],
                    tier=row["tier"],
                    price=Price(row["input"], row["output"], row.get("cached")),
                    source=source["url"],
                    date=source["date"],
                    exact_date=source.get("dated", "page") == "page",
                    first=row.get("from", datetime.date.min),
                    last=row.get("until", datetime.date.max),
                )
            )
    return tuple(rows)
