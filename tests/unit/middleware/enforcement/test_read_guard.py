"""Tests of ``read_guard`` with Swift's own middlewares.

The reads that these make for a client's request must not reveal an object that a rule covers.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from swift.common.swob import Request, Response

from storlet_middleware.enforcement import read_guard, request_facts
from storlet_middleware.enforcement.link_ends import LinkEnd
from storlet_middleware.enforcement.segments import Found, send_preauthorised
from storlet_middleware.errors import RuleRefused, RulesUnavailable
from tests.unit.middleware.rules_pipeline import (
    COVERED,
    ETAG,
    SECRET,
    OnePathRule,
    Pipeline,
    allows_but,
    assert_refused,
    assert_served,
)

# --- plain requests -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_object_that_the_filter_decided_about_is_not_checked_again(
    swift: Pipeline, method: str
) -> None:
    path_rules = OnePathRule(COVERED)
    assert_served(swift.guarded(path_rules, method, "closed/o"))
    assert path_rules.checked == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST", "DELETE"])
def test_plain_request_needs_no_check(swift: Pipeline, method: str) -> None:
    path_rules = OnePathRule(COVERED)
    assert_served(swift.guarded(path_rules, method, "open/o"))
    assert path_rules.checked == []


def test_listing_for_the_client_needs_no_check(swift: Pipeline) -> None:
    path_rules = OnePathRule(COVERED)
    assert_served(swift.guarded(path_rules, "GET", "closed"))
    assert path_rules.checked == []


def test_refusal_of_swift_takes_precedence(swift: Pipeline) -> None:
    path_rules = OnePathRule(COVERED)
    swift.request("PUT", "open/link", {"X-Symlink-Target": "closed/o"})
    answer = swift.guarded(path_rules, "GET", "open/link", authorize=allows_but("closed"))
    assert (answer.status, answer.is_refused, path_rules.checked) == (403, False, [])


def test_rules_apply_without_an_auth_middleware(swift: Pipeline) -> None:
    swift.request("PUT", "open/link", {"X-Symlink-Target": "closed/o"})
    assert_refused(swift.guarded(OnePathRule(COVERED), "GET", "open/link", authorize=None))


def test_refusal_is_recorded_once_and_names_the_rule_in_headers(swift: Pipeline) -> None:
    swift.request("PUT", "open/link", {"X-Symlink-Target": "closed/o"})
    answer = swift.guarded(OnePathRule(COVERED), "GET", "open/link")
    (error,) = answer.guard.refused
    assert "would read or describe an object that the rule covers" in str(error)
    assert "closed/o" not in str(error)
    assert answer.status == 403
    assert dict(answer.headers)["X-Storlet-Rule"] == "hide"
    assert dict(answer.headers)["X-Storlet-Error"] == "access.rule"


def test_unavailable_rules_refuse_the_read(swift: Pipeline) -> None:
    swift.request("PUT", "open/link", {"X-Symlink-Target": "closed/o"})
    path_rules = OnePathRule()
    path_rules.error = RulesUnavailable("the rules cannot be read")
    answer = swift.guarded(path_rules, "GET", "open/link")
    assert (answer.status, answer.refusal, answer.guard.refused) == (
        503,
        path_rules.error,
        [path_rules.error],
    )
    assert dict(answer.headers)["Retry-After"] == "5"


def test_read_by_a_storlet_of_the_same_rule_is_allowed(swift: Pipeline) -> None:
    swift.request("PUT", "open/link", {"X-Symlink-Target": "closed/o"})
    assert_served(swift.guarded(OnePathRule(COVERED), "GET", "open/link", under="hide"), SECRET)
    assert_refused(
        swift.guarded(OnePathRule(COVERED, rule="other"), "GET", "open/link", under="hide"), "other"
    )


def test_storlet_with_the_objects_name_in_its_parameters_reads_no_target_of_a_link(
    swift: Pipeline,
) -> None:
    """The maker of the link would choose the parameters."""
    swift.request("PUT", "open/link", {"X-Symlink-Target": "closed/o"})
    for follows_links in (False, True):
        answer = swift.guarded(
            OnePathRule(COVERED), "GET", "open/link", under="hide", follows_links=follows_links
        )
        if follows_links:
            assert_served(answer, SECRET)
        else:
            assert_refused(answer)


def test_rule_of_the_same_name_in_another_account_still_refuses(swift: Pipeline) -> None:
    swift.request(
        "PUT", "open/link", {"X-Symlink-Target": "closed/o", "X-Symlink-Target-Account": "AUTH_b"}
    )
    assert_refused(swift.guarded(OnePathRule("AUTH_b/closed/o"), "GET", "open/link", under="hide"))


# --- links ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "headers", [{}, {"Range": "bytes=0-1"}, {"If-None-Match": ETAG}, {"If-Match": "other"}]
)
def test_link_to_a_covered_object_is_refused(
    swift: Pipeline, method: str, headers: dict[str, str]
) -> None:
    swift.request("PUT", "open/link", {"X-Symlink-Target": "closed/o"})
    assert_refused(swift.guarded(OnePathRule(COVERED), method, "open/link", headers))


def test_link_to_an_uncovered_object_is_followed(swift: Pipeline) -> None:
    path_rules = OnePathRule(COVERED)
    swift.request("PUT", "open/link", {"X-Symlink-Target": "open/o"})
    assert_served(swift.guarded(path_rules, "GET", "open/link"), b"public")
    assert path_rules.checked == ["AUTH_a/open/o", "AUTH_a/*/*"]


def test_link_to_a_link_to_a_covered_object_of_another_account_is_refused(swift: Pipeline) -> None:
    swift.request(
        "PUT", "open/first", {"X-Symlink-Target": "closed/o", "X-Symlink-Target-Account": "AUTH_b"}
    )
    swift.request("PUT", "open/link", {"X-Symlink-Target": "open/first"})
    path_rules = OnePathRule("AUTH_b/closed/o")
    assert_refused(swift.guarded(path_rules, "GET", "open/link"))
    assert path_rules.checked == ["AUTH_a/open/first", "AUTH_a/*/*", "AUTH_b/closed/o"]


def test_names_are_decoded_before_the_check(swift: Pipeline) -> None:
    swift.request("PUT", "/v1/AUTH_a/closed/%C3%A9%20%25", body=SECRET)
    swift.request("PUT", "open/link", {"X-Symlink-Target": "closed/%C3%A9%20%25"})
    assert_refused(swift.guarded(OnePathRule("AUTH_a/closed/é %"), "GET", "open/link"))


@pytest.mark.parametrize("etag", [ETAG, "0" * 32])
def test_static_link_to_a_covered_object_is_not_stored_and_reveals_no_etag(
    swift: Pipeline, etag: str
) -> None:
    headers = {"X-Symlink-Target": "closed/o", "X-Symlink-Target-Etag": etag}
    answer = swift.guarded(OnePathRule(COVERED), "PUT", "open/link", headers)
    assert_refused(answer)
    assert ETAG.encode() not in answer.body
    assert "link" not in swift.store.containers["AUTH_a/open"].objects


# --- static large objects -------------------------------------------------------------------------


@pytest.mark.parametrize("etag", [ETAG, "0" * 32])
def test_manifest_upload_does_not_reveal_the_etag_of_a_covered_object(
    swift: Pipeline, etag: str
) -> None:
    manifest = json.dumps([{"path": "/closed/o", "etag": etag}]).encode()
    answer = swift.guarded(
        OnePathRule(COVERED), "PUT", "open/slo?multipart-manifest=put", body=manifest
    )
    assert_refused(answer)
    assert b"Mismatch" not in answer.body


@pytest.mark.parametrize("headers", [{}, {"X-Copy-From": ""}])
def test_manifest_that_replaces_a_covered_object_does_not_reveal_its_etag(
    swift: Pipeline, headers: dict[str, str]
) -> None:
    """An upload gives no permission to read the object that it replaces."""
    swift.request("PUT", "open/link", {"X-Symlink-Target": "closed/o"})
    manifest = json.dumps([{"path": "/open/link", "etag": ETAG}]).encode()
    path = "closed/o?multipart-manifest=put"
    assert_refused(swift.guarded(OnePathRule(COVERED), "PUT", path, headers, body=manifest))


def test_manifest_upload_with_heartbeats_names_the_rule_in_the_body(swift: Pipeline) -> None:
    """Swift sends status 202 before it reads any segment."""
    manifest = json.dumps([{"path": "/closed/o"}]).encode()
    answer = swift.guarded(
        OnePathRule(COVERED), "PUT", "open/slo?multipart-manifest=put&heartbeat=on", body=manifest
    )
    assert answer.status == 202
    assert b"closed/o, 403 Forbidden (hide)" in answer.body
    assert "slo" not in swift.store.containers["AUTH_a/open"].objects


def test_large_object_can_be_deleted_with_its_segments(swift: Pipeline) -> None:
    swift.slo("open/slo", "open/o", "closed/o")
    path_rules = OnePathRule(COVERED, "AUTH_a/open/slo")
    answer = swift.guarded(path_rules, "DELETE", "open/slo?multipart-manifest=delete")
    assert_served(answer)
    assert swift.store.containers["AUTH_a/closed"].objects == {}


def test_segment_whose_deletion_is_denied_stays(swift: Pipeline) -> None:
    swift.slo("open/slo", "open/o", "closed/o")
    path_rules = OnePathRule()
    path_rules.denied = {("DELETE", COVERED)}
    answer = swift.guarded(path_rules, "DELETE", "open/slo?multipart-manifest=delete")
    assert_served(answer)
    assert b"403 Forbidden" in answer.body
    assert list(swift.store.containers["AUTH_a/closed"].objects) == ["o"]


@pytest.mark.parametrize("target", ["slo", "o"])
def test_deletion_through_a_link_does_not_show_whether_its_target_is_large(
    swift: Pipeline, target: str
) -> None:
    swift.slo("closed/slo", "closed/o")
    swift.request("PUT", "open/link", {"X-Symlink-Target": f"closed/{target}"})
    path_rules = OnePathRule("AUTH_a/closed/*")
    answer = swift.guarded(path_rules, "DELETE", "open/link?multipart-manifest=delete")
    assert b"/open/link, Unable to load SLO manifest" in answer.body
    assert b"Number Deleted: 0" in answer.body
    assert set(swift.store.containers["AUTH_a/closed"].objects) == {"o", "slo"}


# --- dynamic large objects ------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("headers", [{}, {"Range": "bytes=0-1"}])
def test_dynamic_large_object_of_a_container_with_covered_objects_is_refused(
    swift: Pipeline, method: str, headers: dict[str, str]
) -> None:
    swift.request("PUT", "open/dlo", {"X-Object-Manifest": "closed/o"})
    assert_served(swift.guarded(OnePathRule(), method, "open/dlo", headers))
    assert_refused(swift.guarded(OnePathRule(COVERED), method, "open/dlo", headers))


def test_dynamic_large_object_of_uncovered_objects_is_served(swift: Pipeline) -> None:
    swift.request("PUT", "open/seg-1", body=b"one")
    swift.request("PUT", "open/seg-2", body=b"two")
    swift.request("PUT", "open/dlo", {"X-Object-Manifest": "open/seg-"})
    path_rules = OnePathRule(COVERED)
    assert_served(swift.guarded(path_rules, "GET", "open/dlo"), b"onetwo")
    everything = "AUTH_a/*/*"
    assert path_rules.checked == [
        *("AUTH_a/open/*", everything),
        *("AUTH_a/open/seg-1", everything),
        *("AUTH_a/open/seg-2", everything),
    ]


def test_dynamic_large_object_of_possible_archived_versions_is_refused(swift: Pipeline) -> None:
    swift.request("PUT", "open/001o/1640995200.00000", body=SECRET)
    for prefix in ("0", "001o", "001o/1640995200.00000"):
        swift.request("PUT", "open/dlo", {"X-Object-Manifest": f"open/{prefix}"})
        assert_refused(swift.guarded(OnePathRule(COVERED), "HEAD", "open/dlo"))


def test_refusal_of_a_later_segment_breaks_the_body(swift: Pipeline) -> None:
    """A rule may depend on metadata, which a listing does not have."""
    swift.request("PUT", "open/seg-1", body=b"one")
    swift.request("PUT", "open/seg-2", body=SECRET)
    swift.request("PUT", "open/dlo", {"X-Object-Manifest": "open/seg-"})

    class OnlyObjects(OnePathRule):
        def may_cover(self, account: str, container: str | None, name: str | None) -> str | None:
            return None

    answer = swift.guarded(OnlyObjects("AUTH_a/open/seg-2"), "GET", "open/dlo")
    assert answer.body == b"one"
    assert isinstance(answer.broken, RuleRefused)


def test_unread_body_is_closed(swift: Pipeline) -> None:
    closed = []

    class Body:
        def __iter__(self) -> Any:
            return iter(())

        def close(self) -> None:
            closed.append(True)

    guard = swift.guarded(OnePathRule(), "GET", "open/o").guard
    body: Any = guard.break_if_refused([("X-Static-Large-Object", "True")], Body())
    body.close()
    assert closed == [True]


# --- copies ---------------------------------------------------------------------------------------


def copies(
    source: str, target: str, query: str = ""
) -> list[tuple[str, str, dict[str, str], tuple[str, str, str]]]:
    """Return both forms of a copy request, with the object that the filter decides about."""
    container, name = source.split("/", 1)
    decided = ("AUTH_a", container, name)
    return [
        ("COPY", f"{source}{query}", {"Destination": target}, decided),
        ("PUT", f"{target}{query}", {"X-Copy-From": source}, decided),
    ]


def test_copy_of_the_object_that_the_filter_decided_about_needs_no_check(swift: Pipeline) -> None:
    for method, path, headers, decided in copies("closed/o", "open/copy"):
        path_rules = OnePathRule(COVERED)
        assert_served(swift.guarded(path_rules, method, path, headers, decided=decided))
        assert path_rules.checked == []


@pytest.mark.parametrize("kind", ["link", "slo", "first", "dlo"])
def test_copy_of_a_link_or_manifest_of_a_covered_object_is_refused(
    swift: Pipeline, kind: str
) -> None:
    swift.request("PUT", "open/link", {"X-Symlink-Target": "closed/o"})
    swift.slo("open/slo", "open/o", "closed/o")
    swift.slo("open/first", "closed/o", "open/o")
    swift.request("PUT", "open/dlo", {"X-Object-Manifest": "closed/o"})
    for method, path, headers, decided in copies(f"open/{kind}", "open/copy"):
        assert_refused(swift.guarded(OnePathRule(COVERED), method, path, headers, decided=decided))
        assert "copy" not in swift.store.containers["AUTH_a/open"].objects


def test_copy_of_a_raw_manifest_that_names_a_covered_object_is_refused(swift: Pipeline) -> None:
    swift.slo("open/slo", "open/o", "closed/o")
    for method, path, headers, decided in copies(
        "open/slo", "open/copy", "?multipart-manifest=get"
    ):
        assert_refused(swift.guarded(OnePathRule(COVERED), method, path, headers, decided=decided))
        assert "copy" not in swift.store.containers["AUTH_a/open"].objects


def test_copy_of_a_static_link_to_a_covered_object_is_refused(swift: Pipeline) -> None:
    swift.request(
        "PUT", "open/link", {"X-Symlink-Target": "closed/o", "X-Symlink-Target-Etag": ETAG}
    )
    for method, path, headers, decided in copies("open/link", "open/copy", "?symlink=get"):
        assert_refused(swift.guarded(OnePathRule(COVERED), method, path, headers, decided=decided))


def test_copy_onto_a_static_link_does_not_reveal_the_etag_of_its_source(swift: Pipeline) -> None:
    """The filter lets a storlet read the source; a HEAD of it is made for the link to be stored."""
    swift.request("PUT", "open/empty")
    headers = {
        "X-Symlink-Target": "closed/o",
        "X-Symlink-Target-Etag": "0" * 32,
        "X-Copy-From": "open/empty",
    }
    for under in (None, "hide"):
        answer = swift.guarded(
            OnePathRule(COVERED),
            "PUT",
            "open/link",
            headers,
            decided=("AUTH_a", "closed", "o"),
            under=under,
        )
        assert_refused(answer)
        assert ETAG.encode() not in answer.body


# --- old versions (X-Versions-Enabled) ------------------------------------------------------------


def version_of(answer: Any) -> str:
    return str(answer.headers["X-Object-Version-Id"])


@pytest.fixture
def versioned(swift: Pipeline) -> Pipeline:
    """A pipeline whose container ``closed`` keeps versions."""
    swift.request("POST", "closed", {"X-Versions-Enabled": "true"})
    return swift


def test_versions_of_the_object_that_the_filter_decided_about_are_served(
    versioned: Pipeline,
) -> None:
    old = version_of(versioned.request("PUT", "closed/v", body=b"old"))
    versioned.request("PUT", "closed/v", body=b"new")
    for path, body in (("closed/v", b"new"), (f"closed/v?version-id={old}", b"old")):
        path_rules = OnePathRule("AUTH_a/closed/v")
        assert_served(versioned.guarded(path_rules, "GET", path), body)
        assert path_rules.checked == []


def test_link_to_a_covered_object_with_versions_is_refused(versioned: Pipeline) -> None:
    versioned.request("PUT", "closed/v", body=SECRET)
    versioned.request("PUT", "open/link", {"X-Symlink-Target": "closed/v"})
    assert_served(versioned.guarded(OnePathRule(), "GET", "open/link"), SECRET)
    assert_refused(versioned.guarded(OnePathRule("AUTH_a/closed/v"), "GET", "open/link"))


def test_segment_of_an_old_version_is_checked_even_if_it_is_the_same_object(
    versioned: Pipeline,
) -> None:
    """The requested version is an SLO whose segment is the current version of the same object."""
    versioned.slo("closed/v", "open/o")
    old = version_of(versioned.request("HEAD", "closed/v"))
    versioned.request("PUT", "closed/v", body=b"public")
    assert_served(
        versioned.guarded(OnePathRule("AUTH_a/closed/v"), "GET", f"closed/v?version-id={old}"),
        b"public",
    )
    hidden = next(
        kept
        for kept in versioned.store.containers["AUTH_a/\0versions\0closed"].objects.values()
        if "X-Static-Large-Object" in kept.headers
    )
    hidden.body = hidden.body.replace(b"/open/o", b"/closed/v")
    assert_refused(
        versioned.guarded(OnePathRule("AUTH_a/closed/v"), "GET", f"closed/v?version-id={old}")
    )


def test_nested_manifest_read_with_a_version_id_is_checked_as_any_object(
    versioned: Pipeline,
) -> None:
    """Swift reads nested manifests of a version with the client's ``version-id``."""
    versioned.slo("closed/v", "open/o")
    version = version_of(versioned.request("HEAD", "closed/v"))
    versioned.slo("closed/w", "closed/v")
    outer = version_of(versioned.request("HEAD", "closed/w"))
    objects = versioned.store.containers["AUTH_a/\0versions\0closed"].objects
    inner = next(name for name in objects if name.startswith("\0v\0"))
    same_id = next(name for name in objects if name.startswith("\0w\0")).rpartition("\0")[2]
    objects[f"\0v\0{same_id}"] = objects[inner]
    assert version != outer
    path_rules = OnePathRule("AUTH_a/closed/x")
    answer = versioned.guarded(path_rules, "GET", f"closed/w?version-id={outer}")
    assert_refused(answer)
    assert path_rules.checked[-1] == "AUTH_a/closed/*"


