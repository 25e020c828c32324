"""The import of eventlet: waits for descriptors, green tasks, and timers.

Swift's servers run one eventlet hub per worker process.  Every function here may switch to other
requests while it waits; none blocks the process.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import heapq
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, ClassVar, Final, Protocol, TypeVar

import eventlet
import eventlet.event
import eventlet.green.http.client
import eventlet.green.socket
import eventlet.semaphore
import eventlet.tpool
import greenlet
from eventlet import hubs

_T = TypeVar("_T")

monotonic = time.monotonic
sleep = eventlet.sleep
#: Raised in a green task that is killed.
Killed: Final[type[BaseException]] = greenlet.GreenletExit
#: Base of Swift's timeouts such as ``ChunkReadTimeout``; it is no ``Exception``.
Timeout: Final[type[BaseException]] = eventlet.Timeout
#: The errors of a connection of Swift's that has ended.  Its HTTP client is eventlet's copy of the
#: standard library's, with exceptions of its own.
CONNECTION_ENDED: Final[tuple[type[Exception], ...]] = (
    OSError,
    eventlet.green.http.client.HTTPException,
)


class GreenTask(Protocol):
    """A green task; its owner waits for it or kills it (:func:`end`)."""

    dead: bool

    def wait(self) -> Any:
        """The result of its function; raises the exception of the function."""

    def kill(self) -> None:
        """Kill it where it waits; returns when it has ended."""

    def link(self, function: Callable[[Any], object]) -> None:
        """Call ``function`` with this task when it has ended, at once if it has."""


class Semaphore(Protocol):
    """The result of :func:`semaphore`."""

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """True if it was acquired within ``timeout``."""

    def release(self) -> None:
        """Release it."""


class Timer(Protocol):
    """The result of :func:`call_later`."""

    def cancel(self) -> None:
        """Cancel the call."""


class WaitExpired(Exception):
    """The deadline of a wait has passed."""


class Signal:
    """An event that is set once, and that one green task waits for."""

    def __init__(self) -> None:
        self._event = eventlet.event.Event()

    @property
    def is_set(self) -> bool:
        """Whether :meth:`set` was called."""
        return bool(self._event.ready())

    def set(self) -> None:
        """Wake the waiting task; does not wait, so the hub may call it."""
        if not self._event.ready():
            self._event.send()

    def wait(self, seconds: float | None) -> bool:
        """True if the signal is set within ``seconds``; ``None`` waits without a limit."""
        if not self._event.ready():
            self._event.wait(seconds)
        return self.is_set


class Bell:
    """A signal that is given any number of times, and wakes the tasks that wait for it then.

    A task checks its condition before it waits, so the bell needs no memory.
    """

    def __init__(self) -> None:
        self._signal: Signal | None = None

    def ring(self) -> None:
        """Wake all waiting tasks; does not wait."""
        signal, self._signal = self._signal, None
        if signal is not None:
            signal.set()

    def wait(self, seconds: float | None) -> bool:
        """True if the bell rings within ``seconds``; ``None`` waits without a limit."""
        if self._signal is None:
            self._signal = Signal()
        return self._signal.wait(None if seconds is None else max(seconds, 0.0))


def spawn(function: Callable[..., Any], *args: Any) -> GreenTask:
    """Run ``function`` in a green task; the caller owns it, and waits for it or kills it."""
    task: GreenTask = eventlet.spawn(function, *args)
    return task


#: The longest computation without a pause, and the ratio of the pauses to all computations: these
#: use at most a third of the hub, with any number of requests.
_SLICE_SECONDS: Final = 0.001
_PAUSE_RATIO: Final = 2


class Pace:
    """Pauses in a long computation, so that other requests of the process do not starve.

    Yielding alone is not enough: another request waits for each of many computations whenever it
    yields itself.  So all of them share one schedule, in which each slice reserves time after it.
    """

    _free_at: ClassVar = 0.0

    def __init__(self) -> None:
        self._began = monotonic()

    def pause(self) -> None:
        """Pause if a slice has passed since the last pause; must not follow a wait."""
        now = monotonic()
        used = now - self._began
        if used < _SLICE_SECONDS:
            return
        Pace._free_at = max(Pace._free_at, now) + _PAUSE_RATIO * used
        sleep(Pace._free_at - now)
        self._began = monotonic()


def in_native_thread(function: Callable[..., Any], *args: Any) -> Any:
    """The result of ``function``, computed in a native thread; meanwhile the hub runs at about half
    speed.

    ``function`` must not use anything that eventlet has replaced, such as sockets and shared locks.
    """
    return eventlet.tpool.execute(function, *args)


def semaphore(count: int) -> Semaphore:
    """A semaphore for green tasks."""
    made: Semaphore = eventlet.semaphore.Semaphore(count)
    return made


class KeyedSemaphore:
    """A semaphore of ``count`` for each key, such as an account; it exists while it is used."""

    def __init__(self, count: int) -> None:
        self._count = count
        #: The semaphore of each key, and the number of tasks that hold it or wait for it.
        self._used: dict[str, tuple[Semaphore, int]] = {}

    @contextlib.contextmanager
    def held(self, key: str, seconds: float | None = None) -> Iterator[None]:
        """Hold the semaphore of ``key``; raise :class:`WaitExpired` after ``seconds``."""
        own, users = self._used.get(key) or (semaphore(self._count), 0)
        self._used[key] = own, users + 1
        try:
            if not own.acquire(timeout=seconds):
                raise WaitExpired
            try:
                yield
            finally:
                own.release()
        finally:
            users = self._used[key][1] - 1
            if users:
                self._used[key] = own, users
            else:
                del self._used[key]

    def users(self, key: str) -> int:
        """The number of tasks that hold the semaphore of ``key``, or wait for it."""
        return self._used[key][1] if key in self._used else 0


def run_process(
    command: Sequence[str], given: bytes | BinaryIO, environment: Mapping[str, str], seconds: float
) -> tuple[int, bytes]:
    """Exit status and output of ``command`` with the input ``given``: bytes, or an open file.

    Raises :class:`WaitExpired` after ``seconds``.  The process has ended when this returns or
    raises, also when this task is killed.
    """
    # Files instead of pipes need no reader and writer.
    with contextlib.ExitStack() as files:
        stdout = files.enter_context(os.fdopen(os.memfd_create("said"), "w+b"))
        if isinstance(given, bytes):
            stdin: BinaryIO = files.enter_context(os.fdopen(os.memfd_create("given"), "w+b"))
            stdin.write(given)
        else:
            stdin = given
        stdin.flush()
        stdin.seek(0)
        process = files.enter_context(_started(command, stdin, stdout, environment))
        status = _status_of(process, monotonic() + seconds)
        stdout.seek(0)
        return status, stdout.read()


#: Starts a process.  Tests replace it, to save its imports.
popen: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen


class ProcessEnded(Exception):
    """A process has ended, and not answered; ``status`` is its exit status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"exit status {status}")
        self.status = status


