"""No header of an answer has facts of covered objects; with Swift's own middlewares."""

from __future__ import annotations

import hashlib

import pytest
from swift.common.swob import Request

from storlet_middleware.enforcement import answer_check
from storlet_middleware.enforcement.covered_reads import CoveredReads
from storlet_middleware.errors import BackendFailed, RuleRefused
from storlet_middleware.wsgi.operation import parse
from tests.unit.middleware.rules_pipeline import (
    COVERED,
    ETAG,
    OnePathRule,
    Pipeline,
    assert_refused,
)


@pytest.mark.parametrize(
    ("headers", "describes"),
    [
        ([], False),
        ([("Content-Length", "3"), ("Etag", ETAG)], False),
        ([("X-Symlink-Target", "c/o")], False),
        ([("X-Symlink-Target-Etag", ETAG)], True),
        ([("X-Static-Large-Object", "True")], True),
        ([("X-Object-Manifest", "c/o")], True),
        ([("Location", "/v1/a/c/o")], True),
    ],
)
def test_answers_that_describe_other_objects(
    headers: list[tuple[str, str]], describes: bool
) -> None:
    assert answer_check.describes_others("200 OK", headers) is describes


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        ("200 OK", [("X-Symlink-Target-Etag", ETAG)]),
        ("409 Conflict", [("Content-Location", "nowhere")]),
    ],
)
def test_an_answer_with_an_unknown_target_is_refused(
    status: str, headers: list[tuple[str, str]]
) -> None:
    operation = parse(Request.blank("/v1/AUTH_a/open/link?symlink=get").environ)
    assert operation is not None
    reads = CoveredReads(operation, lambda _: OnePathRule(), operation.subject, None)
    assert answer_check.describes_others(status, headers)
    with pytest.raises(BackendFailed, match="the target of a link is unknown"):
        answer_check.require_uncovered(reads, status, headers)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_static_link_does_not_reveal_the_etag_of_its_target(swift: Pipeline, method: str) -> None:
    swift.request(
        "PUT", "open/link", {"X-Symlink-Target": "closed/o", "X-Symlink-Target-Etag": ETAG}
    )
    shown = swift.guarded(OnePathRule(), method, "open/link?symlink=get")
    assert dict(shown.headers)["X-Symlink-Target-Etag"] == ETAG
    assert_refused(swift.guarded(OnePathRule(COVERED), method, "open/link?symlink=get"))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_static_link_does_not_reveal_the_etag_of_a_replaced_target(
    swift: Pipeline, method: str
) -> None:
    """The link describes an object that may have been covered."""
    etag = hashlib.md5(b"public", usedforsecurity=False).hexdigest()
    headers = {"X-Symlink-Target": "open/o", "X-Symlink-Target-Etag": etag}
    swift.request("PUT", "open/link", headers)
    path_rules = OnePathRule("AUTH_a/other/o")
    assert swift.guarded(path_rules, method, "open/link?symlink=get").status == 200
    swift.request("PUT", "open/o", body=b"others")
    assert_refused(swift.guarded(path_rules, method, "open/link?symlink=get"))
    assert swift.guarded(OnePathRule(), method, "open/link?symlink=get").status == 200


def stale_link(swift: Pipeline) -> None:
    """A static link to a link whose target was covered, and that is another object now."""
    for name, target in (("first", "closed/o"), ("link", "open/first")):
        headers = {"X-Symlink-Target": target, "X-Symlink-Target-Etag": ETAG}
        assert swift.request("PUT", f"open/{name}", headers).status_int == 201
    swift.request("PUT", "open/first", body=b"others")


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "open/link", {}),
        ("HEAD", "open/link", {}),
        ("COPY", "open/link", {"Destination": "open/new"}),
        ("PUT", "open/new", {"X-Symlink-Target": "open/link", "X-Symlink-Target-Etag": ETAG}),
        ("PUT", "open/new", {"X-Symlink-Target": "open/link", "X-Symlink-Target-Etag": "0" * 32}),
    ],
)
def test_the_conflict_of_a_static_link_does_not_reveal_the_etag_of_a_replaced_target(
    swift: Pipeline, method: str, path: str, headers: dict[str, str]
) -> None:
    stale_link(swift)
    answer = swift.guarded(OnePathRule(), method, path, headers)
    assert answer.status == 409
    assert (ETAG.encode() in answer.body) is (method != "HEAD" and "0" * 32 not in str(headers))
    assert_refused(swift.guarded(OnePathRule(COVERED), method, path, headers))


