"""The only import of eventlet: waiting for descriptors, green tasks, and clocks.

Swift's servers run one eventlet hub per worker process.  Everything here may switch to other requests while it waits;
nothing here blocks the process.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import eventlet
import eventlet.event
import eventlet.green.socket
import eventlet.semaphore
import eventlet.tpool
import greenlet
from eventlet import hubs

monotonic = time.monotonic
sleep = eventlet.sleep
#: What a task raises in itself when it is killed.
Killed: Final[type[BaseException]] = greenlet.GreenletExit
#: Base of what ends a wait from outside; Swift's ``ChunkReadTimeout`` is one, and it is no ``Exception``.
Timeout: Final[type[BaseException]] = eventlet.Timeout


class GreenTask(Protocol):
    """A green task; its owner waits for it or ends it (:func:`end`)."""

    dead: bool

    def wait(self) -> Any:
        """The result of its function; raises what that raised."""

    def kill(self) -> None:
        """End it where it waits, and return when it has ended."""


class Semaphore(Protocol):
    """What :func:`semaphore` returns."""

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """True when there was room within ``timeout``."""

    def release(self) -> None:
        """Make room for another one."""


class Timer(Protocol):
    """What :func:`call_later` returns."""

    def cancel(self) -> None:
        """Do not call any more."""


class WaitExpired(Exception):
    """A wait ended because its time was over."""


class Signal:
    """Wakes one green task that waits for it; set once."""

    def __init__(self) -> None:
        self._event = eventlet.event.Event()

    @property
    def is_set(self) -> bool:
        """Whether :meth:`set` was called."""
        return bool(self._event.ready())

    def set(self) -> None:
        """Wake who waits, and whoever will; does not wait, so the hub may call it."""
        if not self._event.ready():
            self._event.send()

    def wait(self, seconds: float) -> bool:
        """True when the signal is set within ``seconds``."""
        if not self._event.ready():
            self._event.wait(seconds)
        return self.is_set


def spawn(function: Callable[..., Any], *args: Any) -> GreenTask:
    """Run ``function`` in a green task of its own; its owner waits for it or ends it (:func:`end`)."""
    task: GreenTask = eventlet.spawn(function, *args)
    return task


def off_hub(function: Callable[..., Any], *args: Any) -> Any:
    """The result of ``function``, computed by a thread of the system's: others are served meanwhile, if at half speed.

    It must not use anything that eventlet has replaced, such as sockets and locks that others hold.
    """
    return eventlet.tpool.execute(function, *args)


def semaphore(count: int) -> Semaphore:
    """For what only so many green tasks may do at a time."""
    made: Semaphore = eventlet.semaphore.Semaphore(count)
    return made


#: How often it is looked whether a process has ended.
_PROCESS_PAUSE_SECONDS: Final = 0.02


def run_process(
    command: Sequence[str], given: bytes, environment: Mapping[str, str], seconds: float
) -> tuple[int, bytes]:
    """What ``command`` returns and prints when it reads ``given``; raises :class:`WaitExpired` when it takes too long.

    It has ended when this returns or raises, also where this task is killed.
    """
    # Files and no pipes: nothing has to be pumped.
    with (
        os.fdopen(os.memfd_create("given"), "w+b") as stdin,
        os.fdopen(os.memfd_create("said"), "w+b") as stdout,
    ):
        stdin.write(given)
        stdin.seek(0)
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            env=dict(environment),
            cwd="/",
        )
        try:
            give_up = monotonic() + seconds
            while process.poll() is None:
                if monotonic() > give_up:
                    raise WaitExpired
                sleep(_PROCESS_PAUSE_SECONDS)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        stdout.seek(0)
        return process.returncode, stdout.read()


#: A clock that ticks so often wakes what waits for :data:`_COARSE_SECONDS` or longer: also the tenth of a second for which each
#: short answer waits for its end, or what is left of it when the wait begins.
_TICK_SECONDS: Final = 0.1
_COARSE_SECONDS: Final = 0.05


class _Clock:
    """All long waits of a hub on one timer, which runs while there are any.

    eventlet's hub (the one that Swift chooses) rounds a wait down to milliseconds and spins for what is left, before each
    timer that it has, also before one that was cancelled.  With a timer or two for each request, a server under load spends
    more time there than in many a storlet.  So a wait that is hardly ever over by time has no timer of its own, and may
    last a tick longer.
    """

    def __init__(self, hub: Any) -> None:
        self.hub = hub
        self._calls: dict[_CoarseTimer, float] = {}
        self._is_ticking = False

    def call_later(self, seconds: float, function: Callable[[], None]) -> _CoarseTimer:
        timer = _CoarseTimer(self._calls, function)
        self._calls[timer] = monotonic() + seconds
        if not self._is_ticking:
            self._is_ticking = True
            self.hub.schedule_call_global(_TICK_SECONDS, self._tick)
        return timer

    def _tick(self) -> None:
        """Runs in the hub.  What is called may end a wait, which may begin or cancel others."""
        now = monotonic()
        pause = 0.0
        try:
            for timer in [timer for timer, due in self._calls.items() if due <= now]:
                if self._calls.pop(timer, None) is not None:
                    timer.function()
            pause = _TICK_SECONDS
        finally:
            # One that raises, which is the hub's to report, makes the others that are due wait for no tick more.
            self._is_ticking = bool(self._calls)
            if self._is_ticking:
                self.hub.schedule_call_global(pause, self._tick)


class _CoarseTimer:
    """A call that :class:`_Clock` has still to make."""

    __slots__ = ("_calls", "function")

    def __init__(self, calls: dict[_CoarseTimer, float], function: Callable[[], None]) -> None:
        self._calls = calls
        self.function = function

    def cancel(self) -> None:
        self._calls.pop(self, None)


_local = eventlet.patcher.original("threading").local()


def _clock() -> _Clock:
    """The clock of this thread's hub, which a server may replace after it has forked."""
    hub = hubs.get_hub()
    clock: _Clock | None = getattr(_local, "clock", None)
    if clock is None or clock.hub is not hub:
        clock = _local.clock = _Clock(hub)
    return clock


