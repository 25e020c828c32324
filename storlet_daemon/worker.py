"""One resident Python worker: load the storlet once, run it for one connection after another, report how each run went.

The worker runs code that nobody trusts in its own process, so it promises only this: an invocation is reported as a success
only when the storlet returned and its output was closed without an error. Everything that must hold even against a hostile
storlet (limits, deadlines, the end of its processes) is the supervisor's and the filter's business.

What a run may change in the process is put back (working directory, umask, environment, import path, standard streams);
what cannot be put back (threads, child processes, signal handlers) makes the worker ask for its own replacement, as does any
failure.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import importlib.util
import io
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType, TracebackType
from typing import Any, NoReturn

from storlet_daemon import author, kernel
from storlet_daemon.control_groups import ControlGroup, Counter
from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.descriptors import Descriptors
from storlet_daemon.protocol.messages import Begin, Done, End, Invoke, LoadFailed, Metadata, Ready, Started, Usage

RECEIVE_SECONDS = 10
"""How long a new connection has to bring its message."""
LOOKS_MAX = 100
"""How often a run's processes are looked for that come and go too quickly to be counted; then they count as writing."""
BEGIN_SECONDS = 5
"""How long the kernel may refuse to pass a descriptor to the supervisor."""

_OUR_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
_OUTER_FRAMES = ("<frozen importlib", "<frozen runpy")
_HANDLED_SIGNALS = (
    signal.SIGALRM,
    signal.SIGCHLD,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGPIPE,
    signal.SIGPROF,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGVTALRM,
)
"""Those that people set handlers for; asking for all of them would take longer than many a run."""
# The C function below the library's, which makes an enumeration member of each answer: most of its time.
_get_handler: Callable[[int], object] = importlib.import_module("_signal").getsignal

# What nearly every invocation sends, ready as bytes.
_STARTED = framing.encode(Started())
_NO_METADATA = framing.encode(Metadata({}))
_END = framing.encode(End())
_DO_NOT_WAIT = int(socket.MSG_DONTWAIT)


@dataclass(frozen=True)
class Assignment:
    """What a worker is for: the two inherited descriptors, and the storlet."""

    listening: int
    channel: int
    main: str
    file: str
    execution_path: str
    runs_per_worker: int
    control_group: str = ""


def serve(assignment: Assignment) -> NoReturn:
    """Load the storlet, then serve until told to go. The process ends here."""
    kernel.keep_freed_memory()
    worker = _Worker(assignment)
    worker.load()
    worker.serve()


def refuse(assignment: Assignment, failure: LoadFailed) -> NoReturn:
    """Load nothing; answer every invocation with ``failure`` until told to go. The process ends here."""
    worker = _Worker(assignment)
    worker.failure = failure
    worker.serve()


def _nothing_loaded(logger: author.StorletLogger) -> Any:
    raise LoadError("nothing was loaded")


class LoadError(Exception):
    """The storlet's module is there, but what it should hold is not."""


