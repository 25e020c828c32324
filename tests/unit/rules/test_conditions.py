"""The condition table: every row reads a value, and how values are normalized."""

from __future__ import annotations

import pytest

from rules import conditions
from rules.conditions import TABLE, Group, Kind
from rules.evaluation import holds
from rules.facts import UNKNOWN, Caller, ContainerFacts, Facts, ObjectFacts
from rules.model import Operator, Test


@pytest.mark.parametrize(
    "fact", [row.name for row in TABLE.values() if row.group is not Group.REQUEST]
)
def test_facts_of_absent_objects_are_missing_and_never_unknown(fact: str) -> None:
    test = Test(
        fact, Operator.PRESENT, operand=False, key="k" if TABLE[fact].kind is Kind.STRINGS else None
    )
    assert holds(test, Facts("GET")) is True, (
        "a request to the account has no object and no container"
    )
    assert holds(test, Facts("GET", "c")) is (True if TABLE[fact].group is Group.STORED else None)
    assert holds(test, Facts("GET", "c", "o")) is None


@pytest.mark.parametrize(
    ("stored", "media_type"),
    [
        ("Text/CSV; charset=utf-8", "text/csv"),
        ("text/csv", "text/csv"),
        (" text/csv ;x", "text/csv"),
        ("", None),
        (None, None),
    ],
)
def test_content_types_lose_case_and_parameters(stored: str | None, media_type: str | None) -> None:
    assert conditions.media_type(stored) == media_type


def test_every_row_reads_a_value_and_has_a_help() -> None:
    full = Facts(
        "GET", "c", "o", Caller("u", "p", "d", frozenset({"r"}), is_anonymous=True, is_signed=True),
        {"k": "v"}, {"k": "v"}, "10.0.0.1", 5,
        ObjectFacts(exists=True, content_type="a/b", size_bytes=1, metadata={"k": "v"}), ContainerFacts({"k": "v"}, "gold"),
    )  # fmt: skip
    for row in TABLE.values():
        assert row.read(full, "k") not in (None, UNKNOWN), row.name
        assert row.help
        assert row.operators
        is_missing = (
            row.read(Facts("GET", "c", "o", stored=ObjectFacts(), holder=ContainerFacts()), "k")
            is None
        )
        assert is_missing == (row.is_optional and row.name not in ("container", "object")), row.name


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fd00::1", "fd00::1"),
        ("host", None),
        ("", None),
        (None, None),
    ],
)
def test_addresses_are_parsed_and_mapped_ones_are_ipv4(
    written: str | None, expected: str | None
) -> None:
    found = conditions.address(written)
    assert (None if found is None else str(found)) == expected


def test_facts_from_values_are_known_and_default_to_a_get() -> None:
    values = {"container": "c", "object": "o", "size": 5, "metadata": {"k": "v"}, "user": "ann"}
    facts = conditions.facts_from(values)
    read = {name: TABLE[name].raw(facts) for name in values}
    assert read == values
    others = TABLE.keys() - values.keys()
    assert all(TABLE[name].read(facts, "k") is not UNKNOWN for name in others)
    assert facts.method == "GET"
    assert conditions.facts_from({"user": None}).caller == Caller()
