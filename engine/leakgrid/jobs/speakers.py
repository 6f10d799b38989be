"""From a model of a job to what speaks to it: its provider, headers, and shape of bodies."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from leakgrid.jobs.models import OPENAI_URL, ModelSpec

if TYPE_CHECKING:
    import aiohttp

    from leakgrid.providers.google_credentials import AccessTokens
    from leakgrid.providers.wire import Provider


def provider_of(
    spec: ModelSpec,
    base_url: str,
    identity: str,
    session: aiohttp.ClientSession,
    secret: str,
    tokens: AccessTokens,
    facts: Mapping[str, Any],
) -> Provider:
    """What speaks to the model; ``tokens`` are shared by all models of Vertex.

    ``facts`` are what a vLLM server told of itself (see ``chat_templates.py``).
    """
    common: dict[str, Any] = {
        "name": spec.name,
        "kind": spec.provider,
        "session": session,
        "identity": identity,
        "params": spec.params,
        "key": secret,
        "headers": spec.headers,
        "timeout_s": spec.timeout_s,
    }
    if spec.provider in ("gemini", "vertex"):
        from leakgrid.providers.google import GenerateContent

        vertex = spec.provider == "vertex"
        return GenerateContent(
            model=spec.model,
            base_url=spec.endpoint if vertex else base_url,
            tokens=tokens if vertex else None,
            **common,
        )
    if spec.provider == "vllm":
        from leakgrid.providers.replicas import Replicas
        from leakgrid.providers.vllm_chat import VllmChat

        opens = bool((facts.get("template") or {}).get("opens_thinking"))
        urls = spec.options.get("base_urls") or [base_url]
        chats = [
            (
                url,
                VllmChat(
                    system=spec.options["system"],
                    opens_thinking=opens,
                    model=spec.model,
                    base_url=url,
                    **common,
                ),
            )
            for url in urls
        ]
        return chats[0][1] if len(chats) == 1 else Replicas(chats)
    from leakgrid.providers.azure import APIS, TOKEN_ENV, azure

    api = spec.options.get("api", "chat")
    if spec.provider == "azure":
        return azure(
            api=api,
            resource_url=base_url,
            deployment=spec.model,
            api_version=spec.options["api_version"],
            token=spec.key_env == TOKEN_ENV,
            **common,
        )
    common["headers"] = headers_of(spec)
    return APIS[api](
        model=spec.model,
        base_url=base_url,
        simulated=spec.provider == "simulated",
        shape=_shape(spec),
        **common,
    )


def headers_of(spec: ModelSpec) -> Mapping[str, str]:
    """The job's headers, and who pays at OpenAI's own host."""
    if spec.base_url != OPENAI_URL or spec.provider != "openai":
        return spec.headers
    from leakgrid.providers.openai_endpoint import account_headers

    options = spec.options
    account = account_headers(os.environ, options["organization"], options["project"])
    return {**account, **spec.headers}


def _shape(spec: ModelSpec) -> Callable[[dict[str, Any], int], dict[str, Any]] | None:
    """What a kind of server needs in the body beyond the common format."""
    if spec.provider == "simulated":
        # Its replies follow from the body alone; without this all samples would be one.
        return lambda body, sample: {**body, "sample": sample} if sample else body
    if spec.provider == "local":
        from leakgrid.providers.local_body import fit_body

        return lambda body, sample: fit_body(body, sample=sample)
    return None
