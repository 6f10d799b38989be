"""What the assistant sees of an item, in each condition."""

from __future__ import annotations

from pathlib import Path

from leakgrid.benchmarks.prompts import Prompt, bullets
from leakgrid.datasets.items import Item

PLACES = (
    "owner", "asker", "team", "people", "notes", "shared_notes",
    "transcript", "request", "category_sentence",
)  # fmt: skip

CONDITIONS = ("group", "one-to-one")


class Prompts:
    """The prompt files of MuPPET in one folder, read and checked once."""

    def __init__(self, folder: Path, defences: tuple[str, ...]) -> None:
        """Raises JobError for a file that is missing or wrong."""
        self.system = Prompt(folder / "system.md", PLACES)
        self.style = Prompt(folder / "style.md", PLACES)
        self.condition = {name: Prompt(folder / f"{name}.md", PLACES) for name in CONDITIONS}
        self.user = {name: Prompt(folder / f"user-{name}.md", PLACES) for name in CONDITIONS}
        self.judge_leak = Prompt(folder / "judge-leak.md", ())
        self.judge_leak_user = Prompt(folder / "judge-leak-user.md", (*PLACES, "reply"))
        self.defence = {
            name: Prompt(folder / "defences" / f"{name}.md", PLACES)
            for name in defences
            if name != "none"
        }

    def cues(self) -> dict[str, dict[str, str]]:
        """A sentence of each defence and of each condition but the group chat."""
        return {
            "defences": {
                name: prompt.cue(self.defence.values()) for name, prompt in self.defence.items()
            },
            "conditions": {
                name: prompt.cue(self.condition.values())
                for name, prompt in self.condition.items()
                if name != "group"
            },
        }


def values(item: Item) -> dict[str, str]:
    """What fills the places of a prompt for this item."""
    *earlier, newest = item.transcript
    return {
        "owner": item.owner,
        "asker": item.asker,
        "team": item.team,
        "people": bullets(
            f"{person.name}, {person.gender}, {person.age}, {person.job_title}"
            for person in item.people
        ),
        "notes": bullets((*item.notes, *item.personal_notes)),
        "shared_notes": bullets(item.shared_notes),
        "transcript": "\n".join(f"{turn.sender}: {turn.text}" for turn in earlier),
        "request": newest.text,
        "category_sentence": item.category_sentence,
    }
