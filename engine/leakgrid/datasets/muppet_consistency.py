"""What must agree inside one item: names, transcript, facts and counts.

Raises DatasetError through the line's checker; items.py calls it once a line has its types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakgrid.datasets.muppet_lines import Line

# items.py imports this module, so the type is imported for the type checker only.
if TYPE_CHECKING:
    from leakgrid.datasets.items import Item


def check_item(item: Item, at: Line) -> None:
    """Fail with the first thing that does not agree."""
    _check_names(item, at)
    _check_transcript(item, at)
    _check_facts(item, at)


def _check_names(item: Item, at: Line) -> None:
    """Every name that is used stands among the people, and every colleague in one list."""
    names = [person.name for person in item.people]
    for what, values in (("name", names), ("first", [p.first for p in item.people])):
        for index, value in enumerate(values):
            if value in values[:index]:
                at.fail(
                    f"people[{index}].{what}",
                    f"{value!r} a second time",
                    "names and first names that are unique inside a group",
                    "rename one of the two people",
                )
    one_of = f"one of the people: {', '.join(names)}"
    fix = "use a full name exactly as it stands in people"
    for key, used in (
        ("owner", (item.owner,)),
        ("asker", (item.asker,)),
        ("informed", item.informed),
        ("uninformed", item.uninformed),
    ):
        for name in used:
            if name not in names:
                at.fail(key, repr(name), one_of, fix)
    if item.asker == item.owner:
        at.fail("asker", f"{item.asker!r}, the owner", "a colleague", "let someone else ask")
    listed = [*item.informed, *item.uninformed]
    for name in names:
        if listed.count(name) != (name != item.owner):
            at.fail(
                "informed/uninformed",
                f"{name!r} {listed.count(name)} times",
                "every colleague once in one of the two lists, the owner in neither",
                "move or remove the name",
            )
    if item.asker_informed != (item.asker in item.informed):
        at.fail(
            "asker_informed",
            str(item.asker_informed).lower(),
            f"{str(item.asker in item.informed).lower()}, as informed says of {item.asker!r}",
            "make the two keys agree",
        )


def _check_transcript(item: Item, at: Line) -> None:
    """Senders are people or the owner's assistant; the last turn is the asker's request."""
    senders = {*(person.name for person in item.people), item.assistant}
    for index, turn in enumerate(item.transcript):
        if turn.sender not in senders:
            at.fail(
                f"transcript[{index}].sender",
                repr(turn.sender),
                f"a full name from people, or {item.assistant!r}",
                "correct the sender",
            )
    last = len(item.transcript) - 1
    if item.transcript[last].sender != item.asker:
        at.fail(
            f"transcript[{last}].sender",
            repr(item.transcript[last].sender),
            f"the asker, {item.asker!r}, in the last turn",
            "end the transcript with the asker's request",
        )
    if item.transcript[last].text != item.request:
        at.fail(
            f"transcript[{last}].text",
            repr(item.transcript[last].text[:60]),
            "exactly the text of request in the last turn",
            "copy request into the last turn",
        )


def _check_facts(item: Item, at: Line) -> None:
    """Facts are known by the owner and people of the group; counts agree with statistics."""
    names = [person.name for person in item.people]
    if len(item.attributes) > 3:
        at.fail("attributes", f"{len(item.attributes)} of them", "1 to 3", "remove some")
    for index, attribute in enumerate(item.attributes):
        key = f"attributes[{index}]"
        if item.owner not in attribute.known_by:
            at.fail(
                f"{key}.known_by",
                "a list without the owner",
                f"the owner {item.owner!r} and colleagues who know the fact",
                "add the owner",
            )
        for name in attribute.known_by:
            if name not in names:
                at.fail(f"{key}.known_by", repr(name), "full names from people", "correct it")
        if attribute.category != item.category:
            at.fail(
                f"{key}.category",
                repr(attribute.category),
                f"the item's category, {item.category!r}",
                "make the two agree",
            )
    for key, found, real in (
        ("parties", item.statistics.parties, len(item.people)),
        ("facts", item.statistics.facts, len(item.attributes)),
    ):
        if found != real:
            at.fail(f"statistics.{key}", str(found), str(real), "count again")
