"""The resident workers of one storlet version, as the supervisor sees them.

A worker's life::

    WAITING --placed, or PLACE_SECONDS--> LOADING
    LOADING --ready--> IDLE <--begin / end--> BUSY --end(recycle), hang-up, load too long, ...--> ENDING --exit--> gone
       '--load_failed--> REFUSING (answers every invocation with the reason, for REFUSE_SECONDS)

and, beside that, ``is_retiring``: its channel is shut down, it leaves when it has nothing to do. ``settle`` keeps one
promise: while nobody is free, and there may be one more worker, the supervisor itself waits on the listening socket.

What a worker says of itself is believed only as far as it can harm nobody but its own storlet. A connection that it claims
to have must be new, and must be the filter's; what it does while it claims to do nothing costs it its life (``idle.py``).
"""

from __future__ import annotations

import contextlib
import enum
import functools
import math
import os
import resource
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from storlet_daemon import kernel
from storlet_daemon.control_groups import ControlGroup, Counter
from storlet_daemon.idle import LOOK_SECONDS, Bucket, Meter
from storlet_daemon.launch import OUTPUT_MAX, BecomeWorker, Launched, launch, let_go, read_output
from storlet_daemon.poller import Poller
from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.descriptors import Descriptors, close_quietly
from storlet_daemon.runtimes import CHANNEL, LISTENING, Places, Runtime
from storlet_daemon.worker import run_loop
from storlet_daemon.worker.config import WorkerConfig

REFUSE_SECONDS = 5.0
"""How long a failed load is the answer before the next try."""
SHORT_SECONDS = 0.002
"""Nobody starts a worker because of an invocation that is over before this: most are that short."""
WATCH_SECONDS = 0.02
"""An invocation that is over before this is not watched: whoever leaves it need not be told from who has its answer."""
CLEAN_UP_SECONDS = 0.5
"""How long a worker may clean up when the filter has left with the ``done``. Where its group has used up its share of the processors, it may
stand still for a tenth of a second meanwhile."""
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
PLACE_SECONDS = 1.0
"""How long a new worker waits to be put into its control groups; then it has to do without."""
QUIET_SECONDS = 2.5 * LOOK_SECONDS
"""Without work for so long there were two looks, so that what was used between them is known."""
SCRATCH_SECONDS = 0.25
"""Between two looks at how much scratch space a group holds, while an invocation runs."""
_MIB = 1 << 20
_OWN_FILES_BYTES = OUTPUT_MAX + _MIB
"""Of each worker: what it prints while it loads and the log of its invocation are files in memory too."""
_REPORTS_AT_ONCE = 64
"""So many reports of one worker are read before others have their turn; a worker's code may send what it likes."""

_HANG_UP = select.EPOLLRDHUP


class State(enum.Enum):
    """What a worker is doing."""

    WAITING = enum.auto()
    LOADING = enum.auto()
    IDLE = enum.auto()
    BUSY = enum.auto()
    REFUSING = enum.auto()
    ENDING = enum.auto()


_SOON_FREE = (State.WAITING, State.LOADING, State.IDLE)


@dataclass(eq=False)
class Worker:
    """One worker process. ``connection`` is the supervisor's duplicate of the running invocation's.

    ``ended`` is the connection of the last one that has ended, until the next begins or the worker is known to be quiet: when
    it dies and has not sent its ``done``, somebody must. ``taken_at`` is when it was seen that the filter has the ``done`` of the
    running one. ``blame`` is the reason when the supervisor kills it for what it does, ``seen`` are the connections that it has had.
    """

    pid: int
    channel: socket.socket | None
    output: int
    state: State
    deadline: float
    since: float
    connection: socket.socket | None = None
    cancelled: socket.socket | None = None
    ended: socket.socket | None = None
    is_long: bool = False
    is_watched: bool = False
    taken_at: float = math.inf
    is_retiring: bool = False
    was_killed: bool = False
    has_loaded: bool = False
    is_placed: bool = False
    has_failed: bool = False
    runs: int = 0
    load_error: str | None = None
    blame: tuple[str, str] | None = None
    meter: Meter = field(default_factory=Meter)
    seen: set[int] = field(default_factory=set)

    @property
    def may_be_full(self) -> bool:
        """Whether it is about to end, and may until then hold all that the storlet's limits allow."""
        return self.state is State.ENDING and (self.has_failed or self.was_killed)

    @property
    def serves(self) -> bool:
        """Whether it counts: it answers connections, or will."""
        return self.state is not State.ENDING and not self.is_retiring


