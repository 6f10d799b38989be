"""The [models.NAME] tables of a job: which provider, how it is reached, and what it costs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from leakgrid.jobs.names import MODEL, check_name
from leakgrid.jobs.prices import TIERS, listed_price, price_of, vendor_of
from leakgrid.jobs.tables import Table
from leakgrid.lanes.values import Quota
from leakgrid.outcomes import InputError, JobError
from leakgrid.providers.openai_rules import OWNED, unfit_params
from leakgrid.providers.vllm_body import SYSTEM_MODES
from leakgrid.types import Price

if TYPE_CHECKING:
    from leakgrid.providers.vllm_config import VllmConfig

OPENAI_URL = "https://api.openai.com/v1"
GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta"

FREE = frozenset({"simulated", "local"})
"""Providers that nobody pays for by the token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """One [models.*] table. ``options`` are what its provider alone knows of.

    ``price_told`` says where a listed price comes from; empty for the job's own.
    """

    name: str
    provider: str
    model: str
    base_url: str
    key_env: str
    params: Mapping[str, Any]
    headers: Mapping[str, str]
    price: Price | None
    quota: Quota
    timeout_s: float
    note: str
    family: str = ""
    size_b: float | None = None
    price_told: str = ""
    tier: str = "online"
    batch_price: Price | None = None
    deadline: tuple[float | None, float | None] = (None, None)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def managed(self) -> bool:
        """Whether leakgrid starts and stops a vLLM server for it."""
        return self.provider == "vllm" and not self.base_url

    @property
    def endpoint(self) -> str:
        """What tells its server from others that use the same names, secrets apart."""
        if self.provider == "vertex":
            from leakgrid.providers.google import vertex_url

            return self.base_url or vertex_url(self.options["project"], self.options["location"])
        if self.managed:
            from leakgrid.providers.vllm_identity import config_key

            return config_key(vllm_config(self))
        version = self.options.get("api_version", "")
        return self.base_url.rstrip("/") + (f"?api-version={version}" if version else "")


@dataclass(slots=True)
class _Reading:
    """What a provider's own reader found: keys of the common form, and the rest as options."""

    base_url: str = ""
    key_env: str = ""
    concurrency: int | None = None
    options: dict[str, Any] = field(default_factory=dict)


def _openai(table: Table, params: Mapping[str, Any]) -> _Reading:
    base_url = table.text("base_url", OPENAI_URL)
    own = urlsplit(base_url).hostname == "api.openai.com"
    options = {
        "api": table.text("api", "chat", choices=("chat", "responses")),
        "organization": table.text("organization", ""),
        "project": table.text("project", ""),
    }
    _check_openai(table, params, options["api"], strict=own)
    # The key of OpenAI is nobody else's to see: another host is given one only where named.
    key_env = table.text("key_env", "OPENAI_API_KEY" if own else "")
    return _Reading(base_url, key_env, options=options)


def _azure(table: Table, params: Mapping[str, Any]) -> _Reading:
    from leakgrid.providers.azure import KEY_ENV

    base_url = table.text("base_url", os.environ.get("AZURE_OPENAI_ENDPOINT", ""))
    if not base_url:
        table.mistakes.add(
            table.keys,
            "needs a base_url like https://NAME.openai.azure.com, or the environment variable "
            "AZURE_OPENAI_ENDPOINT",
        )
    options = {
        "api": table.text("api", "chat", choices=("chat", "responses")),
        "api_version": table.text("api_version", ""),
    }
    _check_openai(table, params, options["api"], strict=True)
    return _Reading(base_url, table.text("key_env", KEY_ENV), options=options)


def _gemini(table: Table, params: Mapping[str, Any]) -> _Reading:
    _check_google(table, params)
    base_url = table.text("base_url", GEMINI_URL)
    own = urlsplit(base_url).hostname == urlsplit(GEMINI_URL).hostname
    return _Reading(base_url, table.text("key_env", "GEMINI_API_KEY" if own else ""))


def _vertex(table: Table, params: Mapping[str, Any]) -> _Reading:
    _check_google(table, params)
    options = {"project": table.text("project"), "location": table.text("location", "global")}
    return _Reading(table.text("base_url", ""), options=options)


def _local(table: Table, params: Mapping[str, Any]) -> _Reading:
    _check_chat(table, params)
    if "base_url" in table.data:
        table.text("base_url")
        table.wrong("base_url", "a local model is served by leakgrid itself and has no base_url")
    return _Reading(concurrency=2)


def _vllm(table: Table, params: Mapping[str, Any]) -> _Reading:
    """Attached where there is a base_url (or several), else started and stopped by leakgrid."""
    _check_chat(table, params)
    options: dict[str, Any] = {"system": table.text("system", "send", choices=SYSTEM_MODES)}
    if "base_url" in table.data or "base_urls" in table.data:
        urls = table.texts("base_urls", [])
        url = table.text("base_url", urls[0] if urls else "")
        options["base_urls"] = list(dict.fromkeys([url, *urls]))
        options["identity"] = table.text("identity", "")
        return _Reading(url, table.text("key_env", ""), options=options)
    options |= {
        "memory": table.number("memory", 0.9, 0.01),
        "command": table.texts("command", ["vllm", "serve"]),
        "arguments": table.words("arguments", []),
        "environment": table.mapping("environment", {}),
        "max_model_len": table.whole("max_model_len", None, 1),
        "tensor_parallel": table.whole("tensor_parallel", 1, 1),
    }
    options["dtype"] = table.text("dtype", "auto")
    for key in ("revision", "quantization", "chat_template", "reasoning_parser", "adapter"):
        options[key] = table.text(key, "")
    reading = _Reading(options=options)
    model = str(table.data.get("model", table.keys[-1]))
    try:
        _config(model, options)
    except InputError as error:
        key, _, told = str(error).partition(": ")
        table.wrong(key.partition(".")[0], told or str(error))
    return reading


