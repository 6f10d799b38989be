"""A stand-in batch service in a process of its own: OpenAI's and Gemini's endpoints, as needed.

    python -m tests.batch_service            prints its port, serves until its standard input ends

What it should do wrong is told in two ways. ``POST /control`` adds ``faults`` (a list of
``{"step", "times", "status", "after", "body"}``: ``after`` carries the request out and loses its
answer) and ``plans``, one per batch to come (``{"end": "expired", "done": 2, "polls": 3,
"flap": true, "errors": [...]}``...). And the text of a request may carry orders for its line:
``!500*1`` fails the first time it is carried out and works then, ``!missing*1``, ``!twice``,
``!bad`` (a line that is no JSON), ``!400``, ``!429``. ``GET /state`` tells all it was asked to do;
``reset`` in ``/control`` forgets everything.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ORDER = re.compile(r"!(\w+)(?:\*(\d+))?")
ENDED = ("completed", "expired", "cancelled", "failed")
GOOGLE = {
    "in_progress": "BATCH_STATE_RUNNING", "completed": "BATCH_STATE_SUCCEEDED",
    "cancelling": "BATCH_STATE_RUNNING", "cancelled": "BATCH_STATE_CANCELLED",
    "expired": "BATCH_STATE_EXPIRED", "failed": "BATCH_STATE_FAILED",
}  # fmt: skip


@dataclass
class World:
    """All that the service knows."""

    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: list[dict[str, Any]] = field(default_factory=list)
    plans: list[dict[str, Any]] = field(default_factory=list)
    carried_out: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    seen: list[dict[str, Any]] = field(default_factory=list)
    uploads: dict[str, dict[str, Any]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def new_file(self, name: str, data: bytes, purpose: str = "batch") -> dict[str, Any]:
        number = len(self.files) + 1
        file = {"id": f"file-{number}", "name": name, "data": data, "purpose": purpose}
        self.files[str(file["id"])] = file
        return file

    def new_batch(self, file: str, intent: str, endpoint: str, model: str) -> dict[str, Any]:
        plan = self.plans.pop(0) if self.plans else {}
        requests = [json.loads(line) for line in self.files[file]["data"].splitlines() if line]
        batch = {
            "id": f"batch-{len(self.batches) + 1}", "file": file, "intent": intent,
            "endpoint": endpoint, "model": model, "plan": plan, "status": "in_progress",
            "polls": plan.get("polls", 0), "created": int(time.time()), "output": None,
            "error": None, "requests": requests, "hidden": plan.get("hidden", 0),
        }  # fmt: skip
        self.batches[batch["id"]] = batch
        if plan.get("end") == "failed":
            batch["status"] = "failed"
        return batch

    def look(self, batch: dict[str, Any]) -> str:
        """The status to tell, after one poll."""
        plan = batch["plan"]
        if batch["status"] == "cancelling":
            self.finish(batch, "cancelled", plan.get("done", 0))
        elif batch["status"] == "in_progress":
            batch["polls"] -= 1
            if plan.get("flap") and batch["polls"] == 0:
                return "completed"  # too early: there is no file
            if batch["polls"] <= 0 and plan.get("end") != "never":
                end = plan.get("end", "completed")
                self.finish(batch, end, plan.get("done", len(batch["requests"])))
        return str(batch["status"])

    def finish(self, batch: dict[str, Any], status: str, done: int) -> None:
        batch["status"] = status
        google = batch["endpoint"] == "gemini"
        out, err = [], []
        for number, request in enumerate(batch["requests"]):
            key = request["key" if google else "custom_id"]
            if number >= done:
                if not google and status != "completed":
                    error = {"code": f"batch_{status}", "message": "not carried out"}
                    err.append({"id": "r", "custom_id": key, "response": None, "error": error})
                continue
            out += self.carry_out(key, request, google, err)
        strange = batch["plan"].get("strange", 0)
        for number in range(strange):
            key = f"{number:064d}"
            out += [self.good(key, {"model": "m", "messages": []}, google)]
        text = [line if isinstance(line, str) else json.dumps(line) for line in out]
        data = "\n".join(text).encode() + b"\n"
        if batch["plan"].get("torn"):
            data = data[: -len(text[-1]) // 2]
        if out:
            batch["output"] = self.new_file("out", data, "batch_output")["id"]
        if err:
            data = b"".join(json.dumps(line).encode() + b"\n" for line in err)
            batch["error"] = self.new_file("err", data, "batch_output")["id"]

    def carry_out(
        self, key: str, request: dict[str, Any], google: bool, err: list[Any]
    ) -> list[Any]:
        orders = ORDER.findall(json.dumps(request))
        self.seen.append({"key": key})
        before = self.seen_times(key) - 1
        for order, times in orders:
            if times and before >= int(times):
                continue
            if order == "missing":
                return []
            if order == "bad":
                self.carried_out[key] += 1
                return ['{"custom_id": "' + key[:20]]
            if order == "twice":
                self.carried_out[key] += 1
                good = self.good(key, request, google)
                fail = self.fail(key, 500, google)
                return [fail, good, good]
            if order.isdigit():
                fail = self.fail(key, int(order), google)
                if google:
                    return [fail]
                err.append(fail)
                return []
        self.carried_out[key] += 1
        return [self.good(key, request, google)]

    def seen_times(self, key: str) -> int:
        return sum(one["key"] == key for one in self.seen)

    def good(self, key: str, request: dict[str, Any], google: bool) -> dict[str, Any]:
        if google:
            response = {
                "candidates": [
                    {"content": {"parts": [{"text": f"re {key[:8]}"}]}, "finishReason": "STOP"}
                ],
                "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 100},
                "modelVersion": "gemini-x-001",
            }
            return {"key": key, "response": response}
        body = {
            "model": "m-1", "object": "chat.completion", "id": "c",
            "choices": [
                {"index": 0, "finish_reason": "stop",
                 "message": {"role": "assistant", "content": f"re {key[:8]}"}}
            ],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
        }  # fmt: skip
        wrapped: dict[str, Any] = {"status_code": 200, "request_id": "q", "body": body}
        return {"id": "r", "custom_id": key, "response": wrapped, "error": None}

    def fail(self, key: str, status: int, google: bool) -> dict[str, Any]:
        if google:
            code = {400: 3, 429: 8, 500: 13, 503: 14}[status]
            return {"key": key, "error": {"code": code, "message": f"failed with {status}"}}
        codes = {400: "bad_value", 401: "invalid_api_key", 429: "rate_limit_exceeded"}
        body = {"error": {"code": codes.get(status, "server_error"), "message": f"status {status}"}}
        response: dict[str, Any] = {"status_code": status, "request_id": "q", "body": body}
        return {"id": "r", "custom_id": key, "response": response, "error": None}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    world: World

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def answer(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, told in (headers or {}).items():
            self.send_header(name, told)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.route("GET")

    def do_POST(self) -> None:
        self.route("POST")

    def route(self, method: str) -> None:
        size = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(size)
        path, _, query = self.path.partition("?")
        with self.world.lock:
            if path == "/control":
                told = json.loads(body)
                if told.get("reset"):
                    Handler.world = World()
                    return self.answer({})
                self.world.faults += told.get("faults", [])
                self.world.plans += told.get("plans", [])
                if "polls" in told:
                    for batch in self.world.batches.values():
                        batch["polls"] = told["polls"]
                        batch["plan"].pop("end", None)
                return self.answer({})
            if path == "/state":
                return self.answer(self.state())
            return self.serve(method, path, query, body)

    def state(self) -> dict[str, Any]:
        world = self.world
        return {
            "files": [
                {"name": file["name"], "purpose": file["purpose"], "size": len(file["data"])}
                for file in world.files.values()
            ],
            "batches": [
                {name: batch[name] for name in ("id", "intent", "status", "endpoint", "model")}
                | {"keys": [one.get("custom_id") or one.get("key") for one in batch["requests"]],
                   "requests": batch["requests"]}
                for batch in world.batches.values()
            ],
            "carried_out": world.carried_out,
            "requests": world.requests,
        }  # fmt: skip

    def serve(self, method: str, path: str, query: str, body: bytes) -> None:
        for pattern, wanted, step in ROUTES:
            found = re.fullmatch(pattern, path)
            if found and wanted == method:
                self.world.requests[step] += 1
                fault = self.fault(step)
                if fault is None:
                    getattr(self, step)(found, query, body)
                    return
                if fault.get("after"):
                    kept, self.wfile = self.wfile, Nowhere()  # type: ignore[assignment]
                    try:
                        getattr(self, step)(found, query, body)
                    finally:
                        self.wfile = kept
                    # The headers of the lost answer are not sent either.
                    self._headers_buffer: list[bytes] = []
                if fault.get("hang_up"):
                    self.close_connection = True
                    return
                status = fault.get("status", 500)
                message = fault.get("message", f"told to fail with {status}")
                name = fault.get("name", "INTERNAL")
                error = {"code": fault.get("code"), "message": message, "status": name}
                if step.startswith("g_"):
                    error["code"] = status
                self.answer({"error": error}, status)
                return
        self.answer({"error": {"message": f"no route {method} {path}"}}, 404)

    def fault(self, step: str) -> dict[str, Any] | None:
        for fault in self.world.faults:
            if fault["step"] == step.removeprefix("g_") and fault.get("times", 1) > 0:
                fault["times"] = fault.get("times", 1) - 1
                return fault
        return None

    # --- OpenAI -------------------------------------------------------------------------------

    def upload(self, found: re.Match[str], query: str, body: bytes) -> None:
        boundary = self.headers["content-type"].split("boundary=")[1].encode()
        data, name = b"", ""
        for part in body.split(b"--" + boundary)[1:-1]:
            head, _, content = part.partition(b"\r\n\r\n")
            filename = re.search(rb'filename="([^"]+)"', head)
            if filename:
                name, data = filename[1].decode(), content.removesuffix(b"\r\n")
        self.answer(self.o_file(self.world.new_file(name, data)))

    def files(self, found: re.Match[str], query: str, body: bytes) -> None:
        files = [self.o_file(file) for file in self.world.files.values()][::-1]
        self.answer({"object": "list", "data": files, "has_more": False})

    def results(self, found: re.Match[str], query: str, body: bytes) -> None:
        self.answer(self.world.files[found[1]]["data"])

    def o_file(self, file: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": file["id"], "object": "file", "bytes": len(file["data"]), "created_at": 0,
            "filename": file["name"], "purpose": file["purpose"], "status": "processed",
        }  # fmt: skip

    def create(self, found: re.Match[str], query: str, body: bytes) -> None:
        told = json.loads(body)
        batch = self.world.new_batch(
            told["input_file_id"], told["metadata"]["leakgrid"], told["endpoint"], ""
        )
        self.answer(self.o_batch(batch))

    def status(self, found: re.Match[str], query: str, body: bytes) -> None:
        batch = self.world.batches[found[1]]
        self.answer(self.o_batch(batch, self.world.look(batch)))

    def list(self, found: re.Match[str], query: str, body: bytes) -> None:
        shown = [self.o_batch(batch) for batch in self.shown()]
        self.answer({"object": "list", "data": shown, "has_more": False})

    def shown(self) -> Iterator[dict[str, Any]]:
        """Newest first; a new batch may be missing from the list for a moment."""
        for batch in list(self.world.batches.values())[::-1]:
            if batch["hidden"] > 0:
                batch["hidden"] -= 1
            else:
                yield batch

    def cancel(self, found: re.Match[str], query: str, body: bytes) -> None:
        batch = self.world.batches[found[1]]
        if batch["status"] == "in_progress":
            batch["status"] = "cancelling"
        self.answer(self.o_batch(batch))

    def o_batch(self, batch: dict[str, Any], status: str | None = None) -> dict[str, Any]:
        status = status or batch["status"]
        errors = batch["plan"].get("errors")
        return {
            "id": batch["id"], "object": "batch", "endpoint": batch["endpoint"],
            "input_file_id": batch["file"], "completion_window": "24h", "status": status,
            "created_at": batch["created"], "metadata": {"leakgrid": batch["intent"]},
            "output_file_id": batch["output"], "error_file_id": batch["error"],
            "errors": {"object": "list", "data": errors} if errors else None,
        }  # fmt: skip

    # --- Gemini -------------------------------------------------------------------------------

    def g_begin(self, found: re.Match[str], query: str, body: bytes) -> None:
        number = str(len(self.world.uploads) + 1)
        self.world.uploads[number] = json.loads(body)["file"]
        url = f"http://{self.headers['host']}/put/{number}"
        self.answer({}, headers={"x-goog-upload-url": url, "x-goog-upload-status": "active"})

    def g_upload(self, found: re.Match[str], query: str, body: bytes) -> None:
        told = self.world.uploads[found[1]]
        name = str(told.get("displayName") or told.get("display_name"))
        file = self.world.new_file(name, body)
        self.answer({"file": self.g_file(file)}, headers={"x-goog-upload-status": "final"})

    def g_files(self, found: re.Match[str], query: str, body: bytes) -> None:
        self.answer({"files": [self.g_file(file) for file in self.world.files.values()]})

    def g_results(self, found: re.Match[str], query: str, body: bytes) -> None:
        self.answer(self.world.files[found[1]]["data"])

    def g_file(self, file: dict[str, Any]) -> dict[str, Any]:
        return {
            "name": f"files/{file['id']}", "displayName": file["name"],
            "sizeBytes": str(len(file["data"])), "mimeType": "application/jsonl",
            "state": "ACTIVE",
        }  # fmt: skip

    def g_create(self, found: re.Match[str], query: str, body: bytes) -> None:
        told = json.loads(body)["batch"]
        file = told["inputConfig"]["fileName"].removeprefix("files/")
        self.answer(
            self.g_batch(self.world.new_batch(file, told["displayName"], "gemini", found[1]))
        )

    def g_status(self, found: re.Match[str], query: str, body: bytes) -> None:
        batch = self.world.batches[found[1]]
        self.answer(self.g_batch(batch, self.world.look(batch)))

    def g_list(self, found: re.Match[str], query: str, body: bytes) -> None:
        shown = [self.g_batch(batch) for batch in self.shown()]
        self.answer({"operations": shown})

    def g_cancel(self, found: re.Match[str], query: str, body: bytes) -> None:
        batch = self.world.batches[found[1]]
        if batch["status"] == "in_progress":
            batch["status"] = "cancelling"
        self.answer({})

    def g_batch(self, batch: dict[str, Any], status: str | None = None) -> dict[str, Any]:
        output = {"responsesFile": f"files/{batch['output']}"} if batch["output"] else None
        metadata = {
            "displayName": batch["intent"], "model": f"models/{batch['model']}",
            "state": GOOGLE[status or batch["status"]],
        } | ({"output": output} if output else {})  # fmt: skip
        return {"name": f"batches/{batch['id']}", "metadata": metadata}


class Nowhere:
    """Swallows what is written."""

    def write(self, data: bytes) -> int:
        return len(data)

    def flush(self) -> None:
        pass


ROUTES = (
    (r"/v1/files", "POST", "upload"),
    (r"/v1/files", "GET", "files"),
    (r"/v1/files/([\w-]+)/content", "GET", "results"),
    (r"/v1/batches", "POST", "create"),
    (r"/v1/batches", "GET", "list"),
    (r"/v1/batches/([\w-]+)", "GET", "status"),
    (r"/v1/batches/([\w-]+)/cancel", "POST", "cancel"),
    (r"/upload/v1beta/files", "POST", "g_begin"),
    (r"/put/(\d+)", "POST", "g_upload"),
    (r"/v1beta/files", "GET", "g_files"),
    (r"/v1beta/files/([\w-]+):download", "GET", "g_results"),
    (r"/v1beta/models/([\w.-]+):batchGenerateContent", "POST", "g_create"),
    (r"/v1beta/batches", "GET", "g_list"),
    (r"/v1beta/batches/([\w-]+)", "GET", "g_status"),
    (r"/v1beta/batches/([\w-]+):cancel", "POST", "g_cancel"),
)


def main() -> None:
    """Serve until the standard input ends."""
    Handler.world = World()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        print(server.server_port, flush=True)
        sys.stdin.read()
        server.shutdown()


@dataclass(frozen=True, slots=True)
class Running:
    """The service seen from a test."""

    port: int

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def control(self, **told: Any) -> None:
        """Add faults and plans."""
        data = json.dumps(told).encode()
        with urllib.request.urlopen(f"{self.root}/control", data) as response:
            response.read()

    def state(self) -> dict[str, Any]:
        """All that the service was asked to do."""
        with urllib.request.urlopen(f"{self.root}/state") as response:
            state: dict[str, Any] = json.load(response)
        return state


@contextlib.contextmanager
def running() -> Iterator[Running]:
    """The service in a process of its own, ended when the block is left."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.batch_service"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).resolve().parent.parent,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield Running(int(process.stdout.readline()))
    finally:
        process.stdin.close()
        process.wait(timeout=10)
        process.stdout.close()


if __name__ == "__main__":
    main()
