"""The facts of the source, the run and the error that a caller sees."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from swift.common.swob import Response

from rules.model import Passes
from storlet_middleware.errors import StorletError
from storlet_middleware.proxy.disclosure import Disclosure
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


def test_placement_of_a_mandatory_rule_is_shown_to_the_owner_only(
    harness: RunHarness, swift: FakeSwift
) -> None:
    swift.containers["c"].read = swift.containers["c"].write = swift.containers["storlet"].read = (
        BOB
    )
    assert harness.call("GET", MANDATORY).headers["X-Storlet-Ran-On"] == "proxy"
    assert harness.call("GET", PLAN, user=BOB).headers["X-Storlet-Ran-On"] == "proxy"
    for method in ("GET", "COPY"):
        assert "X-Storlet-Ran-On" not in harness.call(method, MANDATORY, user=BOB).headers
    put = harness.call("PUT", MANDATORY, user=BOB, body=b"x")
    assert put.headers["X-Storlet-Ran-On"] == "proxy"


def test_error_text_does_not_reveal_the_length_of_a_covered_source(
    harness: RunHarness, swift: FakeSwift
) -> None:
    swift.containers["c"].read = swift.containers["storlet"].read = BOB
    swift.containers["c"].objects["o"].chunks = lambda: [b"hel"]
    assert b"3 of 5" in harness.call("GET", PLAN, user=BOB).data
    answer = harness.call("GET", MANDATORY, user=BOB)
    assert (answer.status, b"3 of 5" in answer.data) == (503, False)


# --- the decisions --------------------------------------------------------------------------------

SOURCE = {
    "X-Object-Meta-Color": "red",
    "X-Object-Meta-Storlet-Main": "up.Up",
    "Access-Control-Allow-Origin": "*",
    "Content-Type": "text/csv",
    "Etag": "e",
    "Last-Modified": "then",
}
COLOR = {"X-Object-Meta-Color": "red"}
CORS = {"Access-Control-Allow-Origin": "*"}


@pytest.mark.parametrize(
    ("plan", "grants", "shown", "inherited"),
    [
        (None, [], COLOR | CORS, COLOR),
        (PLAN, [], COLOR | CORS, COLOR),
        (None, ["up.py"], {}, {}),
        (MANDATORY, [], {}, {}),
        (MANDATORY, ["up.py"], {}, {}),
        (replace(PLAN, passes=Passes(("color",), ("last-modified",))), [],
         COLOR | {"Last-Modified": "then"}, COLOR),
        (replace(MANDATORY, passes=Passes(("*",), ("*",))), ["up.py"], {}, {}),
    ],
)  # fmt: skip
def test_headers_of_the_source_need_read_access_and_the_rules_permission(
    plan: Plan | None, grants: list[str], shown: dict[str, str], inherited: dict[str, str]
) -> None:
    disclosure = Disclosure(plan, grants, reads_source=True)
    assert disclosure.answer_headers(SOURCE) == shown
    assert disclosure.inherited_metadata(SOURCE) == inherited


@pytest.mark.parametrize(
    ("plan", "grants", "is_shown"),
    [(None, [], True), (PLAN, [], True), (None, ["up.py"], False), (MANDATORY, [], False)],
)
def test_a_header_of_the_source_is_shown_likewise(
    plan: Plan | None, grants: list[str], is_shown: bool
) -> None:
    disclosure = Disclosure(plan, grants, reads_source=True)
    assert disclosure.shows_header("Last-Modified") is is_shown


def test_a_grant_counts_from_its_first_use() -> None:
    """The list is filled while the source is read, after the decisions were made."""
    used: list[str] = []
    disclosure = Disclosure(None, used, reads_source=True)
    assert not disclosure.hides_source_answer(404)
    used.append("up.py")
    assert disclosure.hides_source_answer(404)
    assert disclosure.answer_headers(SOURCE) == {}


@pytest.mark.parametrize("is_owner", [True, False])
@pytest.mark.parametrize("reads_source", [True, False])
@pytest.mark.parametrize("plan", [None, PLAN, MANDATORY])
def test_usage_reveals_the_length_of_a_covered_source(
    plan: Plan | None, reads_source: bool, is_owner: bool
) -> None:
    disclosure = Disclosure(plan, [], reads_source=reads_source)
    disclosure.is_owner = is_owner
    hidden = plan is MANDATORY and reads_source and not is_owner
    assert disclosure.shows_usage is not hidden
    assert disclosure.shows_placement is not hidden


def test_storlets_and_flows_see_the_placement_of_the_runs_that_they_request() -> None:
    disclosure = Disclosure(MANDATORY, [], reads_source=True, is_inner=True)
    assert (disclosure.shows_placement, disclosure.shows_usage) == (True, False)


@pytest.mark.parametrize(
    ("code", "plan", "is_owner", "text"),
    [
        ("storlet.failed", None, True, "secret"),
        ("storlet.failed", None, False, "the storlet failed; its owner can see why"),
        ("storlet.load", PLAN, False, "the storlet failed; its owner can see why"),
        ("storlet.limit.memory", None, False, "secret"),
        ("input.incomplete", PLAN, False, "secret"),
        ("input.incomplete", MANDATORY, True, "secret"),
        ("input.incomplete", MANDATORY, False, "the storlet's input could not be read"),
        ("backend.failed", MANDATORY, False, "the storlet's input could not be read"),
    ],
)
def test_only_owners_see_texts_of_the_tenant_and_the_covered_source(
    code: str, plan: Plan | None, is_owner: bool, text: str
) -> None:
    disclosure = Disclosure(plan, [], reads_source=True)
    disclosure.is_owner = is_owner
    shown = disclosure.error(StorletError("secret", code=code, detail="Traceback"))
    assert (str(shown), shown.code) == (text, code)
    assert bool(shown.detail) is is_owner
    named = disclosure.error(StorletError("secret", code=code), 1, ("a.py", "up.py", "b.py"))
    assert str(named) == f"step 2 of 3{' (up.py)' if is_owner else ''}: {text}"
