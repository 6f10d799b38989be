"""What a vLLM server's chat template does to a study's prompts: asked, and told to the user."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from leakgrid.jobs.models import ModelSpec

if TYPE_CHECKING:
    from leakgrid.providers.vllm_templates import TemplateFacts

ANSWER_S = 10.0
QUOTED = 80


async def ask_templates(specs: Iterable[ModelSpec]) -> dict[str, dict[str, Any]]:
    """By model, what the servers that others run make of a conversation, as ours tell it.

    ``specs`` are vLLM models with a base_url. A server that is down or does not tell is no error.
    """
    places = {spec.name: (spec.model, *spec.options["base_urls"]) for spec in specs}
    async with asyncio.TaskGroup() as group:
        asked = {
            place: group.create_task(asyncio.to_thread(_first_to_tell, *place))
            for place in set(places.values())
        }
    return {name: {"template": asdict(asked[place].result())} for name, place in places.items()}


def _first_to_tell(model: str, *urls: str) -> TemplateFacts:
    from leakgrid.providers.vllm_templates import TemplateFacts, template_facts

    for url in urls:
        found = template_facts(url, model, ANSWER_S)
        if found.asked:
            return found
    return TemplateFacts(asked=False)


def warnings(spec: ModelSpec, facts: Mapping[str, Any]) -> list[str]:
    """What a researcher has to know of the template in ``facts``, in one line each."""
    template = facts.get("template") or {}
    told = []
    if template.get("refuses_system") and spec.options["system"] == "send":
        told.append(
            f"models.{spec.name}: its chat template refuses or drops system messages; set "
            'system = "fold" on this model, or its system prompts are errors or go unread'
        )
    if template.get("injects_system"):
        words = " ".join(str(template.get("injected", "")).split())
        quoted = words[:QUOTED] + ("..." if len(words) > QUOTED else "")
        told.append(
            f"models.{spec.name}: where there is no system message its chat template writes one "
            f'of its own ("{quoted}"): an empty system prompt is not empty; say so where you '
            "report it, or give a chat_template without it"
        )
    return told
