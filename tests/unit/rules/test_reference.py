"""The generated reference page: complete, valid reStructuredText, wrapped."""

from __future__ import annotations

import re

import docutils.core
import docutils.utils
import pytest

from rules import reference, template
from rules.conditions import TABLE, Kind
from rules.model import Operator

PAGE = reference.page()
FLAT = re.sub(r"\s+", " ", PAGE)


def section(title: str) -> str:
    """The text of one section, in one line."""
    _, _, rest = PAGE.partition(f"\n{title}\n{'-' * len(title)}\n")
    return re.sub(r"\s+", " ", re.split(r"\n\S[^\n]*\n-{3,}\n", rest)[0])


@pytest.mark.parametrize("name", TABLE)
def test_every_fact_has_a_row_with_its_help_and_choices(name: str) -> None:
    facts = section("Facts")
    assert f"* - ``{name}`` - " in facts
    assert TABLE[name].help in facts
    assert all(choice in facts for choice in TABLE[name].choices)


def test_the_optional_facts_are_listed_as_possibly_missing() -> None:
    listed = set(re.findall(r"\* ``([a-z-]+)``", section("Missing values")))
    assert listed == {name for name, fact in TABLE.items() if fact.is_optional}


def test_every_operator_that_authors_write_has_a_row() -> None:
    kinds = (Kind.STRING, Kind.STRINGS, Kind.NUMBER, Kind.SET)
    written = {
        operator
        for fact in TABLE.values()
        if fact.kind in kinds
        for operator in fact.operators
        if operator is not Operator.HAS  # written as a list
    }
    comparisons = section("Comparisons")
    assert [each for each in written if f"* - ``{each.value}`` - " not in comparisons] == []


def test_every_name_of_a_template_is_listed() -> None:
    assert [name for name in template.NAMES if f"``{{{name}}}``" not in FLAT] == []


def test_the_page_is_wrapped_and_states_its_source() -> None:
    lines = PAGE.splitlines()
    assert "python3 -m rules.reference" in lines[0]
    assert max(map(len, lines)) <= 110
    assert [line for line in lines if line != line.rstrip()] == []


def test_the_page_is_valid_restructured_text() -> None:
    plain = re.sub(r":doc:`[^`]*`", "another page", PAGE)
    tree = docutils.core.publish_doctree(plain, settings_overrides={"report_level": 5})
    assert [str(each) for each in tree.findall(docutils.nodes.system_message)] == []
