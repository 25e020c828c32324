"""First steps at object nodes: framed answers, retries, and the fall-back to the proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from eventlet.green.http.client import IncompleteRead
from swift.common.exceptions import ChunkReadTimeout
from swift.common.swob import Response

from storlet_middleware import names
from storlet_middleware.backend import framed_etag, frames
from storlet_middleware.errors import CodeReplaced, StorletError, Unprocessable
from tests.unit.middleware.framed_answers import OK, done_frame, frame, framed
from tests.unit.middleware.rule_runs import PLAN, TWO
from tests.unit.middleware.support import ACCOUNT, RUN, FakeSwift, Node, Proxy, assert_idle

pytestmark = pytest.mark.usefixtures("nothing_is_left_open")


Make = Callable[..., Proxy]


@pytest.mark.parametrize(
    "code", ["sandbox.unavailable", "code.missing", "node.busy", "backend.failed", "internal"]
)
@pytest.mark.parametrize("method", ["GET", "COPY"])
def test_a_node_that_cannot_run_storlets_is_replaced_by_the_proxy(
    proxy: Proxy, swift: FakeSwift, code: str, method: str
) -> None:
    encoder = frames.Encoder(65536)
    failed = encoder.message(
        frames.DONE, {"outcome": "error", "code": code, "message": "down", "has_run": False}
    )
    given = framed(swift, [failed])
    answer = proxy.call(
        method, "c/o", {**RUN, **({"Destination": "c/copy"} if method == "COPY" else {})}
    )
    assert (answer.status, answer.headers["X-Storlet-Ran-On"]) == (
        200 if method == "GET" else 201,
        "proxy",
    )
    assert (
        answer.data if method == "GET" else swift.containers["c"].objects["copy"].body
    ) == b"HELLO"
    assert len(given) == 1
    assert "why=node-unable" in proxy.logger.text
    assert_idle(proxy)


@pytest.mark.parametrize(
    ("done", "status", "error"),
    [
        ({"code": "sandbox.unavailable", "has_run": True}, 503, "sandbox.unavailable"),
        ({"code": "tenant.busy", "has_run": False}, 429, "tenant.busy"),
        ({"code": "storlet.load", "has_run": False}, 422, "storlet.load"),
        ({"code": "storlet.failed", "has_run": True}, 422, "storlet.failed"),
    ],
)
def test_an_invocation_that_has_run_or_that_the_tenant_broke_is_not_repeated(
    proxy: Proxy, swift: FakeSwift, done: dict[str, Any], status: int, error: str
) -> None:
    encoder = frames.Encoder(65536)
    framed(swift, [encoder.message(frames.DONE, {"outcome": "error", "message": "no", **done})])
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error) == (status, error)
    assert_idle(proxy)


def test_frames_of_a_version_that_this_proxy_cannot_decode_are_not_read(
    proxy: Proxy, swift: FakeSwift
) -> None:
    def node(request: Any) -> Any:
        if "X-Backend-Storlet-Invocation" not in request.headers:
            return None
        return Response(
            status=200,
            request=request,
            headers={"X-Backend-Storlet-Run": "2"},
            body=b"of version 2",
        )

    swift.hooks["GET", f"/v1/{ACCOUNT}/c/o"] = node
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.data, answer.headers["X-Storlet-Ran-On"]) == (
        200,
        b"HELLO",
        "proxy",
    )
    assert "why=node-version" in proxy.logger.text


def test_a_framed_answer_is_unpacked(proxy: Proxy, swift: FakeSwift, node: Node) -> None:
    framed(swift, [frame(b"HEL", b"LO", done=OK)])
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.data, answer.headers["X-Storlet-Ran-On"]) == (
        200,
        b"HELLO",
        "object",
    )
    assert answer.headers["X-Object-Meta-M"] == "1"
    assert "X-Backend-Storlet-Run" not in answer.headers
    assert node.workers.runs == []


def test_an_end_that_came_with_the_first_bytes_has_the_usage(
    proxy: Proxy, swift: FakeSwift
) -> None:
    done = {**OK, "usage": {"cpu_seconds": 0.5, "peak_memory_bytes": 7}, "has_run": True}
    framed(swift, [frame(b"HEL", b"LO", done=done)], [frame(b"HELLO"), done_frame(done)])
    answer = proxy.call("GET", "c/o", RUN)
    assert answer.headers["X-Storlet-Usage"] == "cpu=0.500000;peak-memory=7;in=5;out=5"
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.data, answer.broken, "X-Storlet-Usage" in answer.headers) == (
        b"HELLO",
        None,
        False,
    )
    assert proxy.logger.text.count("in=5 out=5 cpu=0.500000 peak-memory=7") == 2


def test_a_failure_that_came_with_the_first_bytes_is_an_error_status(
    proxy: Proxy, swift: FakeSwift
) -> None:
    done = {"outcome": "error", **Unprocessable("no").to_message(), "bytes_in": 5, "has_run": True}
    framed(
        swift,
        [frame(b"HEL", done=done)],
        [frame(b"HEL"), frames.Encoder(9).data(b"LO") + done_frame(done)],
    )
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error, answer.headers["X-Storlet-Usage"]) == (
        422,
        "storlet.failed",
        "in=5;out=3",
    )
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.data, answer.broken is not None) == (200, b"HELLO", True)


def test_an_answer_that_breaks_before_the_first_byte_is_run_again(
    proxy: Proxy, swift: FakeSwift
) -> None:
    given = framed(swift, [frame()], [b"\x09garbage"], [frame(b"HELLO", done=OK)])
    assert proxy.call("GET", "c/o", RUN).data == b"HELLO"
    assert len(given) == 3


def test_a_broken_answer_is_run_again_at_most_twice(proxy: Proxy, swift: FakeSwift) -> None:
    given = framed(swift, *[[frame()]] * 5)
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error, len(given)) == (503, "backend.failed", 3)


@pytest.mark.parametrize(
    ("options", "attempts"),
    [
        ({"network": "storlets-net"}, 1),
        ({"mounts": "/srv/results:/results:rw"}, 1),
        ({"mounts": "/srv/models:/models:ro"}, 3),
    ],
)
def test_a_storlet_that_can_act_outside_of_its_sandbox_is_never_run_again(
    make_proxy: Make, swift: FakeSwift, options: dict[str, str], attempts: int
) -> None:
    more = {f"class:admin__{name}": value for name, value in options.items()}
    proxy = make_proxy(**{"class:admin__storlets": f"{ACCOUNT}/up.py", **more})
    given = framed(swift, *[[frame()]] * 5)
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error, len(given)) == (503, "backend.failed", attempts)


def test_an_answer_that_breaks_after_the_first_byte_is_never_run_again(
    proxy: Proxy, swift: FakeSwift
) -> None:
    given = framed(swift, [frame(b"HEL")], [frame(b"HELLO", done=OK)])
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.data, answer.broken is not None, len(given)) == (b"HEL", True, 1)


def failed(error: StorletError) -> bytes:
    return frames.Encoder(65536).message(frames.DONE, {"outcome": "error", **error.to_message()})


def test_a_storlet_that_failed_at_the_object_node_is_never_run_again(
    proxy: Proxy, swift: FakeSwift
) -> None:
    given = framed(swift, [failed(Unprocessable("no"))], [frame(b"x", done=OK)])
    assert (proxy.call("GET", "c/o", RUN).status, len(given)) == (422, 1)


def test_a_storlet_whose_code_was_replaced_meanwhile_is_resolved_again(
    proxy: Proxy, swift: FakeSwift
) -> None:
    given = framed(swift, [failed(CodeReplaced("gone"))], [frame(b"HELLO", done=OK)])
    assert proxy.call("GET", "c/o", RUN).data == b"HELLO"
    assert len(given) == 2


def test_a_version_with_services_that_replaces_one_without_runs_at_the_proxy(
    proxy: Proxy, swift: FakeSwift, node: Node
) -> None:
    def replaced() -> Iterator[bytes]:
        swift.put_storlet(body=b"class Up: new = 1", X_Object_Meta_Storlet_Services="read")
        yield failed(CodeReplaced("gone"))

    given = framed(swift, replaced(), [frame(b"at the node", done=OK)])
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.data, answer.headers["X-Storlet-Ran-On"]) == (b"HELLO", "proxy")
    assert len(given) == 1
    assert node.workers.runs[-1].invoke.services is not None
    assert "why=services" in proxy.logger.text


def test_code_that_is_replaced_again_and_again_is_503(proxy: Proxy, swift: FakeSwift) -> None:
    given = framed(swift, *[[failed(CodeReplaced("gone"))]] * 20)
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error, answer.headers["Retry-After"]) == (
        503,
        "code.replaced",
        "5",
    )
    assert len(given) < 10


@pytest.mark.parametrize("headers", [{}, {"X-Storlet-Range": "bytes=0-1"}])
def test_a_retry_that_gets_plain_data_uses_no_data_of_the_first_attempt(
    proxy: Proxy, swift: FakeSwift, headers: dict[str, str]
) -> None:
    framed(swift, [frame()])
    answer = proxy.call("GET", "c/o", {**RUN, **headers})
    assert answer.data == (b"HE" if headers else b"HELLO")
    assert answer.headers["X-Storlet-Ran-On"] == "proxy"


def test_run_on_proxy_sends_no_description_to_object_nodes(proxy: Proxy, swift: FakeSwift) -> None:
    given = framed(swift, [frame(b"x", done=OK)])
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Run-On-Proxy": ""})
    assert (answer.data, given) == (b"HELLO", [])


def test_first_step_runs_at_the_object_node_if_possible(
    make: Any, swift: FakeSwift, node: Node
) -> None:
    def framed(request: Any) -> Any:
        encoder = frames.Encoder(65536)
        start = {"metadata": {"color": "green"}, "size": 5, "ranges": [], "sandbox_seconds": 0}
        done = {
            "outcome": "ok",
            "usage": {"cpu_seconds": 1.0, "peak_memory_bytes": 1},
            "bytes_in": 5,
            "has_run": True,
        }
        body = [
            encoder.message(frames.START, start),
            encoder.data(b"there"),
            encoder.message(frames.DONE, done),
        ]
        return Response(
            headers={names.BACKEND_RUN: frames.VERSION, "Content-Type": "a/b"},
            app_iter=body,
            request=request,
        )

    swift.hooks["GET", f"/v1/{ACCOUNT}/c/o"] = framed
    answer = make().call("GET", PLAN, TWO)
    assert (answer.status, answer.data, answer.headers["X-Storlet-Ran-On"]) == (
        200,
        b"THERE",
        "object,proxy",
    )
    assert (len(node.workers.runs), answer.headers["X-Object-Meta-Color"]) == (1, "green")
    usage = make().call("COPY", PLAN, TWO).headers["X-Storlet-Usage"]
    assert usage == "cpu=1.250000;peak-memory=4097;in=5;out=5"


# --- nodes that could not run storlets


FAILED = frames.Encoder(65536).message(
    frames.DONE,
    {"outcome": "error", "code": "sandbox.unavailable", "message": "down", "has_run": False},
)


class Broken:
    """A body that Swift's proxy server cannot read to its end."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __iter__(self) -> Iterator[bytes]:
        yield b""
        raise self._error


