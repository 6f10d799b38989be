"""The ``[simulated]`` table of a job as frozen values: every key checked, all mistakes at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from leakgrid.providers.simulated import batch_settings
from leakgrid.providers.simulated.fields import Table
from leakgrid.providers.simulated.settings import (
    BEHAVIOUR_VERSION,
    DRAFT_FAULTS,
    FAULTS,
    ITEM_FAULTS,
    LEANINGS,
    Agent,
    Assistant,
    Cues,
    Factors,
    Faults,
    Judge,
    Labeller,
    Latency,
    Leaning,
    Quota,
    Simulated,
    Truth,
    Writer,
)

__all__ = [
    "BEHAVIOUR_VERSION",
    "FAULTS",
    "Agent",
    "Assistant",
    "Cues",
    "Factors",
    "Faults",
    "Judge",
    "Labeller",
    "Latency",
    "Leaning",
    "Quota",
    "Simulated",
    "Truth",
    "Writer",
    "parse",
]

YEAR_MS = 3.2e10


def parse(table: Mapping[str, Any]) -> Simulated:
    """The configuration in a plain ``[simulated]`` table.

    Raises ValueError with one line per mistake, "<dotted.key>: found X; allowed: Y".
    """
    top = Table(table, "simulated")
    top.only("seed", "items", "port", "latency", "assistants", "judges", "quota", "faults",
             "cues", "labels", "agents", "labellers", "truth", "writers", "batches",
             *_FACTOR_KEYS)  # fmt: skip
    judges = {name: _judge(below) for name, below in top.tables("judges").items()}
    assistants = {name: _assistant(below) for name, below in top.tables("assistants").items()}
    agents = {name: _agent(below) for name, below in top.tables("agents").items()}
    labellers = {name: _labeller(below) for name, below in top.tables("labellers").items()}
    writers = {name: _writer(below) for name, below in top.tables("writers").items()}
    for name in sorted(judges.keys() & assistants.keys()):
        top.wrong(f"judges.{name}", "the name of an assistant", "a name that no assistant has")
    for name in sorted(agents.keys() & judges.keys()):
        top.wrong(f"agents.{name}", "the name of a judge", "a name that no judge has")
    for name in sorted(labellers.keys() & (judges.keys() | agents.keys())):
        top.wrong(f"labellers.{name}", "the name of another model", "a name of its own")
    if assistants and (agents or labellers):
        allowed = "one or the other, as items is a file of items or one of profiles"
        top.wrong("assistants", "assistants beside agents or labellers", allowed)
    for name in sorted(writers.keys() & judges.keys()):
        top.wrong(f"writers.{name}", "the name of a judge", "a name that no judge has")
    if writers and (assistants or agents or labellers):
        allowed = "writers and judges alone, as items is then the folder of a dataset"
        top.wrong("writers", "writers beside assistants, agents or labellers", allowed)
    config = Simulated(
        items=top.text("items", None, "the path of a JSON Lines file of items"),
        seed=top.integer("seed", 0, -(2**63), 2**63 - 1),
        port=top.integer("port", 0, 0, 65535),
        latency=_latency(top.table("latency")),
        assistants=assistants,
        judges=judges,
        leak_factors=_factors(top, ""),
        useful_factors=_factors(top, "useful_"),
        quota={name: _quota(below) for name, below in top.tables("quota").items()},
        faults=_faults(top.table("faults")),
        cues=_cues(top.table("cues")),
        labels=top.text("labels", "", "the path of a label file, or nothing"),
        agents=agents,
        labellers=labellers,
        truth=_truth(top.table("truth")),
        writers=writers,
        batches=batch_settings.read(top.table("batches")),
    )
    if top.mistakes:
        raise ValueError("\n".join(top.mistakes))
    return config


_FACTOR_KEYS = tuple(
    prefix + kind for prefix in ("", "useful_") for kind in ("defences", "conditions", "categories")
)


def _factors(table: Table, prefix: str) -> Factors:
    return Factors(
        defences=table.factors(prefix + "defences"),
        conditions=table.factors(prefix + "conditions"),
        categories=table.factors(prefix + "categories"),
    )


def _assistant(table: Table) -> Assistant:
    table.only("leak", "useful", "refusal", "truncated", "thinking", "knows", "boundaries",
               "audience", "length", *_FACTOR_KEYS)  # fmt: skip
    return Assistant(
        leak=table.number("leak", None, 0.0, 1.0),
        useful=table.number("useful", 1.0, 0.0, 1.0),
        refusal=table.number("refusal", 0.0, 0.0, 1.0),
        truncated=table.number("truncated", 0.0, 0.0, 1.0),
        thinking=table.flag("thinking", False),
        knows=table.number("knows", 1.0, 0.0, 1.0),
        boundaries=table.number("boundaries", 1.0, 0.0, 1.0),
        audience=table.number("audience", 0.0, -3.0, 3.0),
        length=table.number("length", 0.0, -3.0, 3.0),
        leak_factors=_factors(table, ""),
        useful_factors=_factors(table, "useful_"),
    )


def _judge(table: Table) -> Judge:
    keys = tuple(field.name for field in fields(Judge))
    table.only(*keys)
    defaults = Judge()
    rates = {key: table.number(key, getattr(defaults, key), 0.0, 1.0) for key in keys}
    table.at_most_one({key: rates[key] for key in ITEM_FAULTS})
    return Judge(**rates)


def _agent(table: Table) -> Agent:
    rates = ("other", "partial", "repeats", "early_end", "refusal", "truncated", "empty")
    table.only("necessary", "inappropriate", *rates, "prompts", "necessary_prompts", "rounds",
               "thinking")  # fmt: skip
    return Agent(
        necessary=table.number("necessary", None, 0.0, 1.0),
        inappropriate=table.number("inappropriate", None, 0.0, 1.0),
        prompts=table.factors("prompts"),
        necessary_prompts=table.factors("necessary_prompts"),
        rounds=table.shares("rounds", Agent(0.0, 0.0).rounds),
        thinking=table.flag("thinking", False),
        **{key: table.number(key, 0.0, 0.0, 1.0) for key in rates},
    )


def _labeller(table: Table) -> Labeller:
    rates = ("noise", "both", "unparsable", "truncated")
    table.only(*rates, *LEANINGS)
    return Labeller(
        leanings={name: _leaning(table.table(name), usual) for name, usual in LEANINGS.items()},
        **{key: table.number(key, 0.0, 0.0, 1.0) for key in rates},
    )


def _leaning(table: Table, usual: Leaning) -> Leaning:
    table.only("necessary", "inappropriate")
    return Leaning(*_two_shares(table, usual.necessary, usual.inappropriate))


def _writer(table: Table) -> Writer:
    keys = tuple(field.name for field in fields(Writer))
    table.only(*keys)
    rates = {key: table.number(key, 0.0, 0.0, 1.0) for key in keys}
    for draft, faults in DRAFT_FAULTS.items():
        table.at_most_one({key: rates[key] for key in faults}, f" of a {draft} draft")
    return Writer(**rates)


def _truth(table: Table) -> Truth:
    table.only("necessary", "inappropriate")
    return Truth(*_two_shares(table, Truth().necessary, Truth().inappropriate))


def _two_shares(table: Table, *usual: float) -> tuple[float, float]:
    necessary = table.number("necessary", usual[0], 0.0, 1.0)
    # Whoever sets one of them need not look up the other.
    most = 1.0 - necessary
    inappropriate = table.number("inappropriate", min(usual[1], most), 0.0, 1.0)
    if inappropriate > most + 1e-9:
        allowed = f"a number not above 1 - necessary ({most:g})"
        table.wrong("inappropriate", f"{inappropriate:g}", allowed)
    return necessary, inappropriate


def _latency(table: Table) -> Latency:
    table.only("median_ms", "p95_ms", "per_token_ms")
    median = table.number("median_ms", 5.0, 0.0, YEAR_MS)
    p95 = table.number("p95_ms", max(20.0, median), 0.0, YEAR_MS)
    if p95 < median:
        table.wrong("p95_ms", f"{p95:g}", f"a number not below median_ms ({median:g})")
    return Latency(median, p95, table.number("per_token_ms", 0.0, 0.0, YEAR_MS))


def _quota(table: Table) -> Quota:
    table.only("rpm", "tpm", "burst_s", "charge_rejected")
    return Quota(
        rpm=table.number("rpm", 0.0, 0.0, 1e12),
        tpm=table.number("tpm", 0.0, 0.0, 1e12),
        burst_s=table.number("burst_s", 10.0, 0.001, 86400.0),
        charge_rejected=table.flag("charge_rejected", False),
    )


def _faults(table: Table) -> Faults:
    plain = ("max_per_request", "retry_after_ms", "hang_s", "slow_s", "models_unknown",
             "require_key", "insufficient_quota")  # fmt: skip
    table.only(*FAULTS, *plain)
    rates = {kind: table.number(kind, 0.0, 0.0, 1.0) for kind in FAULTS}
    if (total := sum(rates.values())) > 1.0 + 1e-9:
        table.mistakes.append(
            f"{table.key}: found rates that add up to {total:g}; allowed: a sum of at most 1"
        )
    return Faults(
        rates={kind: rate for kind, rate in rates.items() if rate > 0.0},
        max_per_request=table.integer("max_per_request", 2, 0, 1_000_000),
        retry_after_ms=table.number("retry_after_ms", 200.0, 0.0, YEAR_MS),
        hang_s=table.number("hang_s", 3600.0, 0.0, YEAR_MS),
        slow_s=table.number("slow_s", 0.5, 0.0, 86400.0),
        models_unknown=table.flag("models_unknown", True),
        require_key=table.text("require_key", "", "the key that clients must send"),
        insufficient_quota=table.names("insufficient_quota", "a list of model names"),
    )


def _cues(table: Table) -> Cues:
    table.only("defences", "conditions", "steps", "markers")
    what = "a sentence that only requests of this kind contain"
    return Cues(
        defences=table.texts("defences", what),
        conditions=table.texts("conditions", what),
        steps=table.texts("steps", "the name of the defence that asks for this schema"),
        markers=table.texts("markers", "what stands before the message in a reply"),
    )
