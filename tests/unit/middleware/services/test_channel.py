"""The socket for a storlet's requests: replies, streams with an end mark, and bounds."""

from __future__ import annotations

import os
from typing import Any

import eventlet
import pytest

from storlet_daemon.protocol import messages
from storlet_daemon.protocol.messages import CallStorlet, Described, OpenObject, StatObject
from storlet_middleware.concurrency import monotonic
from storlet_middleware.errors import StorletError
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


def test_a_storlet_requests_only_the_services_that_it_declares(make: Make) -> None:
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
    assert wait_until(lambda: asking.channel._streams.are_filled)
    asking.send(OpenObject(3, "/c/o"))
    assert isinstance(asking.reply()[0], messages.Opened)

    asking = make(bytes=10)
    asking.answer = lambda _: Stream(Bytes([b"x" * 6] * 2))
    asking.send(OpenObject(1, "/c/o"))
    _, descriptors = asking.reply()
    assert "Service-Bytes" in asking.reply()[0].message
    assert read_all(descriptors) == b"x" * 6


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