#: Bodies after which the next answer of the node may be as bad, and those of an ended server.
USELESS = (Broken(ChunkReadTimeout(None)), b"nonsense")
ENDED = (frame(), Broken(IncompleteRead(b"")), Broken(ConnectionResetError()))


class Nodes:
    """Object nodes by name: each fails before it runs anything, or answers; in order, as replicas.

    A node that the request avoids refuses, and then the next gets the request.  ``next_bodies`` are
    those of later answers, of any node.
    """

    def __init__(self, swift: FakeSwift, **bodies: bytes | Broken) -> None:
        self.bodies = bodies
        self.next_bodies: list[bytes] = []
        self.asked: list[tuple[str, str]] = []
        self.status_of_last_refusal = 409
        swift.hooks["GET", f"/v1/{ACCOUNT}/c/o"] = self._answer

    def _answer(self, request: Any) -> Any:
        if "X-Backend-Storlet-Invocation" not in request.headers:
            return None
        avoided = request.headers.get("X-Backend-Storlet-Avoid", "")
        for name, body in self.bodies.items():
            if name not in avoided.split(", "):
                self.asked.append((name, avoided))
                headers = {"X-Backend-Storlet-Run": "1", "Etag": framed_etag.make(name, "e")}
                if self.next_bodies:
                    self.bodies[name] = self.next_bodies.pop(0)
                content = {"app_iter": body} if isinstance(body, Broken) else {"body": body}
                return Response(status=200, request=request, headers=headers, **content)
        self.asked.append(("", avoided))
        status = self.status_of_last_refusal
        headers = {names.BACKEND_REFUSAL: "unable"} if status == 409 else {}
        return Response(status=status, request=request, headers=headers)


