"""The server as a process: its ready line, its ends, its messages and its imports."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from leakgrid.providers.simulated.process import command, environment, running
from leakgrid.providers.simulated.server import main
from tests.simulated_world import ask, assistant_request, fetch, table


def start(config: Path, *, port: int | None = None, stay: bool = False) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command(config, port, stay),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a process that ends by itself."""
    out, err = process.communicate(timeout=10)
    return process.returncode, out.decode(), err.decode()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "simulated.json"
    path.write_text(json.dumps(table(tmp_path)), encoding="utf-8")
    return path


def test_one_ready_line_and_the_end_with_the_parent(config: Path) -> None:
    process = start(config)
    assert process.stdin is not None and process.stdout is not None
    ready = json.loads(process.stdout.readline())
    assert set(ready) == {"ready", "port", "identity"}
    assert ready["ready"] is True and ready["port"] > 0 and len(ready["identity"]) == 64
    process.stdin.close()
    process.stdin = None
    assert ended(process) == (0, "", "")


def test_sigterm_ends_with_0_and_a_childs_sigint_is_ignored(config: Path) -> None:
    process = start(config)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) == 0
    assert ended(process)[2] == ""


def test_a_hung_request_does_not_delay_the_end(tmp_path: Path) -> None:
    with running(table(tmp_path, faults={"timeout": 1.0})) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            body = json.dumps(assistant_request(0)).encode()
            head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: "
            connection.sendall(f"{head}{len(body)}\r\n\r\n".encode() + body)
            for _ in range(1000):
                if fetch(server, "/stats")["in_flight"] == 1:
                    break
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(timeout=5) == 0


def test_stay_outlives_standard_input(config: Path) -> None:
    process = start(config, stay=True)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    process.stdin = None
    assert json.loads(process.stdout.readline())["ready"]
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.3)
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 0


def test_a_taken_port_is_one_clear_line_and_98(config: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = ended(start(config, port=port))
    assert (code, out) == (98, "")
    assert err.startswith(f"port {port} on 127.0.0.1 is already in use: ")
    assert err.count("\n") == 1


def test_the_port_of_the_configuration_is_used(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with running(table(tmp_path, port=port)) as server:
        assert server.port == port
        assert ask(server, [assistant_request(0)])[0].status == 200


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "found text that is not JSON"),
        ("[]", "found list; allowed: the [simulated] table"),
        ('{"sed": 1}', "simulated.sed: found an unknown key"),
        ('{"items": "/nowhere"}', 'simulated.items: found "/nowhere", which cannot be read'),
        (None, "cannot be read"),
    ],
)
def test_a_wrong_configuration_is_a_message_and_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, expected: str
) -> None:
    path = tmp_path / "wrong.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert main(["--config", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert expected in err


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"ended with 2: simulated\.seed: found"):
        with running(table(tmp_path, seed="x")):
            pass


def test_the_server_imports_nothing_else_of_leakgrid() -> None:
    script = (
        "import sys, leakgrid.providers.simulated.server\n"
        "print('\\n'.join(sorted(m for m in sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(),
        capture_output=True,
        check=True,
        text=True,
    ).stdout.split()
    ours = {name for name in found if name.startswith("leakgrid")}
    allowed = {"leakgrid", "leakgrid.providers", "leakgrid.datasets", "leakgrid.datasets.surface"}
    assert {m for m in ours if not m.startswith("leakgrid.providers.simulated")} == allowed
    assert not {"openai", "google", "duckdb", "scipy", "numpy", "ray"} & set(found)
