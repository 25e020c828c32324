"""The loop of a worker process: take a connection, run the storlet, report, restore, repeat."""

from __future__ import annotations

import errno
import gc
import os
import resource
import select
import socket
import time
from collections.abc import Mapping
from typing import Any, NoReturn

from storlet_daemon import author, kernel
from storlet_daemon.author import account_secrets, failure_text
from storlet_daemon.control_groups import ControlGroup
from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.descriptors import Descriptors
from storlet_daemon.protocol.messages import Begin, Done, End, Invoke, LoadFailed, Metadata, Usage
from storlet_daemon.protocol.redaction import Redaction
from storlet_daemon.worker import failure as failures
from storlet_daemon.worker.config import WorkerConfig
from storlet_daemon.worker.loader import LoadError, StorletClass, load_class
from storlet_daemon.worker.process_state import ProcessState, cpu_seconds
from storlet_daemon.worker.stdio import Stdio
from storlet_daemon.worker.streams import InputError, Streams

RECEIVE_SECONDS = 10
"""Deadline for the message on a new connection."""
BEGIN_SECONDS = 5
"""Deadline for sending ``begin`` while the kernel refuses to pass a descriptor."""

# The messages of nearly every invocation, encoded once.
_BEGIN = framing.encode(Begin())
_STARTED = framing.encode(messages.Started())
_NO_METADATA = framing.encode(Metadata({}))
_END = framing.encode(End())
_DO_NOT_WAIT = int(socket.MSG_DONTWAIT)
_FAMILY, _KIND = int(socket.AF_UNIX), int(socket.SOCK_SEQPACKET)


def serve(config: WorkerConfig) -> NoReturn:
    """Load the storlet, then serve connections until the supervisor ends the worker."""
    kernel.keep_freed_memory()
    worker = _Worker(config)
    worker.load()
    worker.serve()


def refuse(config: WorkerConfig, failure: LoadFailed) -> NoReturn:
    """Load nothing; answer every invocation with ``failure`` until the supervisor ends this."""
    worker = _Worker(config)
    worker.failure = failure
    worker.serve()


def _nothing_loaded(logger: author.StorletLogger) -> Any:
    raise LoadError("nothing was loaded")


