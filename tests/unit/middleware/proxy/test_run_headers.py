"""The headers of an answer that describe the run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from storlet_middleware.proxy.disclosure import Disclosure
from storlet_middleware.proxy.execution.result import Usage
from storlet_middleware.proxy.run_headers import RunHeaders
from storlet_middleware.proxy.times import Times
from tests.unit.middleware.rule_runs import PLAN, RunHarness
from tests.unit.middleware.storlets import failing
from tests.unit.middleware.support import RUN, FakeSwift, Node, Proxy

pytestmark = pytest.mark.usefixtures("nothing_is_left_open")


def test_each_answer_of_a_rules_run_names_the_rule(harness: RunHarness, make: Any) -> None:
    assert harness.call("GET", PLAN).headers["X-Storlet-Rule"] == "R"
    answer = make(failing()).call("GET", PLAN)
    assert (answer.status, answer.headers["X-Storlet-Rule"], answer.error) == (
        422,
        "R",
        "storlet.failed",
    )
    assert "X-Storlet-Rule" not in harness.call("GET", None).headers


@pytest.mark.parametrize("method", ["GET", "COPY", "PUT"])
def test_an_answer_names_a_placement_only_if_a_storlet_ran(
    proxy: Proxy, swift: FakeSwift, node: Node, method: str
) -> None:
    for headers, path, status in (
        ({"X-Run-Storlet": "missing.py"}, "c/o", 400),
        ({**RUN, "X-Storlet-Nonsense": "1"}, "c/o", 400),
        (RUN, "c/missing", 404),
        ({**RUN, "If-None-Match": "*"}, "c/o", 304),
        ({**RUN, "X-Storlet-Range": "bytes=99-"}, "c/o", 416),
    ):
        if method == "PUT" and status != 400:
            continue
        answer = proxy.call(method, path, {**headers, "Destination": "c/copy"})
        assert answer.status >= 300, answer
        assert answer.headers["X-Storlet-Invocation"].startswith("txtest-")
        assert "X-Storlet-Ran-On" not in answer.headers
    assert not node.workers.runs


def test_the_stages_before_the_first_byte_are_shown_in_milliseconds() -> None:
    times = Times(began=10.0, authorized=10.25, first_byte=11.0)
    execution: Any = SimpleNamespace(waited_seconds=0.5, result=None)
    headers = RunHeaders("tx-1", None, times, execution, Disclosure(None, [], reads_source=True))
    assert headers.now() == {
        "X-Storlet-Invocation": "tx-1",
        "Server-Timing": (
            "auth;dur=250.00, queue;dur=500.00, sandbox;dur=0.00, first-byte;dur=250.00"
        ),
    }


def test_the_usage_is_shown_when_it_is_final() -> None:
    result = SimpleNamespace(
        sandbox_seconds=0.0, has_run=True, ran_on="object", usage=Usage({}, 1, 2)
    )
    execution: Any = SimpleNamespace(waited_seconds=0.0, result=result)
    disclosure = Disclosure(None, [], reads_source=True)
    headers = RunHeaders("tx-1", None, Times(1.0), execution, disclosure)
    assert headers.now()["X-Storlet-Ran-On"] == "object"
    assert "X-Storlet-Usage" not in headers.now()
    headers.is_usage_final = True
    assert headers.now()["X-Storlet-Usage"] == result.usage.as_header()
