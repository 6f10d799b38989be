"""The simulated batch service: OpenAI's files and batches, answered by the simulated models.

Beside them ``POST /batches/control`` takes orders (see ``batch_faults``; ``reset`` forgets
everything, ``polls`` lets every batch end after so many looks), and ``GET /batches/state`` tells
all that was asked of the service.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from leakgrid.providers.simulated import faults, wire
from leakgrid.providers.simulated.batch_desk import LABEL, Desk, Refused, Step, reply
from leakgrid.providers.simulated.batch_faults import Fault, Orders
from leakgrid.providers.simulated.batch_lines import LINES
from leakgrid.providers.simulated.batch_settings import Batching
from leakgrid.providers.simulated.batch_store import Store
from leakgrid.providers.simulated.batch_work import Answerer, Work
from leakgrid.providers.simulated.gemini_batches import GeminiBatches
from leakgrid.providers.simulated.openai_batches import OpenAIBatches


class BatchService:
    """``handle`` takes every request whose path is the batch service's."""

    def __init__(self, folder: Path, seed: int, batching: Batching, answer: Answerer) -> None:
        self.store = Store(folder)
        self.orders = Orders(seed, batching)
        self.work = Work(self.store, self.orders, answer, batching.turnaround_s)
        desk = Desk(self.store, self.work)
        self._routes = [
            (method, re.compile(pattern), step, function)
            for method, pattern, step, function in (
                *OpenAIBatches(desk).routes(),
                *GeminiBatches(desk).routes(),
            )
        ]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request."""
        path = request.raw_path.partition("?")[0]
        if path == "/batches/state":
            return reply(self._state())
        if path == "/batches/control":
            return await self._control(request)
        google = "/v1beta/" in path
        for method, pattern, step, function in self._routes:
            found = pattern.fullmatch(path)
            if found and method == request.method:
                return await self._stepped(request, step, function, found[1], google)
        return _refused(404, f"Invalid URL ({request.method} {path})", google)

    async def _stepped(
        self, request: web.BaseRequest, step: str, function: Step, name: str, google: bool
    ) -> web.StreamResponse:
        fault = self.orders.step(step)
        if fault is None or fault.after:
            try:
                response = await function(request, name)
            except Refused as refused:
                response = _refused(refused.status, str(refused), google)
            if fault is None:
                return response
            if fault.hang_up:  # a file may be cut off where it is torn, all else never arrives
                kind = "torn" if step == "results" else "reset"
                body = response.body if isinstance(response.body, bytes) else b""
                return faults.Broken(kind, body, LABEL)
        else:
            async for _ in request.content.iter_any():
                pass
            if fault.hang_up:
                return faults.Broken("reset", b"", LABEL)
        return _faulty(fault, google)

    # --- orders -------------------------------------------------------------------------------

    async def _control(self, request: web.BaseRequest) -> web.Response:
        try:
            told = orjson.loads(await request.read())
            if told.get("reset"):
                self.store.forget()
                self.orders.forget()
                self.work.forget()
            self.orders.take(told)
            if "polls" in told:
                self.work.hasten(int(told["polls"]))
        except (TypeError, ValueError, AttributeError) as error:
            return _refused(400, f"no orders for the batch service: {error}", False)
        return reply({})

    def _state(self) -> dict[str, Any]:
        batches = []
        for batch in self.store.batches.values():
            file = self.store.files[batch.file]
            requests = [_read(line) for line in self.work.requests(file)]
            keys = [one.get(LINES[batch.endpoint].key) for one in requests]
            told = {
                "id": batch.id, "intent": batch.metadata.get("leakgrid", batch.name),
                "status": batch.status, "endpoint": batch.endpoint, "model": batch.model,
                "keys": keys, "requests": requests,
            }  # fmt: skip
            batches.append(told)
        files = [
            {"name": file.name, "purpose": file.purpose, "size": file.bytes}
            for file in self.store.files.values()
        ]
        return {
            "simulated": True, "files": files, "batches": batches,
            "carried_out": self.work.carried_out, "requests": self.orders.requests,
        }  # fmt: skip


def _refused(status: int, message: str, google: bool) -> web.Response:
    return _faulty(Fault(step="", status=status, message=message, name="INVALID_ARGUMENT"), google)


def _faulty(fault: Fault, google: bool) -> web.Response:
    error: dict[str, Any] = {"code": fault.status, "message": fault.message, "status": fault.name}
    if google:
        return reply({"error": error}, fault.status)
    return reply(wire.error(fault.message, "simulated_fault", fault.code), fault.status)


def _read(line: bytes) -> dict[str, Any]:
    try:
        told = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return told if isinstance(told, dict) else {}
