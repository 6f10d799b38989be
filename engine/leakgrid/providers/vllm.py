"""A vLLM server that leakgrid starts, watches and stops.

Run as ``python -m leakgrid.providers.vllm --config FILE`` (see ``vllm_config.py``). When vLLM is
healthy one JSON line appears on stdout::

    {"ready": true, "port": N, "identity": "vllm-...", "facts": {...}, "template": {...}}

and nothing else ever does. vLLM's own output goes to the configured log; stderr gets a line of
progress at most every 10 s, and in the end why it failed. Ends with 0 when its stdin reaches EOF
or on SIGTERM, 98 when the port is taken, 2 for a wrong configuration, 1 when vLLM does not start
or dies. vLLM never outlives it: see ``vllm_reaper.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from leakgrid.outcomes import InputError
from leakgrid.providers import vllm_reaper
from leakgrid.providers.servers import SECRET_ENDINGS
from leakgrid.providers.vllm_config import SAYS, VllmConfig, command_line, parse
from leakgrid.providers.vllm_faults import explain
from leakgrid.providers.vllm_identity import facts
from leakgrid.providers.vllm_templates import template_facts

PORT_IN_USE = 98
HOST = "127.0.0.1"
PROGRESS_S = 10.0
TRIES = 3
KEPT_LINES = 2000
ENDING_S = 5.0

_HEADER = re.compile(r"^(?:\([^)]*pid=\d+\) )?(?:[A-Z]+ [\d-]+ [\d:]+ \[[^\]]*\] )?")
"""What vLLM puts before its own words: process, level, time and place."""


class _CannotServe(Exception):
    """vLLM did not start, or died; carries the exit code, and whether it was told already."""

    def __init__(self, message: str, code: int = 1, *, told: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.told = told


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until stdin ends or SIGTERM; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m leakgrid.providers.vllm")
    parser.add_argument("--config", type=Path, required=True, help="a JSON file")
    path = parser.parse_args(argv).config
    sys.stdout.flush()
    ready_line = os.dup(1)
    os.dup2(2, 1)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    if not sys.stdin.isatty():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        try:
            config = parse(json.loads(path.read_bytes()))
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: {error}") from error
        threading.Thread(target=_end_with_stdin, args=(stop,), daemon=True).start()
        for attempt in range(1, TRIES + 1):
            port = config.port or _free_port()
            try:
                with _Vllm(config, port) as server:
                    server.serve(stop, ready_line)
                return 0
            except _CannotServe as error:
                # A free port may be gone a second later; one that was asked for is not ours.
                if config.port or error.code != PORT_IN_USE or attempt == TRIES:
                    raise
    except InputError as error:
        return _complain(str(error), error.exit_code)
    except _CannotServe as error:
        return error.code if error.told else _complain(str(error), error.code)
    return 1


class _Vllm:
    """One vLLM process group, from start to end."""

    def __init__(self, config: VllmConfig, port: int) -> None:
        self._config = config
        self._port = port
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._secrets = [
            os.environ[name].encode() for name in config.passes if os.environ.get(name)
        ]

    def __enter__(self) -> _Vllm:
        if self._config.port:
            _refuse_taken(self._config.port)
        command = command_line(self._config, self._port)
        # The reaper is there before vLLM is: whatever ends this process ends vLLM, too.
        self._reaper = subprocess.Popen(
            [sys.executable, "-S", "-E", vllm_reaper.__file__],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=_environment(self._config),
            )
        except OSError as error:
            self._dismiss()
            raise InputError(
                f"command: {command[0]} cannot be run ({error.strerror}); install vLLM, or give "
                'the one of its own environment, such as ["/opt/vllm/bin/vllm", "serve"]'
            ) from error
        self._tell_reaper(self._process.pid)
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *exc: object) -> None:
        ending = threading.Thread(target=self._process.wait)  # reap, or the group never is gone
        ending.start()
        vllm_reaper.end_group(self._process.pid)
        ending.join()
        self._reader.join(ENDING_S)
        self._tell_reaper(-self._process.pid)
        self._dismiss()

    def serve(self, stop: threading.Event, ready_line: int) -> None:
        """Say when it is ready, and return when it is told to stop.

        Raises _CannotServe when vLLM ends by itself.
        """
        if not self._wait_healthy(stop):
            return
        line = json.dumps({"ready": True, "port": self._port, **self._about()}) + "\n"
        os.write(ready_line, line.encode())
        while not stop.wait(0.2):
            if self._process.poll() is not None:
                error = self._ended("vLLM died")
                # Told at once: to end what is left of it takes seconds, in which every call fails.
                error.told = True
                _say(str(error))
                os.close(ready_line)
                raise error

    def _wait_healthy(self, stop: threading.Event) -> bool:
        """Whether it became healthy; False when told to stop before."""
        began = told = time.monotonic()
        while not stop.wait(0.25):
            if self._process.poll() is not None:
                raise self._ended("vLLM did not start")
            if _get(self._port, "/health") is not None:
                return True
            now = time.monotonic()
            if now - began > self._config.patience_s:
                raise _CannotServe(
                    f"vLLM was not ready within {self._config.patience_s:.0f} s: set patience_s "
                    f"higher if it still loads{self._where()}"
                )
            if now - told >= PROGRESS_S:
                told = now
                last = next((one for one in reversed(self._lines) if one.strip()), "")
                said = _HEADER.sub("", last).strip()[:120] or "no word from it yet"
                _say(f"starting for {now - began:.0f} s: {said}")
        return False

    def _about(self) -> dict[str, Any]:
        """Identity, what it is made of, and what the chat template does."""
        raw = _get(self._port, "/version")
        version = str(json.loads(raw).get("version", "unknown")) if raw else "unknown"
        template = template_facts(f"http://{HOST}:{self._port}/v1", self._config.served)
        found = facts(self._config, version, template.fingerprint)
        return {"identity": found.digest, "facts": found.known, "template": asdict(template)}

    def _ended(self, what: str) -> _CannotServe:
        self._reader.join(1.0)  # its workers may hold the pipe open, but what it said is there
        code = self._process.returncode
        why = explain(list(self._lines), code)
        taken = why.startswith("the port is taken")
        message = f"{what} (exit code {code}): {why}{self._where()}"
        return _CannotServe(message, PORT_IN_USE if taken else 1)

    def _where(self) -> str:
        return f". Its log: {self._config.log}" if self._config.log else ""

    def _read_log(self) -> None:
        with contextlib.ExitStack() as stack:
            log: IO[bytes] | None = None
            if self._config.log:
                path = Path(self._config.log)
                path.parent.mkdir(parents=True, exist_ok=True)
                log = stack.enter_context(path.open("wb"))
            assert self._process.stdout is not None
            stack.enter_context(self._process.stdout)
            for line in self._process.stdout:
                for secret in self._secrets:
                    line = line.replace(secret, b"[redacted]")
                self._lines.append(line.decode("utf-8", "replace").rstrip())
                if log is not None:
                    log.write(line)
                    log.flush()

    def _tell_reaper(self, group: int) -> None:
        assert self._reaper.stdin is not None
        with contextlib.suppress(OSError):
            self._reaper.stdin.write(f"{group}\n".encode())
            self._reaper.stdin.flush()

    def _dismiss(self) -> None:
        assert self._reaper.stdin is not None
        with contextlib.suppress(OSError):
            self._reaper.stdin.close()
        self._reaper.wait()


def _environment(config: VllmConfig) -> dict[str, str]:
    """What vLLM may see: no secret but those named, no reports home, no colours in the log."""
    seen = {
        name: value
        for name, value in os.environ.items()
        if name in config.passes or not name.upper().endswith(SECRET_ENDINGS)
    }
    ours: Mapping[str, str] = {
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "NO_COLOR": "1",
        "PYTHONUNBUFFERED": "1",
    }
    return {**seen, **ours, **config.environment}


def _end_with_stdin(stop: threading.Event) -> None:
    """Stop when stdin reaches EOF, which it does when the parent dies in whatever way."""
    while os.read(0, 4096):
        pass
    stop.set()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _refuse_taken(port: int) -> None:
    # vLLM may share a port with another of its kind without a word, so ask before.
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            told = f"port {port} is taken: choose another, or 0 for a free one"
            raise _CannotServe(told, PORT_IN_USE) from error


def _get(port: int, path: str) -> bytes | None:
    """The body of a 200; None for anything else."""
    # http.client, unlike urllib, takes no proxy from the environment.
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
        return body if response.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _complain(message: str, code: int) -> int:
    _say(message)
    return code


def _say(message: str) -> None:
    print(f"{SAYS}{message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
