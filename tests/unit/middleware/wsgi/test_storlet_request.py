"""The parser of requests for storlets."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.unit.middleware.support import RUN, FakeSwift, Proxy, WorkerRun

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
    ],
)
def test_a_malformed_request_is_400_and_names_the_fault(
    proxy: Proxy, headers: dict[str, str], part: str
) -> None:
    answer = proxy.call("GET", "c/o", {**RUN, **headers})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert part in answer.data.decode()


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