def call_later(seconds: float, function: Callable[[], None]) -> Timer:
    """Call ``function`` from the hub, where it must not wait, unless the timer is cancelled before.

    From :data:`_COARSE_SECONDS` on it may come a tick later.
    """
    if seconds >= _COARSE_SECONDS:
        return _clock().call_later(seconds, function)
    timer: Timer = hubs.get_hub().schedule_call_global(seconds, function)
    return timer


def wait_readable(fd: int, seconds: float | None) -> None:
    """Return when ``fd`` can be read (data, end or error); raises :class:`WaitExpired` after ``seconds``, or a tick more."""
    if seconds is None:
        hubs.trampoline(fd, read=True)
    elif seconds >= _COARSE_SECONDS:
        timer = _clock().call_later(
            seconds, functools.partial(greenlet.getcurrent().throw, WaitExpired)
        )
        try:
            hubs.trampoline(fd, read=True)
        finally:
            timer.cancel()
    elif seconds > 0:
        hubs.trampoline(fd, read=True, timeout=seconds, timeout_exc=WaitExpired)
    else:
        raise WaitExpired


def wait_writable(fd: int, seconds: float | None = None) -> None:
    """Return when ``fd`` can be written or its reader has gone; raises :class:`WaitExpired` after ``seconds``."""
    if seconds is not None and seconds <= 0:
        raise WaitExpired
    hubs.trampoline(fd, write=True, timeout=seconds, timeout_exc=WaitExpired)


#: Swift's memcache client gives a connection back to its pool on ``Exception`` and ``Timeout`` only. What else is thrown into
#: it while it holds one takes a place in the pool for good, and with the last place a proxy can check nobody's token any more.
_POOLED: Final = "/swift/common/memcached.py"
#: memcached answers within milliseconds, and Swift waits for it no longer than two seconds.
_POOLED_PAUSE_SECONDS: Final = 0.01
_POOLED_SECONDS: Final = 3.0


def holds_pooled_connection(thread: Any) -> bool:
    """Whether a green thread that waits may hold a connection to memcached, so that nothing may be thrown into it now."""
    frame = thread.gr_frame
    while frame is not None:
        if frame.f_code.co_filename.endswith(_POOLED):
            return True
        frame = frame.f_back
    return False


def end(task: GreenTask) -> None:
    """Kill ``task`` where it waits, as soon as nobody else is harmed by that, and return when it has ended.

    It may have got to its end meanwhile: its owner looks at what it leaves.
    """
    give_up = monotonic() + _POOLED_SECONDS
    try:
        while not task.dead and holds_pooled_connection(task) and monotonic() < give_up:
            sleep(_POOLED_PAUSE_SECONDS)
    finally:
        task.kill()


def wait_task(task: GreenTask, seconds: float) -> bool:
    """True when ``task`` ended within ``seconds``; its result or exception is left in it."""
    with eventlet.Timeout(seconds, False):
        # What the task raised the owner learns from task.wait().
        with contextlib.suppress(Exception):
            task.wait()
        return True
    return False


def connect(path: str, seconds: float) -> socket.socket:
    """A connected, non-blocking SOCK_SEQPACKET socket to the Unix socket at ``path``.

    Raises ``OSError``: ``ENOENT``/``ECONNREFUSED`` when nobody listens, ``EAGAIN`` when the backlog stays full for
    ``seconds``.
    """
    sock = socket_class(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.setblocking(False)
    give_up = monotonic() + seconds
    try:
        while True:
            error = sock.connect_ex(path)
            if not error:
                return sock
            # A Unix socket cannot be polled for room in the backlog: a full one says EAGAIN until it has room.
            if error != errno.EAGAIN or monotonic() > give_up:
                raise OSError(error, errno.errorcode.get(error, "connect failed"), path)  # noqa: TRY301 - closes as well
            sleep(0.01)
    except BaseException:
        sock.close()
        raise


def forget(fd: int) -> None:
    """Tell the hub that ``fd`` is about to be closed, so that a later file with the same number is not mixed up."""
    hubs.notify_close(fd)


_select = eventlet.patcher.original("select")
_HUNG_UP: Final = _select.POLLHUP | _select.POLLERR | _select.POLLRDHUP


def has_hung_up(fd: int) -> bool:
    """Whether the other side of the connection ``fd`` has closed it; does not wait."""
    poll = _select.poll()
    poll.register(fd, _HUNG_UP)
    return bool(poll.poll(0))


#: The standard library's own class, also where Swift has replaced ``socket.socket`` by the green one: descriptors are
#: passed with ``sendmsg``, waits are done here.
socket_class: type[socket.socket] = eventlet.patcher.original("socket").socket
