"""Static large objects: all parts are checked before the answer starts."""

from __future__ import annotations

import pytest
from swift.common.swob import Request, Response

from storlet_middleware.enforcement import segments
from storlet_middleware.errors import BackendFailed
from storlet_middleware.wsgi.swift_paths import SwiftPath
from tests.unit.middleware.rules_pipeline import (
    COVERED,
    OnePathRule,
    Pipeline,
    assert_refused,
    assert_served,
)
from tests.unit.middleware.support import FakeSwift


def make_slo(swift: Pipeline) -> None:
    swift.slo("open/slo", "open/o", "closed/o")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "query",
    [
        "",
        "?multipart-manifest=get",
        "?multipart-manifest=get&format=raw",
        "?part-number=1",
        "?part-number=2",
    ],
)
def test_large_object_with_a_covered_segment_is_refused_before_the_first_byte(
    swift: Pipeline, method: str, query: str
) -> None:
    make_slo(swift)
    if "raw" in query and method == "HEAD":
        return  # Swift answers this combination with 500
    assert_served(swift.guarded(OnePathRule(), method, f"open/slo{query}"))
    assert_refused(swift.guarded(OnePathRule(COVERED), method, f"open/slo{query}"))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Range": "bytes=0-1"},
        {"Range": "bytes=90-"},
        {"If-Match": "x"},
        {"If-None-Match": '"ETAG"'},
    ],
)
def test_ranges_and_conditions_reveal_nothing_of_a_large_object(
    swift: Pipeline, method: str, headers: dict[str, str]
) -> None:
    make_slo(swift)
    etag = dict(swift.guarded(OnePathRule(), "HEAD", "open/slo").headers)["Etag"].strip('"')
    headers = {key: value.replace("ETAG", etag) for key, value in headers.items()}
    assert_refused(swift.guarded(OnePathRule(COVERED), method, "open/slo", headers))


def test_large_object_needs_one_check_for_a_caller_covered_by_no_rule(
    swift: Pipeline,
) -> None:
    swift.slo("open/slo", "open/o", "open/o")
    path_rules = OnePathRule()
    assert_served(swift.guarded(path_rules, "HEAD", "open/slo"))
    assert path_rules.checked == ["AUTH_a/*/*"]
    assert [path for method, path, source in swift.store.done if source == "ST"] == []


def test_container_without_covered_objects_is_checked_once(swift: Pipeline) -> None:
    swift.request("PUT", "open/p", body=b"more")
    swift.slo("open/slo", "open/o", "open/p", "open/o")
    path_rules = OnePathRule(COVERED)
    assert_served(swift.guarded(path_rules, "HEAD", "open/slo"))
    assert path_rules.checked == ["AUTH_a/*/*", "AUTH_a/open/*"]


def test_nested_manifests_are_checked(swift: Pipeline) -> None:
    make_slo(swift)
    swift.slo("open/middle", "open/slo", "open/o")
    swift.slo("open/outer", "open/o", "open/middle")
    assert_served(swift.guarded(OnePathRule(), "GET", "open/outer"), b"publicpublicsecretpublic")
    for method in ("GET", "HEAD"):
        assert_refused(swift.guarded(OnePathRule(COVERED), method, "open/outer"))


def test_covered_nested_manifest_is_refused(swift: Pipeline) -> None:
    swift.slo("closed/slo", "open/o")
    swift.slo("open/outer", "open/o", "closed/slo")
    assert_refused(swift.guarded(OnePathRule("AUTH_a/closed/slo"), "HEAD", "open/outer"))
    assert_refused(swift.guarded(OnePathRule("AUTH_a/closed/slo"), "GET", "open/outer"))


def test_nested_manifest_that_was_replaced_or_deleted_is_refused(swift: Pipeline) -> None:
    swift.slo("open/inner", "open/o")
    swift.slo("open/outer", "open/inner")
    swift.request("DELETE", "open/inner")
    assert_refused(swift.guarded(OnePathRule(COVERED), "HEAD", "open/outer"))
    swift.request("PUT", "open/inner", body=b"plain")
    assert_refused(swift.guarded(OnePathRule(COVERED), "HEAD", "open/outer"))


