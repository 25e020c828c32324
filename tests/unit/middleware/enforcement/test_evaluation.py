"""The decisions about one operation: what is looked up, and what precedes them."""

from __future__ import annotations

import pytest
from swift.common.swob import Response

from storlet_middleware import names
from tests.unit.middleware.ruled_proxy import CONTENT, OBJECT, Ruled, assert_closed, rule


@pytest.mark.parametrize(
    "when",
    [
        "method: GET, container: elsewhere",
        "method: GET, object: none",
        "method: PUT, content-type: text/csv",
        "method: GET, user: stranger",
        "method: GET, header: {x-a: b}, metadata: {study: '7'}",
        "method: GET, container: elsewhere, size: {at-least: 1}",
    ],
)
def test_a_decision_by_the_request_alone_needs_no_lookup(ruled: Ruled, when: str) -> None:
    ruled.rule(rule("hide", when, "deny: it is closed"))
    assert ruled.get().data == CONTENT
    assert ruled.seen() == ["GET c/o"]


@pytest.mark.parametrize(
    "facts", ["metadata: {study: '8'}", "content-type: image/png", "size: {at-least: 1M}"]
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_object_is_looked_up_once_for_all_rules(ruled: Ruled, facts: str, method: str) -> None:
    rules = "".join(rule(f"r{number}", f"method: GET, object: {{glob: '*{'?' * (number % 2)}'}}, {facts}", "deny: closed")
                    for number in range(4))  # fmt: skip
    ruled.rule(rules)
    assert ruled.proxy.call(method, "c/o").status == 200
    assert sorted(ruled.seen()) == sorted(["HEAD c/o", f"{method} c/o"])


def test_a_refusal_needs_one_lookup_and_reads_no_bytes(ruled: Ruled) -> None:
    ruled.rule(
        rule(
            "hide",
            "method: GET, metadata: {study: '7'}, content-type: text/csv",
            "deny: it is closed",
        )
    )
    assert_closed(ruled.get())
    assert [one for one in ruled.seen() if one.endswith("c/o")] == ["HEAD c/o"]


def test_container_metadata_is_looked_up_without_the_object(ruled: Ruled) -> None:
    ruled.rule(
        rule("hide", "method: GET, container-metadata: {closed: 'yes'}", "deny: it is closed")
    )
    assert ruled.get().status == 200
    assert [one for one in ruled.seen() if one.startswith("HEAD c/")] == []


ABOUT_METADATA = rule("hide", "method: GET, metadata: {closed: 'yes'}", "deny: it is closed")


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_an_object_that_cannot_be_looked_up_is_refused(ruled: Ruled, status: int) -> None:
    ruled.rule(ABOUT_METADATA)
    ruled.swift.hooks["HEAD", OBJECT] = lambda request: Response(status=status, request=request)
    answer = ruled.get()
    assert answer.status == 503, answer.data
    assert b"secret" not in answer.data


def test_a_missing_object_gets_swifts_own_answer(ruled: Ruled) -> None:
    ruled.rule(ABOUT_METADATA)
    answer = ruled.get("c/none")
    assert (answer.status, answer.error) == (404, "")


def test_swifts_own_refusal_comes_first(ruled: Ruled) -> None:
    ruled.rule(rule("hide", "method: GET", "deny: it is closed"))
    for user, status in (("test:carl", 403), ("", 401)):
        answer = ruled.get(user=user)
        assert (answer.status, answer.headers.get(names.RULE)) == (status, None), answer.data
        assert b"hide" not in answer.data
        assert b"hide" not in ruled.get(user=user, headers={"Range": "bytes=0-3"}).data


# --- copies ---------------------------------------------------------------------------------------


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


def test_no_rule_applies_to_the_container_of_rules(ruled: Ruled) -> None:
    """Otherwise a rule could close the way to remove it."""
    ruled.rule(rule("hide", "method: GET", "deny: it is closed"))
    assert_closed(ruled.get())
    assert ruled.get("storlet_rules/rules.yaml").status == 200


def test_a_rule_about_a_version_looks_at_this_version(ruled: Ruled) -> None:
    ruled.rule(rule("hide", "method: GET, metadata: {study: '7'}", "deny: it is closed"))
    assert_closed(ruled.get("c/o?version-id=1.2"))
    queries = {seen.query for seen in ruled.swift.requests("HEAD", "c/o")}
    assert queries == {"version-id=1.2"}
