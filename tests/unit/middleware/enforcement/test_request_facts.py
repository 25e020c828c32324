"""Tests of ``request_facts``: the request and the stored objects as facts for rules."""

from __future__ import annotations

import calendar
import time
from collections.abc import Mapping
from typing import Any

import pytest
from swift.common.swob import Request, Response
from swift.proxy.controllers.obj import BaseObjectController

from rules.conditions import TABLE
from rules.facts import UNKNOWN, ObjectFacts
from storlet_middleware.enforcement import request_facts
from storlet_middleware.enforcement.request_facts import Parts
from storlet_middleware.errors import BackendFailed
from storlet_middleware.wsgi.swift_paths import SwiftPath
from tests.unit.middleware.auth_pipeline import PATH
from tests.unit.middleware.support import ACCOUNT, FakeSwift

# --- the request ----------------------------------------------------------------------------------


def facts_of(path: str = PATH, headers: Mapping[str, str] | None = None, **environ: Any) -> Any:
    request = Request.blank(path, headers=headers or {}, environ=environ)
    return request_facts.of_request(request.environ, "GET", "c", "o")


def test_facts_of_a_request_need_no_lookup() -> None:
    facts = facts_of()
    assert (facts.stored, facts.holder) == (UNKNOWN, UNKNOWN)


@pytest.mark.parametrize(
    "name",
    [
        "X-Auth-Token",
        "X-Storage-Token",
        "X-Service-Token",
        "Authorization",
        "Cookie",
        "X-Amz-Security-Token",
    ],
)
def test_tokens_and_credentials_are_hidden_from_rules(name: str) -> None:
    facts = facts_of(headers={name: "a secret", "X-Wanted": "yes"})
    assert "a secret" not in repr(facts)
    assert facts.headers["x-wanted"] == "yes"


@pytest.mark.parametrize(
    "name", ["temp_url_sig", "X-Amz-Signature", "X-Amz-Credential", "Signature"]
)
def test_signatures_in_the_query_are_hidden_from_rules(name: str) -> None:
    facts = facts_of(f"{PATH}?{name}=a-secret&format=json")
    assert "a-secret" not in repr(facts)
    assert facts.query == {"format": "json"}


def test_header_names_ignore_case_and_values_are_decoded() -> None:
    facts = facts_of(
        headers={
            "X-CoLour": "grün".encode().decode("latin-1"),
            "Content-Type": "Text/CSV",
            "Content-Length": "7",
        }
    )
    read = TABLE["header"].read
    assert read(facts, "x-colour") == "grün"
    assert (read(facts, "content-type"), read(facts, "content-length")) == ("Text/CSV", "7")
    assert read(facts, "x-none") is None


def test_query_keeps_empty_values_and_the_last_of_repeated_ones() -> None:
    facts = facts_of(f"{PATH}?a=1&a=2&empty=&flag&name=gr%C3%BCn+x")
    assert facts.query == {"a": "2", "empty": "", "flag": "", "name": "grün x"}


@pytest.mark.parametrize(
    ("more", "has_lost"),
    [
        ({"REMOTE_ADDR": "192.0.2.7"}, False),
        ({"REMOTE_ADDR": "192.0.2.7", "swift.source": "S3"}, False),
        ({"swift.source": "EA"}, True),
        ({"swift.source": "FP", "REMOTE_USER": ".wsgi.pre_authed"}, True),
        ({"swift.source": "TU", "REMOTE_USER": ".wsgi.pre_authed"}, False),
    ],
)
def test_requests_of_middlewares_have_lost_facts(more: dict[str, str], has_lost: bool) -> None:
    assert bool(facts_of(**more).lost) is has_lost


def test_client_address_is_that_of_the_connection_and_not_of_a_header() -> None:
    headers = {"X-Forwarded-For": "10.0.0.1", "X-Cluster-Client-Ip": "10.0.0.2"}
    assert facts_of(headers=headers, REMOTE_ADDR="192.0.2.7").client_address == "192.0.2.7"
    assert facts_of(headers=headers, REMOTE_ADDR="").client_address is None


def test_times_are_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    # A Monday, 00:01:59 UTC.
    moment = calendar.timegm((2024, 1, 1, 0, 1, 59))
    real = time.gmtime
    monkeypatch.setattr(
        time, "gmtime", lambda seconds=None: real(moment if seconds is None else seconds)
    )
    assert facts_of().minute_of_week == 1
    moment += 6 * 24 * 3600 + 23 * 3600
    assert facts_of().minute_of_week == 6 * 1440 + 23 * 60 + 1


def test_bytes_that_are_not_utf8_differ_from_all_text() -> None:
    facts = facts_of(headers={"X-Odd": "\xff"}, QUERY_STRING="raw=\xff&quoted=%ff")
    assert facts.headers["x-odd"] == "\udcff"
    assert facts.query == {"raw": "\udcff", "quoted": "\udcff"}


