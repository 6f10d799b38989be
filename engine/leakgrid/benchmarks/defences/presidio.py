"""Microsoft Presidio as the engine of ``redact``: the extra ``redact``, imported at first use.

Presidio's usual recognisers for English, its scores raised by context words, and its default way
of replacing: <PHONE_NUMBER>. No package index carries a spaCy model, so without one a blank spaCy
pipeline cuts the words; then names come from the item alone, and places and times in words stay.

Everything runs in one thread: spaCy promises no safety with more, and the event loop stays free.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib import metadata
from typing import Any, TypeAlias

from leakgrid.benchmarks.defences.reply import Reply, Unfit
from leakgrid.outcomes import JobError, Outcome

VERSION = 1
"""Part of the defence's version: raise it when what follows here blanks something else."""

LEAST_SCORE = 0.4
"""Presidio gives a phone number 0.4, and less to a bare number that no word around explains."""

MOST_CHARACTERS = 10_000
"""Longer texts are none that a person would get, and a degenerate one takes a second per 1,000."""

PACKAGES = ("presidio-analyzer", "presidio-anonymizer", "phonenumbers", "spacy", "tldextract")
"""Whose versions decide what is found."""

HINT = "pip install 'leakgrid[redact]'"

Names: TypeAlias = tuple[str, ...]

_thread = ThreadPoolExecutor(1, thread_name_prefix="presidio")


def lacking(spacy_model: str = "") -> tuple[str, str]:
    """(option, what is not installed for it and how to get it); two empty strings if all is."""
    for package in PACKAGES[:2]:
        try:
            metadata.version(package)
        except metadata.PackageNotFoundError:
            return "engine", f"'presidio' needs the package {package}; {HINT}"
    have = _models()
    if not spacy_model or spacy_model in have:
        return "", ""
    told = f"installed are: {', '.join(sorted(have))}" if have else "no spaCy model is installed"
    return "spacy_model", (
        f"the spaCy model {spacy_model!r} is not installed ({told}); "
        f"get it with: python -m spacy download {spacy_model}; or leave this key out: then names "
        "come from the item alone"
    )


def versions(spacy_model: str = "") -> dict[str, str]:
    """The version of every package that decides what is found. Raises JobError if one lacks."""
    option, told = lacking(spacy_model)
    if told:
        raise JobError(f"defences.redact.{option}: {told}")
    found = {package: metadata.version(package) for package in PACKAGES}
    return found | ({spacy_model: _models()[spacy_model]} if spacy_model else {})


def _models() -> dict[str, str]:
    """Versions of the installed spaCy models by name; all of them register an entry point."""
    found = metadata.entry_points(group="spacy_models")
    return {entry.name: entry.dist.version if entry.dist else "" for entry in found}


async def redacted(
    texts: Sequence[str], names: Sequence[str], kept: Sequence[str], spacy_model: str = ""
) -> list[str]:
    """The texts with every identifier and each of ``names`` replaced by its kind in brackets.

    ``kept`` are names that stay, whatever finds them. Raises Unfit for a text that is too long or
    takes Presidio so long that it may have left out a pattern.
    """
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(
        _thread, _all, tuple(texts), tuple(names), tuple(kept), spacy_model
    )


def _all(texts: Sequence[str], names: Names, kept: Names, spacy_model: str) -> list[str]:
    # Many cells share the notes of an item; replies are their own, and long.
    one = _kept_one if names else _one
    return [one(text, names, kept, spacy_model) for text in texts]


def _one(text: str, names: Names, kept: Names, spacy_model: str) -> str:
    if len(text) > MOST_CHARACTERS:
        raise _unfit(f"{len(text)} characters are too many for Presidio")
    find, replace, most_s = _engine(spacy_model)
    began = time.monotonic()
    found = find(text, names, kept)
    if time.monotonic() - began >= most_s:
        raise _unfit(f"Presidio took more than {most_s:g} s, so it may have left something")
    return replace(text, found)


_kept_one = lru_cache(maxsize=2048)(_one)


def _unfit(why: str) -> Unfit:
    return Unfit(Reply(text="", outcome=Outcome.ANSWER, unfit=why))


Find: TypeAlias = Callable[[str, Names, Names], Any]
Replace: TypeAlias = Callable[[str, Any], str]


@lru_cache(maxsize=4)
def _engine(spacy_model: str) -> tuple[Find, Replace, float]:
    """How to find and how to replace, and the seconds after which Presidio skips a pattern.

    Takes one to five seconds. Raises JobError for a model that spaCy cannot load.
    """
    import spacy
    import tldextract
    from presidio_analyzer import (
        AnalyzerEngine,
        PatternRecognizer,
        RecognizerRegistry,
        pattern_recognizer,
    )
    from presidio_analyzer.nlp_engine import (
        NerModelConfiguration,
        NlpEngineProvider,
        SpacyNlpEngine,
    )
    from presidio_analyzer.predefined_recognizers import EmailRecognizer
    from presidio_anonymizer import AnonymizerEngine
    from presidio_anonymizer.entities import ConflictResolutionStrategy

    if spacy_model:
        try:
            pipeline = spacy.load(spacy_model)
        except Exception as error:
            told = f"spaCy cannot load the model {spacy_model!r}: {error}"
            raise JobError(f"defences.redact.spacy_model: {told}") from error
    else:
        spacy.Language.component("leakgrid_lower", func=_lower)
        pipeline = spacy.blank("en")
        pipeline.add_pipe("leakgrid_lower")
    usual = NlpEngineProvider().nlp_configuration["ner_model_configuration"]
    words = SpacyNlpEngine(
        models=[{"lang_code": "en", "model_name": spacy_model or "blank"}],
        ner_model_configuration=NerModelConfiguration.from_dict(usual),
    )
    # Set, not loaded by it: its load() would fetch a model that is not there from the network.
    words.nlp = {"en": pipeline}
    registry = RecognizerRegistry(supported_languages=["en"])
    registry.load_predefined_recognizers(languages=["en"], nlp_engine=words)
    # The usual check of a domain asks the network for the newest list; the one it ships will do.
    domains = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
    for recogniser in registry.recognizers:
        if isinstance(recogniser, EmailRecognizer):
            recogniser.validate_result = lambda text: domains(text).fqdn != ""
    analyzer = AnalyzerEngine(registry=registry, nlp_engine=words, supported_languages=["en"])
    anonymizer = AnonymizerEngine()

    def find(text: str, names: Names, kept: Names) -> Any:
        members = []
        if names:
            # The longest first, since the first that fits is taken; "May" is a name, "may" none.
            listed = sorted(names, key=len, reverse=True)
            member = PatternRecognizer("PERSON", "members", deny_list=listed, global_regex_flags=0)
            members = [member]
        return analyzer.analyze(
            text,
            "en",
            score_threshold=LEAST_SCORE,
            ad_hoc_recognizers=members,
            allow_list=list(kept),
        )

    def replace(text: str, found: Any) -> str:
        apart = ConflictResolutionStrategy.REMOVE_INTERSECTIONS
        return str(anonymizer.anonymize(text, found, conflict_resolution=apart).text)

    return find, replace, float(getattr(pattern_recognizer, "REGEX_TIMEOUT_SECONDS", 60))


def _lower(document: Any) -> Any:
    """A pipeline without a model has no lemmas, by which Presidio looks for context words."""
    for token in document:
        token.lemma_ = token.lower_
    return document