def vllm_config(spec: ModelSpec) -> VllmConfig:
    """How the server of a managed vLLM model is to be started."""
    return _config(spec.model, spec.options)


def _config(model: str, options: Mapping[str, Any]) -> VllmConfig:
    from leakgrid.providers.vllm_config import parse

    wanted = {key: options[key] for key in options if key != "system"}
    return parse({"model": model, **{key: value for key, value in wanted.items() if value}})


def _simulated(table: Table, params: Mapping[str, Any]) -> _Reading:
    _check_chat(table, params)
    return _Reading(table.text("base_url", ""), table.text("key_env", ""))


READERS: Mapping[str, Callable[[Table, Mapping[str, Any]], _Reading]] = {
    "openai": _openai,
    "azure": _azure,
    "gemini": _gemini,
    "vertex": _vertex,
    "vllm": _vllm,
    "local": _local,
    "simulated": _simulated,
}


def _check_chat(table: Table, params: Mapping[str, Any]) -> None:
    for key in sorted(OWNED["chat"].intersection(params)):
        table.wrong("params", f"{key!r} is set by leakgrid and cannot be a parameter")


def _check_openai(table: Table, params: Mapping[str, Any], api: str, *, strict: bool) -> None:
    for key in sorted(OWNED.get(api, OWNED["chat"]).intersection(params)):
        table.wrong("params", f"{key!r} is set by leakgrid and cannot be a parameter")
    if strict:
        model = table.data.get("model", table.keys[-1])
        for told in unfit_params(str(model), params, api):
            table.wrong("params", told)


def _check_google(table: Table, params: Mapping[str, Any]) -> None:
    from leakgrid.providers.google_body import mistakes

    for told in mistakes(params):
        table.wrong("params", told)


def read_model(name: str, table: Table) -> ModelSpec:
    """One table, checked; mistakes are noted with their lines."""
    check_name(table, MODEL, "; what its server calls it is the key 'model'")
    provider = table.text("provider", choices=READERS)
    params = table.mapping("params", {})
    headers = table.mapping("headers", {})
    reader = READERS.get(provider or "", _simulated)
    reading = reader(table, params)
    url = reading.base_url
    if url and not url.startswith(("http://", "https://")):
        table.wrong("base_url", f"{url!r} does not fit; it must begin with http:// or https://")
    model = table.text("model", name)
    price, told = _price(table, provider or "", model, url, params)
    tier, deadline = _tier(table, provider or "")
    spec = ModelSpec(
        name=name,
        provider=provider or "",
        model=model,
        base_url=url,
        key_env=reading.key_env,
        params=params,
        headers={key: str(value) for key, value in headers.items()},
        price=price,
        price_told=told,
        tier=tier,
        batch_price=_batch_price(provider or "", url, params, model, price, told),
        deadline=deadline,
        quota=Quota(
            rpm=table.number("rpm", None, 1),
            tpm=table.number("tpm", None, 1),
            concurrency=table.whole("concurrency", reading.concurrency, 1),
        ),
        timeout_s=table.number("timeout_s", 600.0, 0.001),
        note=table.text("note", ""),
        family=table.text("family", ""),
        size_b=table.number("size_b", None),
        options=reading.options,
    )
    table.end()
    return spec


def _price(
    table: Table, provider: str, model: str, base_url: str, params: Mapping[str, Any]
) -> tuple[Price | None, str]:
    """The job's own price, else the listed one with its source, else none: never zero."""
    inside = table.table("price")
    if inside.data:
        own = Price(inside.number("input"), inside.number("output"), inside.number("cached", None))
        inside.end()
        return own, ""
    listed = listed_price(vendor_of(provider, base_url, params), model)
    return (None, "") if listed is None else (listed.price, listed.told)


def _tier(table: Table, provider: str) -> tuple[str, tuple[float | None, float | None]]:
    """The tier, and the deadline of a batch (see ``batches/opening.py``)."""
    from leakgrid.batches.opening import PROVIDERS, deadline_of

    tier = table.text("tier", "online", choices=TIERS)
    if tier == "batch" and provider not in PROVIDERS:
        table.wrong("tier", f"{provider} has no batch tier; {', '.join(PROVIDERS)} have one")
    if "deadline" not in table.data:
        return tier, (None, None)
    value = table.value("deadline")
    try:
        deadline = deadline_of(value)
    except ValueError as error:
        table.wrong("deadline", f"{value!r} does not fit: {error}")
        return tier, (None, None)
    if tier != "batch":
        table.wrong("deadline", 'only a model with tier = "batch" has a deadline')
    return tier, deadline


def _batch_price(
    provider: str,
    base_url: str,
    params: Mapping[str, Any],
    model: str,
    price: Price | None,
    told: str,
) -> Price | None:
    """The listed batch rate, else half of the job's own price, else unknown."""
    from leakgrid.batches.lane import half

    if price is not None and None in (price.input, price.output):
        return None  # a mistake that is told already
    if not told:
        return half(price)
    return price_of(vendor_of(provider, base_url, params), model, "batch")


def secret_of(spec: ModelSpec) -> str:
    """The key of a model from the environment; empty where none is needed.

    Raises JobError when the variable that the job names, or the provider needs, is not set.
    """
    if not spec.key_env:
        return ""
    key = os.environ.get(spec.key_env, "").strip()
    if not key:
        raise JobError(
            f"models.{spec.name}: the environment variable {spec.key_env} is not set; export it, "
            "or name another one with key_env"
        )
    return key
