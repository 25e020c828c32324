"""Results that are stored: PUT and COPY."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from swift.common.exceptions import ChunkReadTimeout
from swift.common.swob import Response

from rules.model import Passes
from storlet_middleware.proxy.plan import Plan
from tests.unit.middleware.rule_runs import MANDATORY, PLAN, RunHarness
from tests.unit.middleware.storlets import failing
from tests.unit.middleware.support import ACCOUNT, RUN, FakeSwift, Proxy, WorkerRun, assert_idle

pytestmark = pytest.mark.usefixtures("nothing_is_left_open")


Make = Callable[..., Proxy]


def test_put_stores_the_result_with_metadata_of_client_and_storlet(
    make_proxy: Make, swift: FakeSwift
) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin(**{"Content-Type": "text/csv", "rows": "2"})
        worker.write(worker.read().upper())
        worker.succeed()

    body = b"some text"
    headers = {
        **RUN,
        "X-Object-Meta-Color": "red",
        "X-Object-Meta-Storlet-Main": "x",
        "Etag": hashlib.md5(body, usedforsecurity=False).hexdigest(),
        "Content-Type": "text/plain",
    }
    answer = make_proxy(script).call("PUT", "c/new", headers, body=body)
    assert answer.status == 201
    stored = swift.containers["c"].objects["new"]
    assert stored.body == b"SOME TEXT"
    assert stored.headers == {
        "Content-Type": "text/csv",
        "X-Object-Meta-Color": "red",
        "X-Object-Meta-Rows": "2",
    }
    sent = swift.requests("PUT", "c/new")[0]
    assert not [
        key for key in sent.headers if key.startswith("X-Storlet") or key == "X-Run-Storlet"
    ]


@pytest.mark.parametrize("after", [b"", b"half"])
def test_a_put_whose_storlet_fails_stores_nothing(
    make_proxy: Make, swift: FakeSwift, after: bytes
) -> None:
    proxy = make_proxy(failing(after))
    answer = proxy.call("PUT", "c/o", RUN, body=b"new")
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert swift.containers["c"].objects["o"].body == b"hello"
    assert_idle(proxy)


def test_a_put_whose_worker_ends_without_done_stores_nothing(
    make_proxy: Make, swift: FakeSwift
) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(worker.read())

    assert make_proxy(script).call("PUT", "c/o", RUN, body=b"new").status == 503
    assert swift.containers["c"].objects["o"].body == b"hello"


def test_swifts_answer_to_the_put_reaches_the_client(proxy: Proxy, swift: FakeSwift) -> None:
    swift.hooks["PUT", f"/v1/{ACCOUNT}/c/o"] = lambda request: Response(status=413, request=request)
    assert proxy.call("PUT", "c/o", RUN, body=b"x").status == 413
    assert "code=refused" in proxy.logger.text


def test_a_stall_that_swift_ends_is_the_storlets_and_stores_nothing(
    make_proxy: Make, swift: FakeSwift
) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x" * (2 << 20))  # more than the reserve: the PUT begins
        worker.wait_for_cancel()

    def put(request: Any) -> Any:
        try:
            with ChunkReadTimeout(0.2):
                while request.environ["wsgi.input"].read(65536):
                    pass
        except ChunkReadTimeout:
            return Response(status=408, request=request)
        return Response(status=201, request=request)

    swift.hooks["PUT", f"/v1/{ACCOUNT}/c/o"] = put
    answer = make_proxy(script).call("PUT", "c/o", RUN, body=b"x")
    assert (answer.status, answer.error) == (422, "storlet.timeout.idle")


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("COPY", "c/o", {"Destination": "/c/new%20x"}),
        ("PUT", "c/new%20x", {"X-Copy-From": "c/o", "Content-Length": "0"}),
    ],
)
def test_a_copy_stores_the_result_and_names_its_source(
    proxy: Proxy, swift: FakeSwift, method: str, path: str, headers: dict[str, str]
) -> None:
    swift.put("c", "o", b"hello", X_Object_Meta_Color="red", Content_Type="text/x")
    answer = proxy.call(method, path, {**RUN, **headers})
    assert answer.status == 201
    stored = swift.containers["c"].objects["new x"]
    assert (stored.body, stored.headers["X-Object-Meta-Color"]) == (b"HELLO", "red")
    assert stored.headers["Content-Type"] == "text/x"
    assert answer.headers["X-Storlet-Generated-From"] == "c/o"
    assert answer.headers["X-Storlet-Generated-From-Account"] == ACCOUNT
    assert answer.headers["X-Storlet-Generated-From-Last-Modified"].startswith("Sat, 01 Jan 2022")


def test_conditions_of_a_copy_are_the_sources_and_not_the_targets(
    proxy: Proxy, swift: FakeSwift
) -> None:
    headers = {**RUN, "Destination": "c/new", "If-None-Match": '"other"'}
    assert proxy.call("COPY", "c/o", headers).status == 201
    assert "If-None-Match" not in swift.requests("PUT", "c/new")[0].headers


@pytest.mark.usefixtures("source_with_metadata")
@pytest.mark.parametrize(
    ("plan", "stored", "modified"),
    [
        (
            PLAN,
            {"Content-Type": "text/csv", "X-Object-Meta-Color": "red", "X-Object-Meta-Study": "7"},
            True,
        ),
        (MANDATORY, {"Content-Type": "application/octet-stream"}, False),
        (
            replace(MANDATORY, passes=Passes(("study",), ("last-modified",))),
            {"Content-Type": "application/octet-stream", "X-Object-Meta-Study": "7"},
            True,
        ),
    ],
)
def test_copy_stores_only_headers_that_may_pass(
    harness: RunHarness, swift: FakeSwift, plan: Plan, stored: dict[str, str], *, modified: bool
) -> None:
    answer = harness.call("COPY", plan)
    assert (answer.status, swift.containers["c"].objects["copy"].body) == (201, b"HELLO")
    assert swift.containers["c"].objects["copy"].headers == stored
    assert ("X-Storlet-Generated-From-Last-Modified" in answer.headers) is modified


@pytest.mark.usefixtures("source_with_metadata")
def test_headers_that_the_client_sets_on_a_copy_are_stored(
    harness: RunHarness, swift: FakeSwift
) -> None:
    harness.call(
        "COPY", MANDATORY, headers={"X-Object-Meta-Mine": "1", "Content-Type": "text/x-own"}
    )
    assert swift.containers["c"].objects["copy"].headers == {
        "Content-Type": "text/x-own",
        "X-Object-Meta-Mine": "1",
    }


def test_put_stores_the_headers_of_the_client(harness: RunHarness, swift: FakeSwift) -> None:
    headers = {"X-Object-Meta-Mine": "1", "Content-Type": "text/x-own"}
    answer = harness.call("PUT", MANDATORY, headers=headers, body=b"new")
    assert (answer.status, swift.containers["c"].objects["o"].headers) == (201, headers)
    assert "in=3" in answer.headers["X-Storlet-Usage"]


def test_object_stored_by_a_reversible_rule_is_marked(
    harness: RunHarness, swift: FakeSwift
) -> None:
    seen = []
    swift.hooks["PUT", f"/v1/{ACCOUNT}/c/o"] = lambda request: seen.append(dict(request.headers))
    harness.call("PUT", replace(PLAN, reverse="R"), body=b"new")
    harness.call("PUT", PLAN, body=b"new")
    assert [headers.get("X-Object-Sysmeta-Storlet-Reverse") for headers in seen] == ["R", None]
