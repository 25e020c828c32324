"""The resident workers of one storlet version, as the supervisor sees them.

A worker's life::

    LOADING --ready--> IDLE <--begin / end--> BUSY --end(recycle), hang-up, load too long, ...--> ENDING --exit--> gone
       '--load_failed--> REFUSING (answers every invocation with the reason, for REFUSE_SECONDS)

and, beside that, ``is_retiring``: its channel is shut down, it leaves when it has nothing to do. ``settle`` keeps one
promise: while nobody is free, and there may be one more worker, the supervisor itself waits on the listening socket.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import math
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from storlet_daemon import kernel, worker
from storlet_daemon.launch import Launched, launch, read_output
from storlet_daemon.poller import Poller
from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.descriptors import Descriptors, close_quietly
from storlet_daemon.runtimes import CHANNEL, LISTENING, Places, Runtime

REFUSE_SECONDS = 5.0
"""How long a failed load is the answer before the next try."""
SHORT_SECONDS = 0.002
"""An invocation that is over before this is never watched, and nobody starts a worker because of it: most are that short."""
STOP_SECONDS = 0.2
"""How long a cancelled worker has to stop before it is killed without looking."""
LEAVE_SECONDS = 5.0
"""How long a worker that is to end has for it."""
RETRY_SECONDS = 1.0
"""When no process could be started: how long until the next try."""
CRASHES_MAX = 3
"""Workers in a row that may end by themselves without having run anything, before that counts as a failed load."""
ROOM_SECONDS = 0.05
"""When a worker does not fit into the sandbox: how long until the next try, while idle ones of other groups leave."""
_REPORTS_AT_ONCE = 64
"""So many reports of one worker are read before others have their turn; a worker's code may send what it likes."""

_HANG_UP = select.EPOLLRDHUP


class State(enum.Enum):
    """What a worker is doing."""

    LOADING = enum.auto()
    IDLE = enum.auto()
    BUSY = enum.auto()
    REFUSING = enum.auto()
    ENDING = enum.auto()


@dataclass(eq=False)
class Worker:
    """One worker process. ``connection`` is the supervisor's duplicate of the running invocation's."""

    pid: int
    channel: socket.socket | None
    output: int
    state: State
    deadline: float
    since: float
    connection: socket.socket | None = None
    cancelled: socket.socket | None = None
    is_watched: bool = False
    is_retiring: bool = False
    was_killed: bool = False
    has_loaded: bool = False
    runs: int = 0
    load_error: str | None = None

    @property
    def serves(self) -> bool:
        """Whether it counts: it answers connections, or will."""
        return self.state is not State.ENDING and not self.is_retiring


@dataclass(frozen=True)
class Surroundings:
    """What all groups of a supervisor share. ``sweep`` makes it look for processes that a dead worker has left.

    ``make_room`` says whether one more worker of a group fits; when not, it makes idle workers of other groups leave.
    """

    poller: Poller
    places: Places
    memory_kills: kernel.MemoryKills
    sweep: Callable[[], None]
    make_room: Callable[[WorkerGroup], bool]


