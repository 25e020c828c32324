"""Invocations at a full node: queued or sent elsewhere; every slot is released."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import eventlet
import pytest
from swift.common.swob import Request, Response

from storlet_middleware.admission import shared_table
from storlet_middleware.admission.controller import Admission, Slot, snapshot
from storlet_middleware.backend import frames
from storlet_middleware.backend.invocation_header import BackendInvocation
from storlet_middleware.concurrency import spawn
from storlet_middleware.engine.invocation import Invocation
from storlet_middleware.engine.task import Deadlines, Limits, Task
from storlet_middleware.errors import StorletError
from storlet_middleware.object_server.node import ObjectNode
from storlet_middleware.proxy.execution.result import RemoteResult
from tests.unit.middleware.framed_answers import OK, frame, framed
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.object_nodes import GULP, VERSION, ObjectServer
from tests.unit.middleware.support import (
    ACCOUNT,
    RUN,
    FakeSwift,
    Node,
    Proxy,
    WorkerRun,
    make_config,
    open_descriptors,
    upper,
    wait_until,
)

SMALL = {"admission__invocations": "2", "invocation__queue_seconds": "0.3"}

PATIENT = {"invocation__queue_seconds": "20"}


class Full:
    """Holds all slots of the node."""

    def __init__(self, run_dir: Path) -> None:
        admission = Admission(make_config(run_dir, **SMALL), Logger())
        self._slots: list[Slot] = []
        for name in ("x", "y"):
            slot = admission.acquire_at_once(admission.claim(name, "g", 1))
            assert slot is not None
            self._slots.append(slot)

    def end(self) -> None:
        while self._slots:
            self._slots.pop().release()


@pytest.fixture
def full(short_dir: Path) -> Iterator[Full]:
    shared_table.create(short_dir / shared_table.FILE_NAME, os.getgid())
    made = Full(short_dir)
    yield made
    made.end()
    eventlet.sleep()
    assert wait_until(lambda: snapshot(short_dir) == {})


# --- the object node


@pytest.fixture
def send_request(node: Node, short_dir: Path) -> Iterator[Callable[..., Any]]:
    """Sends an invocation on ``hello`` to an object node, with the proxy's ``overflow``."""
    path = short_dir / "o.data"
    path.write_bytes(b"hello")
    (node.code_dir / VERSION.key).mkdir()

    def object_node(options: dict[str, str]) -> ObjectNode:
        config = make_config(short_dir, placement__heartbeat_seconds="0.05", **SMALL | options)
        return ObjectNode(ObjectServer(path), config, Logger())

    usual = object_node({})

    def send(overflow: str = "", **options: str) -> Any:
        headers = BackendInvocation("tx-1", VERSION, {}, (), False, GULP).to_headers() or {}
        headers |= {"X-Backend-Storlet-Overflow": overflow} if overflow else {}
        at = object_node(options) if options else usual
        return Request.blank("/sda/1/AUTH_test/c/o", headers=headers).get_response(at)

    yield send
    node.workers.settle()


def result_of(answer: Any) -> tuple[bytes, RemoteResult]:
    result = RemoteResult(answer)
    try:
        result.first()
        return b"".join(result.chunks()), result
    finally:
        result.close()


@pytest.mark.usefixtures("full")
def test_a_full_node_answers_with_plain_data_in_mode_proxy(
    send_request: Callable[..., Any], node: Node
) -> None:
    assert send_request("proxy").body == b"hello"
    before = open_descriptors()
    answer = send_request("proxy")
    assert (answer.headers["X-Backend-Storlet-Refusal"], answer.status_int, answer.body) == (
        "full",
        200,
        b"hello",
    )
    assert "X-Backend-Storlet-Run" not in answer.headers
    assert answer.headers["Etag"] == "source"
    assert open_descriptors() <= before
    assert node.workers.runs == []


@pytest.mark.usefixtures("full")
def test_a_full_node_refuses_in_mode_replica(send_request: Callable[..., Any], node: Node) -> None:
    assert send_request("proxy").body == b"hello"
    before = open_descriptors()
    answer = send_request("replica")
    # Swift's proxy server tries no other node after 2xx, 3xx and 416, counts a 5xx as an error of
    # the node, and prefers the 404 of a handoff to a lower status.
    assert (answer.status_int, answer.headers["X-Backend-Storlet-Refusal"]) == (409, "full")
    assert open_descriptors() <= before
    assert node.workers.runs == []


