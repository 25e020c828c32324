"""A sandbox without Docker: the real supervisor and workers as host processes, and their two peers.

``HostSandbox`` plays the node daemon (control connection, listening sockets), ``Run`` plays the
filter for one invocation.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import os
import queue
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from storlet_daemon import kernel
from storlet_daemon.protocol import framing, messages
from tests.conformance.supervisors import Started, Supervisors

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 20.0


@dataclass(frozen=True)
class Code:
    """A storlet of a test: the folder of its file, and its fields in ``load``."""

    folder: Path
    main: str
    file: str
    language: str = "python"
    twin: str = ""
    """The same code under another name is another storlet."""

    @property
    def version(self) -> str:
        """The storlet version: 64 hexadecimal digits."""
        return hashlib.sha256(repr(self).encode()).hexdigest()


def until(condition: Any, seconds: float = PATIENCE_SECONDS) -> Any:
    """Call ``condition`` until its result is true; return it. Fails at the timeout."""
    end = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer or time.monotonic() > end:
            assert answer, f"{condition} did not come true in {seconds} s"
            return answer
        time.sleep(0.01)


def count_descriptors(pid: int | str = "self") -> int:
    """The number of open descriptors of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


class HostSandbox:
    """Start with ``with``; all of its processes have ended at the end."""

    def __init__(
        self,
        folder: Path,
        arguments: tuple[str, ...] = (),
        user: int | None = None,
        supervisors: Supervisors | None = None,
    ) -> None:
        self.folder = folder
        self._user = user
        self._supervisors = supervisors
        self.code_root = folder / "code"
        self.code_root.mkdir()
        self._path = str(folder / "control.sock")
        self._arguments = arguments
        self._request = 0
        self._reports: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.process: Started | subprocess.Popen[bytes]
        self.control: socket.socket | None = None
        self.hello: Any = None
        self.placed: list[messages.Place] = []
        self.place: Callable[[messages.Place], str | None] = lambda _place: ""
        """Handles ``place`` like sandboxd; returns the directory of the control groups, or ``None``
        for no reply."""

    def __enter__(self) -> Self:
        self._listen()
        arguments = (
            *("--control", self._path, "--code-root", str(self.code_root)),
            *self._arguments,
        )
        if self._supervisors is not None and self._user is None:
            self.process = self._supervisors.start(arguments)
        else:
            self.process = self._program(arguments)
        self.accept()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.drop_control()
        self._listening.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE_SECONDS)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()

    def _program(self, arguments: tuple[str, ...]) -> subprocess.Popen[bytes]:
        """The supervisor as in a sandbox: a program, as the user."""
        as_user: dict[str, Any] = {}
        daemon = REPOSITORY / "storlet_daemon"
        if self._user is not None:
            # The checkout may be where no other user can read.
            daemon = self._readable(daemon, "storlet_daemon")
            for path in (self.folder, Path(self._path)):
                os.chown(path, self._user, self._user)
            as_user = {"user": self._user, "group": self._user, "extra_groups": []}
        return subprocess.Popen(
            [sys.executable, "-B", str(daemon), *arguments], stdin=subprocess.DEVNULL, **as_user
        )

    def _readable(self, folder: Path, name: str) -> Path:
        """A copy that every user may read."""
        copy = self.folder / name
        shutil.copytree(folder, copy, ignore=_not_for_the_sandbox)
        for path in (copy, *copy.rglob("*")):
            path.chmod(0o755)
        return copy

    @property
    def pid(self) -> int:
        """Process id of the supervisor."""
        return self.process.pid

    # the control connection

    def _listen(self) -> None:
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        Path(self._path).unlink(missing_ok=True)
        self._listening.bind(self._path)
        self._listening.listen()

    def accept(self) -> None:
        """Wait for the supervisor to connect and send ``hello``."""
        self._listening.settimeout(PATIENCE_SECONDS)
        self.control, _ = self._listening.accept()
        self._reports = queue.SimpleQueue()
        self._reader = threading.Thread(
            target=self._read, args=(self.control, self._reports), daemon=True
        )
        self._reader.start()
        self.hello = self.report()

    def drop_control(self) -> None:
        """Close the control connection, as if the node daemon had died."""
        if self.control is not None:
            self.control.shutdown(socket.SHUT_RDWR)
            self._reader.join()
            self.control.close()
            self.control = None

    def _read(self, control: socket.socket, reports: queue.SimpleQueue[Any]) -> None:
        """Answer each ``place`` at once, and queue the other reports."""
        with contextlib.suppress(OSError):
            while (received := framing.receive(control)) is not None:
                report = received.message(messages.CONTROL_REPORTS)
                if not isinstance(report, messages.Place):
                    reports.put(report)
                    continue
                self.placed.append(report)
                directory = self.place(report)
                if directory is not None:
                    framing.send(control, messages.Placed(report.pid, directory))
        reports.put(None)

    def report(self) -> Any:
        """The next report of the supervisor; ``None`` when it has closed the connection."""
        return self._reports.get(timeout=PATIENCE_SECONDS)

    def ask(self, command: messages.Message, fds: tuple[int, ...] = ()) -> Any:
        """Send a command; return its reply."""
        assert self.control is not None
        framing.send(self.control, command, fds)
        return self.report()

    def send(self, message: messages.Message) -> None:
        """Send a message without a reply."""
        assert self.control is not None
        framing.send(self.control, message)

    def load(self, code: Code, **options: Any) -> Storlet:
        """Load a worker group for ``code``."""
        place = self.code_root / code.version
        if not place.exists():
            place.symlink_to(
                code.folder
                if self._user is None
                else self._readable(code.folder, code.version[:12])
            )
        path = str(self.folder / f"{code.version[:24]}.sock")
        Path(path).unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(path)
            listening.listen(512)
            self._request += 1
            answer = self.ask(
                messages.Load(
                    request=self._request,
                    version=code.version,
                    code=code.version,
                    language=code.language,
                    main=code.main,
                    file=code.file,
                    name=code.file,
                    **options,
                ),
                (listening.fileno(),),
            )
        assert answer == messages.Loaded(self._request), answer
        return Storlet(self, code, path)

    def unload(self, storlet: Storlet) -> None:
        """End a worker group."""
        self._request += 1
        assert self.ask(messages.Unload(self._request, storlet.code.version)) == messages.Unloaded(
            self._request
        )

    def groups(self) -> dict[str, messages.Group]:
        """The worker groups by version."""
        self._request += 1
        return {
            group.version: group for group in self.ask(messages.AskStatus(self._request)).groups
        }

    # the host's view of it

    def descendants(self) -> list[int]:
        """The live processes under the supervisor."""
        return kernel.strays(self.pid, ())

    def descriptors(self) -> int:
        """The number of open descriptors of the supervisor."""
        return count_descriptors(self.pid)


