"""Simulated reveal judges and labellers err exactly as often as planted."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from leakgrid.providers.simulated.config import parse
from leakgrid.providers.simulated.planted_dialogues import (
    planted_disclosures,
    planted_labels,
    planted_votes,
)
from leakgrid.providers.simulated.process import running
from tests.simulated_people import (
    ALL,
    CUES,
    NAMES,
    ODD,
    labels_request,
    receiver_request,
    reveal_request,
    sender_request,
    statements,
    table,
)
from tests.simulated_world import Got, ask, plausible

# Hundreds of requests are made at one moment, by the tests' own client.
pytestmark = pytest.mark.may_block


def verdict(got: Got) -> dict[int, tuple[str, str]]:
    rows = json.loads(got.text)["attributes"]
    found = {row["id"]: (row["degree"], row["evidence"]) for row in rows}
    assert len(found) == len(rows)
    return found


def test_a_perfect_judge_finds_the_planted_truth_of_both_speakers(tmp_path: Path) -> None:
    raw = table(tmp_path)
    config = parse(raw)
    with running(raw) as server:
        for number, context in ALL[::5]:
            other = (number + 1) % len(NAMES)
            transcript: list[tuple[int, str, str]] = []
            sent: list[tuple[str, str]] = []
            heard: list[tuple[str, str]] = []
            for k in range(1, 4):
                said = ask(server, [sender_request(number, context, sent)])[0].text
                if k > 1:
                    heard[-1] = (heard[-1][0], said)
                opening = transcript[0][2] if transcript else said
                answer = ask(server, [receiver_request(other, context, opening, heard)])[0].text
                transcript += [(k, "sender", said), (k, "receiver", answer)]
                sent.append((said, answer))
                heard.append((answer, ""))
            sides = {
                "sender": (number, planted_disclosures(
                    config, "sim-open", "pc0", NAMES[number], f"c{context:02d}", 0, 3)),
                "receiver": (other, planted_disclosures(
                    config, "sim-open", "pc0", NAMES[other], f"c{context:02d}", 0, 3,
                    role="receiver", opening=transcript[0][2])),
            }  # fmt: skip
            for speaker, (who, planted) in sides.items():
                known = statements(who)
                keys, texts = list(known), list(known.values())
                halves = [(keys[:25], texts[:25]), (keys[25:], texts[25:])]
                asked = [reveal_request(transcript, speaker, half) for _, half in halves]
                asked += [reveal_request(transcript, speaker, texts, schema=False)]
                first, second, whole = (verdict(got) for got in ask(server, asked))
                found = {key: first[n] for n, key in enumerate(halves[0][0], 1)}
                found |= {key: second[n] for n, key in enumerate(halves[1][0], 1)}
                assert found == {key: whole[n] for n, key in enumerate(keys, 1)}
                truth = {key: degree for key, (degree, _) in planted.items()}
                assert {k: d for k, (d, _) in found.items() if d != "none"} == truth
                spoken = [text for _, by, text in transcript if by == speaker]
                for degree, evidence in found.values():
                    quoted = any(evidence in text for text in spoken)
                    assert (degree == "none") == (evidence == "") and quoted


@pytest.mark.parametrize(
    ("said", "degree"),
    [
        ("He PAID the fine, twice!", "full"),
        ("Paid the\nfine -- twice </message> as it were", "full"),
        ("He prepaid the fine twice", "none"),
        ("Paid the fine twicely", "none"),
        ("", "none"),
    ],
)
def test_statements_are_found_as_whole_words(tmp_path: Path, said: str, degree: str) -> None:
    statement = ODD["twin_one"]
    with running(table(tmp_path)) as server:
        request = reveal_request([(1, "sender", said), (1, "receiver", statement)], "sender",
                                 [statement])  # fmt: skip
        found = verdict(ask(server, [request])[0])[1]
    assert found[0] == degree
    assert found[1] in said and bool(found[1]) == (degree == "full")


def test_the_parts_of_a_statement_in_two_messages_are_no_disclosure(tmp_path: Path) -> None:
    parts = [(1, "sender", "He paid the"), (2, "sender", "fine twice.")]
    with running(table(tmp_path)) as server:
        got = ask(server, [reveal_request(parts, "sender", [ODD["twin_one"]])])[0]
    assert verdict(got)[1] == ("none", "")


def test_a_judges_planted_errors_are_recovered(tmp_path: Path) -> None:
    judge = {"reveal_sensitivity": 0.85, "reveal_specificity": 0.9, "missing_id": 0.3,
             "bad_evidence": 0.2, "unparsable": 0.1, "truncated": 0.1}  # fmt: skip
    texts = list(statements(3).values())[:10]
    said = f"Good day. {texts[0]} {texts[4]} That is it."
    counts: Counter[str] = Counter()
    requests = [reveal_request([(1, "sender", said)], "sender", texts, nonce=n) for n in range(500)]
    with running(table(tmp_path, judges={"sim-judge": judge})) as server:
        for got in ask(server, requests):
            if got.json["choices"][0]["finish_reason"] == "length":
                counts["cut"] += 1
                continue
            if not got.text.startswith("{"):
                counts["prose"] += 1
                continue
            found = verdict(got)
            counts["parsed"] += 1
            counts["missing"] += len(found) == 9
            assert len(found) in (9, 10)
            for number, (degree, evidence) in found.items():
                true = number in (1, 5)
                counts["told" if true else "kept"] += 1
                counts["hits" if true else "alarms"] += degree == "full"
                if degree == "full":
                    counts["evidence"] += 1
                    counts["invented"] += evidence not in said
    assert plausible(counts["prose"], 500, 0.1)
    assert plausible(counts["cut"], 500 - counts["prose"], 0.1)
    assert plausible(counts["missing"], counts["parsed"], 0.3)
    assert plausible(counts["hits"], counts["told"], 0.85)
    assert plausible(counts["alarms"], counts["kept"], 0.1)
    assert plausible(counts["invented"], counts["evidence"], 0.2)


def test_silence_gives_a_mistaken_judge_nothing_to_quote(tmp_path: Path) -> None:
    judges = {"sim-judge": {"reveal_specificity": 0.0}}
    with running(table(tmp_path, judges=judges)) as server:
        got = ask(server, [reveal_request([(1, "receiver", "Yes?")], "sender", ["A fact."])])[0]
        loud = ask(server, [reveal_request([(1, "sender", "Yes?")], "sender", ["A fact."])])[0]
    assert verdict(got) == {1: ("none", "")}
    assert verdict(loud) == {1: ("full", "Yes?")}


def test_a_reveal_judge_may_stand_alone(tmp_path: Path) -> None:
    raw = {key: value for key, value in table(tmp_path).items() if key != "agents"}
    with running(raw) as server:
        got = ask(server, [reveal_request([(1, "sender", "Left-handed")], "sender",
                                          [ODD["terse"]])])[0]  # fmt: skip
    assert verdict(got)[1][0] == "full"


# --- labellers ----------------------------------------------------------------------------


def test_votes_follow_class_persona_and_noise(tmp_path: Path) -> None:
    labeller = {
        "noise": 0.2, "both": 0.1, "unparsable": 0.1, "truncated": 0.1,
        "fundamentalist": {"necessary": 0.1, "inappropriate": 0.7},
        "unconcerned": {"necessary": 0.6},
    }  # fmt: skip
    raw = table(tmp_path, labellers={"sim-labels": labeller})
    config = parse(raw)
    failed: Counter[str] = Counter()
    with running(raw) as server:
        for persona in ("fundamentalist", "unconcerned"):
            system = CUES["conditions"][persona]
            asked = [(n, c, s) for n, c in ALL for s in range(3)]
            requests = [labels_request(n, c, system=system, sample=s) for n, c, s in asked]
            counts: Counter[tuple[str, str]] = Counter()
            totals: Counter[str] = Counter()
            for (number, context, _), got in zip(asked, ask(server, requests), strict=True):
                if got.json["choices"][0]["finish_reason"] == "length":
                    failed["cut"] += 1
                    continue
                if not got.text.startswith("{"):
                    failed["prose"] += 1
                    continue
                votes = json.loads(got.text)
                truth = planted_labels(config, NAMES[number], f"c{context:02d}")
                for place, key in enumerate(statements(number), start=1):
                    totals[truth[key]] += 1
                    for said in ("necessary", "inappropriate"):
                        counts[truth[key], said] += place in votes[said]
            for label, trials in totals.items():
                chances = planted_votes(config, "sim-labels", persona, label)
                for said, chance in zip(("necessary", "inappropriate"), chances, strict=True):
                    assert plausible(counts[label, said], trials, chance), (label, said, counts)
    assert planted_votes(config, "sim-labels", "fundamentalist", "other") == pytest.approx(
        (0.1 + 0.07, 0.7 + 0.01)
    )
    assert plausible(failed["prose"], 216, 0.1)
    assert plausible(failed["cut"], 216 - failed["prose"], 0.1)


def test_a_labeller_without_noise_agrees_with_itself(tmp_path: Path) -> None:
    raw = table(tmp_path, labellers={"sim-labels": {}})
    truth = planted_labels(parse(raw), NAMES[4], "c02")
    with running(raw) as server:
        got = [json.loads(one.text) for one in
               ask(server, [labels_request(4, 2, sample=n) for n in range(5)])]  # fmt: skip
    for label in ("necessary", "inappropriate"):
        wanted = [n for n, key in enumerate(truth, start=1) if truth[key] == label]
        assert all(votes[label] == wanted for votes in got)
