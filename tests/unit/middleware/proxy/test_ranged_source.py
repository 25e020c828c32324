"""Inputs in which a storlet seeks, at the proxy: ranges of one version, and nothing of another."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable
from typing import Any

import pytest
from swift.common.swob import Response

from storlet_daemon.protocol import messages
from storlet_middleware.errors import RuleRefused
from storlet_middleware.wsgi import grants
from tests.unit.middleware.rule_runs import BOB, PLAN, ClosingRules, RunHarness, by_step
from tests.unit.middleware.support import (
    ACCOUNT,
    RUN,
    FakeSwift,
    Node,
    Proxy,
    Seen,
    WorkerRun,
    upper,
)

pytestmark = pytest.mark.usefixtures("nothing_is_left_open")
Make = Callable[..., Proxy]

LARGE = bytes(range(256)) * 2048
PATH = f"/v1/{ACCOUNT}/c/o"


def seeking(*places: tuple[int, int], during: Callable[[int], object] = bool) -> Any:
    """A worker that reads these offsets and lengths of each input.

    :param during: called with the number of each read, before it.
    """

    def script(worker: WorkerRun) -> None:
        worker.begin()
        for fd, given in zip(worker.inputs, worker.invoke.inputs, strict=True):
            assert given.seekable == messages.SEEK_READS
            worker.write(b"%d:" % (given.size or 0))
            for number, (first, length) in enumerate(places):
                during(number)
                os.write(fd, struct.pack(">QQ", first, length))
                left = length
                while left and (piece := os.read(fd, left)):
                    worker.write(piece)
                    left -= len(piece)
        worker.succeed()

    return script


@pytest.fixture
def seekable(swift: FakeSwift) -> FakeSwift:
    """The storlet seeks, and its source is large."""
    swift.put_storlet(X_Object_Meta_Storlet_Input="seekable")
    swift.put("c", "o", LARGE)
    return swift


def ranges(swift: FakeSwift) -> list[str]:
    return [seen.headers.get("Range", "") for seen in swift.requests("GET", "c/o")]


def test_only_the_ranges_that_a_storlet_reads_are_read(
    make_proxy: Make, seekable: FakeSwift
) -> None:
    proxy = make_proxy(seeking((400_000, 5), (10, 3), (len(LARGE) - 1, 1)))
    answer = proxy.call("GET", "c/o", RUN)
    read = LARGE[400_000:400_005] + LARGE[10:13] + LARGE[-1:]
    assert (answer.status, answer.data) == (200, b"%d:" % len(LARGE) + read)
    assert answer.headers["X-Storlet-Ran-On"] == "proxy"
    last = len(LARGE) - 1
    assert ranges(seekable)[-3:] == [
        "bytes=0-65535", "bytes=400000-400004", f"bytes={last}-{last}",
    ]  # fmt: skip
    assert " in=9 " in proxy.logger.text


def test_each_input_is_read_by_ranges(make_proxy: Make, seekable: FakeSwift) -> None:
    seekable.put("d", "a b", b"extra")
    proxy = make_proxy(seeking((1, 2)))
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Extra-Resources": "/d/a%20b"})
    assert answer.data == b"%d:" % len(LARGE) + LARGE[1:3] + b"5:xt"


def test_an_empty_object_is_read(make_proxy: Make, seekable: FakeSwift) -> None:
    seekable.put("c", "o", b"")
    assert make_proxy(seeking()).call("GET", "c/o", RUN).data == b"0:"


def test_metadata_come_with_the_input(make_proxy: Make, seekable: FakeSwift, node: Node) -> None:
    seekable.put("c", "o", LARGE, X_Object_Meta_Colour="red")
    assert make_proxy(seeking()).call("GET", "c/o", RUN).status == 200
    assert node.workers.runs[0].invoke.inputs[0].metadata["Colour"] == "red"


def test_a_copy_is_made_of_its_result(make_proxy: Make, seekable: FakeSwift) -> None:
    proxy = make_proxy(seeking((70_000, 4)))
    assert proxy.call("COPY", "c/o", {**RUN, "Destination": "c/new"}).status == 201
    expected = b"%d:" % len(LARGE) + LARGE[70_000:70_004]
    assert seekable.containers["c"].objects["new"].body == expected


def replaced(swift: FakeSwift, body: bytes) -> Callable[[int], object]:
    """Replaces the object before the second read."""
    return lambda number: number and swift.put("c", "o", body)


@pytest.mark.parametrize(
    "body", [LARGE[::-1], LARGE[:5], LARGE + b"x"], ids=["other", "shorter", "longer"]
)
def test_no_byte_of_another_version_is_read(
    make_proxy: Make, seekable: FakeSwift, body: bytes
) -> None:
    proxy = make_proxy(seeking((100_000, 5), (200_000, 5), during=replaced(seekable, body)))
    answer = proxy.call("COPY", "c/o", {**RUN, "Destination": "c/new"})
    assert (answer.status, answer.error) == (503, "input.changed")
    assert "/c/o was replaced or deleted" in answer.data.decode()
    assert answer.headers["Retry-After"] == "1"
    assert "new" not in seekable.containers["c"].objects


def test_a_deleted_object_ends_the_run(make_proxy: Make, seekable: FakeSwift) -> None:
    def delete(number: int) -> None:
        if number:
            seekable.containers["c"].objects.pop("o", None)

    proxy = make_proxy(seeking((100_000, 5), (200_000, 5), during=delete))
    answer = proxy.call("COPY", "c/o", {**RUN, "Destination": "c/new"})
    assert (answer.status, answer.error) == (503, "input.changed")


@pytest.mark.parametrize(
    ("status", "expected"),
    [(403, (403, "access.denied")), (503, (503, "backend.failed")), (500, (503, "backend.failed"))],
)
def test_a_read_that_swift_refuses_ends_the_run(
    make_proxy: Make, seekable: FakeSwift, status: int, expected: tuple[int, str]
) -> None:
    def refuse(number: int) -> None:
        if number:
            seekable.hooks["GET", PATH] = lambda request: Response(status=status, request=request)

    proxy = make_proxy(seeking((100_000, 5), (200_000, 5), during=refuse))
    answer = proxy.call("COPY", "c/o", {**RUN, "Destination": "c/new"})
    assert (answer.status, answer.error) == expected


def test_a_range_that_ends_early_is_never_given(make_proxy: Make, seekable: FakeSwift) -> None:
    def short(request: Any) -> Any:
        etag = hashlib.md5(LARGE, usedforsecurity=False).hexdigest()
        headers = {"Etag": etag, "Content-Range": f"bytes 200000-200004/{len(LARGE)}"}
        cut = Response(status=206, headers=headers, app_iter=iter([b"xx"]), request=request)
        cut.content_length = 5
        return cut

    def cut(number: int) -> None:
        if number:
            seekable.hooks["GET", PATH] = short

    proxy = make_proxy(seeking((100_000, 5), (200_000, 5), during=cut))
    answer = proxy.call("COPY", "c/o", {**RUN, "Destination": "c/new"})
    assert (answer.status, answer.error) == (503, "backend.failed")


def test_a_rule_that_refuses_a_part_ends_the_run(make: Any, seekable: FakeSwift) -> None:
    rules = ClosingRules()

    def close(number: int) -> None:
        if number:
            rules.refused.append(RuleRefused("other", "the second segment"))

    harness: RunHarness = make(seeking((100_000, 5), (200_000, 5), during=close))
    answer = harness.call("COPY", None, rules=rules)
    assert (answer.status, answer.error) == (403, "access.rule")


def test_every_read_is_authorized_like_the_first(make_proxy: Make, seekable: FakeSwift) -> None:
    seekable.containers["storlet"].read = "test:bob"
    seekable.containers["c"].sysmeta |= grants.change_headers((BOB, "up.py"), is_given=True)
    proxy = make_proxy(seeking((100_000, 5)))
    answer = proxy.call("GET", "c/o", RUN, user=BOB)
    assert (answer.status, answer.data[-5:]) == (200, LARGE[100_000:100_005])
    asked: list[Seen] = seekable.requests("GET", "c/o")
    assert len(asked) == 3
    assert {seen.source for seen in asked} == {"ST"}


def test_an_object_without_a_known_size_is_refused(make_proxy: Make, seekable: FakeSwift) -> None:
    def unsized(request: Any) -> Any:
        return Response(request=request, app_iter=iter([LARGE]))

    seekable.hooks["GET", PATH] = unsized
    answer = make_proxy(seeking()).call("GET", "c/o", RUN)
    assert (answer.status, answer.error) == (400, "bad_request")
    assert "no size or no ETag" in answer.data.decode()


def test_a_read_outside_of_the_object_fails_the_storlet(
    make_proxy: Make, seekable: FakeSwift
) -> None:
    proxy = make_proxy(seeking((len(LARGE), 1)))
    answer = proxy.call("COPY", "c/o", {**RUN, "Destination": "c/new"})
    assert (answer.status, answer.error) == (422, "storlet.failed")


def test_the_first_step_of_a_pipeline_seeks(make: Any, seekable: FakeSwift) -> None:
    seekable.put("c", "o", b"hello")
    seekable.put_storlet("last.py")
    harness: RunHarness = make(by_step(seeking((1, 3)), upper))
    answer = harness.call("GET", PLAN, ("up.py", "last.py"))
    assert (answer.status, answer.data) == (200, b"5:ELL")
