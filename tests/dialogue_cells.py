"""Small profiles, short prompts and a scripted ask for the tests of dialogues and labels."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from leakgrid.benchmarks.benchmark import JudgeUse, Point
from leakgrid.outcomes import KEPT, Outcome
from leakgrid.types import Answer, Call
from tests.project import ROOT

PROMPTS = ROOT / "jobs" / "prompts" / "dialogue"
REAL = Path("/work/shared/data/cimemories/data_openai_gpt-oss-120b.json")
SAMPLE = ROOT / "datasets" / "cimemories" / "sample"
NAMES = ("Ada", "Ben", "Cleo", "Dov", "Ema", "Finn", "Gia", "Hal", "Ivo", "Jo")

TINY: Mapping[str, str] = {
    "pc1": "Be careful with what you share.",
    "pc2": "Share what helps.",
    "base": "Write.",
    "avoid-unnecessary": "Write no more than is of use.",
    "strict-minimum": "Write the least.",
    "maximise-task": "Write the most.",
    "sender": "<memories>\n{{memories}}\n</memories>\n<recipient>{{recipient}}</recipient>\n"
    "<task>{{task}}</task>",
    "receiver": "<memories>\n{{memories}}\n</memories>\n<role>{{role}}</role>\n"
    "<message>\n{{message}}\n</message>",
    "message": "<memories>\n{{memories}}\n</memories>\n<recipient>{{recipient}}</recipient>\n"
    "<task>{{task}}</task>\nOnce.",
    "ending": "Close with [END].",
    "reveal": "Judge.",
    "reveal-user": "<transcript>\n{{transcript}}\n</transcript>\n<judged>{{judged}}</judged>\n"
    "<attributes>\n{{attributes}}\n</attributes>",
    "persona-fundamentalist": "Guard.",
    "persona-pragmatic": "Weigh.",
    "persona-unconcerned": "Trust.",
    "label": "Sort. {{persona}}",
    "label-user": "<memories>\n{{memories}}\n</memories>\n<recipient>{{recipient}}</recipient>\n"
    "<task>{{task}}</task>",
}


def tiny_prompts(folder: Path, **changes: str) -> Path:
    """Every prompt file of the benchmark with a text short enough to be read in a test."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {**TINY, **changes}.items():
        (folder / f"{name}.md").write_text(text)
    return folder


def profiles_file(path: Path, *, profiles: int = 3, attributes: int = 4, contexts: int = 2) -> Path:
    """Profiles Ada, Ben, Cleo, ... whose statements name their owner and their number."""
    document = [
        {
            "bio": {"name": name},
            "information_attributes": {
                f"fact_{number}": {
                    "value": number,
                    "information_domain": "health" if number % 2 else "finance",
                    "event": "general",
                    "memory_statement": f"{name} keeps secret number {number}.",
                }
                for number in range(attributes)
            },
            "contexts": [
                {"recipient": f"Clerk {number}", "task": f"Settle matter {number}"}
                for number in range(contexts)
            ],
        }
        for name in NAMES[:profiles]
    ]
    path.write_text(json.dumps(document))
    return path


def point(condition: str = "pc0", *, turns: int = 3, sample: int = 0) -> Point:
    """A point of a dialogue between the models S and R."""
    return Point(
        model="S",
        receiver="R" if turns else "",
        defence="none",
        condition=condition,
        turns=turns,
        sample=sample,
    )


def reveal(**options: Any) -> JudgeUse:
    """A reveal judge named j that asks the model J."""
    return JudgeUse("j", "reveal", "J", options)


class Killed(BaseException):
    """The process ended here."""


Script: TypeAlias = Callable[[Call, int], str | Answer]


class ScriptedAsk:
    """``ask`` by a script of (call, number of this request from 0), with a cache as the engine's.

    ``sent`` are the calls that were not in the cache. ``dies_at``: number of the request at
    which the process is killed, nothing of it kept.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.sent: list[Call] = []
        self.dies_at: int | None = None
        self._kept: dict[str, Answer] = {}

    async def __call__(self, call: Call) -> Answer:
        key = key_of(call)
        if key in self._kept:
            return self._kept[key]
        if self.dies_at == len(self.sent):
            raise Killed
        said = self.script(call, len(self.sent))
        self.sent.append(call)
        answer = said if isinstance(said, Answer) else ended(Outcome.ANSWER, said)
        answer = replace(answer, key=key)
        if answer.outcome in KEPT:
            self._kept[key] = answer
        return answer


def key_of(call: Call) -> str:
    """A request key: model, messages, schema and sample; not the role."""
    parts = [
        call.model,
        [[one.role, one.text] for one in call.messages],
        [call.schema.name, call.schema.definition] if call.schema else [],
        call.sample,
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def ended(outcome: Outcome, text: str = "", **more: Any) -> Answer:
    """An answer that ended in some way."""
    return Answer(key="", outcome=outcome, text=text, **more)


def block(call: Call, tag: str) -> str:
    """The text of a block in the last message of a request."""
    found = re.search(f"<{tag}>\n?(.*?)\n?</{tag}>", call.messages[-1].text, re.DOTALL)
    assert found is not None, tag
    return found.group(1)


def statements(call: Call, tag: str = "attributes") -> list[str]:
    """The statements that a request numbers, checked to be numbered from 1."""
    found = [line.split(". ", 1) for line in block(call, tag).split("\n")]
    assert [number for number, _ in found] == [str(n) for n in range(1, len(found) + 1)]
    return [text for _, text in found]


def verdict(*degrees: tuple[str, str]) -> str:
    """A judge's answer: (degree, evidence) for every number from 1."""
    return json.dumps(
        {
            "attributes": [
                {"id": number, "degree": degree, "evidence": evidence}
                for number, (degree, evidence) in enumerate(degrees, start=1)
            ]
        }
    )
