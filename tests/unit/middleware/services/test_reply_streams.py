"""Streams that a storlet reads: their end, their failure, and when they count as open files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.messages import OpenObject
from storlet_middleware.errors import BackendFailed
from storlet_middleware.services import reply_streams
from storlet_middleware.services.operations import Stream
from tests.unit.middleware.services.asking import Bytes, Make, read_all, refuse_to_send_descriptors
from tests.unit.middleware.support import wait_until


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
    assert wait_until(lambda: asking.channel._streams.are_filled)
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
    monkeypatch.setattr(reply_streams, "stream", refuse)
    asking.send(OpenObject(1, "/c/o"))
    failed, _ = asking.reply()
    assert (failed.code, failed.status) == ("backend.failed", 503)
    assert body.is_closed


def test_a_descriptor_that_cannot_be_sent_fails_the_request(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = make()
    body = Bytes([b"x"])
    asking.answer = lambda _: Stream(body)
    refuse_to_send_descriptors(monkeypatch)
    framing.send(asking.worker, OpenObject(1, "/c/o"))
    failed, _ = asking.reply()
    while isinstance(failed, messages.StreamEnded):
        failed, _ = asking.reply()
    assert failed.code == "backend.failed"
    assert body.is_closed
