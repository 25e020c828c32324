"""The end of a run: its log line, its metrics and its log objects."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

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


def test_step_that_requests_a_log_has_its_own(make: Any, swift: FakeSwift) -> None:
    def script(worker: WorkerRun) -> None:
        assert (worker.log >= 0) is (step_number(worker) == 2)
        if worker.log >= 0:
            os.write(worker.log, b"of the second\n")
        upper(worker)

    own = StorletRequest(
        "GET", "v1", ACCOUNT, "up.py", ObjectPath("c", "o"), None, {}, wants_log=True
    )
    answer = make(script).call("GET", replace(PLAN, further=(own,), explicit_last=True))
    (name, log), *others = swift.containers["storletlog"].objects.items()
    assert (name, others) == (f"up.py/{answer.headers['X-Storlet-Invocation']}.2.log", [])
    assert log.body.startswith(b"of the second\noutcome: ok\nusage: cpu=0.25")