def test_restoring_a_covered_version_does_not_reveal_its_etag(versioned: Pipeline) -> None:
    old = version_of(versioned.request("PUT", "closed/v", body=SECRET))
    versioned.request("PUT", "closed/v", body=b"new")
    answer = versioned.guarded(
        OnePathRule("AUTH_a/closed/v"), "PUT", f"closed/v?version-id={old}", {"Content-Length": "0"}
    )
    assert_refused(answer)
    assert versioned.request("GET", "closed/v").body == b"new"
    restored = versioned.guarded(
        OnePathRule(), "PUT", f"closed/v?version-id={old}", {"Content-Length": "0"}
    )
    assert dict(restored.headers)["Etag"].strip('"') == ETAG


def test_upload_to_a_versioned_container_needs_no_check(versioned: Pipeline) -> None:
    path_rules = OnePathRule("AUTH_a/closed/o")
    assert_served(versioned.guarded(path_rules, "PUT", "closed/o", body=b"new"))
    assert path_rules.checked == []


def put_version_linking_to_covered_object(swift: Pipeline, account: str = "AUTH_a") -> None:
    """Store a version that links to a link to a covered object."""
    headers = {"X-Symlink-Target": "closed/o", "X-Symlink-Target-Account": account}
    swift.request("PUT", "open/second", headers)
    swift.request("PUT", "closed/v", {"X-Symlink-Target": "open/second"})


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_links_behind_a_version_that_swift_follows_unauthorized_are_checked(
    versioned: Pipeline, method: str
) -> None:
    put_version_linking_to_covered_object(versioned)
    assert_served(versioned.guarded(OnePathRule(), method, "closed/v"))
    assert_refused(versioned.guarded(OnePathRule(COVERED), method, "closed/v"))


