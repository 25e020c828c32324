"""The supervisor's side of a self-test: start a child that runs it, and read its result."""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Callable, Collection

from storlet_daemon import kernel
from storlet_daemon.poller import Poller
from storlet_daemon.protocol import messages
from storlet_daemon.protocol.descriptors import Descriptors

SECONDS = 40
"""The kernel kills a child that runs for longer; all tests together take far less."""

Report = Callable[[messages.Message], None]


class Attempts:
    """Running self-tests; ``report`` sends the answer to each."""

    def __init__(self, poller: Poller, report: Report) -> None:
        self._poller = poller
        self._report = report
        self._texts: dict[int, bytes] = {}
        self._pids: dict[int, int] = {}

    @property
    def pids(self) -> Collection[int]:
        """Children that run a self-test, which a sweep must not kill."""
        return self._pids.values()

    def begin(self, command: messages.Check, descriptors: Descriptors) -> None:
        """Start the child. It inherits the donated file; the supervisor closes its own copy."""
        reading, writing = os.pipe()
        with descriptors:
            try:
                pid = os.fork()
            except OSError as error:
                os.close(reading)
                os.close(writing)
                reason = f"the self-test cannot be started: {error.strerror}"
                self._report(messages.Refused(command.request, reason))
                return
            if pid == 0:
                _run_in_child(command, descriptors.filenos()[0], writing)
        os.close(writing)
        os.set_blocking(reading, False)
        self._pids[reading], self._texts[reading] = pid, b""
        self._poller.watch(reading, select.EPOLLIN, lambda: self._read(reading, command.request))

    def _read(self, reading: int, request: int) -> None:
        try:
            data = os.read(reading, messages.MESSAGE_MAX)
        except BlockingIOError:
            return
        self._texts[reading] += data
        if data:
            return
        self._poller.forget(reading)
        os.close(reading)
        text = self._texts.pop(reading)
        # The child is reaped like all others; the processes that it left are killed here.
        kernel.kill_group(self._pids.pop(reading))
        self._report(_answer(request, text))


def _answer(request: int, text: bytes) -> messages.Message:
    try:
        return messages.Checked(request, json.loads(text))
    except ValueError:
        return messages.Refused(request, "the self-test ended without a result")


def _run_in_child(command: messages.Check, donated: int, writing: int) -> None:
    try:
        # Imported here only: process 1 needs the tests in one sandbox of each trust class.
        from storlet_daemon import selftest  # noqa: PLC0415
        from storlet_daemon.selftest.model import Facts  # noqa: PLC0415

        signal.alarm(SECONDS)
        os.setpgid(0, 0)
        kernel.unblock_all()
        supervisor = os.getppid()
        _close_all_but({0, 1, 2, donated, writing})
        facts = Facts(donated, supervisor, frozenset(command.allowed), command.limits)
        os.set_inheritable(donated, True)
        kernel.show_memory()
        data = json.dumps(selftest.run(facts)).encode()
        while data:
            data = data[os.write(writing, data) :]
    finally:
        os._exit(0)


def _close_all_but(kept: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                continue  # the descriptor of the listing itself
