"""The end of a run: its log line, its metrics and its log objects."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from swift.common.swob import Request, Response

from storlet_middleware.proxy.completion import LogObjects, RunRecord
from storlet_middleware.proxy.result import Usage
from storlet_middleware.proxy.steps import Step
from storlet_middleware.wsgi.storlet_request import ObjectPath, StorletRequest
from tests.unit.middleware.rule_runs import PLAN, step_number
from tests.unit.middleware.support import ACCOUNT, RUN, FakeSwift, Logger, Proxy, WorkerRun, upper

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


# --- the record of a run --------------------------------------------------------------------------

RECORD = RunRecord(
    id="tx-1",
    account="AUTH_ü",
    storlets=("up.py", "a b,c.py"),
    method="GET",
    placement="object,proxy",
    reason="default",
    code="storlet.failed",
    seconds=1.5,
    first_byte_seconds=0.25,
    waited_seconds=0.0625,
    usage=Usage({"cpu_seconds": 0.5, "peak_memory_bytes": 7}, 3, 6),
)


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        ({}, ""),
        ({"plan": PLAN}, " rule=R"),
        ({"plan": PLAN, "failed_step": 1}, " rule=R failed_step=2"),
        ({"plan": replace(PLAN, rule="", is_reversing=True)}, " rule=- undone=1"),
    ],
)
def test_a_run_has_one_log_line_in_the_form_of_all_releases(
    changes: dict[str, Any], end: str
) -> None:
    logger = Logger()
    replace(RECORD, **changes).report(logger)
    assert logger.text == (
        "invocation done id=tx-1 account=AUTH_%C3%BC storlet=up.py,a%20b%2Cc.py method=GET"
        " placement=object,proxy why=default code=storlet.failed ms=1500.0 waited_ms=62.5"
        f" in=3 out=6 cpu=0.500000 peak-memory=7{end}"
    )
    assert logger.stats == [
        "storlet.GET.storlet-failed.timing",
        "storlet.GET.first-byte",
        "storlet.GET.xfer",
    ]


def test_names_cannot_add_fields_or_lines_to_the_log() -> None:
    logger = Logger()
    replace(RECORD, account="a code=ok\nb", storlets=("x code=ok\r\ny",)).report(logger)
    (line,) = logger.lines
    assert len(line.splitlines()) == 1
    assert line.count(" code=") == 1


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
    result: Any = SimpleNamespace(log=b"line\n", usage=RECORD.usage)
    log.store([Step(request, "tx-9"), Step(replace(request, wants_log=False), "tx-9.2")],
              [result, result], "ok")  # fmt: skip
    assert len(swift.requests("PUT", ".log")) == 1
    assert "log not kept id=tx-9 status=507" in proxy.logger.text