class _Worker:
    """The loop of one worker process."""

    def __init__(self, assignment: Assignment) -> None:
        self.failure: LoadFailed | None = None
        self._assignment = assignment
        self._pid = os.getpid()
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, assignment.listening)
        self._listening.setblocking(False)
        self._channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, assignment.channel)
        for fd in (assignment.listening, assignment.channel):
            os.set_inheritable(fd, False)
        self._storlet_class: Callable[[author.StorletLogger], Any] = _nothing_loaded
        self._runs_left = max(assignment.runs_per_worker, 1)
        self._printed = _Printed()

    # -- load

    def load(self) -> None:
        """Import the module and find the class; tell the supervisor how it went."""
        try:
            self._storlet_class = load_class(self._assignment)
        except BaseException as error:  # noqa: BLE001
            # Whatever the author's module does while it is imported, SystemExit included, is his to hear about.
            self.failure = LoadFailed(messages.one_line(_summary(error)), messages.cut_middle(_traceback(error)))
            framing.send(self._channel, self.failure)
            return
        gc.collect()
        gc.freeze()
        framing.send(self._channel, Ready())

    # -- serve

    def serve(self) -> NoReturn:
        """Take connections until the channel ends, then those that wait already, then end."""
        self._printed.install()
        self._state = _ProcessState()
        self._refusals = _Refusals(ControlGroup(self._assignment.control_group))
        # From here nothing that is printed outside of a run goes anywhere.
        os.dup2(0, 1)
        os.dup2(0, 2)
        ready = select.epoll()
        ready.register(self._listening.fileno(), select.EPOLLIN | select.EPOLLEXCLUSIVE)
        ready.register(self._channel.fileno(), select.EPOLLIN | select.EPOLLRDHUP)
        while True:
            is_last = any(fd == self._assignment.channel for fd, _ in ready.poll())
            if is_last and self.failure is not None:
                os._exit(0)
            while self._take_one():
                if not is_last:
                    break
            if is_last:
                os._exit(0)

    def _take_one(self) -> bool:
        """Serve one connection; ``False`` when none waits. Ends the process when the listening socket is shut down."""
        try:
            connection, _ = self._listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return False
        except OSError:
            os._exit(0)
        if connection.gettimeout() is not None:
            # A storlet has set a default for all sockets of its process.
            connection.settimeout(None)
        with connection:
            if self.failure is None:
                self._invoke(connection)
            else:
                self._refuse(connection, self.failure)
        return True

    def _receive(self, connection: socket.socket) -> tuple[Invoke, Descriptors] | None:
        """The invocation that the connection brings. Faults are answered here; ``None`` then, or when nothing came."""
        try:
            received = self._receive_soon(connection)
            return None if received is None else (received.message(messages.INVOCATION_REQUEST), received.descriptors)
        except messages.ProtocolError as error:
            _tell(connection, Done.error(messages.PROTOCOL, str(error)))
        except OSError:
            pass
        return None

    @staticmethod
    def _receive_soon(connection: socket.socket) -> framing.Received | None:
        try:
            # Nearly always the message is there already.
            return framing.receive(connection, _DO_NOT_WAIT)
        except BlockingIOError:
            poll = select.poll()
            poll.register(connection.fileno(), select.POLLIN)
            return framing.receive(connection) if poll.poll(RECEIVE_SECONDS * 1000) else None

    def _refuse(self, connection: socket.socket, failure: LoadFailed) -> None:
        # Read first: a socket that is closed with something unread takes back what it has sent.
        received = self._receive(connection)
        if received is None:
            return
        invoke, descriptors = received
        with descriptors:
            if invoke.log is not None:
                log = author.LogFile(descriptors.filenos()[invoke.log.fd], invoke.log.limit)
                _log_error(log, self._assignment.main, failure.traceback or failure.message)
        _tell(connection, Done.error(messages.LOAD, failure.message, failure.traceback))

    def _invoke(self, connection: socket.socket) -> None:
        received = self._receive(connection)
        if received is None:
            return
        invoke, descriptors = received
        streams = _Streams(invoke, descriptors, lambda metadata: _announce(connection, metadata))
        with descriptors:
            try:
                streams.open()
            except _InputError as error:
                streams.abandon()
                _tell(connection, Done.error(messages.PROTOCOL, str(error)))
                return
            if not self._begin(invoke, connection):
                streams.abandon()
                _tell(
                    connection,
                    Done.error(messages.FAILED, "the account's storlets hold too many descriptors in messages"),
                )
                return
            _tell_bytes(connection, _STARTED)
            before = _cpu_seconds()
            done = self._run(streams)
        self._runs_left -= 1
        usage = Usage(round(_cpu_seconds() - before, 6), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
        _tell(connection, Done(done.outcome, done.code, done.message, done.traceback, usage))
        # Nobody waits for this. It belongs to the run all the same: one that hangs here is ended as a run that hangs.
        is_last = not done.is_ok or self._runs_left <= 0 or self._state.restore(streams.donated)
        framing.send_bytes(self._channel, framing.encode(End(is_last, not done.is_ok)) if is_last else _END)
        if is_last:
            os._exit(0)

    def _begin(self, invoke: Invoke, connection: socket.socket) -> bool:
        """Tell the supervisor; False when that was not possible for a while.

        How many descriptors may be under way in messages the kernel counts for a user, so another storlet of the account
        can use them all up.  That one is killed soon, or it ends.
        """
        give_up = time.monotonic() + BEGIN_SECONDS
        while True:
            try:
                framing.send(self._channel, Begin(invoke.id), [connection.fileno()])
            except OSError as error:
                if error.errno != errno.ETOOMANYREFS:
                    raise
                if time.monotonic() > give_up:
                    return False
                time.sleep(0.005)
            else:
                return True

    def _end_if_forked(self) -> None:
        """A copy that the storlet has forked, and that left the storlet's code like the original, must not report in its name:
        a copy's success would cover up a failure of the original."""
        if os.getpid() != self._pid:
            os._exit(1)

    def _run(self, streams: _Streams) -> Done:
        """Run the storlet and close what it was given; how it went. This is one of the two places that catch everything."""
        assignment = self._assignment
        log = streams.log
        try:
            self._printed.begin(log)
            parameters = {**streams.invoke.parameters, "storlet_execution_path": assignment.execution_path}
            storlet = self._storlet_class(author.StorletLogger(assignment.main, log))
            try:
                storlet(streams.inputs, streams.outputs, parameters)
            finally:
                self._end_if_forked()
            streams.finish()
            return Done(messages.OK)
        except BaseException as error:  # noqa: BLE001
            code, reason = self._refusals.explain(error)
            done = Done.error(code, _summary(error) + reason, _traceback(error))
            _log_error(log, assignment.main, done.traceback or "")
            return done
        finally:
            streams.abandon()
            self._printed.end()


def _tell(connection: socket.socket, event: messages.Message) -> None:
    _tell_bytes(connection, framing.encode(event))


def _tell_bytes(connection: socket.socket, event: bytes) -> None:
    """Send an event. The filter may have gone; then the supervisor is about to kill this process, or nobody cares."""
    with contextlib.suppress(OSError):
        framing.send_bytes(connection, event)


def _announce(connection: socket.socket, metadata: Mapping[str, str]) -> None:
    framing.send_bytes(connection, framing.encode(Metadata(metadata)) if metadata else _NO_METADATA)


# -- the storlet's class


def load_class(assignment: Assignment) -> Callable[[author.StorletLogger], Any]:
    """Import the storlet's file as the module that ``main`` names, and give its class.

    The execution path is first on the import path, and our own folder is not on it. The file is loaded by its path, so
    that a storlet may be called like a module that Python has loaded already; only then it is not in ``sys.modules``.
    """
    path = assignment.execution_path
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.dont_write_bytecode = True
    sys.path[:] = [path, *(entry for entry in sys.path if entry not in (path, ours, ""))]
    module_name, _, class_name = assignment.main.rpartition(".")
    if not module_name:
        raise LoadError(f"the main class must be given as module.Class, not {assignment.main!r}")
    module = _import_file(module_name, os.path.join(path, assignment.file))
    found = getattr(module, class_name, None)
    if not callable(found):
        raise LoadError(f"module {module_name} has no class {class_name}")
    return found  # type: ignore[no-any-return]


def _import_file(name: str, file: str) -> ModuleType:
    if not os.path.isfile(file):
        raise LoadError(f"the storlet's file {os.path.basename(file)} is not there")
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise LoadError(f"{os.path.basename(file)} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    spec.loader.exec_module(module)
    return module


# -- what a run is given


class StillWritingError(Exception):
    """A process that the storlet started outlives the run and can still write to its output."""


class _InputError(Exception):
    """A descriptor is not what the message says it is."""


class _Streams:
    """The inputs, the output and the log of one run: opened together; all but the log are closed in any case.

    The log's descriptor stays with the message's, whose owner closes it when the run has been cleaned up after.
    """

    def __init__(self, invoke: Invoke, descriptors: Descriptors, announce: Callable[[Mapping[str, str]], None]) -> None:
        self.invoke = invoke
        self.log: author.LogFile | None = None
        self._descriptors = descriptors
        self._announce = announce
        self._inputs: list[author.StorletInputFile] = []
        self._outputs: list[author.StorletOutputFile] = []
        self._donated: set[tuple[int, int]] = set()
        self._output_file = (0, 0)
        # The storlet's own lists: it may change them, and everything is closed all the same.
        self.inputs: list[author.StorletInputFile] = []
        self.outputs: list[author.StorletOutputFile] = []

    def open(self) -> None:
        """Make the author's files from the descriptors."""
        invoke = self.invoke
        if invoke.log is not None:
            self.log = author.LogFile(self._descriptors.filenos()[invoke.log.fd], invoke.log.limit)
        for number in self._descriptors.filenos():
            self._donated.add(_file_of(os.fstat(number)))
        output = self._descriptors.take(invoke.output.fd)
        self._output_file = _file_of(os.fstat(output))
        self._outputs.append(author.StorletOutputFile(output, invoke.limits.metadata_bytes, self._announce))
        for number, given in enumerate(invoke.inputs):
            try:
                self._inputs.append(_open_input(given, self._descriptors))
            except OSError as error:
                raise _InputError(f"inputs[{number}] cannot be read as asked: {error.strerror}") from None
        self.inputs = list(self._inputs)
        self.outputs = list(self._outputs)

    def finish(self) -> None:
        """After a run that returned: let everything out. An error here is the run's."""
        for one in self._outputs:
            one.close()
        if _has_children() and self._is_still_held():
            # What it writes from now on would be missing from a result that looks whole.
            raise StillWritingError("a process that the storlet started still holds its output: wait for its end first")

    def _is_still_held(self) -> bool:
        """Whether a process that the storlet started has the output open.

        One may fork and end while it is looked for, and its copy be missed: only two looks that saw the same are an answer.
        """
        before: set[int] | None = None
        for _ in range(LOOKS_MAX):
            found = set(kernel.strays(os.getpid(), ()))
            if any(self._is_held_by(pid) for pid in found):
                return True
            if found == before:
                return False
            before = found
        return True

    def _is_held_by(self, pid: int) -> bool:
        """Whether another process has the output open; one that does not let itself be looked at counts as if."""
        try:
            return self._output_file in _files_in(f"/proc/{pid}/fd")
        except FileNotFoundError:
            return False
        except OSError:
            return True

    @property
    def donated(self) -> set[tuple[int, int]]:
        """Device and number of every file of this run."""
        return self._donated

    def abandon(self) -> None:
        """Close what is open, without another byte."""
        for output in self._outputs:
            with contextlib.suppress(OSError):
                output.abandon()
        for one in self._inputs:
            with contextlib.suppress(OSError):
                one.close()


def _file_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _files_in(directory: str) -> set[tuple[int, int]]:
    """Device and number of each file that a process has open."""
    files = set()
    for name in os.listdir(directory):
        with contextlib.suppress(FileNotFoundError):
            files.add(_file_of(os.stat(f"{directory}/{name}")))
    return files


def _open_input(given: messages.Input, descriptors: Descriptors) -> author.StorletInputFile:
    if given.start is None and given.end is None:
        return author.StorletInputFile(given.metadata, descriptors.take(given.fd))
    fd = descriptors.take(given.fd)
    try:
        return author.StorletRangeInputFile(given.metadata, fd, given.start or 0, given.end)
    except OSError:
        os.close(fd)
        raise


class _PrintedBytes(io.RawIOBase):
    """Where printed bytes end: in the invocation's log if there is one."""

    def __init__(self, number: int) -> None:
        self.log: author.LogFile | None = None
        self._number = number

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def write(self, data: Any, /) -> int:
        if self.log is not None:
            self.log.write(bytes(data))
        return len(data)


class _Printed:
    """``sys.stdout``, ``sys.stderr`` and descriptors 1 and 2: the invocation's log during a run, else nowhere."""

    def __init__(self) -> None:
        self._raw = (_PrintedBytes(1), _PrintedBytes(2))
        self._text = tuple(self._stream(raw) for raw in self._raw)
        self._has_log = False

    @staticmethod
    def _stream(raw: _PrintedBytes) -> io.TextIOWrapper:
        return io.TextIOWrapper(raw, "utf-8", "backslashreplace", line_buffering=True)  # type: ignore[arg-type]

    def install(self) -> None:
        """Replace Python's own streams, for good. What was printed so far goes where it was meant to."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        sys.stdout, sys.stderr = self._text

    def begin(self, log: author.LogFile | None) -> None:
        """A run begins; child processes of it write to its log too."""
        self._has_log = log is not None
        if log is not None:
            for raw in self._raw:
                raw.log = log
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)

    def end(self) -> None:
        """A run is over: what a storlet did to the streams is undone."""
        if any(stream.closed for stream in self._text):
            self._raw = (_PrintedBytes(1), _PrintedBytes(2))
            self._text = tuple(self._stream(raw) for raw in self._raw)
        for stream in self._text:
            with contextlib.suppress(Exception):
                stream.flush()
        sys.stdout, sys.stderr = self._text
        if self._has_log:
            for raw in self._raw:
                raw.log = None
            with contextlib.suppress(OSError):
                os.dup2(0, 1)
                os.dup2(0, 2)


# -- what a run leaves behind


class _ProcessState:
    """The process as it was after the load. Taken once; compared after every run, so it has to be cheap."""

    def __init__(self) -> None:
        self._directory = os.getcwd()
        self._umask = os.umask(0o022)
        os.umask(self._umask)
        self._environ = os.environ
        # The mapping behind os.environ, already in bytes: comparing it takes no conversion.
        self._environment_now: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]  # noqa: SLF001
        self._environment = dict(self._environment_now)
        self._path = list(sys.path)
        self._handlers = self._current_handlers()
        self._threads = _count_threads()
        self._descriptors = len(os.listdir(_DESCRIPTORS))

    def restore(self, donated: set[tuple[int, int]]) -> bool:
        """Put back what can be put back; whether something is left that cannot, and the process should be replaced.

        ``donated`` are the files of the run: a duplicate of one would keep an object's data, or somebody's pipe, for ever.
        """
        try:
            return self._restore(donated)
        except BaseException:  # noqa: BLE001  whatever it is, also of a signal handler: a new process has it not
            return True

    def _restore(self, donated: set[tuple[int, int]]) -> bool:
        self._put_back()
        if self._has_new_threads() or _has_children() or self._current_handlers() != self._handlers:
            return True
        count = len(os.listdir(_DESCRIPTORS))
        has_more, self._descriptors = count > self._descriptors, count
        return has_more and not donated.isdisjoint(_files_in(_DESCRIPTORS))

    def _has_new_threads(self) -> bool:
        if _count_threads() <= self._threads:
            return False
        # One that was joined may take a moment to go.
        time.sleep(0.001)
        return _count_threads() > self._threads

    def _put_back(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if os.getcwd() != self._directory:
            os.chdir(self._directory)
        os.umask(self._umask)
        if os.environ is not self._environ:
            os.environ = self._environ  # noqa: B003  the very object that was there before
        if self._environment_now != self._environment:
            for name in [name for name in self._environment_now if name not in self._environment]:
                del os.environb[name]
            os.environb.update(self._environment)
        if sys.path != self._path:
            sys.path[:] = self._path

    @staticmethod
    def _current_handlers() -> list[object]:
        return [_get_handler(number) for number in _HANDLED_SIGNALS]


_DESCRIPTORS = "/proc/self/fd"


def _count_threads() -> int:
    """All threads of the process, also those that Python does not know of."""
    return os.stat("/proc/self/task").st_nlink - 2


def _has_children() -> bool:
    """Whether a child process lives. Dead ones are reaped; as a subreaper this process sees all descendants."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True


def _cpu_seconds() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


# -- errors, as their author should read them

_FROM_CHILDREN = ("CalledProcessError", "BrokenProcessPool", "BrokenPipeError", "EOFError", "StillWritingError")
"""What a storlet hears of a child process that was killed; by name, because few storlets import those modules."""


class _Refusals:
    """Why a run failed, when a limit was behind it: the exception alone cannot tell, nor can the kernel's counts alone."""

    def __init__(self, group: ControlGroup) -> None:
        self._kills = Counter(group.kills)
        self._forks = Counter(group.refused_forks)

    def explain(self, error: BaseException) -> tuple[str, str]:
        """The code, and what is to be added to the error's own words."""
        if isinstance(error, MemoryError):
            return messages.LIMIT_MEMORY, ""
        if isinstance(error, author.MetadataTooLargeError):
            return messages.LIMIT_METADATA, ""
        causes = _causes(error)
        if any(map(_is_of_child, causes)) and self._kills.has_grown():
            return messages.LIMIT_MEMORY, " (a process of the storlet was killed: there was no memory left)"
        if any(_is_of_child(cause) or _is_refused_fork(cause) for cause in causes) and self._forks.has_grown():
            return messages.LIMIT_PROCESSES, " (the storlet has as many processes and threads as it may)"
        if any(map(_is_of_a_full_disk, causes)):
            return messages.LIMIT_SCRATCH, ""
        return messages.FAILED, ""


def _causes(error: BaseException) -> list[BaseException]:
    """The exception and what it came from."""
    causes: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo and len(causes) < _CAUSES_MAX:
        cause = todo.pop()
        if cause is not None and not any(cause is known for known in causes):
            causes.append(cause)
            todo += [cause.__cause__, cause.__context__]
    return causes


_CAUSES_MAX = 16


def _is_of_a_full_disk(error: BaseException) -> bool:
    """The only file system that a storlet can write to is its scratch space."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


def _is_refused_fork(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.EAGAIN
    return isinstance(error, RuntimeError) and error.args[:1] == ("can't start new thread",)


def _is_of_child(error: BaseException) -> bool:
    return type(error).__name__ in _FROM_CHILDREN


def _summary(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        return f"storlet exited with code {code} before it was done"
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  the author's own __str__ may do anything
        text = "(its text cannot be had)"
    name = type(error).__qualname__
    return f"{name}: {text}" if text else name


def _traceback(error: BaseException) -> str:
    """The traceback without our own frames, ends kept and middle cut."""
    try:
        whole = traceback.TracebackException(type(error), error, _first_of_author(error.__traceback__))
        for part in _chain(whole):
            part.stack = traceback.StackSummary.from_list(
                [frame for frame in part.stack if not _is_ours(frame.filename)]
            )
        return messages.cut_middle("".join(whole.format()))
    except (MemoryError, RecursionError):
        return _summary(error)


def _first_of_author(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _chain(whole: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    todo: list[traceback.TracebackException | None] = [whole]
    while todo:
        part = todo.pop()
        if part is not None:
            yield part
            todo += [part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or ())]


def _is_ours(filename: str) -> bool:
    return filename.startswith((_OUR_FOLDER, *_OUTER_FRAMES))


def _log_error(log: author.LogFile | None, main: str, text: str) -> None:
    if log is not None:
        log.write(f"{main} ERROR: {text.rstrip()}\n".encode("utf-8", "backslashreplace"))
