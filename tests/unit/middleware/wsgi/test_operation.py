"""One request, parsed as Swift parses it: the source, the target, and refusals of Swift."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swift.common.middleware.copy import ServerSideCopyMiddleware
from swift.common.swob import Request, Response
from swift.common.utils import FileLikeIter

from storlet_middleware.wsgi.operation import parse
from storlet_middleware.wsgi.strings import text, wsgi
from storlet_middleware.wsgi.swift_paths import SwiftPath

HERE = SwiftPath("v1", "AUTH_a", "c", "o")


def operation(
    method: str, headers: dict[str, str] | None = None, path: str = "/v1/AUTH_a/c/o"
) -> Any:
    return parse(Request.blank(path, method=method, headers=headers or {}).environ)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_read_has_a_source_only(method: str) -> None:
    parsed = operation(method)
    assert (parsed.method, parsed.source, parsed.target, parsed.is_copy) == (
        method,
        HERE,
        None,
        False,
    )


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_a_write_has_a_target_only(method: str) -> None:
    parsed = operation(method)
    assert (parsed.method, parsed.source, parsed.target, parsed.subject) == (
        method,
        None,
        HERE,
        HERE,
    )


@pytest.mark.parametrize(
    ("method", "headers", "source", "target"),
    [
        ("COPY", {"Destination": "d/x"}, HERE, SwiftPath("v1", "AUTH_a", "d", "x")),
        ("COPY", {"Destination": "/d/x%20y/z"}, HERE, SwiftPath("v1", "AUTH_a", "d", "x y/z")),
        (
            "COPY",
            {"Destination": "d/x", "Destination-Account": "AUTH_b"},
            HERE,
            SwiftPath("v1", "AUTH_b", "d", "x"),
        ),
        ("PUT", {"X-Copy-From": "d/x"}, SwiftPath("v1", "AUTH_a", "d", "x"), HERE),
        (
            "PUT",
            {"X-Copy-From": "d/x", "X-Copy-From-Account": "AUTH_b"},
            SwiftPath("v1", "AUTH_b", "d", "x"),
            HERE,
        ),
        (
            "PUT",
            {"X-Copy-From": "d/x", "X-Copy-From-Account": ""},
            SwiftPath("v1", "AUTH_a", "d", "x"),
            HERE,
        ),
    ],
)
def test_both_forms_of_a_copy_are_one_operation(
    method: str, headers: dict[str, str], source: SwiftPath, target: SwiftPath
) -> None:
    parsed = operation(method, headers)
    assert (parsed.method, parsed.sent_method, parsed.is_copy) == ("COPY", method, True)
    assert (parsed.source, parsed.target, parsed.fault) == (source, target, "")


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("COPY", {}),
        ("COPY", {"Destination": ""}),
        ("COPY", {"Destination": "d"}),
        ("COPY", {"Destination": "//d/x"}),
        ("COPY", {"Destination": "d/x", "Destination-Account": ""}),
        ("COPY", {"Destination": "d/x", "Destination-Account": "a/b"}),
        ("COPY", {"Destination": "d/%ff"}),
        ("PUT", {"X-Copy-From": "d"}),
        ("PUT", {"X-Copy-From": "d/"}),
    ],
)
def test_a_copy_that_swift_refuses_has_a_fault_and_no_other_object(
    method: str, headers: dict[str, str]
) -> None:
    parsed = operation(method, headers)
    assert parsed.is_copy
    assert (parsed.source, parsed.target) == (None, None)
    assert parsed.fault


def test_an_empty_copy_from_is_a_plain_put() -> None:
    parsed = operation("PUT", {"X-Copy-From": ""})
    assert (parsed.method, parsed.target, parsed.is_copy) == ("PUT", HERE, False)


@pytest.mark.parametrize("path", ["/info", "/healthcheck", "/v2/a/c/o", "/v1//c/o", "/"])
def test_a_path_at_which_swift_stores_nothing_is_no_operation(path: str) -> None:
    assert operation("GET", path=path) is None


def test_the_last_value_of_a_query_parameter_counts() -> None:
    parsed = operation("GET", path="/v1/AUTH_a/c/o?x=1&x=2&version-id=null&e=%C3%A9")
    assert parsed.query == {"x": "2", "version-id": "null", "e": "\u00e9"}
    assert parsed.version_id == ""


def test_the_operation_is_as_the_client_sent_it_after_swift_has_changed_the_environment() -> None:
    environ = Request.blank("/v1/AUTH_a/c/o", method="COPY", headers={"Destination": "d/x"}).environ
    parsed = parse(environ)
    assert parsed is not None
    environ["REQUEST_METHOD"], environ["HTTP_IF_MATCH"] = "PUT", "x"
    del environ["HTTP_DESTINATION"]
    assert (parsed.method, parsed.header("Destination"), parsed.conditions) == ("COPY", "d/x", ())


class RecordingSwift:
    """The rest of the pipeline, right of Swift's own copy middleware: it records what that really
    reads and writes.
    """

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        self.seen.append((request.method, text(environ["PATH_INFO"])))
        if request.method == "GET":
            return Response(body=b"x", headers={"X-Timestamp": "1"}, request=request)(
                environ, start_response
            )
        for _ in (
            FileLikeIter(environ["wsgi.input"])
            if hasattr(environ["wsgi.input"], "__iter__")
            else ()
        ):
            pass
        return Response(status=201, request=request)(environ, start_response)


PARTS = st.text(alphabet="ab/% \u00e9.?&", max_size=6)


@given(
    method=st.sampled_from(["COPY", "PUT"]),
    value=PARTS,
    account=st.none() | st.sampled_from(["", "AUTH_b", "a%20b", "x/y"]),
)
def test_every_copy_is_what_swifts_copy_middleware_makes_of_it(
    method: str, value: str, account: str | None
) -> None:
    """The invariant on which enforcement stands: no request is one thing to the rules and another
    to Swift.
    """
    name = "Destination" if method == "COPY" else "X-Copy-From"
    headers = {name: wsgi(value)}
    if account is not None:
        headers["Destination-Account" if method == "COPY" else "X-Copy-From-Account"] = account
    environ = {"swift.authorize": lambda _: None, "swift.infocache": {}}
    request = Request.blank("/v1/AUTH_a/c/o", environ, headers=headers, method=method)
    request.headers["Content-Length"] = "0"
    parsed = parse(request.environ)
    assert parsed is not None
    swift = RecordingSwift()
    try:
        answer = request.get_response(ServerSideCopyMiddleware(swift, {}))
    except UnicodeDecodeError:
        # Swift fails on a name that is not UTF-8; the filter refuses it before.
        assert parsed.fault
        return
    reads = [path for verb, path in swift.seen if verb == "GET"]
    writes = [path for verb, path in swift.seen if verb == "PUT"]
    if parsed.fault:
        assert (answer.status_int, swift.seen) == (412, [])
    elif parsed.is_copy:
        assert (reads, writes) == ([_path(parsed.source)], [_path(parsed.target)])
    else:
        assert (reads, writes) == ([], [_path(parsed.target)])


def _path(place: SwiftPath) -> str:
    return f"/{place.version}/{place.account}/{place.container}/{place.name}"
