"""The parser of requests for storlets."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from swift.common.swob import Request

from storlet_middleware import names
from storlet_middleware.config import parse as parse_config
from storlet_middleware.errors import BadRequest
from storlet_middleware.wsgi.operation import parse as parse_operation
from storlet_middleware.wsgi.storlet_request import (
    ObjectPath,
    StorletRequest,
    parse,
    parse_object_path,
)
from tests.unit.middleware.support import ACCOUNT, RUN, FakeSwift, Proxy, WorkerRun

Make = Callable[..., Proxy]


def test_parameters_come_from_query_and_headers(make_proxy: Make) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(json.dumps(dict(worker.invoke.parameters), sort_keys=True).encode())
        worker.succeed()

    answer = make_proxy(script).call(
        "GET", "c/o?a=1&b=%C3%BC", {**RUN, "X-Storlet-Parameter-1": "c:x%3Ay:z"}
    )
    assert json.loads(answer.data) == {"a": "1", "b": "ü", "c": "x:y:z"}


@pytest.mark.parametrize(
    ("headers", "part"),
    [
        ({"X-Storlet-Rang": "bytes=0-1"}, "did you mean X-Storlet-Range?"),
        ({"X-Storlet-Dependency": "x"}, "X-Storlet-Dependency: unknown header"),
        ({"Range": "bytes=0-1"}, "range header is not supported"),
        ({"X-Storlet-Run-On-Proxy": "yes"}, "should be empty"),
        ({"X-Storlet-Parameter-1": "novalue"}, "want key:value"),
        ({"X-Storlet-Range": "bytes=3-1"}, "ends before it begins"),
        ({"X-Storlet-Extra-Resources": "c/o"}, "must be a csv"),
        ({"X-Storlet-Generate-Log": "maybe"}, "want true or false"),
        ({"X-Run-Storlet": "n" * 1025}, "the name of the storlet has more than 1024 bytes"),
        ({"X-Storlet-Extra-Resources": f"/c/{'o' * 1025}"}, "more than 1024 bytes"),
        ({"X-Storlet-Extra-Resources": "/c/%ff"}, "want UTF-8, percent-encoded"),
        ({"X-Storlet-Output": f"/{'c' * 257}/o"}, "more than 256 bytes"),
        ({"X-Storlet-Output": "/c/%00"}, "want /container/object"),
    ],
)
def test_a_malformed_request_is_400_and_names_the_fault(
    proxy: Proxy, headers: dict[str, str], part: str
) -> None:
    answer = proxy.call("GET", "c/o", {**RUN, **headers})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert part in answer.data.decode()


@pytest.mark.parametrize("query", ["a=%ff", "%ff=a", "a=%ff&a=1", "a=%ED%A0%80", "a=\xff"])
def test_a_query_that_is_not_utf8_is_refused(proxy: Proxy, query: str) -> None:
    answer = proxy.call("GET", "c/o", RUN, environ={"QUERY_STRING": query})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert "query string" in answer.data.decode()
    assert "want UTF-8, percent-encoded" in answer.data.decode()


#: A wrong value of each client header.
WRONG_VALUES = {
    names.RUN_ON_PROXY: "yes",
    names.PARAMETER_PREFIX + "1": "novalue",
    names.RANGE: "bytes=3-1",
    names.EXTRA_RESOURCES: "c/o",
    names.OUTPUT: "c/o",
    names.GENERATE_LOG: "maybe",
    names.LIMIT_PREFIX + "Memory": "much",
    names.IF_VERSION: "newest",
    names.IF_RESOURCES: "5f",
}


def test_each_client_header_has_a_wrong_value_here() -> None:
    known = [key.removesuffix("1").removesuffix("Memory") for key in WRONG_VALUES]
    assert sorted(known) == sorted(names.CLIENT_HEADERS)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        *WRONG_VALUES.items(),
        (names.RUN_STORLET, "a/b"),
        ("Range", "bytes=0-1"),
        (names.PARAMETER_PREFIX + "1", "a:%ff"),
    ],
)
def test_a_fault_names_the_header_and_quotes_its_value(header: str, value: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parsed(headers={header: value})
    assert str(caught.value).startswith(f"{header}: {value!r}: ")


def test_the_entry_of_a_list_that_is_wrong_is_named() -> None:
    with pytest.raises(BadRequest) as caught:
        parsed(headers={names.EXTRA_RESOURCES: "/d/right,c/wrong,/d/right"})
    assert "'c/wrong'" in str(caught.value)
    assert "right'" not in str(caught.value)
    with pytest.raises(BadRequest, match="'9-1' ends before it begins"):
        parsed(headers={names.RANGE: "bytes=0-1,9-1"})


def test_a_long_value_is_quoted_in_part() -> None:
    with pytest.raises(BadRequest) as caught:
        parsed(headers={names.GENERATE_LOG: "x" * 5000})
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize("query", ["multipart-manifest=put", "version-id=1"])
def test_a_put_of_a_manifest_or_a_version_is_refused_by_name(
    proxy: Proxy, swift: FakeSwift, query: str
) -> None:
    answer = proxy.call("PUT", f"c/new?{query}", RUN, body=b"x")
    assert (answer.status, answer.error) == (400, "bad_request")
    assert query.partition("=")[0] in answer.data.decode()
    assert "new" not in swift.containers["c"].objects


def test_all_faults_of_a_request_come_in_one_answer(proxy: Proxy) -> None:
    headers = {
        **RUN,
        "X-Storlet-Rang": "1",
        "Range": "x",
        "X-Storlet-Parameter-2": "x",
        "X-Run-Storlet": "a/b",
    }
    said = proxy.call("GET", "c/o", headers).data.decode()
    for part in ("X-Storlet-Rang:", "range header", "X-Storlet-Parameter-2", "X-Run-Storlet"):
        assert part in said


def test_storlet_headers_without_a_storlet_are_refused_by_name(proxy: Proxy) -> None:
    answer = proxy.call("GET", "c/o", {"X-Storlet-Range": "bytes=0-1", "X-Storlet-Foo": "1"})
    assert answer.status == 400
    assert "X-Storlet-Range: means nothing without X-Run-Storlet" in answer.data.decode()


@pytest.mark.parametrize(
    ("method", "status"), [("HEAD", 405), ("DELETE", 405), ("POST", 401), ("OPTIONS", 405)]
)
def test_other_methods_cannot_run_a_storlet(proxy: Proxy, method: str, status: int) -> None:
    assert proxy.call(method, "c/o", RUN).status == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 412),
        ({"Destination": "nocontainer"}, 412),
        ({"Destination": "/c/x", "Destination-Account": "AUTH_b"}, 400),
        ({"Destination": "/c/x", "X-Fresh-Metadata": "true"}, 400),
    ],
)
def test_copies_that_are_not_supported_are_refused(
    proxy: Proxy, headers: dict[str, str], status: int
) -> None:
    assert proxy.call("COPY", "c/o", {**RUN, **headers}).status == status


# --- the parsed value -----------------------------------------------------------------------------


def parsed(
    method: str = "GET", headers: dict[str, str] | None = None, path: str = "c/o", **config: str
) -> StorletRequest:
    environ = Request.blank(
        f"/v1/{ACCOUNT}/{path}", method=method, headers={**RUN, **(headers or {})}
    ).environ
    operation = parse_operation(environ)
    assert operation is not None
    text = "\n".join(f"[limits]\n{name} = {value}" for name, value in config.items())
    return parse(operation, parse_config(text))


HERE, THERE = ObjectPath("c", "o"), ObjectPath("d", "x y")


@pytest.mark.parametrize(
    ("method", "headers", "source", "target"),
    [
        ("GET", {}, HERE, None),
        ("PUT", {}, None, HERE),
        ("COPY", {"Destination": "d/x%20y"}, HERE, THERE),
        ("PUT", {"X-Copy-From": "/d/x%20y", "Content-Length": "0"}, THERE, HERE),
    ],
)
def test_source_and_target_follow_the_operation(
    method: str, headers: dict[str, str], source: ObjectPath | None, target: ObjectPath | None
) -> None:
    request = parsed(method, headers)
    assert (request.source, request.target) == (source, target)
    assert request.method == ("COPY" if source and target else method)
    assert (request.account, request.version, request.storlet) == (ACCOUNT, "v1", "up.py")


def test_headers_become_typed_values() -> None:
    request = parsed(
        headers={
            "X-Storlet-Run-On-Proxy": "",
            "X-Storlet-Generate-Log": "Yes",
            "X-Storlet-Range": "bytes=0-1,-5",
            "X-Storlet-Extra-Resources": "/d/x%20y, /c/o",
            "X-Storlet-Limit-Memory": "64M",
        }
    )
    assert (request.run_on_proxy, request.run_on_object, request.wants_log) == (True, False, True)
    assert (request.ranges, request.extra) == (((0, 1), (None, 5)), (THERE, HERE))
    assert request.limits == {"Memory": 64 << 20}


@pytest.mark.parametrize(
    ("headers", "count"),
    [
        ({}, 1),
        ({"X-Storlet-Range": "bytes=0-1"}, 1),
        ({"X-Storlet-Range": "bytes=0-1,-5"}, 2),
        ({"X-Storlet-Extra-Resources": "/d/o, /d/p"}, 3),
        ({"X-Storlet-Range": "bytes=0-1,-5", "X-Storlet-Extra-Resources": "/d/o"}, 3),
    ],
)
def test_inputs_are_the_object_or_its_ranges_and_the_extra_ones(
    headers: dict[str, str], count: int
) -> None:
    assert parsed(headers=headers).input_count == count


def test_a_header_replaces_a_parameter_of_the_query() -> None:
    request = parsed(headers={"X-Storlet-Parameter-9": "a:2"}, path="c/o?a=1&empty=")
    assert request.parameters == {"a": "2", "empty": ""}


@pytest.mark.parametrize("name", ["storlet_x", "storlet_"])
def test_reserved_parameters_are_refused(name: str) -> None:
    with pytest.raises(BadRequest, match="names that begin with storlet_ are reserved"):
        parsed(path=f"c/o?{name}=1")


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", " ", "\x7f", "\xff"])
def test_names_that_no_storlet_has_are_refused(name: str) -> None:
    environ = {"HTTP_X_RUN_STORLET": name}
    request = Request.blank(f"/v1/{ACCOUNT}/c/o", environ)
    operation = parse_operation(request.environ)
    assert operation is not None
    with pytest.raises(BadRequest, match=r"X-Run-Storlet: .*: want the name of an object"):
        parse(operation, parse_config(""))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("/c/o", HERE),
        ("c/o", HERE),
        (" /d/x%20y ", THERE),
        ("/c/o/p", ObjectPath("c", "o/p")),
        ("/gr%C3%BCn/o", ObjectPath("grün", "o")),
        ("", None),
        ("/c", None),
        ("/c/", None),
        ("//o", None),
        ("/c/%00", None),
        ("/c/%ff", None),
    ],
)
def test_paths_of_objects_are_decoded_or_refused(value: str, expected: ObjectPath | None) -> None:
    if expected is None:
        with pytest.raises(ValueError, match=r"want|utf-8"):
            parse_object_path(value, needs_slash=False)
        return
    assert parse_object_path(value, needs_slash=False) == expected
    if not value.strip().startswith("/"):
        with pytest.raises(ValueError, match="want /container/object"):
            parse_object_path(value, needs_slash=True)


def test_a_limit_above_the_maximum_is_refused() -> None:
    assert parsed(headers={"X-Storlet-Limit-Output": "8"}, output_bytes="8").limits == {"Output": 8}
    with pytest.raises(BadRequest, match="X-Storlet-Limit-Output"):
        parsed(headers={"X-Storlet-Limit-Output": "9"}, output_bytes="8")
