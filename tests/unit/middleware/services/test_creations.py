"""Objects that a storlet creates: begun at its request, complete when it closes them."""

from __future__ import annotations

import os
from typing import Any

import eventlet
import pytest

from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.messages import CloseFile, CreateObject, DiscardFile, Performed
from storlet_middleware.concurrency import GreenTask
from storlet_middleware.errors import BackendFailed, StorletError
from storlet_middleware.services import creations
from storlet_middleware.services.requests import StoreRefusal
from tests.unit.middleware.services.asking import Asking, Make, refuse_to_send_descriptors
from tests.unit.middleware.support import wait_until


def create(asking: Asking, number: int = 1, path: str = "/c/o", **more: Any) -> int:
    """Create an object; the writing end of its stream."""
    asking.send(CreateObject(number, path, **more))
    reply, descriptors = asking.reply()
    assert reply == messages.Created(number), reply
    return descriptors.take(0)


def write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
        eventlet.sleep()


def close(asking: Asking, size: int, number: int = 1) -> Any:
    asking.send(CloseFile(number + 100, number, size))
    return asking.reply()[0]


def test_an_object_is_complete_with_all_bytes_when_it_is_closed(make: Make) -> None:
    asking = make()
    fd = create(asking, content_type="text/x", metadata={"Colour": "r\u00f6d"}, delete_after=60)
    [(path, headers)] = asking.deferred
    assert path == "/c/o"
    assert headers == {
        "Content-Type": "text/x",
        "X-Delete-After": "60",
        "X-Object-Meta-Colour": "r\u00f6d".encode().decode("latin-1"),
    }
    write(fd, b"hello")
    os.close(fd)
    assert close(asking, 5) == Performed(101)
    assert asking.objects.made["/c/o"].content == b"hello"
    asking.channel.finish()
    assert asking.channel.usage.bytes_out == sum(asking.counted) == 5
    assert not asking.objects.made["/c/o"].is_discarded


def test_bytes_after_the_close_are_not_read(make: Make) -> None:
    asking = make()
    fd = create(asking)
    write(fd, b"hello")
    assert close(asking, 5) == Performed(101)
    with pytest.raises(OSError, match="Broken pipe"):
        os.write(fd, b"more")
    os.close(fd)
    assert asking.objects.made["/c/o"].content == b"hello"


def test_an_empty_object_is_complete(make: Make) -> None:
    asking = make()
    os.close(create(asking))
    assert close(asking, 0) == Performed(101)
    asking.channel.finish()


@pytest.mark.parametrize("ends", [True, False])
def test_a_run_with_an_object_that_is_not_closed_fails(make: Make, *, ends: bool) -> None:
    """The end of its stream is no end of the object."""
    asking = make()
    fd = create(asking)
    write(fd, b"half")
    if ends:
        os.close(fd)
        assert wait_until(lambda: asking.creations.open_count == 0)
    with pytest.raises(
        StorletError, match="/c/o, and has neither closed nor discarded it"
    ) as caught:
        asking.channel.finish()
    assert (caught.value.code, caught.value.status) == ("storlet.failed", 422)
    if not ends:
        os.close(fd)


def test_another_number_of_bytes_is_a_failure(make: Make) -> None:
    asking = make()
    fd = create(asking)
    write(fd, b"hello")
    os.close(fd)
    failed = close(asking, 6)
    assert (failed.code, failed.message) == ("storlet.services", "/c/o: 5 of 6 bytes arrived")
    with pytest.raises(StorletError, match="5 of 6 bytes"):
        asking.channel.finish()


def test_a_refused_object_ends_its_stream_and_fails_the_run(make: Make) -> None:
    def refuse() -> None:
        raise StorletError("Swift answered 413", code="swift.refused", status=413)

    asking = make()
    asking.objects.before_write = refuse
    fd = create(asking)
    os.write(fd, b"hello")
    assert wait_until(lambda: asking.creations.open_count == 0)
    with pytest.raises(OSError, match=r"Broken pipe|reset"):
        os.write(fd, b"more")
    os.close(fd)
    for number in (1, 2):
        asking.send(CloseFile(100 + number, 1, 5))
        failed = asking.reply()[0]
        assert (failed.code, failed.status) == ("swift.refused", 413)
    with pytest.raises(StorletError, match="413"):
        asking.channel.finish()


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_discarded_object_does_not_fail_the_run(make: Make, *, is_closed: bool) -> None:
    asking = make(creations=1)
    fd = create(asking)
    write(fd, b"hello")
    if is_closed:
        assert close(asking, 5) == Performed(101)
    asking.send(DiscardFile(200, 1))
    assert asking.reply()[0] == Performed(200)
    os.close(fd)
    assert asking.objects.made.pop("/c/o").is_discarded
    asking.channel.finish()
    assert asking.creations.open_count == 0


def test_a_request_for_a_file_that_is_not_there_is_refused(make: Make) -> None:
    asking = make()
    asking.send(CloseFile(1, 7, 0), DiscardFile(2, 7))
    assert {asking.reply()[0].code, asking.reply()[0].code} == {"bad_request"}


