"""Typed readers of nodes: accepted values, and one fault at the node for any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules import text, values
from rules.faults import Faults
from rules.model import Place
from rules.text import Guess, Node, Scalar

Reader = Callable[[Node, Faults], Any]
READERS: dict[str, Reader] = {
    "string": lambda node, faults: values.string(node, "it", faults),
    "line": lambda node, faults: values.line(node, "it", faults, 5),
    "choice": lambda node, faults: values.choice(node, "it", ("red", "blue"), faults),
    "boolean": lambda node, faults: values.boolean(node, "it", faults),
    "size": lambda node, faults: values.size(node, "it", faults),
    "scalars": lambda node, faults: [each.text for each in values.scalars(node, "it", faults)],
}


def node_of(written: str) -> Node:
    node = text.read(written, Faults())
    assert node is not None
    return node


@pytest.mark.parametrize(
    ("reader", "written", "value"),
    [
        ("string", "'12'", "12"),
        ("string", "''", ""),
        ("string", "a: ''", None),
        ("line", "abcde", "abcde"),
        ("choice", "red", "red"),
        ("boolean", "true", True),
        ("boolean", "false", False),
        ("size", "0", 0),
        ("size", "'64k'", 64 << 10),
        ("size", "2 GiB", 2 << 30),
        ("size", "999999999999999 TB", 999_999_999_999_999 << 40),
        ("scalars", "a", ["a"]),
        ("scalars", "[a, 5]", ["a", "5"]),
    ],
)
def test_each_reader_returns_the_value(reader: str, written: str, value: object) -> None:
    faults = Faults()
    assert READERS[reader](node_of(written), faults) == value
    assert len(faults) == (1 if value is None else 0)


@pytest.mark.parametrize(
    ("reader", "written", "code", "correction"),
    [
        ("string", "12", "value.type", 'quote it: "12"'),
        ("string", "2026-01-01", "value.type", 'quote it: "2026-01-01"'),
        ("string", "9" * 61, "value.type", "quote it"),
        ("string", "[a]", "value.type", "write a string"),
        ("line", "abcdef", "value.bad", "write 1 to 5 characters"),
        ("line", "' '", "value.bad", "write 1 to 5 characters"),
        ("line", '"a\\tb"', "value.bad", "in one line"),
        ("choice", "RED", "value.bad", "did you mean 'red'?"),
        ("choice", "bleu", "value.bad", "did you mean 'blue'?"),
        ("choice", "x", "value.bad", "use one of red, blue"),
        ("boolean", "yes", "value.type", "without quotes"),
        ("boolean", "'true'", "value.type", "without quotes"),
        ("boolean", "True", "value.type", "true or false"),
        ("size", "1000000000000000", "value.bad", "64K"),
        ("size", "1.5K", "value.bad", "64K"),
        ("size", "[1]", "value.bad", "64K"),
        ("scalars", "[]", "value.bad", "at least one"),
        ("scalars", "{a: b}", "value.type", "[a, b]"),
        ("scalars", "[a, [b]]", "value.type", "write a string"),
    ],
)
def test_each_reader_reports_one_fault_at_the_node(
    reader: str, written: str, code: str, correction: str
) -> None:
    faults = Faults()
    READERS[reader](node_of(written), faults)
    (found,) = faults.findings()
    assert (found.code, found.place.line) == (code, 1)
    assert correction in found.help
    assert "it" in found.text


@given(st.integers(0, 10**15 - 1), st.sampled_from(["", "k", "M", "g", "T"]), st.booleans())
def test_units_of_sizes_are_powers_of_1024(number: int, unit: str, has_space: bool) -> None:
    written = f"{number}{' ' * has_space}{unit}"
    size = values.size(Scalar(written, Guess.STRING, Place()), "it", Faults())
    assert size == number * 1024 ** ["", "K", "M", "G", "T"].index(unit.upper())


@pytest.mark.parametrize(
    ("written", "description"),
    [
        ("{a: b}", "a mapping"),
        ("[a]", "a list"),
        ("a", "a string"),
        ("5", "a number"),
        ("off", "true or false"),
        ("~", "empty"),
        ("2026-01-01", "a date or another YAML type"),
    ],
)
def test_descriptions_of_nodes(written: str, description: str) -> None:
    assert values.describe(node_of(written)) == description


def test_fields_returns_the_known_entries_and_reports_the_others() -> None:
    faults = Faults()
    node = values.mapping(node_of("{name: x, names: y, <<: {name: z}}"), "it", faults, "{name: a}")
    assert list(values.fields(node, "it", ("name", "age"), faults)) == ["name"]
    assert [(found.code, found.help) for found in faults.findings()] == [
        ("key.unknown", "did you mean 'name'?"),
        ("syntax.unsupported", "write out the entries"),
    ]


def test_a_node_that_is_no_mapping_is_read_as_an_empty_one() -> None:
    faults = Faults()
    node = values.mapping(node_of("[a]"), "it", faults, "{name: a}")
    assert node.entries == ()
    assert [found.help for found in faults.findings()] == ["write {name: a}"]
