"""Facts: the values of a request that nothing is known about, and the client's storlet request."""

from __future__ import annotations

import dataclasses

import pytest

from rules.conditions import TABLE, Group, Kind
from rules.facts import RUN_HEADER, UNKNOWN, Caller, Facts

REQUEST = Facts("GET", "c", "o")


def test_facts_that_cost_a_request_to_swift_start_as_unknown() -> None:
    keys = {row.name: "k" if row.kind is Kind.STRINGS else "" for row in TABLE.values()}
    unknown = {row.name for row in TABLE.values() if row.read(REQUEST, keys[row.name]) is UNKNOWN}
    assert unknown == {row.name for row in TABLE.values() if row.group is not Group.REQUEST}


@pytest.mark.parametrize(
    ("headers", "is_requested"),
    [({}, False), ({RUN_HEADER: "s.py"}, True), ({RUN_HEADER: ""}, True), ({"x-run": "s"}, False)],
)
def test_a_client_requests_a_storlet_by_the_header_even_if_it_is_empty(
    headers: dict[str, str], is_requested: bool
) -> None:
    assert Facts("GET", headers=headers).requests_storlet is is_requested


def test_requests_do_not_share_their_maps() -> None:
    assert Facts("GET").headers is not Facts("GET").headers
    assert Facts("GET").query is not Facts("GET").query


def test_facts_are_values() -> None:
    assert Facts("GET", caller=Caller("a")) == Facts("GET", caller=Caller("a"))
    assert Facts("GET", caller=Caller("a")) != Facts("GET", caller=Caller("b"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        REQUEST.method = "PUT"  # type: ignore[misc]
