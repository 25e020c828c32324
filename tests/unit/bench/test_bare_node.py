"""The replacement for sandboxd during the measurement of isolation: it starts and stops without a
request to sandboxd."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlet_daemon.protocol import framing, messages
from tests.bench.bare import BareNode
from tests.bench.site import STORLETS
from tests.conformance.daemon_harness import Code
from tests.support.cluster import Cluster

IDENTITY = Code(STORLETS, "identity.Identity", "identity.py")
STORLET = messages.Storlet(
    name="identity.py",
    version=IDENTITY.version,
    code=IDENTITY.version,
    language="python",
    main=IDENTITY.main,
    file=IDENTITY.file,
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster with only a directory for sandboxd's socket, whose path must be short."""
    with (
        tempfile.TemporaryDirectory(prefix="storlets-") as run_dir,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as own,
    ):
        own.bind(f"{run_dir}/sandboxd.sock")
        own.listen()
        own.settimeout(5)
        (tmp_path / "cluster.json").write_text(f'{{"run_dir": "{run_dir}"}}', encoding="utf-8")
        yield Cluster(tmp_path, {})
        # sandboxd is still listening on its socket.
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.connect(f"{run_dir}/sandboxd.sock")
            own.accept()[0].close()
        assert [path.name for path in Path(run_dir).iterdir()] == ["sandboxd.sock"]


def ask(cluster: Cluster, request: messages.Message) -> messages.Message:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.settimeout(20)
        client.connect(str(cluster.run_dir / "sandboxd.sock"))
        framing.send(client, request)
        received = framing.receive(client)
        assert received is not None
        return received.message(messages.NODE_ANSWERS)


def test_new_requests_get_workers_of_this_host(cluster: Cluster) -> None:
    with BareNode(cluster):
        prepared = ask(cluster, messages.Prepare("AUTH_test", STORLET.name))
        assert isinstance(prepared, messages.Prepared)
        (Path(prepared.code_dir) / STORLET.code).symlink_to(IDENTITY.folder)
        first = ask(cluster, messages.Acquire("AUTH_test", STORLET))
        assert isinstance(first, messages.Acquired)
        # A second request for the same worker group returns the same socket.
        assert ask(cluster, messages.Acquire("AUTH_test", STORLET)) == first
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as invocation:
            invocation.connect(first.socket)


def test_the_socket_of_sandboxd_is_restored_after_a_failure(cluster: Cluster) -> None:
    with pytest.raises(RuntimeError, match="of the row"), BareNode(cluster):
        raise RuntimeError("a failure of the row")