@pytest.mark.parametrize("overflow", ["", "proxy", "replica"])
def test_a_node_with_a_free_slot_runs_the_storlet_in_every_mode(
    send_request: Callable[..., Any], full: Full, short_dir: Path, overflow: str
) -> None:
    full.end()
    data, result = result_of(send_request(overflow))
    assert (data, result.waited_seconds) == (b"HELLO", 0.0)
    assert snapshot(short_dir) == {}


def test_a_slot_is_released_if_the_answer_is_closed_unread(
    send_request: Callable[..., Any], full: Full, short_dir: Path, node: Node
) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x" * 10_000)
        worker.wait_for_cancel()

    full.end()
    node.workers.script = script
    answer = send_request("replica")
    assert [one.running for one in snapshot(short_dir).values()] == [1]
    answer.app_iter.close()
    assert snapshot(short_dir) == {}


def test_a_queued_invocation_sends_heartbeats_and_reports_its_waiting_time(
    send_request: Callable[..., Any], full: Full
) -> None:
    chunks = iter(send_request(**PATIENT).app_iter)
    body = b""
    while body.count(bytes(GULP // 2)) <= 2:  # pads
        body += next(chunks)
    full.end()
    body += b"".join(chunks)
    decoder = frames.Decoder()
    messages = {kind: payload for kind, payload in decoder.feed(body) if isinstance(payload, dict)}
    assert 0.1 < messages[frames.START]["waited_seconds"] < 20
    assert messages[frames.START]["sandbox_seconds"] < messages[frames.START]["waited_seconds"]


@pytest.mark.usefixtures("full")
def test_an_invocation_whose_queue_time_ends_is_refused(send_request: Callable[..., Any]) -> None:
    with pytest.raises(StorletError) as caught:
        result_of(send_request())
    assert (caught.value.status, caught.value.code, caught.value.retry_after) == (
        503,
        "node.busy",
        1,
    )


def test_a_slot_is_free_once_the_storlet_has_ended_even_if_its_output_is_read_slowly(
    send_request: Callable[..., Any], full: Full, short_dir: Path, node: Node
) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x" * 100_000)
        worker.succeed()

    full.end()
    node.workers.script = script
    chunks = iter(send_request().app_iter)
    assert snapshot(short_dir)
    while snapshot(short_dir):
        assert next(chunks)
        eventlet.sleep(0.01)
    # The end of the answer, which releases the slot as well, was not reached before.
    assert list(chunks) == []


# --- the proxy


def full_nodes(swift: FakeSwift, times: int, answer: Callable[[Any], Any]) -> list[Any]:
    """The first ``times`` GETs of the source get ``answer``; returns all overflow modes."""
    given: list[Any] = []

    def node(request: Any) -> Any:
        if "X-Backend-Storlet-Invocation" not in request.headers:
            return None
        given.append(request.headers.get("X-Backend-Storlet-Overflow"))
        return answer(request) if len(given) <= times else None

    swift.hooks["GET", f"/v1/{ACCOUNT}/c/o"] = node
    return given


def plain(request: Any) -> Any:
    return Response(
        status=200, request=request, headers={"X-Backend-Storlet-Refusal": "full"}, body=b"hello"
    )


def refused(request: Any) -> Any:
    return Response(
        status=409, request=request, headers={"X-Backend-Storlet-Refusal": "full"}, body=b"full"
    )


@pytest.mark.parametrize("headers", [{}, {"X-Storlet-Range": "bytes=1-2"}])
def test_the_proxy_runs_the_storlet_on_a_full_nodes_plain_data(
    make_proxy: Callable[..., Proxy], swift: FakeSwift, headers: dict[str, str]
) -> None:
    proxy = make_proxy(placement__overflow="proxy")
    given = full_nodes(swift, 1, plain)
    answer = proxy.call("GET", "c/o", RUN | headers)
    assert (answer.status, answer.data) == (200, b"EL" if headers else b"HELLO")
    assert answer.headers["X-Storlet-Ran-On"] == "proxy"
    assert given == ["proxy"]
    assert "why=overflow" in proxy.logger.text
    assert swift.unclosed() == 0


def test_an_invocation_is_queued_at_a_replica_if_all_are_full(
    make_proxy: Callable[..., Proxy], swift: FakeSwift, node: Node
) -> None:
    proxy = make_proxy(placement__overflow="replica")
    given: list[Any] = []

    def nodes(request: Any) -> Any:
        given.append(request.headers.get("X-Backend-Storlet-Overflow"))
        if len(given) == 1:
            return refused(request)
        headers = {"X-Backend-Storlet-Run": "1", "Content-Type": "text/plain"}
        return Response(
            status=200, request=request, headers=headers, app_iter=iter([frame(b"HELLO", done=OK)])
        )

    swift.hooks["GET", f"/v1/{ACCOUNT}/c/o"] = nodes
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.data, answer.headers["X-Storlet-Ran-On"]) == (
        200,
        b"HELLO",
        "object",
    )
    assert given == ["replica", None]
    assert (node.workers.runs, swift.unclosed()) == ([], 0)


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (412, 1), (304, 1), (503, 2)])
def test_other_refusals_are_retried_only_if_they_may_hide_a_full_node(
    make_proxy: Callable[..., Proxy], swift: FakeSwift, status: int, tries: int
) -> None:
    proxy = make_proxy(placement__overflow="replica")
    given = full_nodes(swift, 9, lambda request: Response(status=status, request=request))
    assert proxy.call("GET", "c/o", RUN).status == status
    assert len(given) == tries