@dataclass(eq=False)
class WorkerGroup:
    """The workers of one storlet version, and the listening socket that they share."""

    load: messages.Load
    listening: socket.socket
    runtime: Runtime
    around: Surroundings
    workers: dict[int, Worker] = field(default_factory=dict)
    is_leaving: bool = False
    runs: int = 0
    failures: int = 0
    due: float = 0.0
    _is_waiting: bool = False
    _failure: messages.LoadFailed | None = None
    _failed_until: float = 0.0
    _retry_at: float = 0.0
    _crashes: int = 0
    _active_at: float = field(default_factory=time.monotonic)

    # -- commands of the node daemon

    def begin(self) -> None:
        """Start the first worker."""
        self.listening.setblocking(False)
        self._start()
        self.settle()

    def replace(self, load: messages.Load, listening: socket.socket) -> None:
        """Serve another listening socket; workers on the old one finish what waits there."""
        if os.fstat(listening.fileno()).st_ino == os.fstat(self.listening.fileno()).st_ino:
            listening.close()
            self.load = load
            return
        for one in list(self.workers.values()):
            self._retire(one)
        self._stop_waiting()
        self.listening.close()
        self.load, self.listening = load, listening
        self._failure = None
        self.begin()

    def leave(self) -> None:
        """Refuse new connections, for every holder of the listening socket; let what runs and what waits finish."""
        if not self._serving() and _is_ready(self.listening, select.POLLIN):
            self._start()
        self.is_leaving = True
        self._stop_waiting()
        self.listening.shutdown(socket.SHUT_RDWR)
        for one in list(self.workers.values()):
            self._retire(one)
        self.listening.close()

    def status(self) -> messages.Group:
        """How it is, for the node daemon."""
        busy = sum(one.state is State.BUSY for one in self.workers.values())
        idle_seconds = 0.0 if busy else time.monotonic() - self._active_at
        serving = len(self._serving())
        return messages.Group(
            self.load.version, self.load.name, serving, busy, self.runs, self.failures, round(max(idle_seconds, 0.0), 3)
        )

    @property
    def idle_since(self) -> float:
        """When its last invocation ended (monotonic seconds); infinite while no worker could leave at once."""
        is_idle = any(one.state is State.IDLE and not one.is_retiring for one in self.workers.values())
        return self._active_at if is_idle else math.inf

    def rest(self) -> None:
        """Let the workers that do nothing leave; the next connection starts one."""
        for one in list(self.workers.values()):
            if one.state is State.IDLE:
                self._retire(one)
        self.settle()

    def kill_all(self) -> None:
        """End every worker at once; the supervisor is ending."""
        for one in self.workers.values():
            kernel.kill(one.pid, signal.SIGKILL)
            kernel.kill_group(one.pid)

    # -- the clock

    def tick(self, now: float) -> None:
        """Do what is due, and work out anew when something will be: ``due``, in monotonic seconds.

        Between two ticks ``due`` only ever moves forward to an earlier time; a tick without need does no harm.
        """
        for one in list(self.workers.values()):
            if one.deadline <= now:
                if one.state is State.LOADING:
                    one.load_error = f"loading took longer than {self.load.load_seconds:g} seconds"
                self._kill(one)
            elif one.connection is not None and not one.is_watched and self._changes_at(one) <= now:
                self._watch(one, one.connection)
            elif not one.is_retiring and self._changes_at(one) <= now:
                self._retire(one)
        self.settle()
        self.due = self._retry_at if self._retry_at > now else math.inf
        for one in self.workers.values():
            self.due = min(self.due, one.deadline, self._changes_at(one))

    def _changes_at(self, one: Worker) -> float:
        """When the clock alone changes what this worker is, its deadline aside."""
        if one.state is State.BUSY and not one.is_watched:
            return one.since + SHORT_SECONDS
        if one.is_retiring:
            return math.inf
        if one.state is State.IDLE:
            return one.since + self.load.idle_seconds
        return self._failed_until if one.state is State.REFUSING else math.inf

    def _set_deadline(self, one: Worker, deadline: float) -> None:
        one.deadline = deadline
        self.due = min(self.due, deadline)

    # -- starting and ending workers

    def settle(self) -> None:
        """Wait on the listening socket exactly while a connection there would need one more worker."""
        count = 0
        for one in self.workers.values():
            if one.serves:
                count += 1
                if not one.is_watched:
                    # Free, about to be, or busy for so short a time that it may be free again before anyone has looked.
                    self._stop_waiting()
                    return
        if self.is_leaving or count >= max(self.load.workers_max, 1) or time.monotonic() < self._retry_at:
            self._stop_waiting()
        elif not self._is_waiting:
            self.around.poller.watch(self.listening.fileno(), select.EPOLLIN, self._connection_waits)
            self._is_waiting = True

    def _stop_waiting(self) -> None:
        if self._is_waiting:
            self.around.poller.forget(self.listening.fileno())
            self._is_waiting = False

    def _connection_waits(self) -> None:
        self._start()
        self.settle()

    def _serving(self) -> list[Worker]:
        return [one for one in self.workers.values() if one.serves]

    def _start(self) -> None:
        now = time.monotonic()
        if not self.around.make_room(self):
            self._retry_at = now + ROOM_SECONDS
            self.due = min(self.due, self._retry_at)
            return
        if self._failure is None or now >= self._failed_until:
            self._failure = None
            reason = self.runtime.missing(self.load)
            if reason:
                self._load_failed(messages.LoadFailed(reason))
        failure = self._failure
        if failure is None:
            become_worker = functools.partial(self.runtime.become_worker, self.load)
        else:
            become_worker = functools.partial(worker.refuse, self._assignment(), failure)
        try:
            launched = launch(self.listening, self.load.name, become_worker)
        except OSError:
            # The sandbox is at its limit of processes or memory. Connections wait; their deadlines are the filter's.
            self._retry_at = now + RETRY_SECONDS
            self.due = min(self.due, self._retry_at)
            return
        self._welcome(launched, State.LOADING if failure is None else State.REFUSING, now)

    def _assignment(self) -> worker.Assignment:
        path = str(self.around.places.execution_path(self.load))
        return worker.Assignment(LISTENING, CHANNEL, self.load.main, self.load.file, path, self.load.runs_per_worker)

    def _welcome(self, launched: Launched, state: State, now: float) -> None:
        deadline = now + self.load.load_seconds if state is State.LOADING else math.inf
        one = Worker(launched.pid, launched.channel, launched.output, state, deadline, now)
        self.workers[one.pid] = one
        self.due = 0.0
        self.around.poller.watch(launched.channel.fileno(), select.EPOLLIN, functools.partial(self._channel_ready, one))

    def _replace_if_short(self) -> None:
        """After a worker that was in use has gone: have the next one loaded before it is asked for."""
        is_wanted = not self.is_leaving and self._failure is None
        if is_wanted and not any(one.state in (State.IDLE, State.LOADING) for one in self._serving()):
            self._start()

    def _retire(self, one: Worker) -> None:
        """Ask the worker to leave when it has nothing to do."""
        if one.is_retiring or one.channel is None:
            return
        one.is_retiring = True
        if one.state in (State.IDLE, State.REFUSING):
            self._set_deadline(one, time.monotonic() + LEAVE_SECONDS)
        try:
            one.channel.shutdown(socket.SHUT_WR)
        except OSError:
            self._kill(one)

    def _kill(self, one: Worker) -> None:
        if one.pid not in self.workers:
            # Reaped already: the number may be another process's by now.
            return
        one.was_killed = True
        one.state = State.ENDING if one.has_loaded else one.state
        one.deadline = math.inf
        kernel.kill(one.pid, signal.SIGKILL)
        kernel.kill_group(one.pid)

    # -- what workers report

    def _channel_ready(self, one: Worker) -> None:
        self._read_reports(one, _REPORTS_AT_ONCE)
        self.settle()

    def _read_reports(self, one: Worker, most: float = math.inf) -> None:
        """Read what waits in the channel."""
        count = 0
        while one.channel is not None and count < most:
            count += 1
            try:
                received = framing.receive(one.channel)
                if received is None:
                    self._channel_ended(one)
                    break
                self._heed(one, received.message(messages.WORKER_REPORTS), received.descriptors)
            except BlockingIOError:
                break
            except (OSError, messages.ProtocolError):
                # Only a storlet that meddles with our descriptors can bring this about.
                self._channel_ended(one)
                self._kill(one)

    def _heed(self, one: Worker, report: messages.Message, descriptors: Descriptors) -> None:
        with descriptors:
            if isinstance(report, messages.Begin) and one.connection is None and one.state is State.IDLE:
                self._began(one, descriptors.take(0))
            elif isinstance(report, messages.End) and one.connection is not None:
                self._ended(one, report)
            elif isinstance(report, messages.Ready) and one.state is State.LOADING:
                self._became(one, State.IDLE)
                self._failure = None
            elif isinstance(report, messages.LoadFailed) and one.state is State.LOADING:
                self._became(one, State.REFUSING)
                self._load_failed(report)
                if any(other.has_loaded and other.state is not State.REFUSING for other in self._serving()):
                    # Others have the code: they serve on, and this one must not answer in their place.
                    self._failure = None
                    self._retry_at = time.monotonic() + REFUSE_SECONDS
                    self.due = 0.0
                    self._retire(one)
            else:
                raise messages.ProtocolError([f"{report.TYPE} while {one.state.name}"])

    def _became(self, one: Worker, state: State) -> None:
        one.state, one.since, one.has_loaded = state, time.monotonic(), True
        one.deadline = math.inf
        if one.is_retiring:
            self._set_deadline(one, one.since + LEAVE_SECONDS)
        else:
            self.due = min(self.due, self._changes_at(one))

    def _began(self, one: Worker, fd: int) -> None:
        one.connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fd)
        one.is_watched = False
        one.state, one.since = State.BUSY, time.monotonic()
        one.deadline = math.inf
        self.due = min(self.due, one.since + SHORT_SECONDS)

    def _ended(self, one: Worker, report: messages.End) -> None:
        self._close_connection(one)
        one.runs += 1
        self.runs += 1
        self.failures += report.failed
        self._crashes = 0
        if one.state is not State.BUSY:
            return
        self._became(one, State.IDLE)
        self._active_at = one.since
        if report.recycle:
            # It still has its ``done`` to send, so it may end by itself; see the deadline.
            one.state = State.ENDING
            self._set_deadline(one, one.since + LEAVE_SECONDS)
            if one.pid in self.workers:
                self._replace_if_short()

    def _channel_ended(self, one: Worker) -> None:
        if one.channel is not None:
            self.around.poller.forget(one.channel.fileno())
            one.channel.close()
            one.channel = None
            self._set_deadline(one, min(one.deadline, time.monotonic() + STOP_SECONDS))

    def _load_failed(self, failure: messages.LoadFailed) -> None:
        self._failure = failure
        self._failed_until = time.monotonic() + REFUSE_SECONDS

    # -- cancel

    def _watch(self, one: Worker, connection: socket.socket) -> None:
        try:
            self.around.poller.watch(connection.fileno(), _HANG_UP, functools.partial(self._hung_up, one))
            one.is_watched = True
        except OSError:
            self._kill(one)

    def _hung_up(self, one: Worker) -> None:
        """The filter has closed the connection: a cancel, unless the worker has ended the invocation by itself."""
        connection = one.connection
        # Asked again, because the event may be about an earlier connection that had the same number.
        if connection is None or not _is_ready(connection, select.POLLRDHUP):
            return
        self.around.poller.forget(connection.fileno())
        self._read_reports(one)
        if one.connection is connection and not one.was_killed:
            one.cancelled = connection
            self._set_deadline(one, time.monotonic() + STOP_SECONDS)
            kernel.kill(one.pid, signal.SIGSTOP)
        self.settle()

    def stopped(self, pid: int) -> None:
        """The worker stands still, so what it has reported is all there is: decide whether the cancel came too late."""
        one = self.workers[pid]
        if one.cancelled is None:
            return
        self._read_reports(one)
        if one.connection is one.cancelled:
            self._kill(one)
        else:
            one.cancelled = None
            kernel.kill(pid, signal.SIGCONT)
        self.settle()

    def _close_connection(self, one: Worker) -> None:
        if one.connection is not None:
            if one.is_watched:
                self.around.poller.forget(one.connection.fileno())
            one.connection.close()
            one.connection = None
            one.is_watched = False

    # -- death

    def exited(self, pid: int, status: int) -> None:
        """A worker of this group is dead and reaped: answer in its name, clean up after it, replace it."""
        one = self.workers.pop(pid)
        self._read_reports(one)
        self._channel_ended(one)
        kernel.kill_group(pid)
        self.around.sweep()
        was_busy = one.connection is not None
        if was_busy:
            self._report_death(one, status)
        if not one.has_loaded and one.state is State.LOADING and not one.is_retiring:
            self._load_failed(self._load_death(one, status))
        elif one.state is State.IDLE and not one.is_retiring and not one.was_killed:
            self._crashed(status)
        close_quietly(one.output)
        if was_busy:
            self._replace_if_short()
        if not self.is_leaving:
            self.settle()

    def _report_death(self, one: Worker, status: int) -> None:
        connection = one.connection
        if connection is not None and one.cancelled is None:
            self.runs += 1
            self.failures += 1
            done = messages.Done.error(*self._cause(one, status))
            # The filter has gone, or reads nothing: the end of the connection tells it the same.
            with contextlib.suppress(OSError):
                connection.send(framing.encode(done), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        self._close_connection(one)

    def _cause(self, one: Worker, status: int) -> tuple[str, str]:
        if _was_memory_kill(one, status) and self.around.memory_kills.has_grown():
            return messages.LIMIT_MEMORY, "storlet was killed: the sandbox has run out of memory"
        return messages.FAILED, f"storlet {describe_exit(status)} before it was done"

    def _load_death(self, one: Worker, status: int) -> messages.LoadFailed:
        reason = one.load_error
        if reason is None:
            out_of_memory = _was_memory_kill(one, status) and self.around.memory_kills.has_grown()
            cause = "the sandbox has run out of memory" if out_of_memory else describe_exit(status)
            reason = f"the process ended while it loaded the code: {cause}"
        return messages.LoadFailed(reason, read_output(one.output) or None)

    def _crashed(self, status: int) -> None:
        self._crashes += 1
        if self._crashes >= CRASHES_MAX:
            self._crashes = 0
            self._load_failed(messages.LoadFailed(f"the process ends by itself after loading: {describe_exit(status)}"))


def describe_exit(status: int) -> str:
    """How a process ended, from its wait status, in words: ``exited with code 0``, ``was killed by signal 11 (SIGSEGV)``."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            return f"was killed by signal {number} ({signal.Signals(number).name})"
        except ValueError:
            return f"was killed by signal {number}"
    return f"exited with code {os.WEXITSTATUS(status)}"


def _was_memory_kill(one: Worker, status: int) -> bool:
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL and not one.was_killed


def _is_ready(what: socket.socket, events: int) -> bool:
    poll = select.poll()
    poll.register(what.fileno(), events)
    return bool(poll.poll(0))
