"""Supervisors that begin with their modules imported.

The import takes most of the processor time of a supervisor's start, and most tests start one.  Here
each is a fork of one process, which has imported what a supervisor with Python workers has.
Arguments, environment, working directory and standard streams are those of the test.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_REPOSITORY: Final = Path(__file__).resolve().parents[2]
_REQUEST_BYTES: Final = 1 << 17
_START_SECONDS: Final = 60
#: The process between the two waits for the supervisor's end, and reports its exit code.
_PROGRAM: Final = """
import sys
sys.path.remove("")
sys.path.insert(0, sys.argv[1])
import argparse, gc, json, os, socket, traceback
from storlet_daemon import __main__ as program, supervisor
from storlet_daemon.runtimes.python import runtime

def run(arguments, environment, folder):
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = [program.__file__, *arguments]
    code = 1
    try:
        code = program.main(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

def watch(report, files, asked):
    child = os.fork()
    if not child:
        report.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        run(*asked)
    for file in (0, 1, 2, *files):
        os.close(file)
    report.send(str(child).encode())
    report.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
    os._exit(0)

requests = socket.socket(fileno=int(sys.argv[2]))
gc.freeze()
while True:
    request, files, _, _ = socket.recv_fds(requests, int(sys.argv[3]), 4)
    if not request:
        sys.exit()
    report = socket.socket(fileno=files.pop())
    if not os.fork():
        requests.close()
        watch(report, files, json.loads(request))
    report.close()
    for file in files:
        os.close(file)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
"""


class Started:
    """A supervisor, used as a :class:`subprocess.Popen`.

    :param reports: sends the process id, and at the end the exit code.
    """

    def __init__(self, reports: socket.socket) -> None:
        self._reports = reports
        self._reports.settimeout(_START_SECONDS)
        self.pid = self._number()
        self.returncode: int | None = None

    def _number(self) -> int:
        text = self._reports.recv(100)
        assert text, "the process that starts supervisors has ended"
        return int(text)

    def poll(self) -> int | None:
        """None while it runs."""
        if self.returncode is None and select.select([self._reports], [], [], 0)[0]:
            self.returncode = self._number()
            self._reports.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, after its end."""
        if self.returncode is None and not select.select([self._reports], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(f"supervisor {self.pid}", timeout or 0)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, signum: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)


class Supervisors:
    """Starts supervisors; see :func:`supervisors`."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests

    def start(self, arguments: Sequence[str]) -> Started:
        """A supervisor with the ``arguments`` of its program."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = json.dumps([[*arguments], dict(os.environ), str(Path.cwd())]).encode()
        with theirs, Path(os.devnull).open("rb") as nothing:
            files = [nothing.fileno(), 1, 2, theirs.fileno()]
            socket.send_fds(self._requests, [request], files)
        return Started(ours)


@contextmanager
def supervisors() -> Iterator[Supervisors]:
    """The process that starts supervisors, for the length of a block."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words = [str(_REPOSITORY), str(theirs.fileno()), str(_REQUEST_BYTES)]
    command = [sys.executable, "-B", "-c", _PROGRAM, *words]
    with (
        subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]),
        ours,
    ):
        theirs.close()
        yield Supervisors(ours)