@pytest.mark.parametrize(
    ("path", "more", "code"),
    [
        ("/storlet/a.py", {}, "access.denied"),
        ("/c", {}, "bad_request"),
        ("/c/twice", {}, "bad_request"),
        ("/c/o", {"metadata": {"a": "b\r\nX-Delete-At: 1"}}, "bad_request"),
        ("/c/o", {"metadata": {"n" * 200: "x"}}, "bad_request"),
        ("/c/o", {"content_type": "a/b;swift_bytes=1"}, "bad_request"),
        ("/c/o", {"delete_after": 0}, "bad_request"),
    ],
)
def test_an_object_that_may_not_be_stored_is_refused_at_once(
    make: Make, path: str, more: dict[str, Any], code: str
) -> None:
    asking = make()
    os.close(create(asking, 1, "/c/twice"))
    asking.deferred.clear()
    asking.send(CreateObject(2, path, **more))
    failed = asking.reply()[0]
    assert failed.code == code
    assert path in failed.message
    assert not asking.deferred


def test_limits_of_objects_files_and_bytes_fail_by_name(make: Make) -> None:
    asking = make(creations=2)
    fds = [create(asking, 1, "/c/1"), create(asking, 2, "/c/2")]
    asking.send(CreateObject(3, "/c/3"))
    assert "Service-Creations" in asking.reply()[0].message
    for fd in fds:
        os.close(fd)

    asking = make(files=1)
    fd = create(asking, 1, "/c/1")
    asking.send(CreateObject(2, "/c/2"))
    assert "Service-Files" in asking.reply()[0].message
    os.close(fd)
    # A closed file is none that is open.
    assert close(asking, 0) == Performed(101)
    os.close(create(asking, 200, "/c/3"))

    asking = make(bytes=4)
    fd = create(asking)
    os.write(fd, b"hello")
    os.close(fd)
    assert "Service-Bytes" in close(asking, 5).message
    with pytest.raises(StorletError) as caught:
        asking.channel.finish()
    assert caught.value.code == "storlet.limit.services"


def test_more_output_than_the_run_may_have_ends_it(make: Make) -> None:
    def refuse(size: int) -> None:
        raise StorletError("too much", code="storlet.limit.output")

    asking = make()
    asking.channel._count_created = refuse
    fd = create(asking)
    os.write(fd, b"hello")
    assert wait_until(lambda: asking.faults)
    assert [str(fault) for fault in asking.faults] == ["too much"]
    os.close(fd)


def test_a_storlet_that_waits_for_a_put_is_active(make: Make) -> None:
    asking = make()
    go = eventlet.event.Event()
    asking.objects.before_write = go.wait
    fd = create(asking)
    eventlet.sleep(0.05)
    assert not asking.channel.were_active_since(1e12)
    os.write(fd, b"hello")
    assert wait_until(lambda: asking.channel.were_active_since(1e12))
    go.send()
    assert wait_until(lambda: not asking.channel.were_active_since(1e12))
    os.close(fd)


def test_no_object_is_created_after_the_end(make: Make) -> None:
    asking = make()
    asking.channel.finish()
    asking.send(CreateObject(1, "/c/o"))
    assert "the run has ended" in asking.reply()[0].message
    assert not asking.objects.made


def test_a_process_without_descriptors_fails_the_request(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*, reader_is_ours: bool) -> Any:
        raise OSError(24, os.strerror(24))  # EMFILE

    asking = make()
    monkeypatch.setattr(creations, "stream", refuse)
    asking.send(CreateObject(1, "/c/o"))
    failed = asking.reply()[0]
    assert (failed.code, failed.status) == ("backend.failed", 503)
    assert asking.objects.made["/c/o"].is_discarded


def test_a_descriptor_that_cannot_be_sent_fails_the_request(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = make()
    refuse_to_send_descriptors(monkeypatch)
    framing.send(asking.worker, CreateObject(1, "/c/o"))
    assert asking.reply()[0].code == "backend.failed"
    assert asking.objects.made["/c/o"].is_discarded
    asking.channel.finish()


def test_a_refusal_by_the_store_creates_nothing(make: Make) -> None:
    def refuse(path: str, *_: dict[str, str]) -> Any:
        raise StoreRefusal("access.rule", 403, f"{path}: rule r: no")

    asking = make()
    asking.defer_put = refuse  # type: ignore[method-assign]
    asking.send(CreateObject(1, "/c/o"))
    assert asking.reply()[0] == messages.ServiceFailed(1, "access.rule", 403, "/c/o: rule r: no")
    asking.channel.finish()


def test_an_error_of_swift_is_the_run_s(make: Make) -> None:
    def time_out() -> None:
        raise eventlet.Timeout

    asking = make()
    asking.objects.before_write = time_out
    fd = create(asking)
    os.write(fd, b"hello")
    os.close(fd)
    assert close(asking, 5).code == "backend.failed"
    with pytest.raises(BackendFailed, match="has failed"):
        asking.channel.finish()


def test_an_end_that_is_interrupted_closes_the_stream(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(task: GreenTask) -> None:
        task.kill()
        raise eventlet.Timeout

    asking = make()
    fd = create(asking)
    monkeypatch.setattr(creations, "end", interrupted)
    with pytest.raises(eventlet.Timeout):
        asking.creations.close()
    with pytest.raises(OSError, match="Broken pipe"):
        os.write(fd, b"more")
    os.close(fd)
