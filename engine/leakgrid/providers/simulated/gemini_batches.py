"""The same service as Google's API asks for it: resumable uploads, batches as operations."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from leakgrid.providers.simulated.batch_desk import Desk, Refused, Route, read_json, reply
from leakgrid.providers.simulated.batch_store import GEMINI, Batch, File

STATES = {
    "in_progress": "BATCH_STATE_RUNNING", "completed": "BATCH_STATE_SUCCEEDED",
    "cancelling": "BATCH_STATE_RUNNING", "cancelled": "BATCH_STATE_CANCELLED",
    "expired": "BATCH_STATE_EXPIRED", "failed": "BATCH_STATE_FAILED",
}  # fmt: skip


class GeminiBatches:
    """The endpoints below /v1beta, over the files and batches of a desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._uploads: dict[str, str] = {}

    def routes(self) -> list[Route]:
        """What is asked where."""
        return [
            ("POST", r"/upload/v1beta/files()", "begin", self._begin),
            ("POST", r"/upload/v1beta/put/(\d+)", "upload", self._upload),
            ("GET", r"/v1beta/files()", "files", self._files),
            ("GET", r"/v1beta/files/([\w-]+):download", "results", self._desk.content),
            ("POST", r"/v1beta/models/([\w.-]+):batchGenerateContent", "create", self._create),
            ("GET", r"/v1beta/batches()", "list", self._list),
            ("GET", r"/v1beta/batches/([\w-]+)", "status", self._status),
            ("POST", r"/v1beta/batches/([\w-]+):cancel", "cancel", self._cancel),
        ]

    async def _begin(self, request: web.BaseRequest, name: str) -> web.Response:
        file = (await read_json(request)).get("file") or {}
        number = str(len(self._uploads) + 1)
        self._uploads[number] = str(file.get("displayName") or file.get("display_name"))
        url = f"http://{request.headers['host']}/upload/v1beta/put/{number}"
        return reply({}, headers={"x-goog-upload-url": url, "x-goog-upload-status": "active"})

    async def _upload(self, request: web.BaseRequest, name: str) -> web.Response:
        if name not in self._uploads:
            raise Refused(404, f"No such upload: {name}")
        draft = self._desk.store.draft()
        try:
            await draft.take(request.content.iter_any())
            file = draft.finish(self._uploads[name], "batch")
        finally:
            draft.drop()
        return reply({"file": _file(file)}, headers={"x-goog-upload-status": "final"})

    async def _files(self, request: web.BaseRequest, name: str) -> web.Response:
        return reply({"files": [_file(file) for file in self._desk.store.files.values()]})

    async def _create(self, request: web.BaseRequest, name: str) -> web.Response:
        told: Any = (await read_json(request)).get("batch")
        try:
            file, shown = str(told["inputConfig"]["fileName"]), str(told["displayName"])
        except (KeyError, TypeError) as error:
            raise Refused(400, "batch: found no inputConfig.fileName and displayName") from error
        found = self._desk.file(file.removeprefix("files/"))
        batch = await self._desk.work.make(found, GEMINI, model=name, name=shown)
        return reply(_batch(batch))

    async def _list(self, request: web.BaseRequest, name: str) -> web.Response:
        return reply({"operations": [_batch(batch) for batch in self._desk.listed()]})

    async def _status(self, request: web.BaseRequest, name: str) -> web.Response:
        batch = self._desk.batch(name)
        status = await self._desk.work.look(batch)
        return reply(_batch(batch, status))

    async def _cancel(self, request: web.BaseRequest, name: str) -> web.Response:
        self._desk.work.cancel(self._desk.batch(name))
        return reply({})


def _file(file: File) -> dict[str, Any]:
    return {
        "name": f"files/{file.id}", "displayName": file.name, "sizeBytes": str(file.bytes),
        "mimeType": "application/jsonl", "state": "ACTIVE",
    }  # fmt: skip


def _batch(batch: Batch, status: str = "") -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "displayName": batch.name,
        "model": f"models/{batch.model}",
        "state": STATES[status or batch.status],
    }
    if batch.output:
        metadata["output"] = {"responsesFile": f"files/{batch.output}"}
    return {"name": f"batches/{batch.id}", "metadata": metadata}
