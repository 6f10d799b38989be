"""An embedded real model on the CPU: llama.cpp's OpenAI-compatible server, in its own process.

Run as ``python -m leakgrid.providers.local``. When the server is healthy one JSON line appears on
stdout, ``{"ready": true, "port": N, "identity": "..."}``, and nothing else ever does; llama.cpp's
log goes to stderr. The process ends with 0 when its stdin reaches EOF or on SIGTERM, 98 when the
port is taken, 2 when the weights or the extra are missing, 1 when llama.cpp will not start.
"""

from __future__ import annotations

import argparse
import errno
import http.client
import importlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from leakgrid.outcomes import InputError
from leakgrid.providers.local_body import fit_body
from leakgrid.providers.local_weights import (
    CONTEXT,
    ENGINE_PACKAGE,
    FOLDER,
    GEMMA,
    LICENCE_NOTE,
    QUALITY_NOTE,
    identity,
    resolve,
    version_of,
)

__all__ = ["LICENCE_NOTE", "PORT_IN_USE", "QUALITY_NOTE", "fit_body", "identity", "main"]

PORT_IN_USE = 98
HEALTHY_WITHIN_S = 30.0
MOST_THREADS = 8


class _CannotStart(Exception):
    """llama.cpp refused; carries the exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until stdin ends or SIGTERM; returns only an exit code for not having started."""
    args = _arguments(argv)
    # llama.cpp prints from C++, so the file descriptor itself must point elsewhere.
    sys.stdout.flush()
    ready_line = os.dup(1)
    os.dup2(2, 1)
    _heed_signals()
    try:
        _serve(args, ready_line)
    except InputError as error:
        return _complain(str(error), error.exit_code)
    except _CannotStart as error:
        return _complain(str(error), error.code)
    except OSError as error:
        return _complain(f"the local model cannot start: {error}", 1)


def _serve(args: argparse.Namespace, ready_line: int) -> NoReturn:
    version_of(ENGINE_PACKAGE)
    _refuse_taken_port(args.host, args.port)
    gguf, template = resolve(args.model, args.gguf, args.folder)
    name = identity(args.model, args.gguf, context=args.context, folder=args.folder)
    _end_with_stdin()  # only now: a mistake above must be named even where stdin is /dev/null
    try:
        llama = importlib.import_module(ENGINE_PACKAGE)
    except ImportError as error:
        raise InputError(f"{ENGINE_PACKAGE} is installed but does not load: {error}") from error
    try:
        server = llama.Server(_parameters(llama, args, gguf, template))
    except RuntimeError as error:
        _refuse_taken_port(args.host, args.port)  # taken while the weights were being prepared
        message = f"llama.cpp did not start with {gguf}: {error} Its log is above."
        raise _CannotStart(message) from error
    port = urlsplit(server.listening_address).port
    assert port is not None
    _wait_until_healthy(args.host, port)
    line = json.dumps({"ready": True, "port": port, "identity": name}) + "\n"
    os.write(ready_line, line.encode())
    os.close(ready_line)
    while True:
        signal.pause()


def _parameters(llama: Any, args: argparse.Namespace, gguf: Path, template: str) -> Any:
    """llama.cpp's CommonParams; context is per slot here and in total there."""
    params = llama.CommonParams()
    params.model.path = str(gguf)
    params.model_alias = {args.model if args.gguf is None else gguf.name}
    params.hostnames = [args.host]
    params.port = args.port
    params.n_ctx = args.context * args.slots
    params.n_parallel = args.slots
    params.n_gpu_layers = 0
    params.fit_params = False
    for pool in (params.cpuparams, params.cpuparams_batch):
        pool.n_threads = args.threads
    if template:
        params.chat_template = template
    # Requests ask for no prefix reuse (see fit_body), so its stores would only take memory.
    params.cache_ram_mib = 0
    params.n_ctx_checkpoints = 0
    params.endpoint_metrics = True
    params.endpoint_slots = False
    params.ui = False
    # The default would let any web page that the user visits read this port.
    params.cors_origins = f"http://{args.host}"
    params.verbosity = 2
    return params


def _default_threads() -> int:
    """Processors we may use less one: llama.cpp's threads spin while they wait for each other.

    Measured on 2 processors with one other busy process: 2 threads decode 1.5 tokens/s, 1
    thread 16; the engine that asks is such a process.
    """
    if hasattr(os, "sched_getaffinity"):
        mine = len(os.sched_getaffinity(0))
    else:
        mine = os.cpu_count() or 1
    return max(1, min(mine - 1, MOST_THREADS))


def _heed_signals() -> None:
    """SIGTERM exits 0 at once: llama.cpp's own shutdown would wait for running requests."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if not sys.stdin.isatty():
        # Ctrl-C reaches the whole process group, while the engine still finishes its calls.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end_with_stdin() -> None:
    """Exit 0 when stdin reaches EOF, which it does when the parent dies in whatever way."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        _complain("stdin is closed, so this server ends", 0)
        os._exit(0)

    threading.Thread(target=watch, name="stdin", daemon=True).start()


def _refuse_taken_port(host: str, port: int) -> None:
    if port == 0:
        return
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            message = f"port {port} on {host} is in use: choose another, or 0 for a free one"
            raise _CannotStart(message, PORT_IN_USE) from error


def _wait_until_healthy(host: str, port: int) -> None:
    """Poll /health until 200 (503 means that the model is loading)."""
    deadline = time.monotonic() + HEALTHY_WITHIN_S
    while time.monotonic() < deadline:
        # http.client, unlike urllib, takes no proxy from the environment.
        connection = http.client.HTTPConnection(host, port, timeout=2)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.02)
    raise _CannotStart(f"the local model was not healthy within {HEALTHY_WITHIN_S:.0f} s")


def _complain(message: str, code: int) -> int:
    print(f"leakgrid local: {message}", file=sys.stderr, flush=True)
    return code


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    def positive(text: str) -> int:
        number = int(text)
        if number < 1:
            raise ValueError
        return number

    parser = argparse.ArgumentParser(
        prog="python -m leakgrid.providers.local",
        description=f"Serve a small model on the CPU ({QUALITY_NOTE}). {LICENCE_NOTE}.",
    )
    parser.add_argument("--model", default=GEMMA, help="packaged weights (default: %(default)s)")
    parser.add_argument("--gguf", type=Path, help="a GGUF file to serve instead")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    parser.add_argument(
        "--context", type=positive, default=CONTEXT, help="tokens per request (%(default)s)"
    )
    parser.add_argument("--slots", type=positive, default=2, help="requests at once (%(default)s)")
    parser.add_argument("--threads", type=positive, default=_default_threads())
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help="where weights are put together (%(default)s)"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