def test_another_replica_runs_what_a_node_could_not_start(proxy: Proxy, swift: FakeSwift) -> None:
    nodes = Nodes(swift, n1=FAILED, n2=frame(b"HELLO", done=OK))
    for _ in range(3):
        answer = proxy.call("GET", "c/o", RUN)
        assert (answer.data, answer.headers["X-Storlet-Ran-On"]) == (b"HELLO", "object")
    # The first request finds out, and the others pass over the node.
    assert nodes.asked == [("n1", ""), ("n2", "n1"), ("n2", "n1"), ("n2", "n1")]
    assert_idle(proxy)


@pytest.mark.parametrize("status", [409, 503])
def test_the_proxy_runs_what_no_node_can_start(proxy: Proxy, swift: FakeSwift, status: int) -> None:
    nodes = Nodes(swift, n1=FAILED, n2=FAILED)
    nodes.status_of_last_refusal = status
    for _ in range(2):
        answer = proxy.call("GET", "c/o", RUN)
        assert (answer.data, answer.headers["X-Storlet-Ran-On"]) == (b"HELLO", "proxy")
    assert nodes.asked == [("n1", ""), ("n2", "n1"), ("", "n1, n2"), ("", "n1, n2")]
    assert proxy.logger.text.count("why=node-unable") == 2
    assert_idle(proxy)


