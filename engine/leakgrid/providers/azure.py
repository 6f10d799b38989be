"""Azure OpenAI: the same two APIs under a resource's own URL, with its own key header.

The newer form is RESOURCE/openai/v1: the model is the deployment's name, and no version is
needed. The classic form asks for a version of the API, and chat completions name the deployment
in the path.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

from leakgrid.providers.openai import ChatCompletions
from leakgrid.providers.openai_endpoint import Endpoint
from leakgrid.providers.openai_responses import Responses
from leakgrid.providers.wire import Exchange, Reading

KEY_ENV = "AZURE_OPENAI_API_KEY"
TOKEN_ENV = "AZURE_OPENAI_AD_TOKEN"
"""An Entra token instead of a key; it goes as a bearer token."""

RENEW = (
    f"an Entra token lives about an hour: export a new {TOKEN_ENV} and run the same command again, "
    "nothing that is answered is paid twice"
)


class _Expiring(Endpoint):
    """An endpoint whose key is a token that runs out in the midst of a run."""

    def read(self, exchange: Exchange) -> Reading:
        """What the exchange means; a 401 says what to do."""
        reading = super().read(exchange)
        if exchange.status != 401:
            return reading
        return replace(reading, error=f"{reading.error.rstrip('.')}; {RENEW}")


class _ExpiringChat(_Expiring, ChatCompletions):
    pass


class _ExpiringResponses(_Expiring, Responses):
    pass


APIS: dict[str, type[Endpoint]] = {"chat": ChatCompletions, "responses": Responses}
EXPIRING: dict[str, type[Endpoint]] = {"chat": _ExpiringChat, "responses": _ExpiringResponses}


def azure(
    *,
    api: str,
    resource_url: str,
    deployment: str,
    api_version: str = "",
    token: bool = False,
    **options: Any,
) -> Endpoint:
    """A provider for one deployment: ``api`` is chat or responses, ``options`` are Endpoint's.

    ``resource_url`` is https://NAME.openai.azure.com; with ``api_version`` the classic form is
    spoken, but for the versions ``v1`` and ``preview``, which belong to the newer one. ``token``
    says that the key is an Entra token.
    """
    return (EXPIRING if token else APIS)[api](
        model=deployment,
        base_url=base_url_of(api, resource_url, deployment, api_version),
        query=urlencode({"api-version": api_version}) if api_version else "",
        key_header="authorization" if token else "api-key",
        **options,
    )


def base_url_of(api: str, resource_url: str, deployment: str, api_version: str = "") -> str:
    """Where the API of one deployment is, up to /chat/completions or /responses."""
    root = resource_url.rstrip("/").removesuffix("/openai/v1").removesuffix("/openai") + "/openai"
    if api_version in ("", "v1", "preview"):
        return root + "/v1"
    return f"{root}/deployments/{quote(deployment, safe='')}" if api == "chat" else root