# --- stored objects and containers ----------------------------------------------------------------


def incoming(
    headers: Mapping[str, str], path: str = PATH, body: bytes | None = b"data"
) -> ObjectFacts:
    request = Request.blank(path, method="PUT", headers=headers)
    if body is not None:
        request.body = body
    return request_facts.incoming_facts(request.environ)


@pytest.mark.parametrize(
    ("name", "headers", "expected"),
    [
        ("o.csv", {"Content-Type": "image/png"}, "image/png"),
        ("o.csv", {}, "text/csv"),
        ("o.csv", {"Content-Type": ""}, "text/csv"),
        ("o", {}, "application/octet-stream"),
        ("o.csv", {"Content-Type": "image/png", "X-Detect-Content-Type": "true"}, "text/csv"),
        ("o.csv", {"Content-Type": "image/png", "X-Detect-Content-Type": "no"}, "image/png"),
        (
            "o",
            {"Content-Type": "image/png", "X-Detect-Content-Type": "true"},
            "application/octet-stream",
        ),
        ("gr%C3%BCn.html", {}, "text/html"),
        ("archive.tar.gz", {}, "application/x-tar"),
    ],
)
def test_content_type_of_an_upload_is_the_one_swift_stores(
    name: str, headers: dict[str, str], expected: str
) -> None:
    assert incoming(headers, f"/v1/{ACCOUNT}/c/{name}").content_type == expected
    request = Request.blank(f"/v1/{ACCOUNT}/c/{name}", method="PUT", headers=headers)
    # Compare with the private method of Swift's proxy server.
    BaseObjectController._update_content_type(None, request)
    assert request.headers["Content-Type"] == expected


def test_size_and_metadata_of_an_upload() -> None:
    stored = incoming(
        {
            "X-Object-Meta-Study": "7",
            "X-Object-Meta-Gone": "",
            "X-Object-Meta-Two-Words": "gr\xc3\xbcn",
        }
    )
    assert (stored.exists, stored.size_bytes) == (True, 4)
    # Swift stores an empty value.
    assert stored.metadata == {"study": "7", "gone": "", "two-words": "grün"}


@pytest.mark.parametrize("length", ["", "-1", "4x", "\xb2"])
def test_upload_of_unknown_length_has_no_size(length: str) -> None:
    request = Request.blank(PATH, method="PUT")
    request.environ["CONTENT_LENGTH"] = length
    assert request_facts.incoming_facts(request.environ).size_bytes is None


SOURCE = ObjectFacts(
    exists=True, content_type="text/csv", size_bytes=9, metadata={"study": "7", "kept": "yes"}
)


@pytest.mark.parametrize(
    ("headers", "content_type", "metadata"),
    [
        ({}, "text/csv", {"study": "7", "kept": "yes"}),
        ({"X-Object-Meta-Study": "8"}, "text/csv", {"study": "8", "kept": "yes"}),
        ({"X-Fresh-Metadata": "true"}, "text/csv", {}),
        ({"X-Fresh-Metadata": "true", "X-Object-Meta-Study": "8"}, "text/csv", {"study": "8"}),
        ({"Content-Type": "image/png"}, "image/png", {"study": "7", "kept": "yes"}),
        # Swift then guesses the type from the name of the copy.
        ({"X-Detect-Content-Type": "true"}, "text/html", {"study": "7", "kept": "yes"}),
        (
            {"X-Detect-Content-Type": "true", "Content-Type": "image/png"},
            "text/html",
            {"study": "7", "kept": "yes"},
        ),
        ({"X-Object-Meta-Study": ""}, "text/csv", {"study": "", "kept": "yes"}),
    ],
)
def test_facts_of_a_copy_combine_source_and_request(
    headers: dict[str, str], content_type: str, metadata: dict[str, str]
) -> None:
    request = Request.blank(PATH, method="PUT", headers=headers)
    made = request_facts.copied_facts(request.environ, SOURCE, "o.html")
    assert (made.content_type, made.size_bytes, made.metadata) == (content_type, 9, metadata)


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        # Swift ignores the length of a chunked body.
        ({"Transfer-Encoding": "chunked", "Content-Length": "5"}, ""),
        ({"X-Object-Manifest": "c/parts", "Content-Length": "0"}, ""),
        ({"X-Symlink-Target": "c/o", "Content-Length": "0"}, ""),
        ({"Content-Length": "49"}, "multipart-manifest=put"),
        ({"Content-Length": "49"}, "multipart%2Dmanifest=put"),
    ],
)
def test_an_upload_whose_object_has_another_length_has_no_size(
    headers: dict[str, str], query: str
) -> None:
    request = Request.blank(f"/v1/a/c/o?{query}", headers=headers)
    assert request_facts.incoming_facts(request.environ).size_bytes is None