@contextlib.contextmanager
def conversation(
    command: Sequence[str],
    environment: Mapping[str, str],
    seconds: float,
    *,
    has_rest: bool = False,
) -> Iterator[Callable[[bytes], bytes]]:
    """Run ``command`` during the block, which gets a function: it sends a line to the process, and
    returns the line that the process answers.

    The function raises :class:`ProcessEnded`, and :class:`WaitExpired` after ``seconds``.  The
    process has ended after the block, also when this task is killed.

    :param has_rest: after a block that raised nothing, the process gets the end of its input and
        ``seconds`` for the rest of its work.  A task of its own waits for its end.
    """
    with contextlib.ExitStack() as ends:
        ours, theirs = socket.socketpair()
        ends.enter_context(ours)
        # In a server of Swift the sockets are eventlet's, which do not block.
        os.set_blocking(theirs.fileno(), True)
        with theirs:
            rest_seconds = seconds if has_rest else 0.0
            process = ends.enter_context(
                _started(command, theirs, theirs, environment, rest_seconds)
            )
        os.set_blocking(ours.fileno(), False)
        yield functools.partial(_answer, process, ours.fileno(), seconds)


def _answer(process: subprocess.Popen[bytes], fd: int, seconds: float, line: bytes) -> bytes:
    deadline, heard = monotonic() + seconds, bytearray()
    view = memoryview(line + b"\n")
    with contextlib.suppress(ConnectionError):
        while view:
            view = view[when_writable(fd, functools.partial(os.write, fd, view), deadline) :]
        while not heard.endswith(b"\n"):
            wait_readable(fd, deadline - monotonic())
            if not (chunk := os.read(fd, 65_536)):
                break
            heard += chunk
    if not heard.endswith(b"\n"):
        raise ProcessEnded(_status_of(process, deadline))
    return bytes(heard)


