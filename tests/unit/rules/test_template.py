"""Templates in parameters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules import template
from rules.conditions import Group
from rules.facts import Caller, Facts, ObjectFacts
from rules.model import Template

REQUEST = Facts(
    "GET",
    "photos",
    "a/b.jpg",
    Caller(user="ann", project="p1"),
    stored=ObjectFacts(exists=True, metadata={"x-width": "9"}),
)


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("plain", "plain"),
        ("", ""),
        ("thumb-{object}", "thumb-a/b.jpg"),
        ("{user}@{project} {method}s {container}", "ann@p1 GETs photos"),
        ("{{{user}}}", "{ann}"),
        ("{{user}}", "{user}"),
        ("{ user }", "ann"),
        ("{metadata.X-Width}px", "9px"),
    ],
)
def test_a_template_is_filled(text: str, rendered: str) -> None:
    assert template.render(template.parse(text), REQUEST) == rendered


@pytest.mark.parametrize(
    "text",
    ["{", "}", "a}b", "{user", "{unknown}", "{}", "{metadata.}", "{user{object}}", "{header.x}"],
)
def test_an_invalid_template_is_refused(text: str) -> None:
    with pytest.raises(template.TemplateError):
        template.parse(text)


@pytest.mark.parametrize("name", ["user", "object", "metadata.absent"])
def test_a_missing_value_is_no_empty_string(name: str) -> None:
    with pytest.raises(template.MissingValue) as caught:
        template.render(template.parse(f"x{{{name}}}"), Facts("GET", "c", stored=ObjectFacts()))
    assert caught.value.name == name


def test_a_value_that_was_not_looked_up_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="looked up"):
        template.render(template.parse("{metadata.x}"), Facts("GET", "c", "o"))


def test_a_template_names_its_facts() -> None:
    assert template.groups(template.parse("{metadata.a} {user}")) == {Group.STORED, Group.REQUEST}
    assert template.groups(template.parse("plain")) == set()
    assert template.parse("a{object}b") == Template(("a", "object", "b"))


@given(st.lists(st.sampled_from(["{{", "}}", "{object}", "{metadata.k}", "a", " "])).map("".join))
def test_a_described_template_is_the_template(text: str) -> None:
    parsed = template.parse(text)
    assert template.parse(template.describe(parsed)) == parsed
