"""The rules of ``make bench ROWS=rules`` behave as the titles of its figures state."""

from __future__ import annotations

import dataclasses

import pytest

from rules.engine import Decision, Needs
from rules.facts import Caller, Facts, ObjectFacts
from tests.bench.rows.rules import _CASES, _COUNTS, _LOOKS, _MATCHES, _NEVER, _compiled, text

FACTS = Facts(
    method="GET",
    container="bench",
    object="small",
    caller=Caller(
        user="admin:admin", project="admin", roles=frozenset({"admin", ".reseller_admin"})
    ),
    headers={"x-auth-token": "t"},
)


@pytest.mark.parametrize("count", _COUNTS)
def test_only_the_last_rule_matches_and_each_before_it_is_evaluated(count: int) -> None:
    compiled = _compiled(text(count, _MATCHES))
    assert compiled.decide(FACTS) == Decision(compiled.rules.rules[-1])
    assert len(compiled.explain(FACTS).considered) == count


def test_no_rule_matches_where_none_should() -> None:
    assert _compiled(text(100, _NEVER)).decide(FACTS) == Decision(None)


def test_the_object_is_read_only_where_it_should_be() -> None:
    compiled = _compiled(text(1, _LOOKS))
    assert isinstance(compiled.decide(FACTS), Needs)
    known = dataclasses.replace(
        FACTS, stored=ObjectFacts(exists=True, content_type="application/octet-stream")
    )
    assert compiled.decide(known) == Decision(compiled.rules.rules[-1])


def test_every_figure_has_a_name_of_its_own() -> None:
    assert len({case.key for case in _CASES}) == len(_CASES) == len(_COUNTS) + 3
