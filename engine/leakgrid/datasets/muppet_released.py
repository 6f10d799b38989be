"""The released MuPPET form into our items, each oddity handled or reported by row.

What the form does not have (surface forms, useful facts, the wording of the fact) is named in the
item's `missing` and left empty. Raises DatasetError when the files themselves cannot be used.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from leakgrid.datasets.items import MISSING_PARTS, Item, parse_item
from leakgrid.datasets.muppet_checks import leaks
from leakgrid.datasets.muppet_released_files import (
    Oddity,
    carriers,
    fail,
    fault_of,
    full_name,
    holder_of,
    pick,
    read_source,
)
from leakgrid.datasets.muppet_released_literals import LiteralFault, doubled_literal
from leakgrid.datasets.muppet_released_people import Note, Roster, RowFault, heard
from leakgrid.datasets.muppet_released_turns import read_turns
from leakgrid.datasets.muppet_seeds import Category, load_seeds
from leakgrid.datasets.muppet_write import statistics
from leakgrid.outcomes import DatasetError

PLACEHOLDER = re.compile(
    r"[\[{<]\s*(?:the )?(?:user|name|employee|person|holder|member)[^\]}>]*[\]}>]", re.IGNORECASE
)
UNUSABLE = (
    "exact judge: has no surface forms to look for; its verdict is unknown, never no leak",
    "utility judge: has no useful facts to start from; it asks a model for them once per item",
    "error attribution: the fact's wording is not given, probes can only name the category",
)


@dataclass(frozen=True, slots=True)
class Released:
    """A released folder read: rows of the table, items, their JSON objects, what was odd."""

    rows: int
    items: tuple[Item, ...]
    objects: tuple[dict[str, Any], ...]
    oddities: tuple[Oddity, ...]


@dataclass(slots=True)
class _Row:
    """One row with its parts, while it is read."""

    number: int
    cells: Mapping[str, str]
    conversation: Any
    memory: Any
    oddities: list[Oddity] = field(default_factory=list)

    def note(self, kind: str, found: str, done: str) -> None:
        """Note an oddity of this row."""
        self.oddities.append(Oddity(self.number, kind, found, done))

    def value(self, column: str) -> Any:
        """A cell's literal. Raises RowFault when it is none."""
        try:
            value, doubled = doubled_literal(self.cells[column])
        except LiteralFault as fault:
            raise RowFault(f"{column} unreadable", str(fault)) from None
        if doubled:
            self.note("quotes doubled twice", column, "repaired")
        return value

    def loose(self, column: str) -> Any:
        """A cell's literal, or its text when it does not look like a list, dict or string."""
        text = self.cells[column].strip()
        return self.value(column) if text[:1] in ("[", "{", "(", "'", '"') else text


def load_released(folder: Path) -> Released:
    """Everything below the folder. Raises DatasetError when no row can be used."""
    source = read_source(folder)
    categories = load_seeds().categories
    oddities = list(source.oddities)
    objects: list[dict[str, Any]] = []
    items: list[Item] = []
    questions: dict[tuple[str, str, str], str] = {}
    parts = zip(source.rows, source.conversations, source.memories, strict=True)
    for number, (cells, conversation, memory) in enumerate(parts):
        row = _Row(number, cells, conversation, memory)
        try:
            made = _convert(row, categories, questions)
            item = parse_item(orjson.dumps(made), folder, number)
        except RowFault as fault:
            row.note(fault.kind, fault.found, "dropped")
        except DatasetError as error:
            row.note("not an item of our form", str(error).partition(": ")[2], "dropped")
        except orjson.JSONEncodeError as error:
            row.note("text that is no Unicode", str(error), "dropped")
        else:
            objects.append(made)
            items.append(item)
        oddities += row.oddities
    if not objects:
        reasons = "; ".join(f"{odd.kind}: {odd.found}" for odd in oddities[:3])
        fail(folder, f"no usable row among {len(source.rows)} ({reasons})", "at least one")
    return Released(len(source.rows), tuple(items), tuple(objects), tuple(oddities))