class _Worker:
    """The loop of one worker process."""

    def __init__(self, config: WorkerConfig) -> None:
        self.failure: LoadFailed | None = None
        self._config = config
        self._pid = os.getpid()
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, config.listening)
        self._listening.setblocking(False)
        self._channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, config.channel)
        for fd in (config.listening, config.channel):
            os.set_inheritable(fd, False)
        self._storlet_class: StorletClass = _nothing_loaded
        self._runs_left = max(config.runs_per_worker, 1)
        self._serves_until = time.monotonic() + config.worker_seconds
        self._stdio = Stdio()

    # -- load

    def load(self) -> None:
        """Import the module, find the class, and report the result to the supervisor."""
        try:
            self._storlet_class = load_class(self._config)
        except BaseException as error:  # noqa: BLE001
            # The author's module may raise anything while it is imported, SystemExit included.
            self.failure = LoadFailed(
                messages.one_line(failure_text.summary(error)),
                messages.cut_middle(failures.traceback_text(error)),
            )
            framing.send(self._channel, self.failure)
            return
        gc.collect()
        gc.freeze()
        framing.send(self._channel, messages.Ready())

    # -- serve

    def serve(self) -> NoReturn:
        """Serve connections until the channel ends, then drain the backlog, then exit."""
        self._stdio.install()
        self._state = ProcessState()
        self._limits = failures.LimitClassifier(ControlGroup(self._config.control_group))
        # From here on, output that is printed outside of a run is discarded.
        self._stdio.discard()
        ready = select.epoll()
        ready.register(self._listening.fileno(), select.EPOLLIN | select.EPOLLEXCLUSIVE)
        ready.register(self._channel.fileno(), select.EPOLLIN | select.EPOLLRDHUP)
        while True:
            is_last = any(fd == self._config.channel for fd, _ in ready.poll())
            if is_last and self.failure is not None:
                os._exit(0)
            while self._serve_one():
                if not is_last:
                    break
            if is_last:
                os._exit(0)

    def _serve_one(self) -> bool:
        """Serve one connection; return False if none is queued.

        Exits the process if the listening socket is shut down.
        """
        try:
            # Not accept(): it makes members of two enumerations of each connection, in nine calls.
            fd, _ = self._listening._accept()  # type: ignore[attr-defined]  # noqa: SLF001
        except (BlockingIOError, ConnectionAbortedError):
            return False
        except OSError:
            os._exit(0)
        connection = socket.socket(_FAMILY, _KIND, 0, fd)
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
        """The invocation on a connection; None if nothing came, or after reporting a fault."""
        try:
            received = self._receive_before_deadline(connection)
            if received is None:
                return None
            return received.message(messages.INVOCATION_REQUEST), received.descriptors
        except messages.ProtocolError as error:
            _send(connection, Done.error(messages.PROTOCOL, str(error)))
        except OSError:
            pass
        return None

    @staticmethod
    def _receive_before_deadline(connection: socket.socket) -> framing.Received | None:
        try:
            # Nearly always the message is there already.
            return framing.receive(connection, _DO_NOT_WAIT)
        except BlockingIOError:
            poll = select.poll()
            poll.register(connection.fileno(), select.POLLIN)
            return framing.receive(connection) if poll.poll(RECEIVE_SECONDS * 1000) else None

    def _refuse(self, connection: socket.socket, failure: LoadFailed) -> None:
        # Read first: closing a socket with unread data discards the data that was sent on it.
        received = self._receive(connection)
        if received is None:
            return
        invoke, descriptors = received
        with descriptors:
            if invoke.log is not None:
                log = author.LogFile(descriptors.filenos()[invoke.log.fd], invoke.log.limit)
                failures.log_error(log, self._config.main, failure.traceback or failure.message)
            _send(connection, Done.error(messages.LOAD, failure.message, failure.traceback))

    def _invoke(self, connection: socket.socket) -> None:
        received = self._receive(connection)
        if received is None:
            return
        invoke, descriptors = received
        streams = Streams(
            invoke,
            descriptors,
            lambda number, metadata: _send_metadata(connection, number, metadata),
        )
        with descriptors:
            refusal = self._prepare(streams, connection)
            if refusal is not None:
                streams.abandon()
                _send(connection, refusal)
                streams.end_outputs()
                return
            if not _send_bytes(connection, _STARTED):
                # The filter has disconnected while the connection waited for a worker.
                streams.abandon()
                streams.end_outputs()
                framing.send_bytes(self._channel, _END)
                return
            before = cpu_seconds()
            self._limits.begin_run()
            done = self._run(streams)
        self._runs_left -= 1
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        usage = Usage(round(cpu_seconds() - before, 6), peak, streams.bytes_read)
        _send(connection, Done(done.outcome, done.code, done.message, done.traceback, usage))
        streams.end_outputs()
        # The filter does not wait for what follows. It still counts as the run: the supervisor
        # kills a worker that hangs here like one whose storlet hangs.
        is_over = self._runs_left <= 0 or time.monotonic() > self._serves_until
        is_last = not done.is_ok or is_over or self._state.restore(streams.donated)
        end = framing.encode(End(is_last, not done.is_ok)) if is_last else _END
        framing.send_bytes(self._channel, end)
        if is_last:
            os._exit(0)

    def _prepare(self, streams: Streams, connection: socket.socket) -> Done | None:
        """Open the files of the run and report ``begin``; a ``Done`` if one of them fails."""
        try:
            streams.open()
        except InputError as error:
            return Done.error(messages.PROTOCOL, str(error))
        if not self._send_begin(connection):
            reason = "the account's storlets hold too many descriptors in messages"
            return Done.error(messages.FAILED, reason)
        return None

    def _send_begin(self, connection: socket.socket) -> bool:
        """Report ``begin`` to the supervisor; return False if the kernel refuses for too long.

        The kernel limits the descriptors in flight in messages per user, so another storlet of the
        account can use up that limit until it exits or is killed.
        """
        deadline = time.monotonic() + BEGIN_SECONDS
        while True:
            try:
                framing.send_bytes(self._channel, _BEGIN, [connection.fileno()])
            except OSError as error:
                if error.errno != errno.ETOOMANYREFS:
                    raise
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.005)
            else:
                return True

    def _exit_if_forked(self) -> None:
        """Exit if this process is a copy that the storlet forked and that left its code.

        Reporting the copy's success would hide a failure of the original.
        """
        if os.getpid() != self._pid:
            os._exit(1)

    def _run(self, streams: Streams) -> Done:
        """Run the storlet and close its files; return the outcome.

        This is one of the two places that catch everything.
        """
        config = self._config
        log = streams.log
        secrets = streams.invoke.secret_values
        try:
            self._stdio.begin(log)
            account_secrets.begin(secrets)
            if streams.services is not None:
                streams.services.begin()
            parameters = {
                **streams.invoke.parameters,
                "storlet_execution_path": config.execution_path,
            }
            storlet = self._storlet_class(author.StorletLogger(config.main, log))
            try:
                storlet(streams.inputs, streams.outputs, parameters)
            finally:
                self._exit_if_forked()
            streams.finish()
            return Done(messages.OK)
        except BaseException as error:  # noqa: BLE001
            code, explanation = self._limits.explain(error)
            # Before both texts are cut, which would leave a part of a value.
            redaction = Redaction(secrets.values())
            text = redaction.text(failure_text.summary(error)) + explanation
            traceback = failures.traceback_text(error, redaction)
            failures.log_error(log, config.main, traceback)
            if failure_text.hides_traceback(error):
                traceback = failures.rest_of(text)
            return Done.error(code, text, traceback)
        finally:
            if streams.services is not None:
                streams.services.end()
            account_secrets.end()
            streams.abandon()
            self._stdio.end()
            if log is not None:
                log.end()


def _send(connection: socket.socket, event: messages.Message) -> None:
    _send_bytes(connection, framing.encode(event))


def _send_bytes(connection: socket.socket, event: bytes) -> bool:
    """Send an event; return False if the connection is closed.

    The supervisor handles the cancellation of a run.
    """
    try:
        framing.send_bytes(connection, event)
    except OSError:
        return False
    return True


def _send_metadata(connection: socket.socket, number: int, metadata: Mapping[str, str]) -> None:
    is_usual = not metadata and not number
    event = _NO_METADATA if is_usual else framing.encode(Metadata(metadata, number or None))
    framing.send_bytes(connection, event)