def test_manifests_above_the_limits_are_refused(
    swift: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    swift.slo("open/inner", "open/o")
    swift.slo("open/outer", "open/inner")
    assert_served(swift.guarded(OnePathRule(COVERED), "HEAD", "open/outer"))
    monkeypatch.setattr(segments, "_MAX_MANIFESTS", 1)
    assert_refused(swift.guarded(OnePathRule(COVERED), "HEAD", "open/outer"))
    monkeypatch.setattr(segments, "_MAX_MANIFEST_BYTES", 10)
    answer = swift.guarded(OnePathRule(COVERED), "HEAD", "open/outer")
    assert answer.refusal is not None
    assert answer.refusal.code == "backend.failed"


def test_manifest_replaced_during_the_check_fails_the_request(swift: Pipeline) -> None:
    make_slo(swift)

    class Replacing(OnePathRule):
        def may_cover(self, account: str, container: str | None, name: str | None) -> str | None:
            if container is None:
                swift.slo("open/slo", "open/o")
            return super().may_cover(account, container, name)

    answer = swift.guarded(Replacing(COVERED), "HEAD", "open/slo")
    assert answer.refusal is not None
    assert (answer.refusal.code, answer.refusal.retry_after) == ("backend.failed", 1)


@pytest.mark.parametrize("has_link", [False, True])
def test_segment_that_was_replaced_or_deleted_is_refused(swift: Pipeline, has_link: bool) -> None:
    """The manifest still describes the object that it was made of, which may have been covered."""
    part = "open/link" if has_link else "open/part"
    if has_link:
        swift.request("PUT", part, {"X-Symlink-Target": "closed/o"})
    else:
        swift.request("PUT", part, body=b"secret")
    swift.slo("open/slo", part, "open/o")
    path_rules = OnePathRule("AUTH_a/other/o")
    assert_served(swift.guarded(path_rules, "HEAD", "open/slo"))
    for change in ("link", "plain", "none"):
        if change == "link":
            swift.request("PUT", part, {"X-Symlink-Target": "open/o"})
        elif change == "plain":
            swift.request("PUT", part, body=b"others")
        else:
            swift.request("DELETE", part)
        assert_refused(swift.guarded(path_rules, "HEAD", "open/slo"))
        assert_served(swift.guarded(OnePathRule(), "HEAD", "open/slo"))


def test_parts_that_are_as_listed_cost_no_request_each(swift: Pipeline) -> None:
    for number in range(5):
        swift.request("PUT", f"open/part{number}", body=f"part {number}".encode())
    swift.slo("open/slo", *(f"open/part{number}" for number in range(5)))
    swift.store.done.clear()
    assert_served(swift.guarded(OnePathRule("AUTH_a/other/o"), "HEAD", "open/slo"))
    assert [(method, path) for method, path, source in swift.store.done if source == "ST"] == [
        ("GET", "/v1/AUTH_a/open/slo"),
        ("GET", "/v1/AUTH_a/open"),
    ]


def test_segment_that_links_to_a_covered_object_is_refused(swift: Pipeline) -> None:
    swift.request("PUT", "open/link", {"X-Symlink-Target": "closed/o"})
    swift.slo("open/slo", "open/link")
    assert_refused(swift.guarded(OnePathRule(COVERED), "GET", "open/slo"))


def test_segments_behind_a_link_to_a_large_object_are_checked(swift: Pipeline) -> None:
    make_slo(swift)
    swift.request("PUT", "open/link", {"X-Symlink-Target": "open/slo"})
    assert_refused(swift.guarded(OnePathRule(COVERED), "HEAD", "open/link"))


@pytest.mark.parametrize(
    ("location", "is_known"),
    [(None, True), ("/v1/AUTH_a/c/x", True), ("/v1/AUTH_b/c/x", False), ("nowhere", False)],
)
def test_the_content_of_another_account_is_unknown(location: str | None, is_known: bool) -> None:
    store, read = FakeSwift(), SwiftPath("v1", "AUTH_a", "c", "o")
    headers = {"Etag": "e", **({"Content-Location": location} if location else {})}
    store.hooks["HEAD", "/v1/AUTH_a/c/o"] = lambda request: Response(
        request=request, headers=headers
    )
    found = segments.look_up(store, Request.blank(read.path).environ, read)
    assert (found.content is not None) is is_known
    assert (found.end is not None) is (location is not None)


def test_segments_that_cannot_be_listed_are_not_taken_for_uncovered_ones() -> None:
    """Swift's own listing for the same request may succeed a moment later."""
    store, status = FakeSwift(), 503
    store.hooks["GET", "/v1/AUTH_a/open"] = lambda request: Response(status=status, request=request)
    checked = segments.Manifests(store, {}, OnePathRule(COVERED))
    container = SwiftPath("v1", "AUTH_a", "open", None)
    with pytest.raises(BackendFailed, match="cannot list the segments"):
        checked.covering_rule_of_listed(container, "")
    status = 404
    assert checked.covering_rule_of_listed(container, "") is None
