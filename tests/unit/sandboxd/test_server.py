"""The request socket: what a slow, confused or hostile client can and cannot do."""

from __future__ import annotations

import contextlib
import os
import socket
import stat

import pytest

from storlet_daemon.protocol import framing, messages
from storlet_middleware.sandboxd import server
from tests.unit.sandboxd.doubles import FakeNode, make_storlet


def reply(connection: socket.socket) -> object:
    received = framing.receive(connection)
    return received.message(messages.NODE_ANSWERS) if received is not None else None


def test_the_socket_is_for_the_group_only(node: FakeNode) -> None:
    status = (node.home / "run" / "sandboxd.sock").stat()
    assert stat.S_IMODE(status.st_mode) == 0o660
    assert status.st_gid == os.getgid()


def test_several_requests_on_one_connection(node: FakeNode) -> None:
    with node.connect() as connection:
        for _ in range(3):
            framing.send(connection, messages.AskNodeStatus())
            assert isinstance(reply(connection), messages.NodeStatus)


@pytest.mark.parametrize(
    "record",
    [
        b"\xff\xff",
        b"{",
        b"[]",
        b"{}",
        b'{"v":1,"type":"explode"}',
        b'{"v":2,"type":"status"}',
        b'{"type":"status"}',
        b'{"v":1,"type":"prepare"}',
        b'{"v":1,"type":"load","account":"a","storlet":7}',
        b'{"v":1,"type":"status","x":' + b"[" * 40 + b"]" * 40 + b"}",
    ],
)
def test_garbage_is_refused_and_the_connection_closed(node: FakeNode, record: bytes) -> None:
    with node.connect() as connection:
        connection.send(record)
        answer = reply(connection)
        assert isinstance(answer, messages.NodeRefused)
        assert answer.code == "bad_request"
        assert reply(connection) is None
    assert node.status().sandboxes == ()


def test_unrequested_descriptors_are_closed(node: FakeNode) -> None:
    reading, writing = os.pipe()
    with node.connect() as connection, os.fdopen(reading, "rb") as pipe:
        framing.send(connection, messages.AskNodeStatus(), [writing])
        os.close(writing)
        assert isinstance(reply(connection), messages.NodeRefused)
        assert pipe.read() == b""


def test_a_client_that_never_reads_or_sends_does_not_delay_others(node: FakeNode) -> None:
    flood, idle = node.connect(), node.connect()
    with flood, idle:
        flood.setblocking(False)
        data = framing.encode(messages.AskNodeStatus())
        with contextlib.suppress(OSError):  # its buffer is full or it was closed: both are fine
            while True:
                flood.send(data)
        assert node.status().sandboxes == ()


def test_the_longest_idle_connection_is_closed_first(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CLIENTS_MAX", 3)
    connections = [node.connect() for _ in range(3)]
    for connection in connections:
        framing.send(connection, messages.AskNodeStatus())
        reply(connection)
    assert node.status().sandboxes == ()
    assert reply(connections[0]) is None
    for connection in connections:
        connection.close()


def test_all_faults_of_a_load_are_reported_at_once(node: FakeNode) -> None:
    answer = node.ask(
        messages.Acquire("AUTH_a", make_storlet(name="-rf", main="a\nb", language="cobol"))
    )
    assert isinstance(answer, messages.NodeRefused)
    assert answer.code == "bad_request"
    for part in (
        "storlet.name begins with '-'",
        "storlet.main contains control characters",
        "storlet.language",
    ):
        assert part in answer.message


def test_missing_code_must_be_fetched(node: FakeNode) -> None:
    answer = node.ask(messages.Acquire("AUTH_a", make_storlet(version="f" * 64)))
    assert isinstance(answer, messages.NodeRefused)
    assert answer.code == "code.missing"


def test_a_version_directory_that_is_a_link_is_refused(node: FakeNode) -> None:
    code_dir = node.put_code("AUTH_a", "a" * 64)
    (code_dir / ("b" * 64)).symlink_to("/etc")
    answer = node.ask(messages.Acquire("AUTH_a", make_storlet(version="b" * 64)))
    assert isinstance(answer, messages.NodeRefused)
    assert answer.code == "code.missing"


def test_a_status_too_long_for_a_message_is_truncated_and_marked() -> None:
    group = messages.Group("a" * 64, "storlet", 1, 0, 1, 0, 0.5)
    sandboxes = [
        messages.Sandbox(f"AUTH_{n}" + 200 * "x", "k", "running", uid=1, groups=20 * (group,))
        for n in range(400)
    ]
    cut = server.fitting(messages.NodeStatus(sandboxes, {"image": {}}))
    assert len(framing.encode(cut)) <= messages.MESSAGE_MAX
    assert "cut" in cut.images
    assert len(cut.sandboxes) > 50


def test_of_many_storlets_the_status_has_those_that_were_used_last() -> None:
    def group(number: int) -> messages.Group:
        return messages.Group(f"{number:064x}", "storlet.py", 1, 0, 1, 0, float(number), "c" * 64)

    sandboxes = [
        messages.Sandbox(f"AUTH_{n}", "k", "running", uid=1, groups=tuple(map(group, numbers)))
        for n, numbers in enumerate((range(100), range(100, 200), range(200, 300)))
    ]
    cut = server.fitting(messages.NodeStatus(sandboxes, {"image": {}}))
    assert len(framing.encode(cut)) <= messages.MESSAGE_MAX
    assert [sandbox.account for sandbox in cut.sandboxes] == ["AUTH_0", "AUTH_1", "AUTH_2"]
    shown = [int(group.idle_seconds) for sandbox in cut.sandboxes for group in sandbox.groups]
    assert shown == list(range(len(shown)))
    assert len(shown) > 100
    assert "idle longest are left out" in cut.images["cut"]


def test_a_short_status_is_left_as_it_is() -> None:
    status = messages.NodeStatus([], {})
    assert server.fitting(status) is status