@contextlib.contextmanager
def _started(
    command: Sequence[str],
    stdin: Any,
    stdout: Any,
    environment: Mapping[str, str],
    rest_seconds: float = 0.0,
) -> Iterator[subprocess.Popen[bytes]]:
    """A process; it has ended after the block, or ends within ``rest_seconds`` if that raised
    nothing.
    """
    process = popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env=dict(environment),
        cwd="/",
    )
    try:
        yield process
    except BaseException:
        _end(process)
        raise
    if rest_seconds and process.poll() is None:
        spawn(_end_after, process, rest_seconds)
    else:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


def _end_after(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait for the end of a process, and kill it after ``seconds``."""
    try:
        with contextlib.suppress(WaitExpired):
            _status_of(process, monotonic() + seconds)
    finally:
        _end(process)


def _status_of(process: subprocess.Popen[bytes], deadline: float) -> int:
    """The exit status of a process that ends before ``deadline``."""
    ended = os.pidfd_open(process.pid)
    try:
        wait_readable(ended, deadline - monotonic())
    finally:
        os.close(ended)
    return process.wait()


#: Interval of the clock for waits of :data:`_COARSE_SECONDS` or longer.  That includes the tenth of
#: a second for which each short answer waits for its end, or the rest of it.
_TICK_SECONDS: Final = 0.1
_COARSE_SECONDS: Final = 0.05


#: Equal to no other, also where two call the same function.
_Call = functools.partial[Any]


class _Clock:
    """One timer for all long waits of a hub; it runs while there are any.

    eventlet's hub (the one that Swift selects) rounds a wait down to milliseconds and spins for the
    rest, before each of its timers, also before a cancelled one.  With a timer or two for each
    request, a server under load spends more time there than in many storlets.  So a wait that
    rarely expires has no timer of its own, and may last a tick longer.  Cancelled timers of others
    are removed when a wait begins.
    """

    def __init__(self, hub: Any) -> None:
        self.hub = hub
        #: The pending calls, and when they are due.  A call is cancelled by its removal.
        self.calls: dict[_Call, float] = {}
        self._is_ticking = False

    def add(self, seconds: float, call: _Call) -> None:
        self.calls[call] = monotonic() + seconds
        _forget_cancelled(self.hub)
        if not self._is_ticking:
            self._is_ticking = True
            self.hub.schedule_call_global(_TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        """Runs in the hub.  A callback may end a wait, and so begin or cancel others."""
        now = monotonic()
        pause = 0.0
        try:
            for call in [call for call, due in self.calls.items() if due <= now]:
                if self.calls.pop(call, None) is not None:
                    call()
            pause = _TICK_SECONDS
        finally:
            # The hub reports a callback that raises; the other due ones run without another tick.
            self._is_ticking = bool(self.calls)
            if self._is_ticking:
                self.hub.schedule_call_global(pause, self._tick)


def _forget_cancelled(hub: Any) -> None:
    """Remove the cancelled timers that would be the next ones; the hub would spin before each."""
    timers = hub.timers
    while timers and timers[0][1].called:
        heapq.heappop(timers)
        hub.timers_canceled -= 1


class _CoarseTimer:
    """A pending call of :class:`_Clock`."""

    __slots__ = ("_call", "_calls")

    def __init__(self, clock: _Clock, seconds: float, function: Callable[[], None]) -> None:
        self._calls, self._call = clock.calls, functools.partial(function)
        clock.add(seconds, self._call)

    def cancel(self) -> None:
        self._calls.pop(self._call, None)


_local = eventlet.patcher.original("threading").local()


def _clock() -> _Clock:
    """The clock of this thread's hub; a server may replace its hub after a fork."""
    hub = hubs.get_hub()
    clock: _Clock | None = getattr(_local, "clock", None)
    if clock is None or clock.hub is not hub:
        clock = _local.clock = _Clock(hub)
    return clock


def call_later(seconds: float, function: Callable[[], None]) -> Timer:
    """Call ``function`` from the hub, where it must not wait, unless the timer is cancelled before.

    From :data:`_COARSE_SECONDS` on the call may be a tick late.
    """
    if seconds >= _COARSE_SECONDS:
        return _CoarseTimer(_clock(), seconds, function)
    timer: Timer = hubs.get_hub().schedule_call_global(seconds, function)
    return timer


def wait_readable(fd: int, seconds: float | None) -> None:
    """Return when ``fd`` is readable (data, end or error).

    Raises :class:`WaitExpired` after ``seconds``, or a tick later.
    """
    if seconds is None:
        hubs.trampoline(fd, read=True)
    elif seconds >= _COARSE_SECONDS:
        clock, give_up = _clock(), functools.partial(greenlet.getcurrent().throw, WaitExpired)
        clock.add(seconds, give_up)
        try:
            hubs.trampoline(fd, read=True)
        finally:
            clock.calls.pop(give_up, None)
    elif seconds > 0:
        hubs.trampoline(fd, read=True, timeout=seconds, timeout_exc=WaitExpired)
        _forget_cancelled(hubs.get_hub())
    else:
        raise WaitExpired


def wait_writable(fd: int, seconds: float | None = None) -> None:
    """Return when ``fd`` is writable or has lost its reader.

    Raises :class:`WaitExpired` after ``seconds``.
    """
    if seconds is not None and seconds <= 0:
        raise WaitExpired
    hubs.trampoline(fd, write=True, timeout=seconds, timeout_exc=WaitExpired)


def when_writable(fd: int, write: Callable[[], _T], give_up: float | None = None) -> _T:
    """The result of ``write``, which is repeated when ``fd`` has room, if it raises
    ``BlockingIOError``.

    Raises :class:`WaitExpired` when there is no room at the time ``give_up``.
    """
    while True:
        try:
            return write()
        except BlockingIOError:
            wait_writable(fd, None if give_up is None else give_up - monotonic())


def write_all(fd: int, data: bytes, on_progress: Callable[[int], None]) -> None:
    """Write ``data`` to a stream that does not block; waits while the stream has no room.

    :param on_progress: called after each write with the number of bytes that it took.
    """
    view = memoryview(data)
    while view:
        count = when_writable(fd, functools.partial(os.write, fd, view))
        on_progress(count)
        view = view[count:]


#: Swift's memcache client returns a connection to its pool on ``Exception`` and ``Timeout`` only.
#: Any other exception thrown into it leaks a connection of the pool, and with the last one a proxy
#: cannot validate tokens any more.
_POOLED: Final = "/swift/common/memcached.py"
#: memcached answers within milliseconds, and Swift waits for it no longer than two seconds.
_POOLED_PAUSE_SECONDS: Final = 0.01
_POOLED_SECONDS: Final = 3.0


def holds_pooled_connection(thread: Any) -> bool:
    """Whether a green thread may hold a memcached connection, so that it must not be killed."""
    frame = thread.gr_frame
    while frame is not None:
        if frame.f_code.co_filename.endswith(_POOLED):
            return True
        frame = frame.f_back
    return False


def end(task: GreenTask) -> None:
    """Kill ``task`` once it holds no memcached connection, and return when it has ended.

    The task may have finished meanwhile: the owner has to handle its result.
    """
    give_up = monotonic() + _POOLED_SECONDS
    try:
        while not task.dead and holds_pooled_connection(task) and monotonic() < give_up:
            sleep(_POOLED_PAUSE_SECONDS)
    finally:
        task.kill()


def result_of(function: Callable[..., Any], *args: Any, release: Callable[[Any], object]) -> Any:
    """The result of ``function``, computed in a green task of its own.

    If the caller ends while it waits, the task continues, and ``release`` is called with the
    result.  Swift's proxy server waits for an object server in tasks that do not end with their
    request; a connection that such a task opens would stay open until the garbage collector finds
    it.
    """
    return _Computation(release).result(function, *args)


class _Computation:
    """The task of :func:`result_of`.

    It begins at once and ends with a switch to its caller.  A green thread of eventlet would take
    two turns of the hub for the same, which each run of a storlet would pay for.
    """

    __slots__ = ("_caller", "_release")

    def __init__(self, release: Callable[[Any], object]) -> None:
        #: ``None`` once it has ended.
        self._caller: Any = greenlet.getcurrent()
        self._release = release

    def result(self, function: Callable[..., Any], *args: Any) -> Any:
        task = greenlet.greenlet(self._run)
        try:
            return task.switch(function, *args)
        finally:
            self._caller = None

    def _run(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            result = function(*args)
        except (Exception, Timeout):
            if self._caller is not None:
                self._end_in_caller()
                raise
            return None
        if self._caller is None:
            self._release(result)
        else:
            self._end_in_caller()
        return result

    def _end_in_caller(self) -> None:
        # When a greenlet ends, its parent continues with its result or exception.  The hub makes
        # itself the parent of each greenlet that waits.
        greenlet.getcurrent().parent = self._caller


def wait_task(task: GreenTask, seconds: float) -> bool:
    """True if ``task`` ended within ``seconds``; ``task.wait()`` gives its result or exception."""
    with eventlet.Timeout(seconds, False):
        # The owner gets the exception from task.wait().
        with contextlib.suppress(Exception):
            task.wait()
        return True
    return False


#: Whether a socket accepts descriptors in messages; since Linux 6.16, and not yet in Python.
_SO_PASSRIGHTS: Final = 83


def refuse_descriptors(ours: socket.SocketType) -> None:
    """Make the kernel refuse messages with descriptors from the peer of the Unix socket ``ours``.

    Closing what a storlet sends can take milliseconds each.  An older kernel cannot refuse them;
    there workers give up the system call that sends them (:mod:`storlet_daemon.descriptor_filter`).
    """
    try:  # noqa: SIM105 - a context manager would cost as much as the system call
        ours.setsockopt(socket.SOL_SOCKET, _SO_PASSRIGHTS, 0)
    except OSError:
        pass


def connect(path: str, seconds: float) -> socket.SocketType:
    """A connected, non-blocking SOCK_SEQPACKET socket to the Unix socket at ``path``.

    It takes no descriptors from its peer.

    Raises ``OSError``: ``ENOENT`` or ``ECONNREFUSED`` without a listener, ``EAGAIN`` when the
    backlog stays full for ``seconds``.
    """
    # The class of C: the one of the standard library adds three calls for each socket.
    sock: socket.SocketType = _socket.SocketType(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.setblocking(False)
    refuse_descriptors(sock)
    give_up = monotonic() + seconds
    try:
        while True:
            error = sock.connect_ex(path)
            if not error:
                return sock
            # Room in the backlog of a Unix socket cannot be polled for; connect() gives EAGAIN.
            if error != errno.EAGAIN or monotonic() > give_up:
                text = errno.errorcode.get(error, "connect failed")
                raise OSError(error, text, path)  # noqa: TRY301 - closes as well
            sleep(0.01)
    except BaseException:
        sock.close()
        raise


def forget(fd: int) -> None:
    """Remove ``fd`` from the hub before it is closed, because its number will be reused."""
    hubs.notify_close(fd)


_select = eventlet.patcher.original("select")
_HUNG_UP: Final = _select.POLLHUP | _select.POLLERR | _select.POLLRDHUP


def has_hung_up(fd: int) -> bool:
    """Whether the peer of the connection ``fd`` has closed it; does not wait."""
    poll = _select.poll()
    poll.register(fd, _HUNG_UP)
    return bool(poll.poll(0))


#: The standard library's class, also where Swift has replaced ``socket.socket`` by the green one:
#: descriptors are passed with ``sendmsg``, and this module does the waiting.
_socket: Final = eventlet.patcher.original("socket")
socket_class: type[socket.socket] = _socket.socket
#: Likewise, a connected pair of sockets; of streams if no family and type are given.
socket_pair: Callable[..., tuple[socket.socket, socket.socket]] = _socket.socketpair
