"""The facts of the source, the run and the error that a caller sees."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from swift.common.swob import Response

from rules.model import Passes
from storlet_middleware.proxy.plan import Plan
from tests.unit.middleware.rule_runs import BOB, MANDATORY, PLAN, RunHarness, setting
from tests.unit.middleware.storlets import failing
from tests.unit.middleware.support import ACCOUNT, RUN, Answer, FakeSwift, Proxy

pytestmark = pytest.mark.usefixtures("nothing_is_left_open")


Make = Callable[..., Proxy]


def test_only_the_owner_of_a_storlet_gets_its_traceback(make_proxy: Make, swift: FakeSwift) -> None:
    swift.containers["c"].read = swift.containers["storlet"].read = "test:bob"
    answer = make_proxy(failing()).call(
        "GET", "c/o", {**RUN, "Accept": "application/json"}, user="test:bob"
    )
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert b"secret" not in answer.data
    assert "detail" not in json.loads(answer.data)


def visible(answer: Answer) -> set[str]:
    return set(answer.headers) - {
        "X-Storlet-Usage", "X-Storlet-Invocation", "X-Storlet-Ran-On", "Server-Timing",
        "X-Storlet-Rule", "Content-Length",
    }  # fmt: skip


@pytest.mark.usefixtures("source_with_metadata")
@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (
            PLAN,
            {"Content-Type", "X-Object-Meta-Color", "X-Object-Meta-Study",
             "Access-Control-Expose-Headers"},
        ),
        (MANDATORY, {"Content-Type"}),
        (replace(PLAN, passes=Passes()), {"Content-Type"}),
        (replace(MANDATORY, passes=Passes(("study",))), {"Content-Type", "X-Object-Meta-Study"}),
        (
            replace(MANDATORY, passes=Passes(("*",), ("*",))),
            {"Content-Type", "X-Object-Meta-Color", "X-Object-Meta-Study", "Content-Disposition",
             "X-Timestamp", "Access-Control-Expose-Headers", "Last-Modified"},
        ),
    ],
)  # fmt: skip
def test_only_permitted_headers_of_the_source_pass(
    harness: RunHarness, plan: Plan, expected: set[str]
) -> None:
    answer = harness.call("GET", plan)
    assert (answer.status, answer.data, visible(answer)) == (200, b"HELLO", expected)


@pytest.mark.usefixtures("source_with_metadata")
@pytest.mark.parametrize(
    ("plan", "content_type"),
    [
        (PLAN, "text/csv"),
        (MANDATORY, "application/octet-stream"),
        (replace(MANDATORY, passes=Passes(headers=("content-type",))), "text/csv"),
    ],
)
def test_content_type_comes_from_the_storlet_or_passes_from_the_source(
    make: Any, plan: Plan, content_type: str
) -> None:
    assert make().call("GET", plan).headers["Content-Type"] == content_type
    answer = make(setting(**{"Content-Type": "image/png", "color": "blue"})).call("GET", plan)
    assert (answer.headers["Content-Type"], answer.headers["X-Object-Meta-Color"]) == (
        "image/png",
        "blue",
    )


@pytest.mark.parametrize("status", [404, 304, 412, 503])
def test_only_the_status_of_a_refused_source_passes_a_mandatory_rule(
    harness: RunHarness, swift: FakeSwift, status: int
) -> None:
    source_headers = {
        "Etag": "e",
        "Last-Modified": "x",
        "X-Object-Meta-Color": "red",
        "Content-Range": "bytes */5",
    }
    swift.hooks["GET", f"/v1/{ACCOUNT}/c/o"] = lambda request: Response(
        status=status, headers=source_headers, request=request
    )
    assert set(source_headers) <= set(harness.call("GET", PLAN).headers)
    answer = harness.call("GET", MANDATORY)
    assert (
        answer.status,
        set(source_headers) & set(answer.headers),
        answer.headers["X-Storlet-Rule"],
    ) == (status, set(), "R")


def test_usage_of_a_mandatory_rule_is_shown_to_the_owner_only(
    harness: RunHarness, swift: FakeSwift
) -> None:
    swift.containers["c"].read = swift.containers["c"].write = swift.containers["storlet"].read = (
        BOB
    )
    assert "in=5" in harness.call("COPY", MANDATORY).headers["X-Storlet-Usage"]
    assert "in=5" in harness.call("COPY", PLAN, user=BOB).headers["X-Storlet-Usage"]
    for method in ("GET", "COPY"):
        assert "X-Storlet-Usage" not in harness.call(method, MANDATORY, user=BOB).headers
    assert "X-Storlet-Usage" in harness.call("PUT", MANDATORY, user=BOB, body=b"x").headers


def test_error_text_does_not_reveal_the_length_of_a_covered_source(
    harness: RunHarness, swift: FakeSwift
) -> None:
    swift.containers["c"].read = swift.containers["storlet"].read = BOB
    swift.containers["c"].objects["o"].chunks = lambda: [b"hel"]
    assert b"3 of 5" in harness.call("GET", PLAN, user=BOB).data
    answer = harness.call("GET", MANDATORY, user=BOB)
    assert (answer.status, b"3 of 5" in answer.data) == (503, False)
