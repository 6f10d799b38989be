"""What tables need to know of a job's items: profiles, contexts, instances, labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leakgrid.benchmarks.dialogue.instances import Instance
from leakgrid.benchmarks.dialogue.settings import LabelRule
from leakgrid.datasets.cimemories import Profile, Profiles
from leakgrid.datasets.cimemories_labels import COMBINED, LabelRow, load_labels
from leakgrid.types import Json


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of a file (none where a job makes them), and how they are weighed."""

    rule: LabelRule
    rows: tuple[LabelRow, ...] = ()

    def facts(self, items: Iterable[Instance]) -> dict[str, Json]:
        """The rows of the senders' contexts, and the rule.

        A context that was labelled and lists nothing has one row with attribute "".
        """
        wanted = {(item.sender.id, item.context.id) for item in items}
        return {
            "labels": [list(row) for row in self.rows if (row[0], row[1]) in wanted],
            "label_rule": {
                "job": self.rule.job,
                "weights": dict(self.rule.weights),
                "threshold": self.rule.threshold,
                "basics": self.rule.basics,
            },
        }


def rule(labels: LabelRule, profiles: Profiles) -> Labels:
    """The labels that a job names. Raises DatasetError for what is wrong in a label file."""
    if labels.file is None:
        return Labels(labels)
    loaded = load_labels(labels.file, profiles)
    empty = [
        (line.profile, line.context, "", COMBINED, 0.0, 0.0)
        for line in loaded.lines
        if not line.attribute
    ]
    return Labels(labels, (*loaded.rows, *empty))


def described(items: Iterable[Instance]) -> Mapping[str, Json]:
    """Profiles with their attributes, contexts by profile, and instances, of the items only."""
    items = list(items)
    profiles: dict[str, Profile] = {}
    contexts: dict[tuple[str, str], list[str]] = {}
    for item in items:
        for profile in (item.sender, item.receiver):
            if profile is not None:
                profiles.setdefault(profile.id, profile)
        context = item.context
        contexts.setdefault(
            (item.sender.id, context.id),
            [item.sender.id, context.id, context.recipient, context.task],
        )
    return {
        "profiles": [
            [one.id, memory.key, memory.domain, memory.event, memory.basic, memory.statement]
            for one in profiles.values()
            for memory in one.memories
        ],
        "contexts": list(contexts.values()),
        "instances": [
            [
                item.id,
                item.sender.id,
                item.receiver.id if item.receiver is not None else "",
                item.context.id,
            ]
            for item in items
        ],
    }
