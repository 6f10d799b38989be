"""The prompt files of the two agents, and what each of them is told first.

The system message is the condition's text and nothing else; where that is empty there is no
system message at all, since a server may treat an empty one as one of its own.
"""

from __future__ import annotations

from pathlib import Path

from leakgrid.benchmarks.dialogue.instances import Instance
from leakgrid.benchmarks.dialogue.settings import MESSAGE_CONDITIONS, PROMPT_CONDITIONS
from leakgrid.benchmarks.prompts import Prompt
from leakgrid.datasets.cimemories import Profile
from leakgrid.types import Json

NO_SYSTEM = "pc0"
"""The condition that has no file: its system prompt is empty by definition."""

_TOLD = ("memories", "recipient", "task")


class Scripts:
    """The files for dialogues, or for single messages, read and checked once."""

    def __init__(self, folder: Path, *, single: bool, early_end: bool) -> None:
        """Raises JobError for a file that is missing or wrong."""
        names = MESSAGE_CONDITIONS if single else PROMPT_CONDITIONS
        self.early_end = early_end and not single
        self._conditions = {
            name: Prompt(folder / f"{name}.md", ()) for name in names if name != NO_SYSTEM
        }
        self._sender = Prompt(folder / ("message.md" if single else "sender.md"), _TOLD)
        self._receiver = (
            None if single else Prompt(folder / "receiver.md", ("memories", "role", "message"))
        )
        self._ending = Prompt(folder / "ending.md", ()) if self.early_end else None
        self._memories: dict[str, str] = {}

    def texts(self, condition: str) -> Json:
        """The texts that a conversation in this condition is made from."""
        parts = (self._sender, self._receiver, self._ending)
        return [self.system(condition), *(part.text for part in parts if part is not None)]

    def cues(self) -> dict[str, str]:
        """A sentence of each condition that has any."""
        prompts = self._conditions
        cues = {name: prompt.cue(prompts.values()) for name, prompt in prompts.items()}
        return {name: cue for name, cue in cues.items() if cue}

    def system(self, condition: str) -> str:
        """The system prompt of both agents; "" is none."""
        prompt = self._conditions.get(condition)
        return "" if prompt is None else prompt.text

    def sender(self, instance: Instance) -> str:
        """What the sender is told before it opens the conversation."""
        text = self._sender.fill(
            {
                "memories": self._lines(instance.sender),
                "recipient": one_line(instance.context.recipient),
                "task": one_line(instance.context.task),
            }
        )
        return self._ended(text)

    def receiver(self, instance: Instance, message: str) -> str:
        """What the receiver is told when the sender's first message has come."""
        assert self._receiver is not None and instance.receiver is not None
        text = self._receiver.fill(
            {
                "memories": self._lines(instance.receiver),
                "role": one_line(instance.context.recipient),
                "message": message,
            }
        )
        return self._ended(text)

    def _ended(self, text: str) -> str:
        return text if self._ending is None else f"{text}\n\n{self._ending.text}"

    def _lines(self, profile: Profile) -> str:
        lines = self._memories.get(profile.id)
        if lines is None:
            lines = "\n".join(one_line(memory.statement) for memory in profile.memories)
            self._memories[profile.id] = lines
        return lines


def one_line(text: str) -> str:
    """The text without line breaks, otherwise as it is: lists are told apart by their lines."""
    return " ".join(text.splitlines())


def numbered(lines: tuple[str, ...]) -> str:
    """Lines as a list numbered from 1."""
    return "\n".join(f"{number}. {one_line(line)}" for number, line in enumerate(lines, start=1))
