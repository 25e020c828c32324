"""A Java worker as a process of this host, and its two peers: the supervisor's end of the channel,
and the filter of one invocation.

Written with plain sockets and JSON, not with ``storlet_daemon.protocol``, which would hide mistakes
that both languages share.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

PATIENCE_SECONDS = 20.0
#: The age at which a worker ends: beyond that of any test.
AGE_SECONDS = 600.0
WORKER = "org.openstack.storlet.daemon.Worker"
FLAGS = (
    "-Xshare:auto",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Xms8m",
    "-Xmx64m",
)


@dataclass(frozen=True)
class Received:
    """One message and its descriptors, which the caller must close; no fields at the end of the
    connection.
    """

    fields: dict[str, Any] | None
    descriptors: list[int]


def receive(connection: socket.socket) -> Received:
    connection.settimeout(PATIENCE_SECONDS)
    data, ancillary, _, _ = connection.recvmsg(65536, 1024, socket.MSG_CMSG_CLOEXEC)
    rights = array.array("i")
    for _, _, payload in ancillary:
        rights.frombytes(payload)
    return Received(json.loads(data) if data else None, list(rights))


def send(connection: socket.socket, data: bytes, descriptors: list[int]) -> None:
    connection.sendmsg(
        [data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
    )


@dataclass
class Part:
    """An input: bytes through a pipe, or with ``is_file`` a file of which ``fields`` may choose a
    part.
    """

    data: bytes = b""
    is_file: bool = False
    fields: dict[str, Any] = field(default_factory=dict)

    def open(self) -> int:
        if self.is_file:
            with tempfile.TemporaryFile() as file:
                file.write(self.data)
                file.flush()
                return os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDONLY | os.O_CLOEXEC)
        reading, writing = (end.detach() for end in socket.socketpair())
        threading.Thread(target=self._feed, args=(writing,), daemon=True).start()
        return reading

    def _feed(self, writing: int) -> None:
        with contextlib.suppress(ConnectionError), os.fdopen(writing, "wb", buffering=0) as pipe:
            rest = memoryview(self.data)
            while rest:
                rest = rest[pipe.write(rest) :]


@dataclass(frozen=True)
class Outcome:
    """The filter's view of an invocation."""

    events: list[dict[str, Any]]
    output: bytes
    log: bytes

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def done(self) -> dict[str, Any]:
        assert self.types[-1:] == ["done"], self.events
        return self.events[-1]

    @property
    def metadata(self) -> Any:
        return next(
            (event["metadata"] for event in self.events if event["type"] == "metadata"), None
        )

    def is_ok(self) -> bool:
        return self.types == ["started", "metadata", "done"] and bool(self.done["outcome"] == "ok")


class Run:
    """One invocation, the filter's side."""

    def __init__(self, connection: socket.socket, log_limit: int = 0) -> None:
        self.connection = connection
        self._reading, self._writing = (end.detach() for end in socket.socketpair())
        self._log = _log_file(log_limit)
        self._log_limit = log_limit

    def send(
        self, parts: list[Part], parameters: Mapping[str, str], limits: dict[str, Any] | None
    ) -> None:
        descriptors = [
            *(part.open() for part in parts),
            self._writing,
            *([os.dup(self._log)] if self._log_limit else []),
        ]
        message: dict[str, Any] = {
            "v": 1,
            "type": "invoke",
            "id": "tx0-1",
            "parameters": dict(parameters),
        }
        message["inputs"] = [{"fd": fd} | part.fields for fd, part in enumerate(parts)]
        message["output"] = {"fd": len(parts)}
        if self._log_limit:
            message["log"] = {"fd": len(parts) + 1, "limit": self._log_limit}
        if limits is not None:
            message["limits"] = limits
        send(self.connection, json.dumps(message).encode(), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)

    def finish(self) -> Outcome:
        output = bytearray()
        reader = threading.Thread(target=self._drain, args=(output,))
        reader.start()
        events = []
        while (fields := receive(self.connection).fields) is not None:
            events.append(fields)
            if fields["type"] == "done":
                break
        self.connection.close()
        reader.join(PATIENCE_SECONDS)
        assert not reader.is_alive(), f"the output was not closed: {events}"
        log = os.pread(self._log, os.lseek(self._log, 0, os.SEEK_CUR), 0)
        os.close(self._log)
        return Outcome(events, bytes(output), log)

    def _drain(self, output: bytearray) -> None:
        with os.fdopen(self._reading, "rb", buffering=0) as pipe:
            while chunk := pipe.read(1 << 18):
                output += chunk


def _log_file(limit: int) -> int:
    log = os.memfd_create("log", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(log, limit)
    fcntl.fcntl(log, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return log


class Worker:
    """Start with ``with``; ``first`` is its report to the supervisor after loading."""

    def __init__(
        self,
        java_dir: Path,
        jars: list[Path],
        main: str,
        runs: int = 1000,
        flags: tuple[str, ...] = FLAGS,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="java-worker-")
        self._path = f"{self._folder.name}/s"
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening.bind(self._path)
        self._listening.listen(64)
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours = sorted(java_dir.glob("*.jar"))
        numbers = [self._listening.fileno(), theirs.fileno()]
        path = ":".join(map(str, [*ours, *jars]))
        words = [
            "java",
            *flags,
            "-cp",
            path,
            WORKER,
            *map(str, numbers),
            main,
            "/execution/path",
            str(runs),
            str(AGE_SECONDS),
        ]
        with theirs:
            self.process = subprocess.Popen(
                words, pass_fds=numbers, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )

    def __enter__(self) -> Self:
        self.first = receive(self.channel).fields
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.channel.close()
        self._listening.close()
        self._folder.cleanup()
        try:
            self.process.wait(PATIENCE_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(self._path)
        return connection

    def start(
        self,
        parts: list[Part] | bytes,
        limits: dict[str, Any] | None = None,
        log_limit: int = 0,
        **parameters: Any,
    ) -> Run:
        run = Run(self.connect(), log_limit)
        run.send([Part(parts)] if isinstance(parts, bytes) else parts, parameters, limits)
        return run

    def run(
        self, parts: list[Part] | bytes = b"", what: str = "identity", **options: Any
    ) -> Outcome:
        """A complete invocation of the probe; ``what`` names the action."""
        return self.start(parts, **{"do": what} | options).finish()

    def reports(self) -> list[dict[str, Any]]:
        """The two reports that follow an invocation: begin, whose descriptor is closed, and end."""
        reports = []
        for _ in range(2):
            received = receive(self.channel)
            assert received.fields is not None, "the worker hung up"
            assert len(received.descriptors) == (received.fields["type"] == "begin")
            for descriptor in received.descriptors:
                os.close(descriptor)
            reports.append(received.fields)
        assert [report["type"] for report in reports] == ["begin", "end"]
        return reports

    def descriptors(self) -> int:
        """The number of open descriptors of the idle worker: it closes the connection shortly after
        the last event.
        """
        folder = Path(f"/proc/{self.process.pid}/fd")
        counts = [len(list(folder.iterdir()))]
        while counts[-15:] != [counts[-1]] * 15:
            time.sleep(0.02)
            counts.append(len(list(folder.iterdir())))
        return counts[-1]


def has_tools() -> str | None:
    """The first program that is missing for these tests, or None."""
    return next((tool for tool in ("javac", "mvn", "gcc") if shutil.which(tool) is None), None)
