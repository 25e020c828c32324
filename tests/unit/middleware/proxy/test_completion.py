"""The end of a run: its record and its log objects."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from swift.common.swob import Response

from tests.unit.middleware.rule_runs import PLAN, TWO, step_number
from tests.unit.middleware.support import ACCOUNT, RUN, FakeSwift, Proxy, WorkerRun, upper

pytestmark = pytest.mark.usefixtures("nothing_is_left_open")


Make = Callable[..., Proxy]


# --- the record in the account --------------------------------------------------------------------


def records_of(proxy: Proxy, swift: FakeSwift) -> list[dict[str, Any]]:
    """The records that are written, after those that wait."""
    proxy.filter._proxy.records.flush()
    container = swift.containers.get("storletlog")
    objects = container.objects.items() if container else ()
    lines = [
        line
        for name, stored in objects
        if name.startswith(".runs/")
        for line in stored.body.splitlines()
    ]
    return [json.loads(line) for line in lines]


def wish(swift: FakeSwift, value: str) -> None:
    def answer(request: Any) -> Any:
        response = swift.respond(request)
        response.headers["X-Account-Meta-Storlet-Records"] = value
        return response

    swift.hooks["HEAD", f"/v1/{ACCOUNT}"] = answer


def test_a_success_is_recorded_on_request(proxy: Proxy, swift: FakeSwift) -> None:
    assert proxy.call("GET", "c/o", RUN).status == 200
    assert records_of(proxy, swift) == []
    wish(swift, "all")
    trace = "00-" + "0a" * 16 + "-" + "b7" * 8 + "-01"
    answer = proxy.call("GET", "c/o", {**RUN, "traceparent": trace})
    (record,) = records_of(proxy, swift)
    assert record["id"] == answer.headers["X-Storlet-Invocation"]
    known = {
        "caller": "test:tester", "method": "GET", "object": "c/o", "outcome": "ok", "code": "ok",
        "placement": "proxy", "cpu_seconds": 0.25, "peak_memory_bytes": 4096, "bytes_in": 5,
        "bytes_out": 5, "traceparent": trace, "account": ACCOUNT,
    }  # fmt: skip
    assert {name: record[name] for name in known} == known
    assert record["node"] == proxy.filter._config.sandbox.node_id
    (storlet,) = record["storlets"]
    assert (storlet["name"], len(storlet["hash"])) == ("up.py", 64)
    parts = record["auth_seconds"] + record["queue_seconds"]
    assert parts <= record["first_byte_seconds"] <= record["total_seconds"]
    assert 0 < record["worker_seconds"] < record["first_byte_seconds"]
    # The run before was the cold start.
    assert not {"code_seconds", "sandbox_seconds"} & set(record)
    assert not {"log", "traceback", "message"} & set(record)


def test_the_record_of_a_cold_start_has_its_parts(proxy: Proxy, swift: FakeSwift) -> None:
    wish(swift, "all")
    assert proxy.call("GET", "c/o", RUN).status == 200
    (record,) = records_of(proxy, swift)
    parts = record["code_seconds"] + record["sandbox_seconds"]
    assert 0 < parts <= record["cold_start_seconds"] < record["first_byte_seconds"]


def test_a_record_has_what_a_repetition_needs(proxy: Proxy, swift: FakeSwift) -> None:
    wish(swift, "all")
    headers = {**RUN, "X-Storlet-Range": "bytes=0-3", "X-Storlet-Limit-Memory": "64M"}
    path = "c/o?colour=red&temp_url_sig=secret"
    assert proxy.call("GET", path, {**headers, "X-Storlet-Parameter-1": "a:b"}).status == 200
    more = {**RUN, "X-Storlet-Extra-Resources": "/c/o"}
    assert proxy.call("PUT", "c/new", more, body=b"hello").status == 201
    long = {**RUN, "X-Storlet-Parameter-1": "a:" + "x" * 4096}
    assert proxy.call("GET", "c/o", long).status == 200
    first, put, last = records_of(proxy, swift)
    assert first["parameters"] == {"colour": "red", "a": "b"}
    assert (first["range"], first["limits"]) == ("bytes=0-3", {"Memory": 64 << 20})
    assert first["etag"] == hashlib.md5(b"hello", usedforsecurity=False).hexdigest()
    assert first["output_sha256"] == hashlib.sha256(b"HELL").hexdigest()
    assert put["output_sha256"] == hashlib.sha256(b"HELLO").hexdigest()
    assert "etag" not in put
    assert (put["resources"], put["resource_etags"]) == (["c/o"], [first["etag"]])
    assert "parameters" not in last


def test_another_version_than_the_required_one_does_not_run(proxy: Proxy, swift: FakeSwift) -> None:
    wish(swift, "all")
    assert proxy.call("GET", "c/o", RUN).status == 200
    (record,) = records_of(proxy, swift)
    wanted = {**RUN, "X-Storlet-If-Version": record["storlets"][0]["hash"]}
    assert proxy.call("GET", "c/o", wanted).status == 200
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-If-Version": "0" * 64})
    assert (answer.status, answer.headers["X-Storlet-Error"]) == (412, "precondition.failed")


def test_a_failure_is_recorded_with_its_reason_and_the_end_of_its_log(
    make_proxy: Make, swift: FakeSwift
) -> None:
    def script(worker: WorkerRun) -> None:
        os.write(worker.log, b"x" * 5000 + b"the end")
        worker.begin()
        worker.read()
        worker.fail("ValueError: no\nmore", traceback="Traceback: secret")

    proxy = make_proxy(script)
    assert proxy.call("GET", "c/o", RUN).status == 422
    (record,) = records_of(proxy, swift)
    assert (record["code"], record["message"]) == ("storlet.failed", "ValueError: no more")
    assert record["traceback"] == "Traceback: secret"
    assert (len(record["log"]), record["log"][-7:]) == (4096, "the end")


def test_none_keeps_no_record_and_no_log(make_proxy: Make, swift: FakeSwift) -> None:
    logs: list[int] = []

    def script(worker: WorkerRun) -> None:
        logs.append(worker.log)
        worker.begin()
        worker.fail()

    wish(swift, "none")
    proxy = make_proxy(script)
    assert proxy.call("GET", "c/o", RUN).status == 422
    assert (records_of(proxy, swift), logs) == ([], [-1])


@pytest.mark.parametrize(
    ("headers", "path", "code"),
    [
        (RUN, "c/missing", "refused"),
        ({**RUN, "X-Storlet-Range": "bytes=99-"}, "c/o", "range.unsatisfiable"),
        ({"X-Run-Storlet": "missing.py"}, "c/o", None),
        ({**RUN, "X-Storlet-Nonsense": "1"}, "c/o", None),
        ({**RUN, "If-None-Match": "*"}, "c/o", None),
    ],
)
def test_a_run_that_never_started_is_recorded_if_its_storlet_was_known(
    proxy: Proxy, swift: FakeSwift, headers: dict[str, str], path: str, code: str | None
) -> None:
    assert proxy.call("GET", path, headers).status >= 300
    assert [found["code"] for found in records_of(proxy, swift)] == ([code] if code else [])
    assert "invocation done" not in proxy.logger.text


def test_a_caller_without_access_to_the_storlet_fills_no_records(
    proxy: Proxy, swift: FakeSwift
) -> None:
    for user in ("test:bob", ""):
        assert proxy.call("GET", "c/o", RUN, user=user).status in (401, 403)
    assert records_of(proxy, swift) == []


def test_a_failing_log_container_fails_no_request(proxy: Proxy, swift: FakeSwift) -> None:
    wish(swift, "all")
    swift.hooks["PUT", f"/v1/{ACCOUNT}/storletlog"] = lambda request: Response(
        status=413, request=request
    )
    assert proxy.call("GET", "c/o", RUN).data == b"HELLO"
    assert records_of(proxy, swift) == []
    assert "storlet.records.lost" in proxy.logger.stats


def test_a_rules_run_names_its_rule_and_the_failed_step(make: Any, swift: FakeSwift) -> None:
    def script(worker: WorkerRun) -> None:
        if step_number(worker) == 2:
            worker.begin()
            worker.fail()
        else:
            upper(worker)

    harness = make(script)
    assert harness.call("GET", PLAN, TWO).status == 422
    (record,) = records_of(SimpleNamespace(filter=SimpleNamespace(_proxy=harness.proxy)), swift)
    assert (record["rule"], record["failed_step"]) == ("R", 2)
    assert record["placement"] == "proxy,proxy"
    assert [storlet["name"] for storlet in record["storlets"]] == ["up.py", "up.py"]


@pytest.mark.parametrize("until", ["1", "4000000000"])
@pytest.mark.parametrize("wish", ["none", "failures"])
def test_a_short_run_sends_its_log_only_if_the_account_was_followed_before(
    make_proxy: Make, swift: FakeSwift, monkeypatch: pytest.MonkeyPatch, until: str, wish: str
) -> None:
    def script(worker: WorkerRun) -> None:
        if worker.log >= 0:
            os.write(worker.log, b"line\n")
        upper(worker)

    told: list[tuple[str, str]] = []
    headers = {
        "X-Account-Meta-Storlet-Enabled": "true",
        "X-Account-Meta-Storlet-Records": wish,
        "X-Account-Sysmeta-Storlet-Followed-Until": until,
    }
    swift.hooks["HEAD", f"/v1/{ACCOUNT}"] = lambda request: Response(
        status=204, request=request, headers=headers
    )
    proxy = make_proxy(script)
    monkeypatch.setattr(
        proxy.filter._proxy.log_lines,
        "_add",
        lambda *given: told.append((given[3], given[4].text)),
    )
    assert proxy.call("GET", "c/o", RUN).status == 200
    assert told == ([("up.py", "line\n")] if until != "1" else [])
