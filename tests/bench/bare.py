"""Runs the supervisor and its workers as host processes behind sandboxd's socket, to measure the
cost of isolation.

For measuring only.  Daemon, protocol and filter are the same, but there is no Docker container, no
separate user, no system call filter and no limit.  :class:`BareNode` answers instead of sandboxd
for new worker groups.  Worker groups that the servers know already stay in their sandboxes, because
a warm path does not involve sandboxd.  sandboxd keeps running with its socket moved away: it still
places each new worker of those groups in the control groups of its storlet.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import threading
from pathlib import Path
from typing import Final, Self

from storlet_daemon.protocol import framing, messages
from tests.conformance.daemon_harness import HostSandbox
from tests.support.cluster import Cluster

_BACKLOG: Final = 512


class BareNode:
    """Replaces sandboxd of ``cluster`` for the duration of a ``with`` block."""

    def __init__(self, cluster: Cluster) -> None:
        self._path = cluster.run_dir / "sandboxd.sock"
        self._stack = contextlib.ExitStack()
        self._folder = Path()
        self._requests = 0

    def __enter__(self) -> Self:
        with self._stack as stack:
            self._folder = Path(tempfile.mkdtemp(prefix="storlets-bare-"))
            stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
            self._folder.chmod(0o755)
            self._host = stack.enter_context(HostSandbox(self._folder))
            # Swift's user writes the code there.
            self._host.code_root.chmod(0o777)
            self._take_over_socket(stack)
            self._listen(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def _take_over_socket(self, stack: contextlib.ExitStack) -> None:
        """Take over the path of sandboxd's socket; restore it with one rename."""
        aside = self._path.with_suffix(".aside")
        self._path.rename(aside)
        stack.callback(aside.rename, self._path)

    def _listen(self, stack: contextlib.ExitStack) -> None:
        self._listening = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        self._listening.bind(str(self._path))
        self._path.chmod(0o666)
        self._listening.listen(_BACKLOG)
        thread = threading.Thread(target=self._serve, daemon=True)
        thread.start()
        stack.callback(self._listening.shutdown, socket.SHUT_RDWR)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                # A client that disconnects must not end the service for others.
                with client, contextlib.suppress(OSError):
                    while (received := framing.receive(client)) is not None:
                        framing.send(client, self._answer(received.message(messages.NODE_REQUESTS)))

    def _answer(self, request: messages.Message) -> messages.Message:
        if isinstance(request, messages.Prepare):
            return messages.Prepared(str(self._host.code_root))
        if isinstance(request, messages.Acquire):
            return messages.Acquired(self._load(request.storlet))
        return messages.NodeStatus()

    def _load(self, storlet: messages.Storlet) -> str:
        """Start the worker group if necessary; return the path of its socket."""
        path = self._folder / f"{storlet.version[:24]}.sock"
        if path.exists():  # another server has requested it before
            return str(path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(str(path))
            path.chmod(0o666)
            listening.listen(_BACKLOG)
            self._requests += 1
            load = messages.Load(
                request=self._requests,
                version=storlet.version,
                code=storlet.code,
                language=storlet.language,
                main=storlet.main,
                file=storlet.file,
                name=storlet.name,
                dependencies=storlet.dependencies,
            )
            self._host.ask(load, (listening.fileno(),))
        return str(path)
