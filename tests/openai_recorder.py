"""A server that records what it is sent and answers as told, for contracts with OpenAI's SDK."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import aiohttp
import orjson

from leakgrid.cache.key import canonical
from leakgrid.providers.openai_endpoint import Endpoint
from leakgrid.providers.wire import Exchange
from leakgrid.types import Call


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as it arrived; header names in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def sorted_body(self) -> bytes:
        """The body with its fields in order: the SDK writes them in the order of its arguments."""
        return orjson.dumps(orjson.loads(self.body), option=orjson.OPT_SORT_KEYS)


@dataclass(slots=True)
class Recorder:
    """``status``, ``headers`` and ``answer`` go to every request; ``seen`` is what came."""

    url: str = ""
    status: int = 200
    answer: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)

    def last(self) -> Seen:
        """The latest request, taken out."""
        return self.seen.pop()


@contextmanager
def recording() -> Iterator[Recorder]:
    """A recorder on a port of its own, served by threads."""
    recorder = Recorder()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            recorder.seen.append(Seen(self.path, headers, body))
            self.send_response(recorder.status)
            headers = {"content-type": "application/json", **recorder.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(recorder.answer)))
            self.end_headers()
            self.wfile.write(recorder.answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    recorder.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield recorder
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def send(make: Any, call: Call) -> tuple[Endpoint, Exchange]:
    """``call`` sent as a run would send it, through the provider that ``make(session)`` gives."""

    async def main() -> tuple[Endpoint, Exchange]:
        async with aiohttp.ClientSession() as session:
            provider = make(session)
            return provider, await provider.exchange(canonical(provider.body(call)))

    return asyncio.run(main())
