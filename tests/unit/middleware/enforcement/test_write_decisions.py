"""Decisions about copies, restored versions and expiries, by the facts of what is stored."""

from __future__ import annotations

import pytest

from tests.unit.middleware.ruled_proxy import Ruled, assert_closed, rule


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("COPY", "c/o", {"Destination": "c/x"}),
        ("PUT", "c/x", {"X-Copy-From": "c/o", "Content-Length": "0"}),
    ],
)
@pytest.mark.parametrize(
    ("when", "is_closed"),
    [
        ("method: COPY, object: o", True),
        ("method: PUT, object: x", True),
        # The read is no plain GET, and the write no write of the source.
        ("method: COPY, object: x", False),
        ("method: PUT, object: o", False),
        # The target gets the metadata and the type of the source.
        ("method: PUT, object: x, metadata: {study: '7'}", True),
        ("method: PUT, object: x, content-type: text/csv", True),
        ("method: PUT, object: x, metadata: {study: '8'}", False),
    ],
)
def test_a_copy_is_decided_as_a_read_and_as_a_write(
    ruled: Ruled, method: str, path: str, headers: dict[str, str], when: str, is_closed: bool
) -> None:
    ruled.rule(rule("hide", when, "deny: it is closed"))
    answer = ruled.proxy.call(method, path, headers)
    if is_closed:
        assert_closed(answer)
        assert not ruled.swift.requests("COPY")
    else:
        assert answer.status // 100 == 2


def test_metadata_of_the_client_replaces_the_sources_in_the_decision(ruled: Ruled) -> None:
    ruled.rule(rule("hide", "method: PUT, metadata: {study: '7'}", "deny: it is closed"))
    headers = {"Destination": "c/x"}
    assert_closed(ruled.proxy.call("COPY", "c/o", headers))
    for more in ({"X-Object-Meta-Study": "8"}, {"X-Fresh-Metadata": "true"}):
        assert ruled.proxy.call("COPY", "c/o", headers | more).status == 204


@pytest.mark.parametrize(("study", "is_closed"), [("7", True), ("8", False)])
def test_an_expiry_is_decided_as_a_deletion_of_what_is_stored(
    ruled: Ruled, study: str, is_closed: bool
) -> None:
    ruled.rule(rule("keep", "method: DELETE, metadata: {study: '7'}", "deny: it is closed"))
    headers = {"X-Object-Meta-Study": study, "X-Delete-After": "60"}
    answer = ruled.proxy.call("PUT", "c/new", headers, body=b"x")
    if is_closed:
        assert_closed(answer, "keep")
    else:
        assert answer.status == 201
