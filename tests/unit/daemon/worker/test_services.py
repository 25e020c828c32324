"""The worker's end of the socket to the store."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from storlet_daemon.author import services as author
from storlet_daemon.protocol import framing, messages
from storlet_daemon.worker.services import ServiceChannel


class Filter:
    """The other end."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(5)
        self.channel = ServiceChannel(theirs.detach(), ["read", "list", "write", "call"])

    def request(self) -> messages.ServiceRequest:
        received = framing.receive(self.socket)
        assert received is not None
        request: messages.ServiceRequest = received.message(messages.SERVICE_REQUESTS)
        return request

    def reply(self, message: messages.Message, *fds: int) -> None:
        framing.send(self.socket, message, fds)


@pytest.fixture
def other() -> Iterator[Filter]:
    made = Filter()
    yield made
    made.channel.close()
    made.socket.close()


def test_an_answer_and_the_end_of_its_stream_may_come_in_any_order(other: Filter) -> None:
    reading, writing = os.pipe()
    os.close(writing)
    other.reply(messages.StreamEnded(1, 7))
    other.reply(messages.Opened(1, messages.Facts(size=7)), reading)
    os.close(reading)
    answer = other.channel.ask("open", {"path": "/c/o", "etag": None})
    assert other.request() == messages.OpenObject(1, "/c/o")
    assert (answer.id, answer.facts["size"], other.channel.end_of(answer)) == (1, 7, 7)
    os.close(answer.fd)


def test_each_thread_gets_the_reply_to_its_own_request(other: Filter) -> None:
    found: dict[str, object] = {}

    def ask(path: str) -> None:
        found[path] = other.channel.ask("stat", {"path": path}).facts["etag"]

    threads = [threading.Thread(target=ask, args=(f"/c/{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    requests = [other.request() for _ in threads]
    assert [request.id for request in requests] == list(range(1, 9))
    for request in reversed(requests):
        assert isinstance(request, messages.StatObject)
        other.reply(messages.Described(request.id, messages.Facts(etag=request.path)))
    for thread in threads:
        thread.join(5)
    assert found == {path: path for path in found}
    assert len(found) == 8


def test_a_failure_of_a_request_and_one_of_a_stream_are_raised_where_they_belong(
    other: Filter,
) -> None:
    other.reply(messages.ServiceFailed(1, "input.not_found", 404, "no such object"))
    with pytest.raises(author.NotFound, match="no such object"):
        other.channel.ask("stat", {"path": "/c/o"})
    reading, writing = os.pipe()
    other.reply(messages.Opened(2), reading)
    other.reply(messages.ServiceFailed(2, "backend.failed", 503, "broke off"))
    answer = other.channel.ask("open", {"path": "/c/o"})
    with pytest.raises(author.Unavailable, match="broke off"):
        other.channel.end_of(answer)
    for fd in (reading, writing, answer.fd):
        os.close(fd)


def test_a_call_on_data_has_two_answers(other: Filter) -> None:
    reading, writing = os.pipe()
    other.reply(messages.Feeding(1), writing)
    first = other.channel.ask("call", {"storlet": "a.py"})
    assert other.request() == messages.CallStorlet(1, "a.py")
    other.reply(messages.Opened(1), reading)
    second = other.channel.further_answer(first)
    other.reply(messages.ServiceFailed(1, "storlet.failed", 422, "why", "a.py"))
    with pytest.raises(author.CallFailed, match="why") as caught:
        other.channel.end_of(second)
    assert caught.value.storlet == "a.py"
    for fd in (reading, writing, first.fd, second.fd):
        os.close(fd)


def test_a_call_on_data_may_fail_after_its_first_answer(other: Filter) -> None:
    reading, writing = os.pipe()
    other.reply(messages.Feeding(1), writing)
    first = other.channel.ask("call", {"storlet": "a.py"})
    other.reply(messages.ServiceFailed(1, "storlet.not_found", 404, "there is none"))
    with pytest.raises(author.NotFound, match="there is none"):
        other.channel.further_answer(first)
    for fd in (reading, writing, first.fd):
        os.close(fd)


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_failure_replaces_no_answer_that_no_thread_has_taken(
    other: Filter, is_taken: bool
) -> None:
    reading, writing = os.pipe()
    other.reply(messages.Feeding(1), writing)
    os.close(writing)
    other.reply(messages.ServiceFailed(1, "storlet.not_found", 404, "there is none"))
    other.reply(messages.Described(2, messages.Facts(etag="x")))
    # The thread that waits for the second reply reads those to the first request.
    other.channel._asked.add(1)
    other.channel._last = 1
    assert other.channel.ask("stat", {"path": "/c/o"}).facts["etag"] == "x"
    if is_taken:
        first = other.channel._answer_to(1)
        with pytest.raises(author.NotFound, match="there is none"):
            other.channel.further_answer(first)
        os.close(first.fd)
    other.channel.close()
    assert os.read(reading, 1) == b"", "the writing end was not closed"
    os.close(reading)


def test_requests_of_other_services_or_without_a_valid_message_are_not_sent(other: Filter) -> None:
    channel = ServiceChannel(other.socket.dup().detach(), ["list"])
    with pytest.raises(author.Denied, match="needs the service read; the storlet declares list"):
        channel.ask("open", {"path": "/c/o"})
    channel.close()
    with pytest.raises(author.ServiceError, match="start is not a whole number"):
        other.channel.ask("open", {"path": "/c/o", "start": -1})
    with pytest.raises(author.ServiceError, match="more than 65536"):
        other.channel.ask("stat", {"path": "/c/" + "x" * 70_000})


def test_a_created_object_is_a_stream_to_write(other: Filter) -> None:
    reading, writing = os.pipe()
    other.reply(messages.Created(1), writing)
    os.close(writing)
    answer = other.channel.ask("create", {"path": "/c/o", "metadata": None})
    assert other.request() == messages.CreateObject(1, "/c/o")
    os.write(answer.fd, b"hello")
    os.close(answer.fd)
    assert os.read(reading, 10) == b"hello"
    os.close(reading)
    other.reply(messages.Performed(2))
    other.channel.ask("close", {"file": answer.id, "bytes": 5})
    assert other.request() == messages.CloseFile(2, 1, 5)
    with pytest.raises(author.ServiceError, match="bytes is not a whole number"):
        other.channel.ask("close", {"file": answer.id, "bytes": -1})


def test_an_end_of_the_connection_is_an_error(other: Filter) -> None:
    other.socket.close()
    with pytest.raises(author.Unavailable, match="the store does not answer"):
        other.channel.ask("stat", {"path": "/c/o"})