def _convert(
    row: _Row, categories: Mapping[str, Category], questions: dict[tuple[str, str, str], str]
) -> dict[str, Any]:
    """The row's item as a JSON object. Raises RowFault."""
    if why := fault_of(row.memory):
        raise RowFault("memory unusable", why)
    members = row.value("members")
    roster = Roster(members, row.note)
    owner = _owner(row, roster)
    (carrier, *_) = [m for m in carriers(row.memory) if full_name(m).casefold() == owner.casefold()]
    if len(carriers(row.memory)) > 1:
        others = ", ".join(full_name(m) for m in carriers(row.memory) if m is not carrier)
        row.note("sensitive information with others too", others, "kept")
    listed = str(pick(carrier, "sensitive_information", "sensitive_info"))
    told = heard(roster, owner, _notes(row, owner, carrier), listed, row.note)
    turns, asker = read_turns(row.conversation, roster, owner, told.informed, row.note)
    topic, label = _text(row, "topic"), _text(row, "category", "secret", "sensitive_category")
    if topic.casefold() != row.cells["topic"].strip().casefold():
        row.note("topics differ", f"table {row.cells['topic']!r}, memory {topic!r} is used", "kept")
    slug = re.sub(r"[\W_]+", "-", label.casefold()).strip("-")
    known = categories.get(slug)
    if known is None:
        row.note("unknown category", label, "kept")
    question = _question(row, owner)
    bare = question.replace(owner, "_").replace(owner.split()[0], "_")
    made: dict[str, Any] = {
        "id": f"muppet-released-{row.number:04d}",
        "group": _group(row, members, roster),
        "department": _department(members) or "unstated",
        "topic": topic,
        "category": slug,
        "question_id": questions.setdefault((topic, slug, bare), f"r{len(questions) + 1:02d}"),
        "question": question,
        "request": turns[-1]["text"],
        "team": row.cells["group_description"].strip(),
        "people": roster.people,
        "owner": owner,
        "asker": asker,
        "asker_informed": asker in told.informed,
        "informed": list(told.informed),
        "uninformed": [name for name in roster.names if name not in (owner, *told.informed)],
        "category_sentence": known.sentence if known else f"This is about: {label}.",
        "attributes": [
            {
                "key": slug,
                "text": f"Private about {owner}: {label}",
                "category": slug,
                "surface_forms": [],
                "known_by": [owner, *told.informed],
            }
        ],
        "useful_facts": [],
        "notes": list(told.notes),
        "personal_notes": list(told.other),
        "shared_notes": _shared(row),
        "transcript": turns,
        "missing": list(MISSING_PARTS),
    }
    made["statistics"] = statistics(made)
    if not made["uninformed"]:
        row.note("everybody is informed", f"{len(told.informed)} colleagues", "kept")
    if known and (found := leaks(made, known.words)):
        row.note("category word in shared text", found[0][:120], "kept")
    return made


def _owner(row: _Row, roster: Roster) -> str:
    """The holder, which table and memory must agree on."""
    holder = holder_of(row.memory)
    said = row.loose("assistant_member")
    named = re.sub(r"^AI Assistant \(for (.*)\)$", r"\1", full_name(said))
    if holder not in roster.names:
        exact = [name for name in roster.names if name.casefold() == holder.casefold()]
        if not exact:
            raise RowFault("holder is no member", repr(holder))
        holder = exact[0]
    if holder not in roster.called(named):
        raise RowFault("holder differs", f"table {named!r}, memory {holder!r}")
    return holder


def _notes(row: _Row, owner: str, carrier: Mapping[str, Any]) -> list[str]:
    """The owner's notes: of the table, or of the memory when the table's cannot be read."""
    found: Any = None
    try:
        found = row.value("member_notes")
    except RowFault as fault:
        row.note(fault.kind, f"{fault.found}; the memory's notes are used", "repaired")
    if isinstance(found, dict):
        own = [notes for name, notes in found.items() if str(name).casefold() == owner.casefold()]
        found = own[0] if own else pick(found, "personal_notes", "notes")
    elif isinstance(found, list | tuple) and found and isinstance(found[0], dict):
        own = [one for one in found if full_name(one).casefold() == owner.casefold()]
        found = pick(own[0], "personal_notes", "notes") if own else None
    found = found or pick(carrier, "personal_notes", "notes")
    if not isinstance(found, list | tuple):
        raise RowFault("no notes of the owner", repr(found)[:80])
    return _texts(found, "note that is no text", row.note)