def test_a_request_tries_a_bounded_number_of_nodes(proxy: Proxy, swift: FakeSwift) -> None:
    nodes = Nodes(swift, n1=FAILED, n2=FAILED, n3=FAILED, n4=FAILED, n5=FAILED)
    assert proxy.call("GET", "c/o", RUN).data == b"HELLO"
    assert [name for name, _ in nodes.asked] == ["n1", "n2", "n3"]


def test_a_503_of_swift_without_avoided_nodes_is_swifts(proxy: Proxy, swift: FakeSwift) -> None:
    nodes = Nodes(swift)
    nodes.status_of_last_refusal = 503
    assert proxy.call("GET", "c/o", RUN).status == 503


@pytest.mark.parametrize("body", USELESS)
def test_an_answer_that_stalls_or_is_nonsense_is_run_again_by_another_replica(
    proxy: Proxy, swift: FakeSwift, body: bytes | Broken
) -> None:
    nodes = Nodes(swift, n1=body, n2=frame(b"HELLO", done=OK))
    for _ in range(2):
        assert proxy.call("GET", "c/o", RUN).data == b"HELLO"
    # A broken answer is no reason to pass over the node later.
    assert nodes.asked == [("n1", ""), ("n2", "n1"), ("n1", ""), ("n2", "n1")]


@pytest.mark.parametrize("body", ENDED)
def test_an_answer_that_ends_is_run_again_by_the_replica_that_swift_selects(
    proxy: Proxy, swift: FakeSwift, body: bytes | Broken
) -> None:
    """A server that has ended gets no request, and the node may have other servers."""
    nodes = Nodes(swift, n1=body)
    nodes.next_bodies = [frame(b"HELLO", done=OK)]
    assert proxy.call("GET", "c/o", RUN).data == b"HELLO"
    assert nodes.asked == [("n1", ""), ("n1", "")]
    assert_idle(proxy)


def test_a_full_node_is_not_passed_over(proxy: Proxy, swift: FakeSwift) -> None:
    done = {"outcome": "error", "code": "node.busy", "message": "full", "has_run": False}
    full = frames.Encoder(65536).message(frames.DONE, done)
    nodes = Nodes(swift, n1=full)
    for _ in range(2):
        assert proxy.call("GET", "c/o", RUN).headers["X-Storlet-Ran-On"] == "proxy"
    assert nodes.asked == [("n1", ""), ("n1", "")]


def test_pipeline_holding_slots_does_not_queue_at_a_full_object_node(
    make: Any, swift: FakeSwift
) -> None:
    held = []

    def full_once(request: Any) -> Any:
        admission = harness.proxy.launcher._admission
        held.append(sum(group.running for group in admission._counts.own.by_key.values()))
        may_queue = names.BACKEND_OVERFLOW not in request.headers
        full = Response(status=409, request=request, headers={names.BACKEND_REFUSAL: "full"})
        return None if may_queue else full

    swift.hooks["GET", f"/v1/{ACCOUNT}/c/o"] = full_once
    harness = make()
    answer = harness.call("GET", PLAN, TWO)
    assert (answer.status, answer.data, held) == (200, b"HELLO", [1, 2])
    assert answer.headers["X-Storlet-Ran-On"] == "proxy,proxy"
    harness.assert_idle()