@pytest.mark.parametrize(
    ("headers", "parts", "size_bytes"),
    [
        ({}, Parts.NONE, 9),
        ({}, Parts.NAMED, 9),
        ({}, Parts.LISTED, 0),
        ({"X-Object-Manifest": "c/p"}, Parts.LISTED, 9),
    ],
)
def test_facts_after_a_post(headers: dict[str, str], parts: Parts, size_bytes: int) -> None:
    request = Request.blank("/v1/a/c/o", headers=headers | {"X-Object-Meta-New": "n"})
    stored = ObjectFacts(exists=True, content_type="text/csv", size_bytes=9, metadata={"old": "o"})
    state = request_facts.ObjectState(stored, parts=parts)
    expected = ObjectFacts(True, "text/csv", size_bytes, {"new": "n"})
    assert request_facts.changed_facts(request.environ, state) == expected
    request.headers["Content-Type"] = "text/plain"
    assert request_facts.changed_facts(request.environ, state).content_type == "text/plain"


def test_object_lookup_is_pre_authorised() -> None:
    swift = FakeSwift()
    swift.put(
        "c",
        "o",
        b"data",
        Content_Type="Text/CSV; charset=utf-8",
        X_Object_Meta_Study="7",
        X_Object_Sysmeta_A="b",
    )
    request = Request.blank(PATH, environ={"swift.authorize": lambda _: Response(status=403)})
    stored = request_facts.look_up_object(swift, request.environ, PATH + "?")
    assert stored.facts == ObjectFacts(
        exists=True, content_type="Text/CSV; charset=utf-8", size_bytes=4, metadata={"study": "7"}
    )
    assert stored.timestamp == "1640995200.00000"
    assert request_facts.look_up_object(swift, request.environ, PATH + "2?").facts == ObjectFacts()


@pytest.mark.parametrize(
    ("end", "headers", "expected"),
    [
        (PATH.replace(ACCOUNT, "AUTH_b"), {}, [Parts.NONE]),
        (PATH.replace(ACCOUNT, "AUTH_b"), {"X-Static-Large-Object": "True"}, [Parts.NAMED]),
        (PATH.replace(ACCOUNT, "AUTH_b"), {"X-Object-Manifest": "c/s"}, [Parts.LISTED]),
        (PATH + "2", {}, []),
    ],
)
@pytest.mark.parametrize("may_see", [True, False])
def test_an_object_of_another_account_has_facts_if_the_caller_may_see_it(
    end: str, headers: dict[str, str], expected: list[Parts], may_see: bool
) -> None:
    swift = FakeSwift()
    swift.hooks["HEAD", PATH] = lambda request: Response(
        request=request, headers=headers | {"Content-Location": end, "X-Object-Meta-A": "b"}
    )
    asked = []

    def shows(read: SwiftPath, parts: Parts) -> bool:
        assert read.path == end + "?"
        asked.append(parts)
        return may_see

    found = request_facts.look_up_object(swift, Request.blank(PATH).environ, PATH + "?", shows)
    assert found.facts.exists is (may_see or not expected)
    assert asked == expected
    assert bool(found.end) is found.facts.exists


def test_the_facts_at_an_unknown_end_of_links_are_hidden() -> None:
    swift = FakeSwift()
    swift.hooks["HEAD", PATH] = lambda request: Response(
        request=request, headers={"Content-Location": "nowhere"}
    )
    found = request_facts.look_up_object(swift, Request.blank(PATH).environ, PATH + "?")
    assert found.facts == ObjectFacts()


@pytest.mark.parametrize("status", [400, 404, 409, 412])
def test_a_path_without_an_object_has_no_facts(status: int) -> None:
    """409: a loop of links, or a static link whose target was replaced."""
    swift = FakeSwift()
    swift.hooks["HEAD", PATH] = lambda request: Response(status=status, request=request)
    found = request_facts.look_up_object(swift, Request.blank(PATH).environ, PATH + "?")
    assert (found.facts, found.timestamp) == (ObjectFacts(), "")


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_object_lookup_fails_unless_swift_reports_whether_the_object_exists(status: int) -> None:
    swift = FakeSwift()
    swift.hooks["HEAD", PATH] = lambda request: Response(status=status, request=request)
    with pytest.raises(BackendFailed):
        request_facts.look_up_object(swift, Request.blank(PATH).environ, PATH + "?")


@pytest.mark.parametrize("status", [403, 500, 503])
def test_container_lookup_fails_unless_swift_reports_whether_it_exists(status: int) -> None:
    swift = FakeSwift()
    swift.hooks["HEAD", f"/v1/{ACCOUNT}/c"] = lambda request: Response(
        status=status, request=request
    )
    with pytest.raises(BackendFailed):
        request_facts.container_facts(swift, Request.blank(PATH).environ, "v1", ACCOUNT, "c")