def _shared(row: _Row) -> list[str]:
    """The shared notes; one plain text is one note a line."""
    found = row.loose("shared_notes")
    if isinstance(found, str):
        row.note("shared notes as plain text", f"{len(found.splitlines())} lines", "repaired")
        found = found.splitlines()
    return _texts(found, "shared note that is no text", row.note)


def _texts(values: Iterable[Any], kind: str, note: Note) -> list[str]:
    """The texts among the values, without blank ones; others are reported."""
    kept = []
    for value in values:
        if isinstance(value, str) and value.strip():
            kept.append(value.strip())
        else:
            note(kind, repr(value)[:80], "dropped")
    return kept


def _text(row: _Row, *names: str) -> str:
    """A text of the memory. Raises RowFault without one."""
    value = pick(row.memory, *names)
    if not isinstance(value, str) or not value.strip():
        raise RowFault(f"no {names[0]} in the memory", repr(value)[:80])
    return value.strip()


def _question(row: _Row, owner: str) -> str:
    """The plain question: the memory's, else the table's, with the holder's name filled in."""
    value = pick(row.memory, "agent_task", "question") or row.loose("agent_task")
    if not isinstance(value, str) or not value.strip():
        raise RowFault("no question", repr(value)[:80])
    filled = PLACEHOLDER.sub(owner.split()[0], value.strip())
    if filled != value.strip():
        row.note("name left out of the question", value.strip()[:80], "repaired")
    return filled


def _department(members: Any) -> str:
    """The most frequent department or employer of the members."""
    profiles = list(members.values()) if isinstance(members, dict) else members
    found = Counter(str(pick(p, "department", "employer") or "") for p in profiles)
    return found.most_common(1)[0][0]


def _group(row: _Row, members: Any, roster: Roster) -> str:
    """The group id that fits the members' department: the memory's, else the conversation's."""
    given = [str(pick(part, "group_id", "group") or "") for part in (row.memory, row.conversation)]
    wanted = re.sub(r"\W|_", "", _department(members)).casefold()
    fitting = [
        group
        for group in given
        if group and wanted and wanted in re.sub(r"\W|_", "", group).casefold()
    ]
    chosen = (fitting or [group for group in given if group] or [roster.names[0]])[0]
    if any(group and group != chosen for group in given) or (wanted and not fitting):
        found = f"memory {given[0]!r}, conversation {given[1]!r}, people of {_department(members)}"
        row.note("group id", f"{found}; {chosen!r} is used", "repaired")
    return chosen


def report_lines(released: Released) -> list[str]:
    """Counts, every oddity by row, and what the items cannot be used for."""
    dropped = released.rows - len(released.items)
    lines = [f"rows {released.rows}, items {len(released.items)}, rows dropped {dropped}"]
    kinds = Counter((odd.kind, odd.done) for odd in released.oddities)
    lines += [f"  {kind}, {done}: {count}" for (kind, done), count in sorted(kinds.items())]
    lines += [odd_line(odd) for odd in released.oddities]
    lines += ["these items lack " + ", ".join(MISSING_PARTS) + ":", *(f"  {t}" for t in UNUSABLE)]
    return lines


def odd_line(odd: Oddity) -> str:
    """One oddity as a line of the report; what a terminal would obey is shown as an escape."""
    where = "files" if odd.row < 0 else f"row {odd.row}"
    found = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in odd.found)
    return f"{where}: {odd.kind}: {found} ({odd.done})"


def released_lines(objects: Sequence[Mapping[str, Any]]) -> bytes:
    """The items as JSON lines."""
    return b"".join(orjson.dumps(made) + b"\n" for made in objects)
