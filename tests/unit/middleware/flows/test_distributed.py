"""``std:distributed`` at a proxy: objects, results, failures, rights, and its end."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from swift.common.exceptions import ChunkReadTimeout
from swift.common.swob import HTTPServiceUnavailable, Response

from storlet_middleware.errors import BackendFailed
from storlet_middleware.flows import distributed, merges, splits, spool
from storlet_middleware.proxy.completion import Completion
from storlet_middleware.routes import Route
from tests.unit.middleware.support import (
    ACCOUNT,
    Answer,
    FakeSwift,
    Node,
    Proxy,
    WorkerRun,
    assert_idle,
    make_config,
    wait_until,
)

READER = "test2:reader"
ACCOUNT_PATH = f"/v1/{ACCOUNT}"
LINES = {"Accept": "application/x-ndjson"}


@pytest.fixture
def data(swift: FakeSwift) -> FakeSwift:
    for number in range(12):
        swift.put("c", f"a/{number:02}.txt", f"text {number}\n".encode())
    swift.put("c", "b.log", b"log", X_Object_Meta_Colour="red")
    return swift


def start(
    proxy: Proxy, document: dict[str, Any], headers: dict[str, str] | None = None, **more: Any
) -> Any:
    own = {"X-Run-Storlet": "std:distributed", **(headers or {})}
    body = json.dumps(document).encode()
    return proxy.start("POST", ACCOUNT_PATH, own, body=body, **more)


def distribute(
    proxy: Proxy, document: dict[str, Any], headers: dict[str, str] | None = None, **more: Any
) -> Answer:
    own = {"X-Run-Storlet": "std:distributed", **(headers or {})}
    body = json.dumps(document).encode()
    answer: Answer = proxy.call("POST", ACCOUNT_PATH, own, body=body, **more)
    return answer


def rows(answer: Answer) -> list[dict[str, Any]]:
    assert answer.status == 200, answer.data
    return [json.loads(line) for line in answer.data.splitlines()]


def assert_ended(proxy: Proxy, swift: FakeSwift) -> None:
    """Nothing runs and nothing is open."""
    assert wait_until(lambda: swift.unclosed() == 0)
    assert_idle(proxy)
    flows = proxy.filter._of_account[Route.DISTRIBUTE]
    assert flows._running == {}
    assert wait_until(lambda: flows._shared.space.used_bytes == 0)


ALL = {"objects": {"container": "c", "prefix": "a/"}, "split": "std:nop"}


@pytest.mark.parametrize("headers", [{}, LINES])
def test_a_line_for_each_object(proxy: Proxy, data: FakeSwift, headers: dict[str, str]) -> None:
    answer = distribute(proxy, {**ALL, "order": "listing"}, headers)
    found = rows(answer)
    assert [row["path"] for row in found] == [f"/c/a/{number:02}.txt" for number in range(12)]
    assert found[3] == {
        "path": "/c/a/03.txt",
        "outcome": "ok",
        "code": "ok",
        "milliseconds": found[3]["milliseconds"],
        "bytes": 7,
        "etag": hashlib.md5(b"TEXT 3\n", usedforsecurity=False).hexdigest(),
        "output": "TEXT 3\n",
    }
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert "distribution done id=txtest" in proxy.logger.text
    assert_ended(proxy, data)


def test_concat_is_in_the_order_of_the_listing(proxy: Proxy, data: FakeSwift) -> None:
    answer = distribute(proxy, {**ALL, "merge": "concat"})
    assert answer.data == b"".join(b"TEXT %d\n" % number for number in range(12))
    answer = distribute(proxy, {**ALL, "merge": "concat", "order": "arrival"})
    assert sorted(answer.data.splitlines()) == sorted(b"TEXT %d" % number for number in range(12))
    assert_ended(proxy, data)


@pytest.mark.parametrize(
    ("objects", "names"),
    [
        (["/c/a/01.txt", "c/b.log"], ["/c/a/01.txt", "/c/b.log"]),
        ({"manifest": "/c/list"}, ["/c/b.log", "/c/a/00.txt"]),
        ({"container": "c", "suffix": ".log"}, ["/c/b.log"]),
        ({"container": "c", "glob": "a/1*.txt"}, ["/c/a/10.txt", "/c/a/11.txt"]),
        ({"container": "c", "metadata": {"Colour": "red"}}, ["/c/b.log"]),
    ],
)
def test_objects(proxy: Proxy, data: FakeSwift, objects: Any, names: list[str]) -> None:
    data.put("c", "list", b"/c/b.log\nc/a/00.txt\n\n")
    answer = distribute(proxy, {"objects": objects, "split": "std:nop"})
    assert [row["path"] for row in rows(answer)] == names
    assert_ended(proxy, data)


@pytest.mark.parametrize(
    ("objects", "status", "text"),
    [
        ({"container": "none"}, 404, "there is no container none"),
        ({"container": "c", "prefix": "zzz"}, 404, "objects: there are none"),
        ({"container": "c", "metadata": {"Colour": "blue"}}, 404, "none has the metadata"),
        ({"manifest": "/c/none"}, 404, "/c/none: 404"),
        ({"manifest": "/c/b.log"}, 400, "line 1: 'log': want /container/object"),
        (["/c/b.log", "c/b.log"], 400, "/c/b.log is there twice"),
    ],
)
def test_wrong_objects(proxy: Proxy, data: FakeSwift, objects: Any, status: int, text: str) -> None:
    answer = distribute(proxy, {"objects": objects, "split": "std:nop"})
    assert answer.status == status, answer.data
    assert text in answer.data.decode()
    assert_ended(proxy, data)


def test_too_many_objects(swift: FakeSwift, node: Node, short_dir: Path) -> None:
    proxy = Proxy(swift, make_config(short_dir, library__distributed_objects="3"))
    for number in range(4):
        swift.put("c", str(number), b"x")
    answer = distribute(proxy, {"objects": {"container": "c"}, "split": "std:nop"})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert b"more than 3" in answer.data
    assert node.workers.runs == []


def failing(worker: WorkerRun) -> None:
    """Fail for the text 5."""
    content = worker.read()
    worker.begin()
    if b"5" in content:
        worker.fail("ValueError: five")
        return
    worker.write(content)
    worker.succeed()


def test_the_first_failure_ends_everything_and_names_the_object(
    proxy: Proxy, data: FakeSwift, node: Node
) -> None:
    node.workers.script = failing
    answer = distribute(proxy, {**ALL, "concurrency": 1})
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert b"/c/a/05.txt: " in answer.data
    assert len(node.workers.runs) == 6
    assert "failed=1 code=storlet.failed" in proxy.logger.text
    assert_ended(proxy, data)


def test_a_failure_after_the_first_line_breaks_the_answer(
    proxy: Proxy, data: FakeSwift, node: Node
) -> None:
    node.workers.script = failing
    answer = distribute(proxy, {**ALL, "concurrency": 1}, LINES)
    assert answer.status == 200
    assert answer.broken is not None
    last = json.loads(answer.data.splitlines()[-1])
    assert (last["path"], last["outcome"]) == ("/c/a/05.txt", "failed")
    answer = distribute(proxy, {**ALL, "merge": "concat", "concurrency": 1})
    assert answer.broken is not None
    assert b"5" not in answer.data
    assert_ended(proxy, data)


def test_failures_may_be_reported(proxy: Proxy, data: FakeSwift, node: Node) -> None:
    node.workers.script = failing
    found = rows(distribute(proxy, {**ALL, "on-failure": "report"}))
    failed = [row for row in found if row["outcome"] == "failed"]
    assert (len(found), [row["path"] for row in failed]) == (12, ["/c/a/05.txt"])
    assert failed[0]["code"] == "storlet.failed"
    assert "bytes" not in failed[0]
    assert_ended(proxy, data)


def test_only_what_has_not_run_is_repeated(
    proxy: Proxy, data: FakeSwift, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "_PAUSES", (0.0, 0.0))
    tries = []

    def busy(request: Any) -> Any:
        tries.append(request.method)
        return None if len(tries) > 2 else HTTPServiceUnavailable(request=request)

    data.hooks["GET", f"{ACCOUNT_PATH}/c/b.log"] = busy
    found = rows(distribute(proxy, {"objects": ["/c/b.log"], "split": "std:nop"}))
    assert found[0]["output"] == "LOG"
    node.workers.script = lambda worker: worker.fail()
    before = len(node.workers.runs)
    assert distribute(proxy, {"objects": ["/c/b.log"], "split": "std:nop"}).status == 422
    assert len(node.workers.runs) == before + 1
    assert_ended(proxy, data)


def test_a_storlet_that_has_run_is_not_repeated_with_legacy_status(
    swift: FakeSwift, node: Node, short_dir: Path
) -> None:
    proxy = Proxy(swift, make_config(short_dir), legacy_status="true")
    swift.put("c", "o", b"x")
    node.workers.script = lambda worker: worker.fail()
    answer = distribute(proxy, {"objects": ["/c/o"], "split": "std:nop"})
    assert answer.error == "storlet.failed"
    assert len(node.workers.runs) == 1


def test_a_timeout_of_swift_is_a_failure(proxy: Proxy, data: FakeSwift) -> None:
    def late(request: Any) -> Any:
        raise ChunkReadTimeout

    data.hooks["HEAD", f"{ACCOUNT_PATH}/c/b.log"] = late
    objects = {"container": "c", "metadata": {"Colour": "red"}}
    answer = distribute(proxy, {"objects": objects, "split": "std:nop"})
    assert (answer.status, answer.error) == (503, "backend.failed")
    assert_ended(proxy, data)


def test_a_caller_does_not_use_up_the_distributions_of_others(
    swift: FakeSwift, data: FakeSwift, node: Node, short_dir: Path
) -> None:
    proxy = Proxy(swift, make_config(short_dir, invocation__max_inflight_per_tenant="8"))
    data.containers["c"].read = READER
    document = {**ALL, "concurrency": 1}
    begun = start(proxy, document, LINES, user=READER)
    assert next(begun.app_iter)
    second = distribute(proxy, document, user=READER)
    assert (second.status, second.error) == (429, "tenant.busy")
    assert len(rows(distribute(proxy, document))) == 12
    begun.app_iter.close()
    assert_ended(proxy, data)


def test_each_object_is_read_with_the_rights_of_the_caller(proxy: Proxy, data: FakeSwift) -> None:
    data.put("closed", "o", b"secret")
    data.containers["c"].read = READER
    document = {"objects": ["/c/b.log", "/closed/o"], "split": "std:nop"}
    found = rows(distribute(proxy, {**document, "on-failure": "report"}, user=READER))
    assert [row["outcome"] for row in found] == ["ok", "failed"]
    assert found[1]["code"] == "access.denied"
    assert not {"bytes", "etag", "output"} & set(found[1])
    assert distribute(proxy, document, user=READER).status == 403
    listed = {"objects": {"container": "closed"}, "split": "std:nop"}
    assert distribute(proxy, listed, user=READER).status == 403
    assert distribute(proxy, document, user="").status == 401
    assert_ended(proxy, data)


def test_the_parameters_of_the_split_are_its_own(proxy: Proxy, data: FakeSwift, node: Node) -> None:
    parameters = {"pattern": "a:ü&b", "count": True}
    document = {
        "objects": ["/c/b.log"],
        "split": {"storlet": "std:grep", "parameters": parameters, "limits": {"output": "1M"}},
    }
    assert len(rows(distribute(proxy, document))) == 1
    given = dict(node.workers.runs[0].invoke.parameters)
    assert (given["pattern"], given["count"], given["invert"]) == ("a:ü&b", "true", "false")


def test_a_large_output_is_counted_and_not_repeated(
    proxy: Proxy, data: FakeSwift, node: Node
) -> None:
    data.put("c", "large", b"x" * 5000)
    data.put("c", "bytes", b"\xff")
    found = rows(distribute(proxy, {"objects": ["/c/large", "/c/bytes"], "split": "std:nop"}))
    assert (found[0]["bytes"], "output" in found[0]) == (5000, False)
    assert found[1]["output_base64"] == "/w=="


def test_intermediate_results_have_a_budget(swift: FakeSwift, node: Node, short_dir: Path) -> None:
    proxy = Proxy(swift, make_config(short_dir, library__distributed_spool_bytes="64K"))
    swift.put("c", "large", b"x" * (100 << 10))
    answer = distribute(proxy, {"objects": ["/c/large"], "split": "std:nop", "merge": "concat"})
    assert (answer.status, answer.error) == (422, "storlet.limit.output")
    assert_ended(proxy, swift)


def test_all_faults_of_the_body_come_at_once(proxy: Proxy, data: FakeSwift) -> None:
    document = {
        "object": 1,
        "objects": {"container": "a/b", "suffixx": 1, "prefix": 7},
        "split": {"storlet": "std:sequence", "parameters": {"storlet_x": 1}},
        "merge": {"limits": {"colour": 1}},
        "order": "random",
        "concurrency": 1000,
        "on-failure": "report",
        "output": "/storletlog/o",
    }
    answer = distribute(proxy, document)
    assert (answer.status, answer.error) == (400, "bad_request")
    for text in (
        "object: unknown; did you mean objects?",
        "objects.suffixx: unknown; did you mean suffix?",
        "objects.prefix: 7: want a text",
        "objects.container: 'a/b': want the name of a container",
        "split.storlet: std:sequence: a flow cannot be a part of a flow",
        "split: parameter 'storlet_x'",
        "merge.storlet: None: want the name",
        "merge: X-Storlet-Limit-Colour",
        "order: 'random': want listing or arrival",
        "concurrency: '1000': want 1 to 16",
        "on-failure: 'report': only without merge",
        "output: '/storletlog/o': no result is stored in storletlog",
    ):
        assert text in answer.data.decode(), text


def test_headers_of_runs_are_refused(proxy: Proxy, data: FakeSwift) -> None:
    answer = distribute(proxy, ALL, {"X-Storlet-Range": "bytes=0-1"})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert b"X-Storlet-Range: not with std:distributed" in answer.data


def test_it_can_be_switched_off(swift: FakeSwift, node: Node, short_dir: Path) -> None:
    proxy = Proxy(swift, make_config(short_dir, library__disabled="std:distributed"))
    assert distribute(proxy, ALL).error == "storlet.not_found"


def test_closing_the_answer_ends_all_splits(proxy: Proxy, data: FakeSwift, node: Node) -> None:
    def slow(worker: WorkerRun) -> None:
        if b"0\n" in worker.read():
            worker.begin()
            worker.succeed()
        else:
            worker.wait_for_cancel(10)

    node.workers.script = slow
    answer = start(proxy, {**ALL, "concurrency": 4}, LINES)
    assert next(answer.app_iter)
    answer.app_iter.close()
    assert_ended(proxy, data)
    assert "code=client.gone" in proxy.logger.text


# --- rights ---------------------------------------------------------------------------------------


def test_the_right_to_the_storlet_comes_before_all_reads(proxy: Proxy, data: FakeSwift) -> None:
    data.put_storlet("own.py")
    data.containers["c"].read = READER
    objects = {"container": "c", "metadata": {"Colour": "red"}}
    answer = distribute(proxy, {"objects": objects, "split": "own.py"}, user=READER)
    assert (answer.status, answer.error) == (403, "access.denied")
    assert b"split: own.py: " in answer.data
    assert not data.requests("HEAD", "b.log")
    assert not [seen for seen in data.requests("GET", "/c") if "prefix" in seen.query]
    assert_ended(proxy, data)


# --- output ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"merge": "std:sum"}], ids=["lines", "merge"])
def test_an_answer_that_cannot_begin_leaves_no_result_behind(
    proxy: Proxy, data: FakeSwift, node: Node, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    end = distributed._Flow.end

    def fail(flow: Any, code: str) -> None:
        if code == "ok":
            raise RuntimeError
        end(flow, code)

    node.workers.script = joining
    monkeypatch.setattr(distributed._Flow, "end", fail)
    assert distribute(proxy, {**ALL, **more}).status == 500
    assert_ended(proxy, data)


STORED = {**ALL, "output": "/out/o 1"}


@pytest.fixture
def out(data: FakeSwift) -> dict[str, Any]:
    """The objects of a container for results."""
    data.put("out", "other")
    data.containers["out"].objects.clear()
    found: dict[str, Any] = data.containers["out"].objects
    return found


@pytest.mark.parametrize("merge", ["concat", "std:sum"])
def test_the_result_becomes_an_object(
    proxy: Proxy, data: FakeSwift, node: Node, out: dict[str, Any], merge: str
) -> None:
    if merge == "concat":
        body = b"".join(b"TEXT %d\n" % number for number in range(12))
    else:
        node.workers.script, body = joining, b"(0,1,2,3,4,5,6,7,8,9,10,11)"
    answer = distribute(proxy, {**STORED, "merge": merge})
    assert answer.status == 201, answer.data
    assert out["o 1"].body == body
    wanted = "text/plain; charset=utf-8" if merge == "concat" else "text/x-merged"
    assert out["o 1"].headers["Content-Type"] == wanted
    etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
    assert json.loads(answer.data) == {
        "output": "/out/o%201", "bytes": len(body), "etag": etag, "objects": 12, "failed": 0,
    }  # fmt: skip
    assert answer.headers["Etag"] == etag
    assert answer.headers["Content-Length"] == str(len(answer.data))
    (put,) = data.requests("PUT")
    assert put.source == "ST"
    assert_ended(proxy, data)


@pytest.mark.parametrize("headers", [{}, LINES])
def test_lines_become_an_object(
    proxy: Proxy, data: FakeSwift, node: Node, out: dict[str, Any], headers: dict[str, str]
) -> None:
    node.workers.script = failing
    answer = distribute(proxy, {**STORED, "on-failure": "report"}, headers)
    assert (answer.status, json.loads(answer.data)["failed"]) == (201, 1)
    found = [json.loads(line) for line in out["o 1"].body.splitlines()]
    assert [row["path"] for row in found] == [f"/c/a/{number:02}.txt" for number in range(12)]
    assert out["o 1"].headers["Content-Type"] == "application/x-ndjson"
    assert_ended(proxy, data)


def test_a_large_result_is_streamed(
    proxy: Proxy, data: FakeSwift, node: Node, out: dict[str, Any]
) -> None:
    for number in range(3):
        data.put("c", f"a/{number:02}.txt", b"x" * (1 << 20))
    assert distribute(proxy, {**STORED, "merge": "concat"}).status == 201
    assert len(out["o 1"].body) == (3 << 20) + 65
    assert_ended(proxy, data)


@pytest.mark.parametrize("size", [1, 2 << 20])
@pytest.mark.parametrize("merge", ["concat", "std:sum"])
def test_a_failure_stores_nothing(
    proxy: Proxy, data: FakeSwift, node: Node, out: dict[str, Any], merge: str, size: int
) -> None:
    """Also after the PUT has begun, and the old object stays."""
    old = data.put("out", "o 1", b"old")
    for number in range(5):
        data.put("c", f"a/{number:02}.txt", b"x" * size)

    def fails(worker: WorkerRun) -> None:
        worker.fail("ValueError: no") if "." in worker.invoke.id else failing(worker)

    node.workers.script = fails
    answer = distribute(proxy, {**STORED, "merge": merge, "concurrency": 1})
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert out == {"o 1": old}
    assert_ended(proxy, data)


def test_splits_that_cannot_be_closed_leave_no_intermediate_result(
    proxy: Proxy, data: FakeSwift, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = splits.Splits.close

    def closed(running: splits.Splits) -> None:
        close(running)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(splits.Splits, "close", closed)
    node.workers.script = failing
    assert distribute(proxy, {**ALL, "merge": "std:sum", "concurrency": 1}).status == 500
    assert_ended(proxy, data)


def test_swifts_refusal_of_the_result_is_the_answer(
    proxy: Proxy, data: FakeSwift, out: dict[str, Any]
) -> None:
    def full(request: Any) -> Any:
        return Response(status=507, request=request)

    for number in range(3):
        data.put("c", f"a/{number:02}.txt", b"x" * (1 << 20))
    place = f"{ACCOUNT_PATH}/out/o"
    data.hooks["PUT", place] = full
    answer = distribute(proxy, {**STORED, "merge": "concat", "output": "/out/o"})
    assert (answer.status, answer.error) == (503, "backend.failed")
    assert b"output /out/o: Swift answered 507" in answer.data

    def at_the_end(request: Any) -> Any:
        while request.environ["wsgi.input"].read(65536):
            pass
        return Response(status=503, request=request)

    data.hooks["PUT", place] = at_the_end
    assert distribute(proxy, {**STORED, "output": "/out/o"}).error == "backend.failed"
    assert out == {}
    assert_ended(proxy, data)


@pytest.mark.parametrize(
    ("output", "answered", "text"),
    [
        ("/none/o", (404, "target.not_found"), "output: there is no container none"),
        ("/storlet/o", (400, "bad_request"), "no result is stored in storlet"),
        ("/dependency/o", (400, "bad_request"), "no result is stored in dependency"),
        ("/storlet_rules/o", (400, "bad_request"), "no result is stored in storlet_rules"),
        ("/out/" + "ü" * 513, (400, "bad_request"), "the name of the object has more than 1024"),
        ("/out", (400, "bad_request"), "output: '/out': want /container/object"),
        (["/out/o"], (400, "bad_request"), "output: ['/out/o']: want /container/object"),
        ("/c/a/03.txt", (400, "bad_request"), "/c/a/03.txt is one of the objects that are read"),
    ],
)
@pytest.mark.usefixtures("out")
def test_a_wrong_output_is_refused_before_any_split(
    proxy: Proxy, data: FakeSwift, node: Node, output: Any, answered: Any, text: str
) -> None:
    answer = distribute(proxy, {**ALL, "output": output})
    assert (answer.status, answer.error) == answered, answer.data
    assert text in answer.data.decode()
    assert node.workers.runs == []
    assert_ended(proxy, data)


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("X-Container-Meta-Quota-Count", "quota of objects of the container out"),
        ("X-Container-Meta-Quota-Bytes", "quota of bytes of the container out"),
        ("X-Account-Meta-Quota-Bytes", "the account's quota of bytes is used up"),
        ("X-Account-Sysmeta-Quota-Count", "the account's quota of objects is used up"),
    ],
)
@pytest.mark.usefixtures("out")
def test_a_quota_that_is_used_up_is_refused_before_any_split(
    proxy: Proxy, data: FakeSwift, node: Node, header: str, text: str
) -> None:
    used = {
        f"X-{kind}-{unit}": "3"
        for kind in ("Account", "Container")
        for unit in ("Bytes-Used", "Object-Count")
    }
    data.account_headers |= used
    data.containers["out"].sysmeta |= used
    is_container = header.startswith("X-Container")
    place = data.containers["out"].sysmeta if is_container else data.account_headers
    place[header] = "3"
    answer = distribute(proxy, {**ALL, "output": "/out/o"})
    assert (answer.status, answer.error) == (413, "swift.refused"), answer.data
    assert text in answer.data.decode()
    assert node.workers.runs == []
    place[header] = "4"
    assert distribute(proxy, {**ALL, "output": "/out/o"}).status == 201
    assert_ended(proxy, data)


def test_the_right_to_write_is_the_callers(
    proxy: Proxy, data: FakeSwift, node: Node, out: dict[str, Any]
) -> None:
    data.containers["c"].read = data.containers["out"].read = READER
    answer = distribute(proxy, {**ALL, "output": "/out/o"}, user=READER)
    assert (answer.status, answer.error) == (403, "access.denied")
    assert node.workers.runs == []
    data.containers["out"].write = READER
    assert distribute(proxy, {**ALL, "output": "/out/o"}, user=READER).status == 201
    assert list(out) == ["o"]
    assert_ended(proxy, data)


def test_a_merge_sees_the_metadata_of_its_inputs(
    proxy: Proxy, data: FakeSwift, node: Node, out: dict[str, Any]
) -> None:
    seen = []

    def script(worker: WorkerRun) -> None:
        if "." in worker.invoke.id:
            seen.extend(dict(item.metadata) for item in worker.invoke.inputs)
        content = worker.read()
        worker.begin(**{"Content-Type": "text/x-part", "Kind": "ü"})
        worker.write(content)
        worker.succeed()

    node.workers.script = script
    assert distribute(proxy, {**STORED, "merge": "std:sum"}).status == 201
    assert seen == [{"Kind": "ü"}] * 12
    assert out["o 1"].headers["X-Object-Meta-Kind"]
    assert_ended(proxy, data)


# --- merge ----------------------------------------------------------------------------------------


def joining(worker: WorkerRun) -> None:
    """As the merge: ``(`` all inputs ``)``; as the split: the input."""
    inputs = []
    for fd in worker.inputs:
        with os.fdopen(os.dup(fd), "rb") as file:
            inputs.append(file.read())
    worker.begin(**{"Content-Type": "text/x-merged", "Inputs": str(len(inputs))})
    is_merge = "." in worker.invoke.id
    content = b"(" + b",".join(inputs) + b")" if is_merge else inputs[0].strip()[5:]
    worker.write(content)
    worker.succeed()


MERGED = {**ALL, "merge": "std:sum"}


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (16, b"(0,1,2,3,4,5,6,7,8,9,10,11)"),
        (5, b"((0,1,2,3,4),(5,6,7,8,9),(10,11))"),
        (2, b"((((0,1),(2,3)),((4,5),(6,7))),((8,9),(10,11)))"),
    ],
)
def test_merges_are_a_tree_in_the_order_of_the_objects(
    swift: FakeSwift, data: FakeSwift, node: Node, short_dir: Path, inputs: int, expected: bytes
) -> None:
    proxy = Proxy(swift, make_config(short_dir, limits__inputs=str(inputs)))
    node.workers.script = joining
    answer = distribute(proxy, MERGED)
    assert (answer.status, answer.data) == (200, expected)
    assert answer.headers["Content-Type"] == "text/x-merged"
    assert answer.headers["Content-Length"] == str(len(expected))
    assert_ended(proxy, data)


def test_a_merge_receives_whether_it_is_the_last(
    swift: FakeSwift, data: FakeSwift, node: Node, short_dir: Path
) -> None:
    """``std:sql-merge`` declares the parameter ``merge-stage``, and ``std:sum`` does not."""
    seen: list[str] = []

    def script(worker: WorkerRun) -> None:
        seen.append(worker.invoke.parameters.get("merge-stage", ""))
        joining(worker)

    proxy = Proxy(swift, make_config(short_dir, limits__inputs="5"))
    node.workers.script = script
    merge = {"storlet": "std:sql-merge", "parameters": {"output": "jsonl"}}
    answer = distribute(proxy, {**MERGED, "merge": merge})
    assert (answer.status, answer.data) == (200, b"((0,1,2,3,4),(5,6,7,8,9),(10,11))")
    assert sorted(seen) == [""] * 12 + ["inner"] * 3 + ["last"]
    seen.clear()
    assert distribute(proxy, {**MERGED, "objects": ["/c/a/07.txt"], "merge": merge}).status == 200
    assert seen == ["", "last"]
    seen.clear()
    assert distribute(proxy, MERGED).status == 200
    assert set(seen) == {""}
    merge["parameters"] = {"merge-stage": "inner"}
    answer = distribute(proxy, {**MERGED, "merge": merge})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert b"merge-stage: is set by std:distributed" in answer.data
    assert_ended(proxy, data)


def test_the_record_of_a_merge_has_its_parameters_without_defaults(
    swift: FakeSwift, data: FakeSwift, node: Node, short_dir: Path
) -> None:
    def all_runs(request: Any) -> Any:
        answer = swift.respond(request)
        answer.headers["X-Account-Meta-Storlet-Records"] = "all"
        return answer

    swift.hooks["HEAD", ACCOUNT_PATH] = all_runs
    proxy = Proxy(swift, make_config(short_dir, limits__inputs="20"))
    node.workers.script = joining
    merge = {"storlet": "std:sql-merge", "parameters": {"output": "jsonl"}}
    assert distribute(proxy, {**MERGED, "merge": merge}).status == 200
    proxy.filter._proxy.records.flush()
    written = swift.containers["storletlog"].objects.values()
    records = [json.loads(line) for each in written for line in each.body.splitlines()]
    (record,) = [each for each in records if each["storlets"][0]["name"] == "std:sql-merge"]
    assert record["parameters"] == {"output": "jsonl", "merge-stage": "last"}
    assert node.workers.runs[-1].invoke.parameters["memory-mib"] == "192"


def test_one_object_is_merged_too(proxy: Proxy, data: FakeSwift, node: Node) -> None:
    node.workers.script = joining
    answer = distribute(proxy, {**MERGED, "objects": ["/c/a/07.txt"]})
    assert (answer.status, answer.data) == (200, b"(7)")


def test_objects_without_the_metadata_are_not_merged(
    proxy: Proxy, data: FakeSwift, node: Node
) -> None:
    node.workers.script = joining
    for number in (3, 9):
        data.containers["c"].objects[f"a/{number:02}.txt"].headers["X-Object-Meta-Colour"] = "blue"
    objects = {"container": "c", "metadata": {"Colour": "blue"}}
    answer = distribute(proxy, {**MERGED, "objects": objects})
    assert (answer.status, answer.data) == (200, b"(3,9)")
    objects = {"container": "c", "metadata": {"Colour": "green"}}
    assert distribute(proxy, {**MERGED, "objects": objects}).status == 404
    assert_ended(proxy, data)


def test_a_failed_split_or_merge_fails_the_request(
    proxy: Proxy, data: FakeSwift, node: Node
) -> None:
    node.workers.script = failing
    answer = distribute(proxy, MERGED)
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert b"/c/a/05.txt" in answer.data

    def fails_as_merge(worker: WorkerRun) -> None:
        worker.fail("ValueError: no") if "." in worker.invoke.id else joining(worker)

    node.workers.script = fails_as_merge
    answer = distribute(proxy, MERGED)
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert b"merge: " in answer.data
    assert_ended(proxy, data)


@pytest.mark.parametrize("where", ["prepare", "run", "split"])
def test_a_failure_leaves_no_intermediate_result(
    swift: FakeSwift, data: FakeSwift, node: Node, short_dir: Path,
    monkeypatch: pytest.MonkeyPatch, where: str,
) -> None:  # fmt: skip
    made: list[spool.Spool] = []

    class Recorded(spool.Spool):
        def __init__(self, budget: spool.Budget) -> None:
            super().__init__(budget)
            made.append(self)

    def broken(completion: Any) -> None:
        raise BackendFailed("no account")

    def fails(worker: WorkerRun) -> None:
        worker.fail() if "." in worker.invoke.id else joining(worker)

    monkeypatch.setattr(splits, "Spool", Recorded)
    monkeypatch.setattr(merges, "Spool", Recorded)
    if where == "prepare":
        # Of merges only: the runs of splits import the class themselves.
        monkeypatch.setattr(
            merges, "Completion", type("Broken", (Completion,), {"prepare": broken})
        )
    node.workers.script = {"prepare": joining, "run": fails, "split": failing}[where]
    proxy = Proxy(swift, make_config(short_dir, limits__inputs="3"))
    assert distribute(proxy, MERGED).status >= 400
    assert_ended(proxy, data)
    # A split that fails before its output has no result.
    assert made or where == "split"
    assert wait_until(lambda: all(each.size == 0 for each in made))


def test_the_merge_is_checked_before_any_split_runs(
    proxy: Proxy, data: FakeSwift, node: Node
) -> None:
    data.put_storlet("own.py")
    data.containers["c"].read = READER
    assert distribute(proxy, {**MERGED, "merge": "own.py"}, user=READER).status == 403
    assert distribute(proxy, {**MERGED, "merge": "std:smu"}).status == 404
    answer = distribute(proxy, {**MERGED, "merge": "std:nop"})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert b"merge: std:nop takes one input only" in answer.data
    data.put_storlet("served.py", X_Object_Meta_Storlet_Services="read")
    answer = distribute(proxy, {**MERGED, "merge": "served.py"})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert b"merge: served.py declares services" in answer.data
    data.put_storlet("seek.py", X_Object_Meta_Storlet_Input="seekable")
    answer = distribute(proxy, {**MERGED, "merge": "seek.py"})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert b"the storlet has seekable inputs: its input is no stored object" in answer.data
    assert node.workers.runs == []
    assert_ended(proxy, data)


# --- parts ----------------------------------------------------------------------------------------


def ranges(worker: WorkerRun) -> None:
    text = worker.invoke.parameters.get("scan-range", "")
    worker.begin()
    worker.write(f"{text}\n".encode())
    worker.succeed()


IN_PARTS: dict[str, Any] = {
    "objects": ["/c/b.log", "/c/a/07.txt"],
    "split": {"storlet": "std:sql-part", "parameters": {"query": "SELECT 1"}},
    "parts": 2,
}


def test_each_part_of_an_object_has_a_split(proxy: Proxy, data: FakeSwift, node: Node) -> None:
    node.workers.script = ranges
    found = rows(distribute(proxy, IN_PARTS))
    expected = [("/c/b.log", "0-0"), ("/c/b.log", "1-2"), ("/c/a/07.txt", "0-2")]
    expected.append(("/c/a/07.txt", "3-6"))
    assert [(row["path"], row["scan-range"]) for row in found] == [
        (path, f"bytes={text}") for path, text in expected
    ]
    assert [row["output"] for row in found] == [f"bytes={text}\n" for _, text in expected]
    assert_ended(proxy, data)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"split": "std:nop"}, b"std:nop does not declare the parameter scan-range"),
        ({"parts": 0}, b"parts: '0': want 1 to "),
        ({"parts": "2"}, b"parts: '2': want 1 to "),
        ({"parts": True}, b"parts: 'True': want 1 to "),
        ({"parts": 10_000}, b"2 objects with 10000 parts: want at most 10000"),
        (
            {"split": {"storlet": "std:sql-part", "parameters": {"scan-range": "bytes=0-"}}},
            b"scan-range: is set by std:distributed",
        ),
    ],
)
def test_parts_that_are_refused(
    proxy: Proxy, data: FakeSwift, node: Node, more: dict[str, Any], text: bytes
) -> None:
    answer = distribute(proxy, {**IN_PARTS, **more})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert text in answer.data
    assert_ended(proxy, data)
