"""The temperature at which a judge judges: its own, else its model's, else 0.

A verdict should not depend on a draw, so a judge whose table and model say nothing sends 0. A
model that refuses a temperature (OpenAI's reasoning models) is sent none. What is settled here
travels in ``JudgeUse.temperature``; it changes that judge's calls and no other call of its model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from leakgrid.benchmarks.benchmark import JudgeUse
from leakgrid.jobs.models import OPENAI_URL, ModelSpec
from leakgrid.jobs.tables import Table
from leakgrid.providers.openai_rules import unfit_params

USUAL = 0.0
MOST = 2.0
"""The highest that any API here takes."""


def read_temperature(table: Table, spec: ModelSpec | None, votes: int) -> float | None:
    """What the calls of the judge in ``table`` send; None leaves it to its model's ``params``.

    Mistakes are noted with their lines: a number out of range, a temperature that the model
    refuses, several votes at temperature 0. ``spec`` is None where the table names no model.
    """
    value = table.value("temperature")
    if spec is None:
        return None
    if value is None:
        found = None if own(spec) is not None or _refuses(spec) else USUAL
    elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        table.wrong(
            "temperature", f"{value!r} does not fit; it must be a number from 0 to {MOST:g}"
        )
        return None
    else:
        found = float(value)
        own_host = urlsplit(spec.base_url).hostname == urlsplit(OPENAI_URL).hostname
        if spec.provider == "azure" or (spec.provider == "openai" and own_host):
            for told in _told_of(spec.model, spec, found):
                table.wrong("temperature", told)
    if votes > 1 and (own(spec) if found is None else found) == 0:
        table.wrong(
            "votes",
            f"{votes} votes at temperature 0 are one vote, paid {votes} times; write a "
            "temperature above 0 in this table, like temperature = 0.7",
        )
    return found


def own(spec: ModelSpec) -> Any:
    """The temperature in a model's ``params``, by whatever name; None where there is none."""
    if spec.provider in ("gemini", "vertex"):
        from leakgrid.providers.google_body import shaped

        return shaped(spec.params)[1].get("temperature")
    return spec.params.get("temperature")


def temperature_told(use: JudgeUse, spec: ModelSpec) -> str:
    """At which temperature a judge judges, for people."""
    asked = f"judge {use.name}: {use.model}"
    if use.temperature is not None:
        return f"{asked} at temperature {use.temperature:g}"
    found = own(spec)
    if found is not None:
        return f"{asked} at temperature {found} (from its params)"
    return f"{asked} without a temperature, which it refuses"


def _refuses(spec: ModelSpec) -> bool:
    """Whether a model is known to refuse temperature 0, as far as its name and params tell.

    Only what is left to leakgrid is decided so; the names hold for proxies and gateways too.
    """
    if spec.provider not in ("openai", "azure"):
        return False
    if spec.provider == "azure" and _reasons(spec.params):
        return True  # the name of a deployment need not tell which model it is
    return bool(_told_of(spec.model.rpartition("/")[2], spec, USUAL))


def _told_of(model: str, spec: ModelSpec, temperature: float) -> list[str]:
    """What OpenAI's rules say against a temperature, beside what they say against the rest."""
    api = spec.options.get("api", "chat")
    known = unfit_params(model, spec.params, api)
    with_it = unfit_params(model, {**spec.params, "temperature": temperature}, api)
    return [one for one in with_it if one not in known]


def _reasons(params: Mapping[str, Any]) -> bool:
    """Whether parameters ask a model to reason."""
    asked = params.get("reasoning_effort") or params.get("reasoning")
    return asked not in (None, "none", {"effort": "none"})