def test_without_overflow_the_header_is_not_sent(proxy: Proxy, swift: FakeSwift) -> None:
    given = framed(swift, [frame(b"HELLO", done=OK)])
    assert proxy.call("GET", "c/o", RUN).data == b"HELLO"
    assert "X-Backend-Storlet-Overflow" not in given[0].headers


def test_an_invocation_at_the_proxy_is_queued_at_the_proxys_node(
    make_proxy: Callable[..., Proxy], full: Full, short_dir: Path
) -> None:
    def end() -> None:
        assert wait_until(lambda: any(one.waiting for one in snapshot(short_dir).values()))
        eventlet.sleep(0.1)
        full.end()

    proxy = make_proxy(upper, **SMALL | PATIENT)
    eventlet.spawn(end)
    answer = proxy.call("GET", "c/o", RUN | {"X-Storlet-Run-On-Proxy": ""})
    assert answer.data == b"HELLO"
    waited = float(proxy.logger.text.partition("waited_ms=")[2].split()[0])
    assert 50 < waited < 20_000
    reported = answer.headers["Server-Timing"].partition("queue;dur=")[2].partition(",")[0]
    assert float(reported) == pytest.approx(waited, abs=0.1)
    assert wait_until(lambda: snapshot(short_dir) == {})


@pytest.mark.usefixtures("full")
def test_a_put_without_a_slot_stores_nothing(
    make_proxy: Callable[..., Proxy], swift: FakeSwift
) -> None:
    proxy = make_proxy(upper, **SMALL)
    answer = proxy.call("PUT", "c/new", RUN, body=b"hello")
    assert (answer.status, answer.error, answer.headers["Retry-After"]) == (503, "node.busy", "1")
    assert swift.requests("PUT") == []
    assert proxy.logger.stats[:2] == ["storlet.admission.queued", "storlet.admission.refused"]


# --- the invocation


def test_an_invocation_releases_its_slot_once_and_queueing_does_not_count_as_its_time() -> None:
    left: list[None] = []
    task = Task("id", {}, Deadlines(10.0, 1.0, 1.0, 5.0), Limits(0, 4096, 0))
    invocation = Invocation(task, [])
    began = invocation._progress.began
    invocation.adopt_slot(4.0, lambda: left.append(None))
    assert invocation._progress.began == began + 4
    assert invocation._progress.queue_seconds == 6.0
    invocation.close()
    invocation.close()
    assert len(left) == 1
    invocation.adopt_slot(9.0, lambda: left.append(None))
    assert invocation._progress.queue_seconds == 1.0, "the minimum"


def test_tasks_killed_while_queued_leave_nothing_counted(
    make_proxy: Callable[..., Proxy], full: Full, short_dir: Path, swift: FakeSwift
) -> None:
    proxy = make_proxy(upper, **SMALL | {"invocation__queue_seconds": "20"})
    waiting = [
        spawn(proxy.call, "GET", "c/o", RUN | {"X-Storlet-Run-On-Proxy": ""}) for _ in range(3)
    ]
    assert wait_until(
        lambda: (
            eventlet.sleep(0.01) or sum(one.waiting for one in snapshot(short_dir).values()) == 3
        )
    )
    for task in waiting:
        task.kill()
    assert sum(one.waiting for one in snapshot(short_dir).values()) == 0
    full.end()
    assert proxy.call("GET", "c/o", RUN | {"X-Storlet-Run-On-Proxy": ""}).data == b"HELLO"
