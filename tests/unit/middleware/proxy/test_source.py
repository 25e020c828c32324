"""The inputs of a run: ranges, extra resources, bodies, and what the caller may read."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterator
from typing import Any

import eventlet
import pytest
from swift.common.swob import Request

from storlet_middleware.proxy.openings import _AT_A_TIME
from tests.unit.middleware.support import (
    ACCOUNT,
    RUN,
    BrokenInput,
    FakeSwift,
    Node,
    Proxy,
    WorkerRun,
    assert_idle,
)

pytestmark = pytest.mark.usefixtures("nothing_is_left_open")


Make = Callable[..., Proxy]


@pytest.mark.parametrize(
    ("asked", "data", "span"),
    [
        ("1-3", b"ELL", "1-3/5"),
        ("2-", b"LLO", "2-4/5"),
        ("-2", b"LO", "3-4/5"),
        ("0-99", b"HELLO", "0-4/5"),
    ],
)
def test_a_range_of_the_input(proxy: Proxy, asked: str, data: bytes, span: str) -> None:
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Range": f"bytes={asked}"})
    assert (answer.status, answer.data, answer.headers["Storlet-Input-Range"]) == (
        200,
        data,
        f"bytes {span}",
    )
    assert "Content-Range" not in answer.headers


@pytest.mark.parametrize("asked", ["5-", "9-10", "-0", "0-1,7-8"])
def test_a_range_outside_the_object_is_416(proxy: Proxy, asked: str) -> None:
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Range": f"bytes={asked}"})
    assert (answer.status, answer.error) == (416, "range.unsatisfiable")


def test_several_inputs_are_opened_together_and_all_given_to_the_storlet(
    make_proxy: Make, swift: FakeSwift
) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"|".join(os.read(fd, 100) for fd in worker.inputs))
        worker.succeed()

    swift.put("d", "a b", b"extra")
    proxy = make_proxy(script)
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Extra-Resources": "/d/a%20b"})
    assert answer.data == b"hello|extra"
    assert "why=several-inputs" in proxy.logger.text


def test_few_inputs_of_an_account_are_opened_at_a_time(make_proxy: Make, swift: FakeSwift) -> None:
    """Each takes the proxy server's processor, so a crowd would hold up other accounts."""
    opening: list[str] = []
    most: list[int] = []

    def hook(request: Request) -> None:
        opening.append(request.path)
        most.append(len(opening))
        eventlet.sleep(0.005)
        opening.remove(request.path)

    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"".join(os.read(fd, 100) for fd in worker.inputs))
        worker.succeed()

    names = [f"{number:02}" for number in range(12)]
    for name in names:
        swift.put("d", name, name.encode())
        swift.hooks["GET", f"/v1/{ACCOUNT}/d/{name}"] = hook
    proxy = make_proxy(script)
    headers = {**RUN, "X-Storlet-Extra-Resources": ", ".join(f"/d/{name}" for name in names)}

    def run(_: int) -> bytes:
        return bytes(proxy.call("GET", "c/o", headers).data)

    pool = eventlet.GreenPool()
    assert set(pool.imap(run, range(3))) == {b"hello" + "".join(names).encode()}
    assert len(most) == 3 * len(names)
    assert max(most) == _AT_A_TIME
    assert_idle(proxy)


def test_an_extra_resource_with_another_etag_is_not_read(
    proxy: Proxy, node: Node, swift: FakeSwift
) -> None:
    swift.put("d", "a", b"extra")
    etag = hashlib.md5(b"extra", usedforsecurity=False).hexdigest()
    asked = {**RUN, "X-Storlet-Extra-Resources": "/d/a,/d/a"}
    for etags, status in ((f'{etag}, "{etag}"', 200), (f"{etag},{'0' * 32}", 412)):
        answer = proxy.call("GET", "c/o", {**asked, "X-Storlet-If-Resources": etags})
        assert answer.status == status
    assert answer.error == "precondition.failed"
    assert b"X-Storlet-If-Resources: d/a has another ETag" in answer.data
    assert len(node.workers.runs) == 1
    for etags in (etag, f"{etag},", f"{etag},*"):
        answer = proxy.call("GET", "c/o", {**asked, "X-Storlet-If-Resources": etags})
        assert (answer.status, answer.error) == (400, "bad_request")
    assert_idle(proxy)


@pytest.mark.parametrize(("user", "status", "code"), [("test:tester", 404, "input.not_found")])
def test_a_missing_extra_resource_is_an_error_before_anything_runs(
    proxy: Proxy, node: Node, user: str, status: int, code: str
) -> None:
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Extra-Resources": "/c/none"}, user=user)
    assert (answer.status, answer.error) == (status, code)
    assert node.workers.runs == []


@pytest.mark.parametrize(
    "error", [OSError("lost"), eventlet.Timeout(None)], ids=["exception", "timeout"]
)
def test_a_source_that_breaks_off_never_gives_a_whole_answer(
    proxy: Proxy, swift: FakeSwift, error: Any
) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"hel"
        raise error

    swift.put("c", "o", b"hello").chunks = chunks
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error) == (503, "backend.failed")


def test_a_source_that_ends_early_without_an_error_never_gives_a_whole_answer(
    proxy: Proxy, swift: FakeSwift
) -> None:
    swift.put("c", "o", b"hello").chunks = lambda: iter([b"hel"])
    assert proxy.call("GET", "c/o", RUN).status == 503


@pytest.mark.parametrize(
    ("headers", "body", "code"),
    [
        ({"Content-Length": "9"}, b"short", "input.incomplete"),
        ({"Etag": "0" * 32}, b"body", "input.etag_mismatch"),
        ({}, BrokenInput(b"half"), "input.incomplete"),
    ],
)
def test_a_body_that_is_not_what_the_client_announced_stores_nothing(
    proxy: Proxy, swift: FakeSwift, headers: dict[str, str], body: Any, code: str
) -> None:
    environ = (
        {"CONTENT_LENGTH": "9"}
        if "Content-Length" in headers
        else {"HTTP_TRANSFER_ENCODING": "chunked"}
    )
    source = io.BytesIO(body) if isinstance(body, bytes) else body
    answer = proxy.call("PUT", "c/o", {**RUN, **headers}, body=source, environ=environ)
    assert answer.error == code
    assert answer.status in (422, 499)
    assert swift.containers["c"].objects["o"].body == b"hello"


@pytest.mark.parametrize("encoding", ["gzip", "gzip, chunked"])
def test_a_body_without_a_known_end_is_refused_as_swift_does(
    proxy: Proxy, swift: FakeSwift, encoding: str
) -> None:
    answer = proxy.call("PUT", "c/new", {**RUN, "Transfer-Encoding": encoding})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert proxy.call("PUT", "c/new", RUN).status == 411
    assert not swift.requests("PUT", "c/new")