@dataclass(frozen=True)
class Storlet:
    """A loaded storlet as the filter sees it: the path of its socket."""

    sandbox: HostSandbox
    code: Code
    path: str

    @property
    def group(self) -> messages.Group:
        """The state of its worker group."""
        return self.sandbox.groups()[self.code.version]

    def connect(self) -> socket.socket:
        """A connection: one invocation."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(PATIENCE_SECONDS)
        connection.connect(self.path)
        return connection

    def start(
        self,
        *inputs: Any,
        log_limit: int = 0,
        metadata_bytes: int = 4096,
        further: int = 0,
        secrets: Mapping[str, bytes] | None = None,
        **parameters: str,
    ) -> Run:
        """Begin an invocation with ``further`` outputs, and with ``secrets``.

        An input given as bytes comes by a pipe; none is one empty input.
        """
        run = Run(
            self.connect(),
            [InputPipe(item) if isinstance(item, bytes) else item for item in inputs or (b"",)],
            log_limit,
            further,
        )
        run.secrets = secrets or {}
        run.send(parameters, metadata_bytes)
        return run

    def run(self, *inputs: Any, **options: Any) -> Result:
        """Run a complete invocation."""
        with self.start(*inputs, **options) as run:
            return run.finish()


@dataclass(frozen=True)
class InputPipe:
    """An input that comes through a pipe."""

    data: bytes
    metadata: Mapping[str, str] | None = None
    start: int | None = None
    end: int | None = None
    seekable: str | None = None

    @property
    def described(self) -> dict[str, Any]:
        """The keys of the input in the message, but its descriptor."""
        size = None if self.seekable is None else len(self.data)
        return {
            "metadata": self.metadata or {},
            "start": self.start,
            "end": self.end,
            "seekable": self.seekable,
            "size": size,
        }

    def open(self, folder: Path) -> int:
        """The read end; a thread writes."""
        reading, writing = (end.detach() for end in socket.socketpair())
        threading.Thread(target=self._write, args=(writing,), daemon=True).start()
        return reading

    def _write(self, writing: int) -> None:
        with contextlib.suppress(ConnectionError), open(writing, "wb", buffering=0) as pipe:
            rest = memoryview(self.data)
            while rest:
                rest = rest[pipe.write(rest) :]


@dataclass(frozen=True)
class InputFile(InputPipe):
    """An input that is a file, of which ``start`` and ``end`` may choose a part."""

    def open(self, folder: Path) -> int:
        """The file, open for reading only."""
        # Modules that run at the same time may use the same folder.
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            file.write(self.data)
            file.flush()
            return os.open(file.name, os.O_RDONLY | os.O_CLOEXEC)


@dataclass(frozen=True)
class InputReads(InputPipe):
    """A seekable input: the filter answers reads, the first ``most`` of them."""

    seekable: str | None = messages.SEEK_READS
    most: int | None = None
    reads: list[tuple[int, int]] = field(default_factory=list)

    def open(self, folder: Path) -> int:
        """The worker's end of the socket; a thread answers."""
        ours, theirs = socket.socketpair()
        threading.Thread(target=self._answer, args=(ours,), daemon=True).start()
        return theirs.detach()

    def _answer(self, ours: socket.socket) -> None:
        with contextlib.suppress(ConnectionError), ours, ours.makefile("rb") as requests:
            while len(self.reads) != self.most and (asked := requests.read(16)):
                first, length = struct.unpack(">QQ", asked)
                self.reads.append((first, length))
                ours.sendall(self.data[first : first + length])