def test_links_behind_a_version_with_an_unknown_end_are_refused(
    versioned: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_version_linking_to_covered_object(versioned)
    unknown = Found(None, LinkEnd(None, is_elsewhere=True))
    monkeypatch.setattr(read_guard, "look_up", lambda *_: unknown)
    answer = versioned.guarded(OnePathRule(COVERED), "GET", "closed/v")
    assert answer.status == 503
    assert SECRET not in answer.body


def test_swift_acls_apply_to_links_behind_a_version(versioned: Pipeline) -> None:
    put_version_linking_to_covered_object(versioned, "AUTH_b")
    answer = versioned.guarded(OnePathRule(), "GET", "closed/v", authorize=allows_but("AUTH_b"))
    assert (answer.status, answer.is_refused) == (403, False)
    assert SECRET not in answer.body


def test_segment_behind_a_version_is_checked(versioned: Pipeline) -> None:
    put_version_linking_to_covered_object(versioned)
    versioned.slo("open/slo", "closed/v")
    assert_refused(versioned.guarded(OnePathRule(COVERED), "GET", "open/slo"))


def test_hidden_version_behind_a_version_is_checked(versioned: Pipeline) -> None:
    """A link can name a hidden version, which Swift then reads with a pre-authorised request."""
    versioned.request("PUT", "closed/w", body=SECRET)
    hidden = next(
        name
        for name in versioned.store.containers["AUTH_a/\0versions\0closed"].objects
        if name.startswith("\0w\0")
    )
    target = quote(f"\0versions\0closed/{hidden}")
    versioned.request("PUT", "open/second", {"X-Symlink-Target": target})
    versioned.request("PUT", "closed/v", {"X-Symlink-Target": "open/second"})
    assert_served(versioned.guarded(OnePathRule(), "GET", "closed/v"), SECRET)
    assert_refused(versioned.guarded(OnePathRule("AUTH_a/closed/w"), "GET", "closed/v"))
    refused = versioned.guarded(OnePathRule(), "GET", "closed/v", authorize=allows_but("closed/w"))
    assert refused.status == 403
    assert SECRET not in refused.body


def test_uncovered_version_behind_a_version_is_served(versioned: Pipeline) -> None:
    versioned.request("PUT", "closed/w", body=b"public")
    versioned.request("PUT", "closed/v", {"X-Symlink-Target": "closed/w"})
    path_rules = OnePathRule(COVERED)
    assert_served(versioned.guarded(path_rules, "GET", "closed/v"), b"public")
    assert path_rules.checked == ["AUTH_a/closed/w", "AUTH_a/*/*"]


# --- archived versions (X-Versions-Location) ------------------------------------------------------


def test_archived_version_is_checked_as_an_object_of_any_container(swift: Pipeline) -> None:
    swift.store.containers["AUTH_a/archive"] = swift.store.containers.pop("AUTH_b/closed")
    swift.request("POST", "closed", {"X-Versions-Location": "archive"})
    swift.request("PUT", "closed/o", body=b"new")
    archived = next(
        name for name in swift.store.containers["AUTH_a/archive"].objects if name != "o"
    )
    swift.request("PUT", "open/link", {"X-Symlink-Target": f"archive/{archived}"})
    path_rules = OnePathRule(COVERED)
    assert_refused(swift.guarded(path_rules, "GET", "open/link"))
    assert set(path_rules.checked) == {f"AUTH_a/archive/{archived}", "AUTH_a/*/o"}
    swift.slo("open/slo", f"archive/{archived}")
    assert_refused(swift.guarded(OnePathRule(COVERED), "HEAD", "open/slo"))
    assert_served(swift.guarded(OnePathRule("AUTH_a/closed/other"), "GET", "open/slo"), SECRET)


# --- objects that have expired --------------------------------------------------------------------


@pytest.mark.parametrize("headers", [{}, {"X-Open-Expired": "true"}])
def test_lookups_open_expired_objects_if_the_client_does(headers: dict[str, str]) -> None:
    """Otherwise Swift would answer 404 to the lookup and give the client the bytes."""
    seen = []

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        seen.append(Request(environ).headers.get("X-Open-Expired"))
        return Response(status=404)(environ, start_response)

    environ = Request.blank("/v1/AUTH_a/closed/o", headers=headers).environ
    request_facts.look_up_object(app, environ, "/v1/AUTH_a/closed/o?")
    send_preauthorised(app, environ, "GET", "/v1/AUTH_a/closed/o?")
    assert seen == [headers.get("X-Open-Expired")] * 2
