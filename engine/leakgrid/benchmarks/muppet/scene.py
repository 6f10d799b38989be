"""What the assistant sees of an item, in each condition, and how a defence asks with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leakgrid.benchmarks.benchmark import Point
from leakgrid.benchmarks.prompts import Prompt, bullets
from leakgrid.datasets.items import Item
from leakgrid.types import Call, Message, Schema

PLACES = (
    "owner", "asker", "team", "people", "notes", "shared_notes",
    "transcript", "request", "category_sentence", "topic",
)  # fmt: skip

DEFENCE_PLACES = (*PLACES, "readers")
"""What a defence's prompt may name: who reads the reply depends on the condition."""

PARTS: Mapping[str, tuple[str, ...]] = {
    "group": ("group",),
    "group-boundaries": ("group", "group-boundaries"),
    "one-to-one": ("one-to-one",),
}
"""The prompt files that make up each condition: the group's own come first, as a prefix."""

USER: Mapping[str, str] = {
    "group": "user-group",
    "group-boundaries": "user-group",
    "one-to-one": "user-one-to-one",
}

CONDITIONS = tuple(PARTS)


class Prompts:
    """The prompt files of MuPPET in one folder, read and checked once."""

    def __init__(self, folder: Path) -> None:
        """Raises JobError for a file that is missing or wrong."""
        self.system = Prompt(folder / "system.md", PLACES)
        self.style = Prompt(folder / "style.md", PLACES)
        self.part = {
            name: Prompt(folder / f"{name}.md", PLACES)
            for parts in PARTS.values()
            for name in parts
        }
        self.user = {name: Prompt(folder / f"{name}.md", PLACES) for name in USER.values()}

    def texts(self, condition: str, style: bool) -> list[str]:
        """The texts that every reply in this condition is made from."""
        return [
            self.system.text,
            *(self.part[name].text for name in PARTS[condition]),
            self.user[USER[condition]].text,
            *([self.style.text] if style else []),
        ]

    def cues(self) -> dict[str, str]:
        """A sentence of each condition but the group chat."""
        last = {name: self.part[parts[-1]] for name, parts in PARTS.items() if name != "group"}
        return {name: prompt.cue(self.part.values()) for name, prompt in last.items()}


@dataclass(frozen=True, slots=True)
class Scene:
    """All that a defence works with: one item at one point of the grid, and the prompts.

    ``own`` holds the prompt files of the defence. A system prompt goes from what all defences
    and conditions of an item share to what only this one has, so that prefix caches hit.
    """

    prompts: Prompts
    own: Mapping[str, Prompt]
    item: Item
    point: Point

    @property
    def notes(self) -> tuple[str, ...]:
        """All that the owner alone can open, as the assistant gets it."""
        return (*self.item.notes, *self.item.personal_notes)

    @property
    def readers(self) -> tuple[str, ...]:
        """Who reads the reply, the owner left out."""
        if self.point.condition == "one-to-one":
            return (self.item.asker,)
        return tuple(person.name for person in self.item.people if person.name != self.item.owner)

    def text(self, name: str, **more: str) -> str:
        """The defence's prompt file ``name`` with its places filled; ``more`` fills its own."""
        return self.own[name].fill({**self._values(), **more})

    def system(
        self, *paragraphs: str, notes: Sequence[str] | None = None, form: str | None = None
    ) -> str:
        """The assistant's system prompt; ``paragraphs`` end it.

        ``notes`` replaces the owner's notes, ``form`` the section on form ("" leaves it out).
        """
        filled = self._values()
        if notes is not None:
            filled["notes"] = bullets(notes or ("(none)",))
        parts = [self.prompts.system.fill(filled)]
        parts += [self.prompts.part[name].fill(filled) for name in PARTS[self.point.condition]]
        parts.append(self.prompts.style.fill(filled) if form is None else form)
        return "\n\n".join(part for part in (*parts, *paragraphs) if part)

    def user(self, *paragraphs: str) -> str:
        """The transcript, the newest message, and the request to reply; ``paragraphs`` end it."""
        asked = self.prompts.user[USER[self.point.condition]].fill(self._values())
        return "\n\n".join((asked, *paragraphs))

    def call(self, system: str, user: str, *, schema: Schema | None = None, step: str = "") -> Call:
        """A call to the assistant's model; ``step`` names one on the way to the reply."""
        return Call(
            model=self.point.model,
            messages=(Message("system", system), Message("user", user)),
            schema=schema,
            sample=self.point.sample,
            role=f"defence:{step}" if step else "assistant",
        )

    def _values(self) -> dict[str, str]:
        return {**values(self.item), "readers": bullets(self.readers)}


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
        "topic": item.topic,
    }