@dataclass(frozen=True)
class Surroundings:
    """What all groups of a supervisor share. ``sweep`` makes it look for processes that a dead worker has left.

    ``make_room`` says whether one more worker of a group fits; when not, it makes idle workers of other groups leave.
    ``place`` asks the node daemon to put a worker into its control groups, and says whether an answer may come.
    ``clear_scratch`` makes it empty the scratch space as soon as nothing runs. ``heard`` tells it that invocations come and go.
    """

    poller: Poller
    places: Places
    memory_kills: Counter
    sweep: Callable[[], None]
    make_room: Callable[[WorkerGroup], bool]
    expendable: kernel.Expendable
    place: Callable[[messages.Place], bool]
    clear_scratch: Callable[[], None]
    heard: Callable[[], None]


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
    _maker: int = -1
    _directory: str = ""
    _kills: Counter | None = None
    _scratch_at: float = math.inf
    _bucket: Bucket = field(default_factory=Bucket)
    _has_changed: bool = True

    # -- commands of the node daemon

    def begin(self) -> None:
        """Start the first worker."""
        self.listening.setblocking(False)
        self._maker = peer_uid(self.listening)
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
            self.load.version, self.load.name, serving, busy, self.runs, self.failures,
            round(max(idle_seconds, 0.0), 3), self.load.code,
        )  # fmt: skip

    @property
    def awaited(self) -> int | None:
        """The listening socket, where a connection there would have to wait for a worker that is not there yet."""
        return self.listening.fileno() if self._is_waiting else None

    @property
    def works(self) -> bool:
        """Whether any worker loads, runs or ends just now."""
        return any(one.state not in (State.IDLE, State.REFUSING) for one in self.workers.values())

    @property
    def idle_since(self) -> float:
        """When its last invocation ended (monotonic seconds); infinite while no worker could leave at once."""
        is_idle = any(
            one.state is State.IDLE and not one.is_retiring for one in self.workers.values()
        )
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
                if one.state is State.WAITING:
                    self._let_go(one, "")
                    continue
                if one.state is State.LOADING:
                    one.load_error = f"loading took longer than {self.load.load_seconds:g} seconds"
                elif one.state is State.ENDING:
                    one.blame = (
                        messages.FAILED,
                        "storlet was killed: it did not end when it had said that it would",
                    )
                self._kill(one)
            elif one.connection is not None and self._changes_at(one) <= now:
                self._lasts(one, one.connection, now)
            elif not one.is_retiring and self._changes_at(one) <= now:
                self._retire(one)
        if self._scratch_at <= now:
            self._look_at_scratch(now)
        self.settle()
        self.due = min(self._retry_at if self._retry_at > now else math.inf, self._scratch_at)
        for one in self.workers.values():
            self.due = min(self.due, one.deadline, self._changes_at(one))

    def _changes_at(self, one: Worker) -> float:
        """When the clock alone changes what this worker is, its deadline aside."""
        if one.state is State.BUSY and not one.is_watched:
            return one.since + (WATCH_SECONDS if one.is_long else SHORT_SECONDS)
        if one.taken_at < math.inf:
            return one.taken_at + (CLEAN_UP_SECONDS if one.is_long else SHORT_SECONDS)
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
                if not one.is_long:
                    # Free, about to be, or busy for so short a time that it may be free again before anyone has looked.
                    self._stop_waiting()
                    return
        if (
            self.is_leaving
            or count >= self.runtime.workers_max(self.load)
            or self._is_crowded()
            or time.monotonic() < self._retry_at
        ):
            self._stop_waiting()
        elif not self._is_waiting:
            self.around.poller.watch(
                self.listening.fileno(), select.EPOLLIN, self._connection_waits
            )
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
        become_worker: BecomeWorker
        if failure is None:
            become_worker = functools.partial(self.runtime.become_worker, self.load)
        else:
            become_worker = functools.partial(self._refuse, failure)
        try:
            with self.around.expendable:
                launched = launch(self.listening, self.load.name, self.load.limits, become_worker)
        except OSError:
            # The sandbox is at its limit of processes or memory. Connections wait; their deadlines are the filter's.
            self._retry_at = now + RETRY_SECONDS
            self.due = min(self.due, self._retry_at)
            return
        self._welcome(launched, failure is not None, now)

    def _refuse(self, failure: messages.LoadFailed, _control_group: str) -> NoReturn:
        path = self.around.places.execution_path(self.load)
        config = WorkerConfig(
            LISTENING, CHANNEL, self.load.main, self.load.file, path, self.load.runs_per_worker
        )
        run_loop.refuse(config, failure)

    def _welcome(self, launched: Launched, refuses: bool, now: float) -> None:
        one = Worker(launched.pid, launched.channel, launched.output, State.WAITING, math.inf, now)
        self.workers[one.pid] = one
        self._has_changed = True
        self.due = 0.0
        self.around.poller.watch(
            launched.channel.fileno(), select.EPOLLIN, functools.partial(self._channel_ready, one)
        )
        if refuses:
            # Only our own code runs in it.
            one.state = State.REFUSING
            let_go(launched.channel, "")
        elif self.around.place(self._place(one)):
            self._set_deadline(one, now + PLACE_SECONDS)
        else:
            self._let_go(one, "")

    def _place(self, one: Worker) -> messages.Place:
        return messages.Place(self.load.version, one.pid, self.load.limits)

    def announce(self) -> None:
        """To a node daemon that is new: have every worker placed that is not yet."""
        for one in self.workers.values():
            if not one.is_placed and one.state is not State.REFUSING:
                self.around.place(self._place(one))

    def placed(self, pid: int, directory: str) -> None:
        """The node daemon has put a worker into its control groups, or (without a ``directory``) could not."""
        one = self.workers[pid]
        if directory:
            one.is_placed = True
            if directory != self._directory:
                self._directory = directory
                self._kills = Counter(ControlGroup(directory).kills)
        if one.state is State.WAITING:
            self._let_go(one, directory)

    def _let_go(self, one: Worker, directory: str) -> None:
        """Nothing of the tenant has run in it until now."""
        if one.channel is None:
            return
        one.state = State.LOADING
        self._set_deadline(one, time.monotonic() + self.load.load_seconds)
        let_go(one.channel, directory)
        if one.is_retiring:
            # It was to leave while it waited, but may be the one that serves what is left in the backlog.
            self._shut_down(one)

    def _replace_if_short(self) -> None:
        """After a worker that was in use has gone: have the next one loaded before it is asked for."""
        is_wanted = not self.is_leaving and self._failure is None and not self._is_crowded()
        if is_wanted and not any(one.state in _SOON_FREE for one in self._serving()):
            self._start()

    def _is_crowded(self) -> bool:
        """Whether one more worker might find nothing left of the storlet's own limits, and fail for no fault of its own."""
        limits = self.load.limits
        if not limits.memory_bytes and not limits.processes:
            return False
        if any(one.may_be_full for one in self.workers.values()):
            return True
        return len(self.workers) >= self.runtime.workers_max(self.load)

    def _retire(self, one: Worker) -> None:
        """Ask the worker to leave when it has nothing to do."""
        if one.is_retiring or one.channel is None:
            return
        one.is_retiring = True
        if one.state in (State.IDLE, State.REFUSING):
            self._set_deadline(one, time.monotonic() + LEAVE_SECONDS)
        if one.state is not State.WAITING:
            self._shut_down(one)

    def _shut_down(self, one: Worker) -> None:
        try:
            if one.channel is not None:
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
            if (
                isinstance(report, messages.Begin)
                and one.connection is None
                and one.state is State.IDLE
            ):
                self._began(one, descriptors.take(0))
            elif isinstance(report, messages.End) and one.connection is not None:
                self._ended(one, report)
            elif isinstance(report, messages.Ready) and one.state is State.LOADING:
                self._became(one, State.IDLE)
                self._failure = None
            elif isinstance(report, messages.LoadFailed) and one.state is State.LOADING:
                self._became(one, State.REFUSING)
                self._load_failed(report)
                if any(
                    other.has_loaded and other.state is not State.REFUSING
                    for other in self._serving()
                ):
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
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fd)
        one.connection = connection
        number = os.fstat(fd).st_ino
        if number in one.seen or not self._is_of_filter(connection):
            one.blame = (
                messages.FAILED,
                "storlet was killed: it has reported an invocation that nobody asked for",
            )
            self._kill(one)
            return
        one.seen.add(number)
        one.meter.began(self.around.poller.since)
        self.around.heard()
        _forget_ended(one)
        one.state, one.since = State.BUSY, time.monotonic()
        one.deadline = math.inf
        self.due = min(self.due, one.since + SHORT_SECONDS)

    def _is_of_filter(self, connection: socket.socket) -> bool:
        """Whether the other end of the connection is not held by a process of this sandbox, as far as users tell.

        Where whoever made the listening socket has our own user, as in tests, that cannot be told.
        """
        try:
            own = os.getuid()
            return self._maker == own or peer_uid(connection) != own
        except OSError:
            # Not a Unix socket at all.
            return False

    def _ended(self, one: Worker, report: messages.End) -> None:
        one.ended = self._take_connection(one)
        one.meter.ended()
        self.around.heard()
        one.runs += 1
        self.runs += 1
        self.failures += report.failed
        self._crashes = 0
        if one.state is not State.BUSY:
            return
        self._became(one, State.IDLE)
        self._active_at = one.since
        if not report.recycle and one.runs > self.load.runs_per_worker:
            # Our own worker would have asked for its replacement.
            self._kill(one)
        elif report.recycle:
            # It may still have its ``done`` to send, so it ends by itself; see the deadline.
            one.state = State.ENDING
            one.has_failed = report.failed
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

    def _lasts(self, one: Worker, connection: socket.socket, now: float) -> None:
        """The invocation takes longer than most: another one may need a worker, and later its caller may leave it."""
        has_left = one.taken_at < math.inf
        if has_left and one.is_long:
            self._cancel(one)
            return
        one.is_long = True
        if not has_left and self._changes_at(one) <= now:
            self._watch(one, connection)

    def _watch(self, one: Worker, connection: socket.socket) -> None:
        try:
            self.around.poller.watch(
                connection.fileno(), _HANG_UP, functools.partial(self._hung_up, one)
            )
            one.is_watched = True
            one.meter.sample(one.pid)
            if self.load.limits.scratch_bytes and self._directory and self._scratch_at == math.inf:
                self._scratch_at = time.monotonic() + SCRATCH_SECONDS
        except OSError:
            self._kill(one)

    def _hung_up(self, one: Worker) -> None:
        """The filter has closed the connection: a cancel, unless it had what it wanted, or the worker has said that it has ended."""
        connection = one.connection
        # Asked again, because the event may be about an earlier connection that had the same number.
        if connection is None or not _is_ready(connection, select.POLLRDHUP):
            return
        self.around.poller.forget(connection.fileno())
        if _has_taken(connection):
            # It is about to be free: the next connection is its own, unless it takes long over that as well.
            one.taken_at, one.is_long = time.monotonic(), False
            self.due = min(self.due, self._changes_at(one))
            self.settle()
        else:
            self._cancel(one)

    def _cancel(self, one: Worker) -> None:
        connection, one.taken_at = one.connection, math.inf
        self._read_reports(one)
        if connection is not None and one.connection is connection and not one.was_killed:
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
        connection = self._take_connection(one)
        if connection is not None:
            connection.close()

    def _take_connection(self, one: Worker) -> socket.socket | None:
        """What was the worker's, which now runs nothing: what was known of the run goes with it."""
        connection, one.connection = one.connection, None
        if one.is_watched and connection is not None:
            self.around.poller.forget(connection.fileno())
        one.is_long, one.is_watched, one.taken_at = False, False, math.inf
        return connection

    # -- limits that the kernel does not keep by itself

    def _look_at_scratch(self, now: float) -> None:
        """End what runs when the group's files in memory are more than it may have."""
        busy = [one for one in self.workers.values() if one.state is State.BUSY]
        self._scratch_at = (
            now + SCRATCH_SECONDS if any(one.is_watched for one in busy) else math.inf
        )
        limit = self.load.limits.scratch_bytes
        not_scratch = len(self.workers) * _OWN_FILES_BYTES
        if not busy or ControlGroup(self._directory).scratch_bytes() <= limit + not_scratch:
            return
        for one in list(self.workers.values()):
            # Those that do nothing too: a memory file lives as long as one process has it.
            if one.state in (State.BUSY, State.IDLE):
                one.blame = (
                    messages.LIMIT_SCRATCH,
                    f"storlet was killed: it held more than the {_mebibytes(limit)} of scratch space that it may",
                )
                self._kill(one)
        self.around.clear_scratch()

    def look_at_idle(self, cpu_seconds: Mapping[int, float]) -> None:
        """Replace those that compute while they say that they do nothing. By pid, with all descendants."""
        for one in list(self.workers.values()):
            used = cpu_seconds.get(one.pid)
            if one.has_loaded and used is not None and one.meter.is_over(used):
                if one.state is State.BUSY:
                    # What it runs now is somebody else's invocation and may be honest: it ends that, and then itself.
                    self._retire(one)
                else:
                    self._kill_for_computing(one)
            elif (
                one.meter.is_quiet
                and one.state is State.IDLE
                and time.monotonic() - one.since > QUIET_SECONDS
            ):
                _forget_ended(one)
        # Who loads may use what he likes; so may have done who is not there any more, or was not at the last look.
        is_steady = not self._has_changed and all(one.has_loaded for one in self.workers.values())
        self._has_changed = False
        allowed = sum(one.meter.allowed for one in self.workers.values()) if is_steady else math.inf
        if self._directory and self._bucket.is_over(
            ControlGroup(self._directory).cpu_seconds(), allowed
        ):
            for one in list(self.workers.values()):
                if one.state is State.IDLE:
                    self._kill_for_computing(one)

    def _kill_for_computing(self, one: Worker) -> None:
        one.blame = (
            messages.FAILED,
            "storlet was killed: it went on computing after it had reported its end",
        )
        self._kill(one)

    # -- death

    def exited(self, pid: int, status: int, used: resource.struct_rusage) -> None:
        """A worker of this group is dead and reaped: answer in its name, clean up after it, replace it."""
        one = self.workers.pop(pid)
        self._has_changed = True
        self._read_reports(one)
        self._channel_ended(one)
        kernel.kill_group(pid)
        self.around.sweep()
        was_busy = one.connection is not None
        if was_busy:
            self._report_death(one, status, used)
        if one.ended is not None:
            # After a "done" of its own this one is not read any more.
            self._tell(one.ended, messages.Done.error(*self._cause(one, status)))
            _forget_ended(one)
        if not one.has_loaded and one.state is State.LOADING and not one.is_retiring:
            self._load_failed(self._load_death(one, status))
        elif (
            one.state in (State.WAITING, State.IDLE) and not one.is_retiring and not one.was_killed
        ):
            self._crashed(status)
        close_quietly(one.output)
        if was_busy or (one.state is State.ENDING and not one.is_retiring):
            self._replace_if_short()
        if not self.is_leaving:
            self.settle()

    def _report_death(self, one: Worker, status: int, used: resource.struct_rusage) -> None:
        connection = one.connection
        if connection is not None and one.cancelled is not connection:
            self.runs += 1
            self.failures += 1
            done = messages.Done.error(*self._cause(one, status), usage=one.meter.usage(used))
            self._tell(connection, done)
        self._close_connection(one)

    @staticmethod
    def _tell(connection: socket.socket, done: messages.Done) -> None:
        # The filter has gone, or reads nothing: the end of the connection tells it the same.
        with contextlib.suppress(OSError):
            connection.send(framing.encode(done), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    def _cause(self, one: Worker, status: int) -> tuple[str, str]:
        if one.blame is not None:
            return one.blame
        shortage = self._shortage(one, status)
        if shortage:
            return messages.LIMIT_MEMORY, f"storlet was killed: {shortage}"
        return messages.FAILED, f"storlet {describe_exit(status)} before it was done"

    def _shortage(self, one: Worker, status: int) -> str:
        """Whose memory was used up when the kernel has killed the worker for memory; empty when it has not."""
        if not _was_memory_kill(one, status):
            return ""
        # Both are asked, always: a kill counts once.
        in_sandbox = self.around.memory_kills.has_grown()
        in_group = self._kills is not None and self._kills.has_grown()
        limit = self.load.limits.memory_bytes
        group = ControlGroup(self._directory)
        if in_group and group.scratch_bytes() > limit // 4:
            # Files in memory stay when their process is killed, and the next one would have only what they leave.
            self.around.clear_scratch()
        if in_group and limit and group.has_been_full(limit):
            return f"its workers together used more than the {_mebibytes(limit)} that it may"
        return "the sandbox has run out of memory" if in_group or in_sandbox else ""

    def _load_death(self, one: Worker, status: int) -> messages.LoadFailed:
        reason = one.load_error
        if reason is None:
            cause = self._shortage(one, status) or describe_exit(status)
            reason = f"the process ended while it loaded the code: {cause}"
        return messages.LoadFailed(reason, read_output(one.output) or None)

    def _crashed(self, status: int) -> None:
        self._crashes += 1
        if self._crashes >= CRASHES_MAX:
            self._crashes = 0
            self._load_failed(
                messages.LoadFailed(
                    f"the process ends by itself after loading: {describe_exit(status)}"
                )
            )


def describe_exit(status: int) -> str:
    """How a process ended, from its wait status, in words: ``exited with code 0``, ``was killed by signal 11 (SIGSEGV)``."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            return f"was killed by signal {number} ({signal.Signals(number).name})"
        except ValueError:
            return f"was killed by signal {number}"
    return f"exited with code {os.WEXITSTATUS(status)}"


def peer_uid(connection: socket.socket) -> int:
    """The user at the other end of a Unix socket; of a listening one, whoever made it listen."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1])


_CREDENTIALS = struct.Struct("3i")


def _has_taken(connection: socket.socket) -> bool:
    """Whether the filter, which has closed the connection, has had its ``done``: it says that in a last record, which nobody reads."""
    for _ in range(2):
        try:
            return bool(connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return False
        except OSError:
            # That it was closed with something unread is told once, before what is there.
            continue
    return False


def _forget_ended(one: Worker) -> None:
    if one.ended is not None:
        one.ended.close()
        one.ended = None


def _mebibytes(count: int) -> str:
    return f"{count / _MIB:.3g} MiB" if count < 100 * _MIB else f"{count // _MIB} MiB"


def _was_memory_kill(one: Worker, status: int) -> bool:
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL and not one.was_killed


def _is_ready(what: socket.socket, events: int) -> bool:
    poll = select.poll()
    poll.register(what.fileno(), events)
    return bool(poll.poll(0))
