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
    assert answer_check.describes_others(headers) is describes


def test_an_answer_with_an_unknown_target_is_refused() -> None:
    operation = parse(Request.blank("/v1/AUTH_a/open/link?symlink=get").environ)
    assert operation is not None
    reads = CoveredReads(operation, lambda _: OnePathRule(), operation.subject, None)
    with pytest.raises(BackendFailed, match="the target of a link is unknown"):
        answer_check.require_uncovered(reads, [("X-Symlink-Target-Etag", ETAG)])


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
        answer_check.require_uncovered(reads, given, place)
    reads = CoveredReads(operation, lambda _: OnePathRule(), operation.subject, swift.app)
    answer_check.require_uncovered(reads, given, place)
