"""The supervisor's side of a self-test: a child that runs it, and its report as it comes."""

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
"""A child that has not ended by then is killed by the kernel; the tests together are far below."""

Report = Callable[[messages.Message], None]


class Attempts:
    """Self-tests under way; ``report`` takes the answer to each. One thread, the supervisor's."""

    def __init__(self, poller: Poller, report: Report) -> None:
        self._poller = poller
        self._report = report
        self._texts: dict[int, bytes] = {}
        self._pids: dict[int, int] = {}

    @property
    def pids(self) -> Collection[int]:
        """Children that belong to a self-test: not to be swept away."""
        return self._pids.values()

    def begin(self, command: messages.Check, descriptors: Descriptors) -> None:
        """Start the child; its copy of the donated file is its own, ours is closed."""
        ear, mouth = os.pipe()
        with descriptors:
            pid = os.fork()
            if pid == 0:
                _be_the_child(command, descriptors.filenos()[0], mouth)
        os.close(mouth)
        os.set_blocking(ear, False)
        self._pids[ear], self._texts[ear] = pid, b""
        self._poller.watch(ear, select.EPOLLIN, lambda: self._read(ear, command.request))

    def _read(self, ear: int, request: int) -> None:
        try:
            data = os.read(ear, messages.MESSAGE_MAX)
        except BlockingIOError:
            return
        self._texts[ear] += data
        if data:
            return
        self._poller.forget(ear)
        os.close(ear)
        text = self._texts.pop(ear)
        # Its end is reaped with all others'; what it left behind goes with it.
        kernel.kill_group(self._pids.pop(ear))
        self._report(_answer(request, text))


def _answer(request: int, text: bytes) -> messages.Message:
    try:
        return messages.Checked(request, json.loads(text))
    except ValueError:
        return messages.Refused(request, "the self-test ended without a result")


def _be_the_child(command: messages.Check, donated: int, mouth: int) -> None:
    try:
        # Only here: process 1 has no use for the tests but in the one sandbox of a class that is made for them.
        from storlet_daemon import selftest  # noqa: PLC0415
        from storlet_daemon.selftest.model import Facts  # noqa: PLC0415

        signal.alarm(SECONDS)
        os.setpgid(0, 0)
        kernel.unblock_all()
        supervisor = os.getppid()
        _close_all_but({0, 1, 2, donated, mouth})
        facts = Facts(donated, supervisor, frozenset(command.allowed), command.limits)
        os.set_inheritable(donated, True)
        kernel.show_memory()
        data = json.dumps(selftest.run(facts)).encode()
        while data:
            data = data[os.write(mouth, data) :]
    finally:
        os._exit(0)


def _close_all_but(kept: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                continue  # the one that the listing itself had