@dataclass(frozen=True)
class Result:
    """The events, the output and the log of a finished invocation."""

    events: list[Any]
    outputs: list[bytes]
    log: bytes

    @property
    def output(self) -> bytes:
        """The first output."""
        return self.outputs[0]

    @property
    def done(self) -> messages.Done:
        """The end mark; fails when there was none."""
        last = self.events[-1] if self.events else None
        assert isinstance(last, messages.Done), f"no end mark: {self.events}"
        return last

    @property
    def metadata(self) -> Mapping[str, str] | None:
        """The metadata of the first output, if it came."""
        return self.metadata_of(0)

    def metadata_of(self, number: int) -> Mapping[str, str] | None:
        """The metadata of an output, if it came; fails if it came twice."""
        found = [
            event.metadata
            for event in self.events
            if isinstance(event, messages.Metadata) and (event.output or 0) == number
        ]
        assert len(found) <= 1
        return found[0] if found else None

    @property
    def types(self) -> list[str]:
        """The events in order, by type."""
        return [event.TYPE for event in self.events]


class Run:
    """One invocation, the filter's side."""

    def __init__(
        self,
        connection: socket.socket,
        inputs: list[InputPipe],
        log_limit: int = 0,
        further: int = 0,
    ) -> None:
        self.connection = connection
        self._inputs = inputs
        self._reading: list[int] = []
        self._writing: list[int] = []
        for _ in range(1 + further):
            reading, writing = (end.detach() for end in socket.socketpair())
            self._reading.append(reading)
            self._writing.append(writing)
        self._log_limit = log_limit
        self._log = _log_file(log_limit) if log_limit else -1
        self.services: messages.Services | None = None
        self.secrets: Mapping[str, bytes] = {}
        self._services_fd = -1
        self.events: list[Any] = []
        self.outputs = [b""] * (1 + further)

    @property
    def output(self) -> bytes:
        """The first output so far."""
        return self.outputs[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def serve(self, *operations: str) -> socket.socket:
        """The store's end of the services, which the invocation then has."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(PATIENCE_SECONDS)
        self._services_fd = theirs.detach()
        self.services = messages.Services(0, operations)
        return ours

    def send(self, parameters: Mapping[str, str], metadata_bytes: int = 4096) -> None:
        """Send the invocation and donate its descriptors."""
        fds = [item.open(Path("/tmp")) for item in self._inputs] + self._writing
        first = len(self._inputs)
        outputs = range(first + 1, len(fds))
        services = None
        if self.services is not None:
            services = messages.Services(len(fds), self.services.operations)
            fds.append(self._services_fd)
        donated = len(fds)
        log = None
        if self._log_limit:
            log = messages.Log(len(fds), self._log_limit)
            fds.append(self._log)
        invoke = messages.Invoke(
            id="tx-test-1",
            inputs=[messages.Input(fd, **item.described) for fd, item in enumerate(self._inputs)],
            output=messages.Output(first),
            parameters=parameters,
            log=log,
            limits=messages.Limits(metadata_bytes),
            further_outputs=[messages.Output(fd) for fd in outputs] or None,
            services=services,
            secrets={name: base64.b64encode(value).decode() for name, value in self.secrets.items()}
            or None,
        )
        try:
            framing.send(self.connection, invoke, fds)
        finally:
            for fd in fds[:donated]:
                os.close(fd)
            self._writing = []

    def event(self) -> Any:
        """The next event; ``None`` at the end of the connection."""
        received = framing.receive(self.connection)
        if received is None:
            return None
        event = received.message(messages.INVOCATION_EVENTS)
        self.events.append(event)
        return event

    def finish(self, seconds: float = PATIENCE_SECONDS) -> Result:
        """Read events and outputs to their ends; of an output nothing before its metadata."""
        self.connection.setblocking(False)
        end = time.monotonic() + seconds
        with select.epoll() as ready:
            ready.register(self.connection.fileno(), select.EPOLLIN)
            open_ = {fd: number for number, fd in enumerate(self._reading)}
            waiting = set(open_)

            def begin(fds: set[int]) -> None:
                for fd in fds & waiting:
                    ready.register(fd, select.EPOLLIN)
                waiting.difference_update(fds)

            begin({self._reading[number] for number in self._begun})
            is_done = False
            while open_ or not is_done:
                assert time.monotonic() < end, f"not over after {seconds} s: {self.events}"
                for fd, _ in ready.poll(1):
                    if fd in open_:
                        data = os.read(fd, 1 << 18)
                        self.outputs[open_[fd]] += data
                        if not data:
                            ready.unregister(fd)
                            del open_[fd]
                    else:
                        event = self.event()
                        is_done = event is None or isinstance(event, messages.Done)
                        begin({self._reading[number] for number in self._begun})
                        if is_done:
                            begin(set(open_))
                            ready.unregister(fd)
                            self._disconnect()
        return Result(self.events, self.outputs, self.log)

    @property
    def _begun(self) -> list[int]:
        """The outputs whose metadata has come. A hostile worker may name others."""
        numbers = [e.output or 0 for e in self.events if isinstance(e, messages.Metadata)]
        return [number for number in numbers if number < len(self._reading)]

    def _disconnect(self) -> None:
        """Disconnect as the filter does after the end mark."""
        with contextlib.suppress(OSError):
            framing.send(self.connection, messages.Taken())
        self.connection.close()

    @property
    def log(self) -> bytes:
        """The content of the log so far, as the filter reads it: up to the file's offset."""
        return (
            os.pread(self._log, os.lseek(self._log, 0, os.SEEK_CUR), 0) if self._log >= 0 else b""
        )

    def close(self) -> None:
        """Close everything: cancels what still runs."""
        self.connection.close()
        for fd in (*self._reading, *self._writing, self._log):
            if fd >= 0:
                os.close(fd)
        self._reading, self._writing, self._log = [], [], -1


def _not_for_the_sandbox(directory: str, _names: list[str]) -> set[str]:
    """Folders that are not copied: byte code, and the sources of the Java worker."""
    is_daemon = Path(directory) == REPOSITORY / "storlet_daemon"
    return {"__pycache__", "java"} if is_daemon else {"__pycache__"}


def _log_file(limit: int) -> int:
    fd = os.memfd_create("log", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, limit)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return fd


@contextlib.contextmanager
def running(run: Run) -> Iterator[Run]:
    """Wait until the invocation has started, and cancel it at the end."""
    with run:
        assert isinstance(run.event(), messages.Started)
        yield run
