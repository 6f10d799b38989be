"""How one vLLM server is to be started: its configuration file and its command line."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakgrid.outcomes import InputError
from leakgrid.providers.servers import SECRET_ENDINGS

COMMAND = ("vllm", "serve")
BASE_NAME = "base"
"""What the bare model is called where an adapter carries the model's own name."""

PATIENCE_S = 3600.0
"""Weights may first have to be downloaded."""

VISIBLE = "CUDA_VISIBLE_DEVICES"
PARALLEL = (("--pipeline-parallel-size", "-pp"), ("--data-parallel-size", "-dp"))
"""Options of vLLM's by which a server takes several times as many GPUs."""

SAYS = "leakgrid vllm: "
"""How each line of the supervisor begins."""

STRUCTURED = "--structured-outputs-config"

COMPACT = json.dumps({"backend": "xgrammar", "disable_any_whitespace": True})
"""Guided JSON without white space: a model that likes blanks could fill its whole limit."""

OURS = frozenset(
    {
        "--model", "--revision", "--dtype", "--quantization", "-q", "--max-model-len",
        "--gpu-memory-utilization", "--tensor-parallel-size", "-tp", "--chat-template",
        "--reasoning-parser", "--host", "--port", "--served-model-name", "--lora-modules",
        "--api-key", "--config",
    }
)  # fmt: skip
"""Options that have a key of their own in a job, or that leakgrid sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmConfig:
    """One server. ``memory`` is its share of the GPU's memory, above 0 and at most 1.

    ``name`` is what requests call the model (default: ``model``). ``environment`` are plain
    variables for vLLM, ``passes`` the names of secret ones that it may see (their values are
    taken from the environment when it starts and stand nowhere). ``log`` is a file for all that
    vLLM prints.
    """

    model: str
    name: str = ""
    command: tuple[str, ...] = COMMAND
    revision: str = ""
    dtype: str = "auto"
    quantization: str = ""
    max_model_len: int | None = None
    memory: float | None = None
    tensor_parallel: int = 1
    chat_template: str = ""
    reasoning_parser: str = ""
    adapter: str = ""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    passes: tuple[str, ...] = ("HF_TOKEN",)
    port: int = 0
    patience_s: float = PATIENCE_S
    log: str = ""

    @property
    def served(self) -> str:
        """The model's name in a request."""
        return self.name or self.model


def parse(data: Mapping[str, Any]) -> VllmConfig:
    """A configuration from its JSON form. Raises InputError that names the key."""
    known = {name: data[name] for name in VllmConfig.__slots__ if name in data}
    for key in data:
        if key not in known:
            raise InputError(f"{key}: not known; allowed: {', '.join(VllmConfig.__slots__)}")
    for key in ("command", "arguments", "passes"):
        if key in known:
            known[key] = _texts(key, known[key])
    if "environment" in known:
        known["environment"] = _environment(known["environment"])
    if not isinstance(known.get("model"), str) or not known["model"]:
        raise InputError("model: missing; a repository (org/name) or a folder")
    config = VllmConfig(**known)
    if not config.command:
        raise InputError('command: empty; for example ["vllm", "serve"]')
    if config.memory is not None and not 0 < config.memory <= 1:
        raise InputError(f"memory: {config.memory!r} does not fit; a share above 0, at most 1")
    if config.tensor_parallel < 1:
        raise InputError("tensor_parallel: must be a number of GPUs of at least 1")
    for argument in config.arguments:
        option = argument.partition("=")[0].replace("_", "-")
        if option in OURS:
            told = f"arguments: {option} has a key of its own in a job, or is set by leakgrid"
            raise InputError(told)
    for name in config.passes:
        if not name.isidentifier():
            raise InputError(f"passes: {name!r} is no name of an environment variable")
    return config


def command_line(config: VllmConfig, port: int) -> list[str]:
    """The whole command that serves ``config`` on ``port`` of this machine alone."""
    # Only ``vllm serve`` takes the model as it is; its module wants the option.
    named = [config.model] if config.command[-1] == "serve" else ["--model", config.model]
    line = [*config.command, *named]
    line += ["--host", "127.0.0.1", "--port", str(port), "--dtype", config.dtype]
    name = BASE_NAME if config.adapter else config.served
    line += ["--served-model-name", name]
    if config.revision and not Path(config.model).is_dir():
        line += ["--revision", config.revision]
    if config.quantization:
        line += ["--quantization", config.quantization]
    if config.max_model_len is not None:
        line += ["--max-model-len", str(config.max_model_len)]
    if config.memory is not None:
        line += ["--gpu-memory-utilization", f"{config.memory:g}"]
    if config.tensor_parallel > 1:
        line += ["--tensor-parallel-size", str(config.tensor_parallel)]
    if config.chat_template:
        line += ["--chat-template", config.chat_template]
    if config.reasoning_parser:
        line += ["--reasoning-parser", config.reasoning_parser]
    if config.adapter:
        module = json.dumps({"name": config.served, "path": config.adapter})
        line += ["--enable-lora", "--lora-modules", module]
        rank = _rank(Path(config.adapter))
        if rank > 16 and "--max-lora-rank" not in config.arguments:
            line += ["--max-lora-rank", str(rank)]
    if not any(one.startswith(STRUCTURED) for one in config.arguments):
        line += [STRUCTURED, COMPACT]
    # Cached tokens in every answer's usage: what the order of a run saved, call by call.
    return [*line, "--enable-prompt-tokens-details", *config.arguments]


def gpus_of(config: VllmConfig) -> tuple[str, ...]:
    """The GPUs that a server takes: all that its own environment names, else the first it sees.

    Numbers or names as the driver gives them; "0" on a machine without one.
    """
    own = _named(config.environment.get(VISIBLE, ""))
    seen = _named(os.environ.get(VISIBLE, ""))
    count = config.tensor_parallel
    for names in PARALLEL:
        count *= _count_of(names, config.arguments)
    return own or seen[:count] or tuple(str(number) for number in range(count))


def _count_of(names: tuple[str, ...], arguments: Sequence[str]) -> int:
    """The number behind the last of an option's names, or with "=" after it; 1 where it is not."""
    found = 1
    for place, argument in enumerate(arguments):
        name, equals, text = argument.partition("=")
        if name in names:
            text = text if equals else "".join(arguments[place + 1 : place + 2])
            found = int(text) if text.isdecimal() and int(text) else found
    return found


def _named(devices: str) -> tuple[str, ...]:
    return tuple(name for part in devices.split(",") if (name := part.strip()) not in ("", "-1"))


def _rank(adapter: Path) -> int:
    """The rank of an adapter in a folder; vLLM's own default where it cannot be seen."""
    try:
        return int(json.loads((adapter / "adapter_config.json").read_bytes())["r"])
    except (OSError, ValueError, KeyError, TypeError):
        return 16


def _texts(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise InputError(f"{key}: {value!r} does not fit; it must be a list of strings")
    return tuple(value)


def _environment(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise InputError("environment: must be a table of names and values")
    for name in value:
        if name.upper().endswith(SECRET_ENDINGS):
            told = "a secret must not stand in a file; export it and put its name into passes"
            raise InputError(f"environment.{name}: {told}")
    return {str(name): str(one) for name, one in value.items()}