def test_a_static_link_with_another_etag_than_its_target_is_a_conflict(swift: Pipeline) -> None:
    """The answer has no ETag of a former object."""
    for account in ({}, {"X-Symlink-Target-Account": "AUTH_a"}):
        headers = {"X-Symlink-Target": "open/o", "X-Symlink-Target-Etag": "0" * 32, **account}
        answer = swift.guarded(OnePathRule(COVERED), "PUT", "open/new", headers)
        assert (answer.status, answer.is_refused) == (409, False)


def test_other_conflicts_are_not_refused(swift: Pipeline) -> None:
    headers = {"X-Timestamp": "1000000000.00000"}
    answer = swift.guarded(OnePathRule(COVERED), "PUT", "open/o", headers, body=b"old")
    assert not answer.is_refused


def test_post_to_a_static_link_does_not_reveal_the_etag_of_a_replaced_target(
    swift: Pipeline,
) -> None:
    etag = hashlib.md5(b"public", usedforsecurity=False).hexdigest()
    swift.request("PUT", "open/link", {"X-Symlink-Target": "open/o", "X-Symlink-Target-Etag": etag})
    path_rules = OnePathRule("AUTH_a/other/o")
    assert swift.guarded(path_rules, "POST", "open/link").status == 307
    swift.request("PUT", "open/o", body=b"others")
    assert_refused(swift.guarded(path_rules, "POST", "open/link"))
    assert swift.guarded(OnePathRule(), "POST", "open/link").status == 307


def test_chain_of_static_links_does_not_reveal_the_etag_of_its_end(swift: Pipeline) -> None:
    swift.request(
        "PUT", "open/first", {"X-Symlink-Target": "closed/o", "X-Symlink-Target-Etag": ETAG}
    )
    swift.request(
        "PUT", "open/link", {"X-Symlink-Target": "open/first", "X-Symlink-Target-Etag": ETAG}
    )
    assert_refused(swift.guarded(OnePathRule(COVERED), "GET", "open/link?symlink=get"))


def test_post_to_a_static_link_does_not_reveal_the_etag_of_its_target(swift: Pipeline) -> None:
    swift.request(
        "PUT", "open/link", {"X-Symlink-Target": "closed/o", "X-Symlink-Target-Etag": ETAG}
    )
    answer = swift.guarded(OnePathRule(), "POST", "open/link")
    assert (answer.status, dict(answer.headers)["X-Symlink-Target-Etag"]) == (307, ETAG)
    assert_refused(swift.guarded(OnePathRule(COVERED), "POST", "open/link"))


def test_post_to_a_covered_link_does_not_name_its_target(swift: Pipeline) -> None:
    for container in ("open", "closed"):
        swift.request("PUT", f"{container}/link", {"X-Symlink-Target": "open/o"})
    path_rules, metadata = OnePathRule("AUTH_a/closed/*"), {"X-Object-Meta-A": "b"}
    assert_refused(swift.guarded(path_rules, "POST", "closed/link", metadata))
    answer = swift.guarded(path_rules, "POST", "open/link", metadata)
    assert (answer.status, dict(answer.headers)["Location"]) == (307, "/v1/AUTH_a/open/o")


def test_a_further_input_is_no_large_object_over_covered_parts(swift: Pipeline) -> None:
    """A storlet would learn its length, and the record of the run its ETag."""
    swift.slo("open/large", "open/o", "closed/o")
    operation = parse(Request.blank("/v1/AUTH_a/open/o").environ)
    assert operation is not None
    given = swift.request("HEAD", "open/large").headers.items()
    place = operation.subject.sibling("open", "large")
    reads = CoveredReads(operation, lambda _: OnePathRule(COVERED), operation.subject, swift.app)
    with pytest.raises(RuleRefused):
        answer_check.require_uncovered(reads, "200 OK", given, place)
    reads = CoveredReads(operation, lambda _: OnePathRule(), operation.subject, swift.app)
    answer_check.require_uncovered(reads, "200 OK", given, place)
