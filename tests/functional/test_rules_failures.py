"""If the storlet of a mandatory rule fails or cannot run, no part of the object leaves; if it can
run elsewhere, it does."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import pytest

from tests.functional.wards import (
    CONTENT,
    ETAG,
    MASKED,
    RULES,
    Ward,
    assert_closed,
    assert_masked,
    assert_reveals_nothing,
    make_ward,
)
from tests.support.accounts import users_of
from tests.support.cluster import Cluster
from tests.support.http import Answer, Client

POLICIES = ("", "ec21")

#: Requests for an object's bytes that begin with a storlet.
READS: dict[str, Callable[[Client], Answer]] = {
    "get": lambda c: c.get("patients/a.csv"),
    "copy": lambda c: c.request("COPY", "patients/a.csv", {"Destination": "open/loot"}),
    "copy from": lambda c: c.put("open/loot", b"", {"X-Copy-From": "/patients/a.csv"}),
}


def assert_nothing_leaves(ward: Ward, status: int, error: str = "") -> None:
    """Each of :data:`READS` fails with the rule's name, and HEAD and listings reveal nothing
    more."""
    for way, read in READS.items():
        answer = read(ward.researcher)
        assert (answer.status, answer.headers["X-Storlet-Rule"]) == (status, "hide"), (way, answer)
        assert not error or answer.error == error, (way, answer)
        assert_reveals_nothing(answer)
        assert ward.admin.head("open/loot").status == 404, way
    assert_closed(ward.researcher.get("patients/a.csv", {"Range": "bytes=0-9"}))
    assert_closed(ward.researcher.get("patients/a.csv", {"X-Run-Storlet": "mark.py"}))
    assert_reveals_nothing(ward.researcher.head("patients/a.csv"))
    (entry,) = ward.researcher.listing("patients")
    assert (entry["hash"], entry["bytes"]) == ("", 0)
    assert ward.physician.get("patients/a.csv").body == CONTENT


@pytest.fixture(scope="module")
def ward(users: dict[str, Client]) -> Ward:
    return make_ward(users)


# --- nodes and sandboxes --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wards_there(other_cluster: Cluster) -> dict[str, Ward]:
    """By storage policy, on a cluster whose options and processes a test may change; its data are
    encrypted."""
    made = {policy: make_ward(users_of(other_cluster.description), policy) for policy in POLICIES}
    for each in made.values():
        each.rule(RULES)
    return made


@pytest.fixture(scope="module")
def bare_nodes(other_cluster: Cluster, wards_there: dict[str, Ward]) -> Iterator[None]:
    """Object servers without the storlets filter."""
    plain = {"pipeline": "healthcheck recon object-server"}
    with other_cluster.configured(
        {f"object-server-{number}.conf:pipeline:main": plain for number in (1, 2)}
    ):
        yield


@pytest.mark.parametrize("policy", POLICIES)
def test_a_rule_runs_at_the_proxy_if_object_servers_lack_the_filter(
    wards_there: dict[str, Ward], bare_nodes: None, policy: str
) -> None:
    ward = wards_there[policy]
    assert_masked(ward.researcher.get("patients/a.csv"))
    assert (
        ward.researcher.request("COPY", "patients/a.csv", {"Destination": "open/copy"}).status
        == 201
    )
    assert ward.admin.get("open/copy").body == MASKED
    assert_closed(ward.researcher.get("patients/a.csv", {"Range": "bytes=0-9"}))
    assert ward.researcher.head("patients/a.csv").headers["Etag"] is None


def test_a_rule_that_requires_the_object_node_fails_on_nodes_without_the_filter(
    wards_there: dict[str, Ward], bare_nodes: None
) -> None:
    ward = wards_there[""]
    ward.rule(RULES.replace("run: mask.py", "run: {storlet: mask.py, on: object}"))
    try:
        assert_masked(ward.researcher.get("patients/a.csv"))
    finally:
        ward.rule(RULES)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_rule_hides_encrypted_objects(wards_there: dict[str, Ward], policy: str) -> None:
    ward = wards_there[policy]
    assert_masked(ward.researcher.get("patients/a.csv"))
    assert_reveals_nothing(ward.researcher.head("patients/a.csv"))


def test_nothing_leaves_if_the_sandbox_image_is_missing(
    other_cluster: Cluster, wards_there: dict[str, Ward]
) -> None:
    sections = {
        f"storlet.conf:image:{each.admin.account}": {"image": "none/such:1"}
        for each in wards_there.values()
    }
    with other_cluster.configured(sections):
        for each in wards_there.values():
            assert_nothing_leaves(each, 503)


def test_nothing_leaves_without_sandboxd(
    other_cluster: Cluster, wards_there: dict[str, Ward]
) -> None:
    other_cluster.stop("sandboxd")
    try:
        for each in wards_there.values():
            assert_nothing_leaves(each, 503)
    finally:
        other_cluster.start("sandboxd")
    assert_masked(wards_there[""].researcher.get("patients/a.csv"))


# --- accounts and storlets ------------------------------------------------------------------------


def test_nothing_leaves_if_the_account_disables_storlets(ward: Ward) -> None:
    ward.rule(RULES)
    assert ward.admin.post("", {"X-Account-Meta-Storlet-Enabled": "False"}).status == 204
    try:
        assert_nothing_leaves(ward, 403, "access.rule")
    finally:
        assert ward.admin.post("", {"X-Account-Meta-Storlet-Enabled": "True"}).status == 204
    assert_masked(ward.researcher.get("patients/a.csv"))


def test_nothing_leaves_if_the_caller_may_not_run_the_storlet(ward: Ward) -> None:
    ward.rule(RULES)
    acl = ward.admin.head("storlet").headers["X-Container-Read"]
    assert ward.admin.post("storlet", {"X-Container-Read": "test:tester"}).status == 204
    try:
        assert_nothing_leaves(ward, 403, "access.rule")
    finally:
        assert ward.admin.post("storlet", {"X-Container-Read": acl}).status == 204


def test_the_error_of_a_failed_storlet_quotes_no_input(ward: Ward) -> None:
    ward.rule(RULES.replace("mask.py", "fail.py"))
    assert_nothing_leaves(ward, 422)


def test_nothing_leaves_if_the_storlet_fails_in_the_body(ward: Ward) -> None:
    ward.rule(RULES.replace("run: mask.py", 'run: {storlet: fail.py, parameters: {late: "1"}}'))
    answer = ward.researcher.get("patients/a.csv")
    assert answer.status >= 400 or answer.is_broken, answer
    assert_reveals_nothing(answer)
    copied = ward.researcher.request("COPY", "patients/a.csv", {"Destination": "open/loot"})
    assert copied.status >= 400, copied
    assert_reveals_nothing(copied)
    assert ward.admin.head("open/loot").status == 404


def test_output_beyond_the_limit_of_a_rule_fails(ward: Ward) -> None:
    ward.rule(RULES.replace("run: mask.py", "run: {storlet: mask.py, limits: {output: 1K}}"))
    answer = ward.researcher.get("patients/a.csv")
    assert answer.status >= 400 or answer.is_broken, answer
    assert_reveals_nothing(answer)


def test_a_pipeline_with_a_failing_storlet_fails(ward: Ward) -> None:
    ward.rule(RULES.replace("mask.py", "[mask.py, fail.py]"), accept=True)
    answer = ward.researcher.get("patients/a.csv")
    assert (answer.status, answer.headers["X-Storlet-Rule"]) == (422, "hide"), answer
    assert "step 2" in answer.text
    assert "name:" not in answer.text
    assert_reveals_nothing(answer)


def test_uploads_whose_storlet_fails_are_not_stored(ward: Ward) -> None:
    rule = "version: 1\nrules:\n- {name: scrub, when: {method: PUT, container: open}, mandatory: true, run: fail.py}\n"
    ward.rule(rule)
    answer = ward.researcher.put("open/upload", CONTENT)
    assert (answer.status, answer.headers["X-Storlet-Rule"]) == (422, "scrub"), answer
    assert ward.admin.head("open/upload").status == 404


# --- erasure coding -------------------------------------------------------------------------------


def test_a_rule_hides_erasure_coded_objects_of_many_segments(users: dict[str, Client]) -> None:
    ward = make_ward(users, "ec21")
    ward.rule(RULES)
    content = CONTENT * 600
    assert ward.admin.put("patients/large", content).status == 201
    answer = ward.researcher.get("patients/large")
    assert (answer.status, answer.is_broken, answer.body) == (200, False, MASKED * 600)
    etag = hashlib.md5(content, usedforsecurity=False).hexdigest()
    for reply in (
        ward.researcher.head("patients/large"),
        ward.researcher.get("patients", query={"format": "json"}),
        ward.researcher.get("patients/large", {"Range": f"bytes=0-{1 << 20}"}),
        ward.researcher.get("patients/large", {"If-None-Match": etag}),
    ):
        assert etag not in f"{reply.headers}{reply.text}"
        assert str(len(content)) not in f"{reply.headers}{reply.text}"
        assert ETAG not in reply.text
