"""The batch service as OpenAI's API asks for it: files, and batches over them."""

from __future__ import annotations

from typing import Any

from aiohttp import BodyPartReader, web

from leakgrid.providers.simulated.batch_desk import Desk, Refused, Route, read_json, reply
from leakgrid.providers.simulated.batch_store import OPENAI_CHAT, Batch, File

PAGE = 100


class OpenAIBatches:
    """The endpoints below /v1, over the files and batches of a desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        """What is asked where."""
        return [
            ("POST", r"/v1/files()", "upload", self._upload),
            ("GET", r"/v1/files()", "files", self._files),
            ("GET", r"/v1/files/([\w-]+)/content", "results", self._desk.content),
            ("POST", r"/v1/batches()", "create", self._create),
            ("GET", r"/v1/batches()", "list", self._list),
            ("GET", r"/v1/batches/([\w-]+)", "status", self._status),
            ("POST", r"/v1/batches/([\w-]+)/cancel", "cancel", self._cancel),
        ]

    async def _upload(self, request: web.BaseRequest, name: str) -> web.Response:
        if request.content_type != "multipart/form-data":
            raise Refused(400, f"found {request.content_type}; allowed: multipart/form-data")
        draft = self._desk.store.draft()
        filename = purpose = ""
        try:
            async for part in await request.multipart():
                if not isinstance(part, BodyPartReader):
                    raise Refused(400, "file: found a multipart body inside; allowed: a file")
                if part.name == "purpose":
                    purpose = (await part.read()).decode()
                elif part.name == "file":
                    filename = part.filename or "file"
                    while chunk := await part.read_chunk(2**16):
                        draft.write(chunk)
            if purpose != "batch" or not filename:
                raise Refused(400, f"purpose: found {purpose!r}; allowed: batch, with a file")
            return reply(_file(draft.finish(filename, purpose)))
        except ValueError as error:
            raise Refused(400, f"this is no multipart form ({error})") from error
        finally:
            draft.drop()

    async def _files(self, request: web.BaseRequest, name: str) -> web.Response:
        purpose = request.query.get("purpose")
        shown = [one for one in self._desk.store.files.values() if purpose in (None, one.purpose)]
        return _page(request, [_file(one) for one in reversed(shown)])

    async def _create(self, request: web.BaseRequest, name: str) -> web.Response:
        told = await read_json(request)
        endpoint, metadata = told.get("endpoint"), told.get("metadata") or {}
        if endpoint != OPENAI_CHAT:
            raise Refused(400, f"endpoint: found {endpoint!r}; allowed: {OPENAI_CHAT}")
        if not isinstance(metadata, dict):
            raise Refused(400, "metadata: found no object; allowed: texts by name")
        file = self._desk.file(str(told.get("input_file_id")))
        texts = {str(key): str(value) for key, value in metadata.items()}
        batch = await self._desk.work.make(file, endpoint, model="", metadata=texts)
        return reply(_batch(batch))

    async def _list(self, request: web.BaseRequest, name: str) -> web.Response:
        return _page(request, [_batch(batch) for batch in self._desk.listed()])

    async def _status(self, request: web.BaseRequest, name: str) -> web.Response:
        batch = self._desk.batch(name)
        status = await self._desk.work.look(batch)
        return reply(_batch(batch, status))

    async def _cancel(self, request: web.BaseRequest, name: str) -> web.Response:
        batch = self._desk.batch(name)
        self._desk.work.cancel(batch)
        return reply(_batch(batch))


def _page(request: web.BaseRequest, found: list[dict[str, Any]]) -> web.Response:
    """A page of a list: ``limit`` of those that follow ``after``."""
    after, limit = request.query.get("after"), request.query.get("limit", "")
    names = [one["id"] for one in found]
    first = names.index(after) + 1 if after in names else 0
    last = first + (int(limit) if limit.isdigit() else PAGE)
    return reply({"object": "list", "data": found[first:last], "has_more": last < len(found)})


def _file(file: File) -> dict[str, Any]:
    return {
        "id": file.id, "object": "file", "bytes": file.bytes, "created_at": int(file.created),
        "filename": file.name, "purpose": file.purpose, "status": "processed",
    }  # fmt: skip


def _batch(batch: Batch, status: str = "") -> dict[str, Any]:
    errors = batch.plan.errors if batch.status == "failed" else []
    return {
        "id": batch.id, "object": "batch", "endpoint": batch.endpoint,
        "input_file_id": batch.file, "completion_window": "24h",
        "status": status or batch.status, "created_at": int(batch.created),
        "metadata": batch.metadata, "output_file_id": batch.output or None,
        "error_file_id": batch.error or None,
        "errors": {"object": "list", "data": errors} if errors else None,
    }  # fmt: skip
