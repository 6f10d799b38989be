"""Equal calls share a key; a change of anything that matters gives another."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakgrid.cache.key import TRANSPORT_FIELDS, KeySpace, canonical, sent

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMES = st.text(min_size=1, max_size=12).filter(lambda name: name not in TRANSPORT_FIELDS)
BODIES = st.dictionaries(NAMES, VALUES, min_size=1, max_size=6)

SPACE = KeySpace("openai", "chat", "https://api.example/v1")


def key(body: dict[str, Any], sample: int = 0) -> bytes:
    return SPACE.key(canonical(body), sample)


def reversed_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: reversed_order(value[name]) for name in reversed(value)}
    return [reversed_order(part) for part in value] if isinstance(value, list) else value


@given(BODIES)
def test_the_order_of_fields_does_not_matter(body: dict[str, Any]) -> None:
    assert key(body) == key(reversed_order(body))


@given(BODIES, st.data(), VALUES)
def test_any_changed_field_changes_the_key(
    body: dict[str, Any], data: st.DataObject, value: Any
) -> None:
    name = data.draw(st.sampled_from(sorted(body)))
    changed = {**body, name: value}
    same = orjson.dumps(changed[name], option=orjson.OPT_SORT_KEYS) == orjson.dumps(
        body[name], option=orjson.OPT_SORT_KEYS
    )
    assert (key(changed) == key(body)) == same


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_two_temperatures_share_a_key_only_where_they_are_one(one: float, other: float) -> None:
    keys = {key({"temperature": value}) for value in (one, other)}
    assert (len(keys) == 1) == (str(one) == str(other))


@given(BODIES, NAMES, VALUES)
def test_any_added_field_changes_the_key(body: dict[str, Any], name: str, value: Any) -> None:
    if name not in body:
        assert key({**body, name: value}) != key(body)


@given(BODIES, st.data())
def test_any_removed_field_changes_the_key(body: dict[str, Any], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(body)))
    assert key({other: body[other] for other in body if other != name}) != key(body)


@given(BODIES, st.sampled_from(sorted(TRANSPORT_FIELDS)), VALUES)
def test_transport_fields_are_not_part_of_the_key(
    body: dict[str, Any], name: str, value: Any
) -> None:
    assert key({**body, name: value}) == key(body)


@given(BODIES, st.sampled_from(sorted(TRANSPORT_FIELDS)), VALUES)
def test_transport_fields_are_sent_all_the_same(
    body: dict[str, Any], name: str, value: Any
) -> None:
    assert sent(body, canonical(body)) == canonical(body)
    whole = {**body, name: value}
    assert orjson.loads(sent(whole, canonical(whole))) == orjson.loads(orjson.dumps(whole))


@given(BODIES)
def test_a_transport_name_deeper_in_the_body_is_content(body: dict[str, Any]) -> None:
    assert key({**body, "x": {"user": "a"}}) != key({**body, "x": {"user": "b"}})


@given(BODIES, st.integers(0, 10**6), st.integers(0, 10**6))
def test_samples_are_different_calls(body: dict[str, Any], one: int, other: int) -> None:
    assert (key(body, one) == key(body, other)) == (one == other)


@given(st.tuples(st.text(), st.text(), st.text()), st.tuples(st.text(), st.text(), st.text()))
def test_provider_family_and_identity_are_part_of_the_key(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    keys = {KeySpace(*parts).key(b"{}", 0) for parts in (one, other)}
    assert (len(keys) == 1) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [(("ab", "c", "d"), ("a", "bc", "d")), (("a", "", "b"), ("a", "b", ""))],
)
def test_parts_cannot_flow_into_each_other(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    assert KeySpace(*one).key(b"{}", 0) != KeySpace(*other).key(b"{}", 0)


def test_the_sample_cannot_flow_into_the_body() -> None:
    assert SPACE.key(b"2{}", 1) != SPACE.key(b"{}", 12)


def test_a_schema_is_sent_in_its_own_order() -> None:
    body = {"z": 1, "response_format": {"properties": {"reasons": {}, "answer": {}}}}
    told = sent(body, canonical(body), ordered=True)
    assert told.index(b"reasons") < told.index(b"answer")
    assert orjson.loads(told) == orjson.loads(canonical(body))
