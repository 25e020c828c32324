"""The socket for a storlet's requests: replies, streams with an end mark, and bounds."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import eventlet
import pytest

from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.messages import CallStorlet, Described, OpenObject, StatObject
from storlet_middleware.concurrency import monotonic
from storlet_middleware.errors import BackendFailed, StorletError
from storlet_middleware.services import channel
from storlet_middleware.services.operations import Stream
from storlet_middleware.services.requests import StoreRefusal
from tests.unit.middleware.services.asking import Bytes, Make, read_all
from tests.unit.middleware.support import wait_until


def stat(number: int) -> StatObject:
    return StatObject(number, "/c/o")


def test_each_request_has_its_reply(make: Make) -> None:
    asking = make()
    asking.send(stat(1), stat(5))
    assert {asking.reply()[0].id, asking.reply()[0].id} == {1, 5}
    assert asking.channel.usage.operations == 2
    assert not asking.faults


def test_a_stream_ends_with_its_length(make: Make) -> None:
    asking = make()
    body = Bytes([b"abc", b"defg"])
    asking.answer = lambda _: Stream(body, messages.Facts(size=7))
    asking.send(OpenObject(1, "/c/o"))
    opened, descriptors = asking.reply()
    assert opened == messages.Opened(1, messages.Facts(size=7))
    assert read_all(descriptors) == b"abcdefg"
    assert asking.reply()[0] == messages.StreamEnded(1, 7)
    assert body.is_closed
    assert asking.channel.usage.bytes_in == 7


def test_a_stream_that_breaks_off_has_a_failure_and_no_end(make: Make) -> None:
    def broken() -> Iterator[bytes]:
        yield b"abc"
        raise BackendFailed("gone")

    asking = make()
    asking.answer = lambda _: Stream(Bytes(broken()))
    asking.send(OpenObject(1, "/c/o"))
    _, descriptors = asking.reply()
    assert asking.reply()[0] == messages.ServiceFailed(1, "backend.failed", 503, "gone")
    assert read_all(descriptors) == b"abc"
    assert not asking.has_reply()


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (StoreRefusal("input.not_found", 404, "no"), "input.not_found", 404),
        (BackendFailed("no"), "backend.failed", 503),
        (eventlet.Timeout(), "backend.failed", 503),
        (KeyError("ours"), "internal", 500),
    ],
)
def test_a_failure_is_replied(make: Make, error: BaseException, code: str, status: int) -> None:
    def fail(request: Any) -> Any:
        raise error

    asking = make()
    asking.answer = fail
    asking.send(stat(1))
    failed, _ = asking.reply()
    assert (failed.code, failed.status) == (code, status)
    assert "ours" not in failed.message


def test_a_storlet_asks_only_for_what_it_declares(make: Make) -> None:
    asking = make()
    asking.channel.operations = ("list", "write")
    asking.send(stat(1))
    assert asking.reply()[0].code == "services.undeclared"
    assert not asking.performed


@pytest.mark.parametrize(
    "garbage",
    [b"{}", b"not JSON", b'{"type":"stat"}', b'{"type":"rob","id":1}', b"x" * 70_000],
)
def test_garbage_ends_the_run(make: Make, garbage: bytes) -> None:
    asking = make()
    asking.worker.send(garbage)
    assert wait_until(lambda: asking.faults)
    (fault,) = asking.faults
    assert isinstance(fault, StorletError)
    assert (fault.code, fault.status) == ("storlet.services", 422)


def test_an_id_that_is_used_again_ends_the_run(make: Make) -> None:
    asking = make()
    asking.send(stat(3), stat(3))
    assert wait_until(lambda: asking.faults)
    assert "id 3 after id 3" in str(asking.faults[0])


def test_more_requests_than_may_run_at_the_same_time_wait(make: Make) -> None:
    asking = make(concurrency=2)
    go = eventlet.event.Event()
    asking.answer = lambda request: (go.wait(), Described(request.id))[1]
    asking.send(*map(stat, range(1, 6)))
    assert wait_until(lambda: len(asking.performed) == 2)
    eventlet.sleep(0.05)
    assert len(asking.performed) == 2
    assert asking.channel.were_active_since(1e12)
    go.send()
    assert sorted(asking.reply()[0].id for _ in range(5)) == [1, 2, 3, 4, 5]


def test_requests_above_the_rate_wait(make: Make) -> None:
    asking = make(rate=5)
    asking.send(*map(stat, range(1, 21)))
    eventlet.sleep(0.1)
    # A burst of one second is allowed.
    assert len(asking.performed) <= 6
    assert not asking.faults


def test_limits_of_operations_files_and_bytes_fail_by_name(make: Make) -> None:
    asking = make(operations=1)
    asking.send(stat(1), stat(2))
    replies = sorted((asking.reply()[0] for _ in range(2)), key=lambda reply: reply.id)
    assert replies[1].code == "storlet.limit.services"
    assert "Service-Operations" in replies[1].message

    asking = make(files=1)
    asking.answer = lambda _: Stream(Bytes([b"x" * 4_000_000]))
    asking.send(OpenObject(1, "/c/o"))
    _, descriptors = asking.reply()
    asking.send(OpenObject(2, "/c/o"))
    assert "Service-Files" in asking.reply()[0].message
    descriptors.close()
    assert wait_until(lambda: all(feeder.is_over for feeder in asking.channel._feeders))
    asking.send(OpenObject(3, "/c/o"))
    assert isinstance(asking.reply()[0], messages.Opened)

    asking = make(bytes=10)
    asking.answer = lambda _: Stream(Bytes([b"x" * 6] * 2))
    asking.send(OpenObject(1, "/c/o"))
    _, descriptors = asking.reply()
    assert "Service-Bytes" in asking.reply()[0].message
    assert read_all(descriptors) == b"x" * 6


@pytest.mark.parametrize("is_received", [True, False])
def test_a_stream_is_an_open_file_until_it_was_read_or_closed(
    make: Make, *, is_received: bool
) -> None:
    # All bytes fit into the kernel's buffer, so the stream has ended on our side.
    asking = make(files=2)
    asking.answer = lambda _: Stream(Bytes([b"x" * 1000]))
    asking.send(OpenObject(1, "/c/o"), OpenObject(2, "/c/o"))
    kept: list[Any] = []

    def next_reply() -> Any:
        reply, descriptors = asking.reply()
        while isinstance(reply, messages.StreamEnded):
            reply, descriptors = asking.reply()
        kept.append(descriptors)
        return reply

    if is_received:
        next_reply(), next_reply()
    assert wait_until(lambda: asking.performed and not asking.channel._tasks)
    assert wait_until(lambda: all(feeder.is_over for feeder in asking.channel._feeders))
    asking.send(OpenObject(3, "/c/o"))
    if not is_received:
        next_reply(), next_reply()
    assert "Service-Files" in next_reply().message
    assert read_all(kept[0]) == b"x" * 1000
    asking.send(OpenObject(4, "/c/o"))
    assert isinstance(next_reply(), messages.Opened)
    for descriptors in kept[1:]:
        descriptors.close()
    asking.send(OpenObject(5, "/c/o"), OpenObject(6, "/c/o"))
    assert all(isinstance(next_reply(), messages.Opened) for _ in range(2))
    for descriptors in kept:
        descriptors.close()


def test_a_process_without_descriptors_fails_the_request(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*, reader_is_ours: bool) -> Any:
        raise OSError(24, os.strerror(24))  # EMFILE

    asking = make()
    body = Bytes([b"x"])
    asking.answer = lambda _: Stream(body)
    monkeypatch.setattr(channel, "stream", refuse)
    asking.send(OpenObject(1, "/c/o"))
    failed, _ = asking.reply()
    assert (failed.code, failed.status) == ("backend.failed", 503)
    assert body.is_closed


def test_a_worker_that_reads_no_replies_blocks_itself_only(make: Make) -> None:
    asking = make(rate=10_000)
    text = "x" * 400
    asking.answer = lambda request: messages.ServiceFailed(request.id, "a.b", 404, text * 100)
    with contextlib.suppress(BlockingIOError):
        for number in range(1, 20_000):
            asking.send(stat(number))
            eventlet.sleep(0)
    assert wait_until(lambda: asking.channel._is_blocked)
    # It does not wait for the store: its deadlines hold.
    assert not asking.channel.were_active_since(0)
    assert len(asking.channel._tasks) <= 8


def test_a_worker_that_ends_is_no_fault_of_the_services(make: Make) -> None:
    asking = make()
    go = eventlet.event.Event()
    asking.answer = lambda request: (go.wait(), Described(request.id))[1]
    asking.send(stat(1))
    assert wait_until(lambda: asking.performed)
    asking.worker.close()
    go.send()
    assert wait_until(lambda: not asking.channel._tasks)
    assert not asking.faults


def test_closing_ends_operations_and_streams(make: Make) -> None:
    asking = make()
    closed = []

    def forever(request: Any) -> Any:
        if request.id == 1:
            return Stream(body)
        try:
            eventlet.sleep(60)
        finally:
            closed.append(request.id)

    body = Bytes(iter(lambda: b"x" * 65536, b""))
    asking.answer = forever
    asking.send(OpenObject(1, "/c/o"), stat(2))
    _, descriptors = asking.reply()
    assert wait_until(lambda: len(asking.performed) == 2)
    asking.channel.close()
    assert closed == [2]
    assert body.is_closed
    descriptors.close()


def test_a_descriptor_that_cannot_be_sent_fails_the_request(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = framing.send_bytes

    def refuse(sock: Any, data: bytes, fds: Any = ()) -> None:
        if fds:
            raise OSError(109, os.strerror(109))  # ETOOMANYREFS
        send(sock, data)

    asking = make()
    body = Bytes([b"x"])
    asking.answer = lambda _: Stream(body)
    monkeypatch.setattr(framing, "send_bytes", refuse)
    framing.send(asking.worker, OpenObject(1, "/c/o"))
    failed, _ = asking.reply()
    while isinstance(failed, messages.StreamEnded):
        failed, _ = asking.reply()
    assert failed.code == "backend.failed"
    assert body.is_closed


def test_a_call_on_data_first_gets_a_stream_for_it(make: Make) -> None:
    asking = make()
    go = eventlet.event.Event()
    asking.answer = lambda _: (go.wait(), Stream(Bytes([b"HELLO"])))[1]
    asking.send(CallStorlet(1, "up.py"))
    feeding, descriptors = asking.reply()
    assert feeding == messages.Feeding(1)
    writing = descriptors.take(0)
    os.write(writing, (5).to_bytes(4, "big") + b"hello" + bytes(4))
    os.close(writing)
    assert wait_until(lambda: asking.performed)
    ((_, data),) = asking.performed
    assert (data.read(), data.read()) == (b"hello", b"")
    go.send()
    opened, descriptors = asking.reply()
    assert opened == messages.Opened(1)
    assert read_all(descriptors) == b"HELLO"
    assert asking.channel.usage.bytes_out == 5
    data.close()


def test_a_storlet_that_writes_none_of_its_data_for_a_call_stalls(make: Make) -> None:
    asking = make()
    begun: list[Any] = []

    def answer(_: Any) -> Stream:
        ((_, data),) = asking.performed
        begun.append(data)
        while data.read():
            pass
        return Stream(Bytes([b"HELLO"]))

    asking.answer = answer
    asking.send(CallStorlet(1, "up.py"))
    _, descriptors = asking.reply()
    writing = descriptors.take(0)
    assert wait_until(lambda: begun and begun[0].is_waiting)
    assert not asking.channel.were_active_since(monotonic())
    before = monotonic()
    os.write(writing, (5).to_bytes(4, "big") + b"hello")
    assert wait_until(lambda: asking.channel.were_active_since(before))
    assert wait_until(lambda: begun[0].is_waiting)
    assert not asking.channel.were_active_since(monotonic())
    os.write(writing, bytes(4))
    os.close(writing)
    opened, descriptors = asking.reply()
    assert opened == messages.Opened(1)
    assert read_all(descriptors) == b"HELLO"
    begun[0].close()


def test_a_call_on_data_that_is_refused_gets_no_stream(make: Make) -> None:
    asking = make(operations=0)
    asking.send(CallStorlet(1, "up.py"))
    assert asking.reply()[0].code == "storlet.limit.services"


def test_the_bytes_of_data_count_for_the_limit(make: Make) -> None:
    asking = make(bytes=4)
    asking.send(CallStorlet(1, "up.py"))
    _, descriptors = asking.reply()
    writing = descriptors.take(0)
    os.write(writing, (5).to_bytes(4, "big") + b"hello")
    assert wait_until(lambda: asking.performed)
    ((_, data),) = asking.performed
    with pytest.raises(OSError, match="Service-Bytes"):
        data.read()
    data.close()
    os.close(writing)


def test_a_called_storlet_that_has_failed_is_named(make: Make) -> None:
    def fail(request: Any) -> Any:
        raise StoreRefusal("storlet.failed", 422, "why", "up.py")

    asking = make()
    asking.answer = fail
    asking.send(CallStorlet(1, "up.py", "/c/o"))
    expected = messages.ServiceFailed(1, "storlet.failed", 422, "why", "up.py")
    assert asking.reply()[0] == expected
