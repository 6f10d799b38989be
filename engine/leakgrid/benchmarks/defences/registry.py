"""Defences by name: built-in programs, paragraphs in a file, and programs of the project.

``none``, the programs below, every ``NAME.md`` in the prompts' folder ``defences/`` (a paragraph
of the system prompt) and every ``NAME.py`` in ``jobs/defences/``. A program is a module with

    VERSION = 1                      # built-in only: of a file, its bytes are the version
    PROMPTS = {"step": ("place",)}   # files defences/NAME/step.md, and places only they have;
                                     # the last of them stands in the call that makes the reply
    STEPS = ("schema name",)         # response schemas of its intermediate calls
    STYLE = True                     # whether style.md is part of what it sends
    MARKED = False                   # whether the message follows reply.MARKER
    async def reply(ask, scene): ... # returns a Reply; may raise Unfit
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from leakgrid.benchmarks.defences import prompting
from leakgrid.benchmarks.defences.reply import MARKER, Reply, Unfit
from leakgrid.benchmarks.muppet.scene import DEFENCE_PLACES, Prompts, Scene
from leakgrid.benchmarks.prompts import Prompt
from leakgrid.outcomes import JobError, LeakgridError
from leakgrid.types import Ask, Json

NONE = "none"
PROGRAMS = (
    "ci-cot",
    "minimiser",
    "one-two-three",
    "partition",
    "party-ledger",
    "privacy-checker",
    "redact",
    "rewrite-guard",
)
"""Built-in programs: the modules of this package with the same name and underscores."""

Program: TypeAlias = Callable[[Ask, Scene], Awaitable[Reply]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Defence:
    """One defence of a job, with its prompt files read. ``path`` is that of a user's program."""

    name: str
    program: Program
    prompts: Mapping[str, Prompt]
    version: Json
    steps: tuple[str, ...] = ()
    style: bool = True
    marked: bool = False
    path: Path | None = None

    def texts(self, prompts: Prompts, condition: str) -> list[Json]:
        """Every text and version that goes into replies under this defence."""
        own = {name: prompt.text for name, prompt in self.prompts.items()}
        return [self.version, own, *prompts.texts(condition, self.style)]

    async def reply(self, ask: Ask, scene: Scene) -> Reply:
        """The defence's reply. Raises JobError where a user's program does not work."""
        try:
            made = await self.program(ask, scene)
        except Unfit as stopped:
            return stopped.reply
        except LeakgridError:
            raise
        except Exception as error:
            if self.path is None:
                raise
            raise JobError(_told(self.path, scene, error)) from error
        if not isinstance(made, Reply):
            raise JobError(f"{self.path}: reply() gave {type(made).__name__}; it must give a Reply")
        return made


def folder_of(prompts: Path) -> Path:
    """Where the project that a folder of prompts belongs to keeps programs of its own."""
    # The same rule that finds the project of a job file: the nearest folder that has jobs/.
    home = next((f for f in prompts.absolute().parents if (f / "jobs").is_dir()), prompts.parent)
    return home / "jobs" / "defences"


def known(prompts: Path) -> set[str]:
    """The name of every defence that a job with this folder of prompts may use."""
    paragraphs = {path.stem for path in (prompts / "defences").glob("*.md")}
    programs = {path.stem for path in folder_of(prompts).glob("*.py")}
    return {NONE, *PROGRAMS} | paragraphs | programs


def load(
    prompts: Path, names: tuple[str, ...], options: Mapping[str, Any] | None = None
) -> dict[str, Defence]:
    """The defences of a job. Raises JobError for a wrong file or a name that means two things.

    ``options``: what the job says of a built-in program that has ``configured(defence, how)``.
    """
    return {name: _load(prompts, name, (options or {}).get(name)) for name in names}


def _load(prompts: Path, name: str, how: Any = None) -> Defence:
    paragraph = prompts / "defences" / f"{name}.md"
    program = folder_of(prompts) / f"{name}.py"
    files = [path for path in (paragraph, program) if path.is_file()]
    if name == NONE or name in PROGRAMS:
        if files:
            raise JobError(f"{files[0]}: {name!r} is a built-in defence; rename the file")
        if name == NONE:
            return Defence(
                name=name, program=prompting.reply, prompts={}, version=prompting.VERSION
            )
        module = importlib.import_module(f"leakgrid.benchmarks.defences.{name.replace('-', '_')}")
        made = _of_module(prompts, name, module, ["program", name, module.VERSION], None)
        if how is None:
            return made
        told: Defence = module.configured(made, how)
        return told
    if len(files) > 1:
        raise JobError(f"{files[0]} and {files[1]} have the same name; rename one of them")
    if program.is_file():
        data = program.read_bytes()
        version = ["file", hashlib.sha256(data).hexdigest()]
        return _of_module(prompts, name, _run(program, data), version, program)
    own = {"paragraph": Prompt(paragraph, DEFENCE_PLACES)}
    return Defence(name=name, program=prompting.reply, prompts=own, version=prompting.VERSION)


def _of_module(
    prompts: Path, name: str, module: ModuleType, version: Json, path: Path | None
) -> Defence:
    program = getattr(module, "reply", None)
    if not inspect.iscoroutinefunction(program):
        raise JobError(f"{path}: found no 'async def reply(ask, scene)'; a defence needs one")
    declared = getattr(module, "PROMPTS", {})
    if not isinstance(declared, Mapping):
        raise JobError(f"{path}: PROMPTS must map the name of each prompt file to its own places")
    folder = prompts / "defences" / name
    own = {
        part: Prompt(folder / f"{part}.md", (*DEFENCE_PLACES, *places))
        for part, places in declared.items()
    }
    return Defence(
        name=name,
        program=program,
        prompts=own,
        version=version,
        steps=tuple(getattr(module, "STEPS", ())),
        style=bool(getattr(module, "STYLE", True)),
        marked=bool(getattr(module, "MARKED", False)),
        path=path,
    )


def _run(path: Path, data: bytes) -> ModuleType:
    """A user's file as a module. What runs is what was hashed, so no stale .pyc is looked at."""
    module = ModuleType(f"leakgrid_defence_{path.stem.replace('-', '_')}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        exec(compile(data, str(path), "exec"), module.__dict__)
    except Exception as error:
        raise JobError(_told(path, None, error)) from error
    return module


def _told(path: Path, scene: Scene | None, error: Exception) -> str:
    """What went wrong in a user's file, and on which of its lines."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    line = error.lineno if isinstance(error, SyntaxError) else frames[-1].lineno if frames else None
    where = f"{path}:{line}" if line else str(path)
    item = f" (at item {scene.item.id})" if scene is not None else ""
    return f"{where}: {type(error).__name__}: {error}{item}"


def cues(defences: Mapping[str, Defence]) -> dict[str, dict[str, str]]:
    """How a simulated server tells defences apart.

    ``defences``: a sentence of the last prompt, which stands in the call that makes the reply;
    ``steps``: the defence of each schema of an intermediate call; ``markers``: what a reply
    that begins with an analysis must contain.
    """
    everything = [prompt for d in defences.values() for prompt in d.prompts.values()]
    last = {d.name: list(d.prompts.values())[-1] for d in defences.values() if d.prompts}
    return {
        "defences": {name: prompt.cue(everything) for name, prompt in last.items()},
        "steps": {step: d.name for d in defences.values() for step in d.steps},
        "markers": {d.name: MARKER for d in defences.values() if d.marked},
    }
