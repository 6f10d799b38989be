"""What both ways of asking the batch service share: its files and batches, replies and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web

from leakgrid.providers.simulated.batch_store import Batch, File, Store
from leakgrid.providers.simulated.batch_work import Work

LABEL = {"content-type": "application/json", "x-leakgrid-simulated": "1"}

Step = Callable[[web.BaseRequest, str], Awaitable[web.Response]]
"""From a request and the id in its path to its response. Raises Refused."""

Route = tuple[str, str, str, Step]
"""Method, pattern of the path, name of the step, and what it does."""


class Refused(Exception):
    """A request that ends with an error, in the shape of the API that was asked."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Desk:
    """The service's files and batches, and what is done with them."""

    store: Store
    work: Work

    def file(self, name: str) -> File:
        """The file of this id. Raises Refused."""
        found = self.store.files.get(name)
        if found is None:
            raise Refused(404, f"No such File object: {name}")
        return found

    def batch(self, name: str) -> Batch:
        """The batch of this id. Raises Refused."""
        found = self.store.batches.get(name)
        if found is None:
            raise Refused(404, f"No batch found with id '{name}'.")
        return found

    def listed(self) -> list[Batch]:
        """All batches, newest first; a new one may be missing for a moment."""
        shown = []
        for batch in reversed(self.store.batches.values()):
            if batch.plan.hidden > 0:
                batch.plan.hidden -= 1
            else:
                shown.append(batch)
        return shown

    async def content(self, request: web.BaseRequest, name: str) -> web.Response:
        """The bytes of a file."""
        path = self.store.data(self.file(name))
        data = await asyncio.to_thread(path.read_bytes)
        return web.Response(body=data, headers={**LABEL, "content-type": "application/jsonl"})


def reply(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """A body as JSON."""
    return web.Response(status=status, body=orjson.dumps(body), headers=LABEL | (headers or {}))


async def read_json(request: web.BaseRequest) -> dict[str, Any]:
    """The object in a request's body. Raises Refused."""
    try:
        told = orjson.loads(await request.read())
    except (orjson.JSONDecodeError, web.HTTPRequestEntityTooLarge) as error:
        raise Refused(400, "We could not parse the JSON body of your request.") from error
    if not isinstance(told, dict):
        raise Refused(400, "found no object in the body; allowed: one")
    return told
