"""The simulated provider's process: ``python -m leakgrid.providers.simulated.server --config F``.

Prints one JSON line {"ready", "port", "identity"} once it listens. Ends with 0 on SIGTERM and
when its standard input closes (its parent died) unless --stay; 2: wrong configuration;
98: the port is taken.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import gc
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import orjson
from aiohttp import web

from leakgrid.providers.simulated import (
    reveals,  # noqa: F401  registers its judge
    world,
)
from leakgrid.providers.simulated.chat import Chat
from leakgrid.providers.simulated.config import parse
from leakgrid.providers.simulated.files import read_items
from leakgrid.providers.simulated.items import Index, load
from leakgrid.providers.simulated.settings import Simulated

EXIT_CONFIG = 2
EXIT_PORT = 98
BACKLOG = 4096


def main(argv: Sequence[str] | None = None) -> int:
    """Run until told to stop; the exit code."""
    arguments = _arguments(argv)
    try:
        config = _config(arguments.config)
        chat = _chat(config, arguments.batches)
    except ValueError as error:
        print(error, file=sys.stderr)
        return EXIT_CONFIG
    port = config.port if arguments.port is None else arguments.port
    _raise_file_limit()
    return asyncio.run(_serve(chat, arguments.host, port, arguments.stay))


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m leakgrid.providers.simulated.server",
        description="A chat-completions server whose models leak by planted truth.",
    )
    parser.add_argument("--config", required=True, type=Path, help="the [simulated] table, as JSON")
    parser.add_argument("--port", type=int, default=None, help="0: any free one (default: config)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--batches", type=Path, default=None, help="keep batches in this folder")
    parser.add_argument("--stay", action="store_true", help="live on when standard input closes")
    return parser.parse_args(argv)


def _config(path: Path) -> Simulated:
    """The parsed configuration file. Raises ValueError with one mistake a line."""
    try:
        table = orjson.loads(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from error
    except orjson.JSONDecodeError as error:
        raise ValueError(f"{path}: found text that is not JSON ({error})") from error
    if not isinstance(table, dict):
        raise ValueError(f"{path}: found {type(table).__name__}; allowed: the [simulated] table")
    return parse(table)


def _chat(config: Simulated, batches: Path | None) -> Chat:
    """The simulation, with its items, profiles or seeds. Raises ValueError for a wrong file."""
    if config.writing:
        # Here, because other servers have no use for it and should start fast.
        from leakgrid.providers.simulated import writers

        return Chat(config, Index(), config.identity(), drafts=writers.load(config),
                    batch_folder=batches)  # fmt: skip
    data = read_items(config.items)
    # Judges alone may be simulated in a job on profiles, whose file is one JSON list.
    if config.agents or config.labellers or data.lstrip()[:1] == b"[":
        return Chat(config, Index(), config.identity(), world.load(config),
                    batch_folder=batches)  # fmt: skip
    return Chat(config, load(data, config.items), config.identity(), batch_folder=batches)


async def _serve(chat: Chat, host: str, port: int, stay: bool) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    # Hung requests must end when their client goes, or they would pile up.
    handler = web.Server(chat.handle, handler_cancellation=True, access_log=None)
    try:
        server = await loop.create_server(handler, host, port, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        return _not_bound(error, host, port)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    # Ctrl-C reaches the whole process group, but a client on its way out still wants the
    # answers that it has paid for: a server with a parent waits for the parent's end.
    loop.add_signal_handler(signal.SIGINT, stop.set if stay else _ignore)
    if not stay:
        watch = threading.Thread(target=_until_eof, args=(loop, stop), daemon=True)
        watch.start()
    bound = server.sockets[0].getsockname()[1]
    ready = {"ready": True, "port": bound, "identity": chat.identity}
    try:
        sys.stdout.buffer.write(orjson.dumps(ready) + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        stop.set()
    gc.freeze()
    await stop.wait()
    server.close()
    await handler.shutdown(timeout=0.1)
    return 0


def _not_bound(error: OSError | OverflowError, host: str, port: int) -> int:
    if getattr(error, "errno", None) == errno.EADDRINUSE:
        print(
            f"port {port} on {host} is already in use: stop the program that listens there, "
            "choose another port, or use port 0 for any free one",
            file=sys.stderr,
        )
        return EXIT_PORT
    print(f"cannot listen on port {port} on {host}: {error}", file=sys.stderr)
    return EXIT_CONFIG


def _until_eof(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Wait for the end of standard input, then stop the server."""
    try:
        # Not sys.stdin: a thread inside its buffer would block the interpreter's own exit.
        while os.read(0, 4096):
            pass
    except OSError:
        pass
    try:
        loop.call_soon_threadsafe(stop.set)
    except RuntimeError:
        pass  # the loop has closed: stopped some other way


def _ignore() -> None:
    """Do nothing."""


def _raise_file_limit() -> None:
    """Allow as many open connections as the system lets us."""
    try:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ImportError, OSError, ValueError):
        pass  # the limit that there is will do for most


if __name__ == "__main__":
    sys.exit(main())
