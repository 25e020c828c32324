"""The requested logs of a run as objects of the tenant."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from swift.common.swob import Request, Response

from storlet_middleware.proxy.execution.result import Usage
from storlet_middleware.proxy.log_objects import LogObjects
from storlet_middleware.proxy.requested_steps import steps_of
from storlet_middleware.wsgi.storlet_request import ObjectPath, StorletRequest
from tests.unit.middleware.rule_runs import PLAN, step_number
from tests.unit.middleware.support import ACCOUNT, RUN, FakeSwift, Proxy, WorkerRun, upper

pytestmark = pytest.mark.usefixtures("nothing_is_left_open")


Make = Callable[..., Proxy]


@pytest.mark.parametrize("fails", [False, True])
def test_the_log_becomes_an_object_whether_the_storlet_succeeds_or_not(
    make_proxy: Make, swift: FakeSwift, fails: bool
) -> None:
    def script(worker: WorkerRun) -> None:
        os.write(worker.log, b"line 1\n")
        worker.begin()
        worker.read()
        worker.fail() if fails else worker.succeed()

    proxy = make_proxy(script)
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Generate-Log": "True"})
    name = f"up.py/{answer.headers['X-Storlet-Invocation']}.log"
    log = swift.containers["storletlog"].objects[name].body
    assert log.startswith(b"line 1\n")
    used = "in=5;out=0" if fails else "cpu=0.250000;peak-memory=4096;in=5;out=0"
    assert log.decode().endswith(f"outcome: {'storlet.failed' if fails else 'ok'}\nusage: {used}\n")


def test_a_log_that_cannot_be_kept_fails_nothing(proxy: Proxy, swift: FakeSwift) -> None:
    def boom(request: Any) -> Any:
        raise RuntimeError("no")

    swift.hooks["PUT", f"/v1/{ACCOUNT}/storletlog"] = boom
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Generate-Log": "True"})
    assert (answer.status, answer.data, answer.broken) == (200, b"HELLO", None)
    assert "storlet.log.lost" in proxy.logger.stats


@pytest.mark.parametrize("is_lost", [False, True])
def test_the_answer_of_a_put_says_that_its_log_is_lost(
    proxy: Proxy, swift: FakeSwift, is_lost: bool
) -> None:
    if is_lost:
        swift.hooks["PUT", f"/v1/{ACCOUNT}/storletlog"] = lambda request: Response(
            status=507, request=request
        )
    headers = {**RUN, "X-Storlet-Generate-Log": "True"}
    answer = proxy.call("PUT", "c/new", headers, body=b"hello")
    assert (answer.status, answer.headers.get("X-Storlet-Log-Lost")) == (
        201,
        "true" if is_lost else None,
    )
    assert ("storlet.log.lost" in proxy.logger.stats) is is_lost


def test_step_that_requests_a_log_has_its_own(make: Any, swift: FakeSwift) -> None:
    def script(worker: WorkerRun) -> None:
        # The end of each log is for the record of a failure.
        os.write(worker.log, b"of the second\n" if step_number(worker) == 2 else b"first\n")
        upper(worker)

    plan = replace(PLAN, explicit_count=1)
    answer = make(script).call("GET", plan, ("up.py", "up.py"), last={"wants_log": True})
    (name, log), *others = swift.containers["storletlog"].objects.items()
    assert (name, others) == (f"up.py/{answer.headers['X-Storlet-Invocation']}.2.log", [])
    assert log.body.startswith(b"of the second\noutcome: ok\nusage: cpu=0.25")


def test_a_log_that_swift_refuses_is_reported_and_fails_nothing(
    proxy: Proxy, swift: FakeSwift
) -> None:
    def refuse(request: Any) -> Any:
        return Response(status=507, request=request)

    swift.put("storletlog", "x")
    path = f"/v1/{ACCOUNT}/storletlog/up.py/tx-9.log"
    swift.hooks["PUT", path] = refuse
    log = LogObjects(proxy.filter._proxy, Request.blank(f"/v1/{ACCOUNT}/c/o").environ, "tx-9")
    request = StorletRequest(
        "GET", "v1", ACCOUNT, "up.py", ObjectPath("c", "o"), None, {}, wants_log=True
    )
    result: Any = SimpleNamespace(log=b"line\n", usage=Usage({}, 3, 6))
    steps = steps_of("tx-9", [request, replace(request, wants_log=False)])
    log.store(steps, [result, result], "ok")
    assert len(swift.requests("PUT", ".log")) == 1
    assert "log not kept id=tx-9 status=507" in proxy.logger.text
