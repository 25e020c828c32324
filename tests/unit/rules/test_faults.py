"""The collection of faults: order, number, and suggestions of similar names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.faults import MAX_FAULTS, Faults, quoted, suggestion
from rules.model import Place, Severity
from rules.parse import parse
from tests.unit.rules.texts import HEAD


def test_faults_beyond_the_maximum_are_only_counted() -> None:
    rules, findings = parse(
        HEAD + "  - name: r\n    allow: true\n" + "".join(f"    k{n}: x\n" for n in range(5000))
    )
    assert rules is None
    assert len(findings) == MAX_FAULTS + 1
    assert findings[-1].code == "more"
    assert "4,900 more" in findings[-1].text


def test_long_words_are_quoted_in_part_only() -> None:
    long, key = "9" * 10_000, "b" * 500
    _, findings = parse(
        f"version: 1\nrules: [{{name: {long}, {key}: &{'a' * 10_000} 1, {key}: 2}}]\n"
    )
    assert {"syntax.unsupported", "key.duplicate", "value.type"} <= {each.code for each in findings}
    assert all(len(each.text) + len(each.help) < 500 for each in findings)


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), max_size=MAX_FAULTS))
def test_faults_are_errors_in_the_order_of_the_text(places: list[tuple[int, int]]) -> None:
    faults = Faults()
    for line, column in places:
        faults.add("syntax", Place(line, column), "text", "help")
    found = faults.findings()
    assert [(each.place.line, each.place.column) for each in found] == sorted(places)
    assert {each.severity for each in found} <= {Severity.ERROR}
    assert len(faults) == len(places)


def test_a_full_list_searches_no_similar_names() -> None:
    faults = Faults()
    assert faults.suggestion("gren", ["red", "green"]) == "did you mean 'green'?"
    for line in range(MAX_FAULTS):
        faults.add("syntax", Place(line), "text", "help")
    assert faults.is_full
    assert faults.suggestion("gren", ["red", "green"]) == "use one of red, green"


@pytest.mark.parametrize(
    ("text", "help_"),
    [
        ("containers", "did you mean 'container'?"),
        ("METHOD", "did you mean 'method'?"),
        ("x", "use one of container, method"),
        ("container" * 7, "use one of container, method"),
    ],
)
def test_the_most_similar_name_is_suggested(text: str, help_: str) -> None:
    assert suggestion(text, iter(["container", "method"])) == help_


@given(st.text(max_size=80))
def test_a_quotation_is_the_text_or_its_beginning(text: str) -> None:
    shown = quoted(text)
    if len(text) <= 60:
        assert shown == repr(text)
    else:
        assert shown == repr(text[:57] + "...")
