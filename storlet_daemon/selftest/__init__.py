"""Tries to break out of a sandbox and to exceed its limits, from inside, and reports what held.

The node daemon requests it (``Check``) in a sandbox that is made for this and removed afterwards,
and that never holds code of a tenant. :data:`TESTS` lists the tests in the order in which they run:

``calls``       system calls that no storlet needs
``privileges``  the users of the processes, and the users that they cannot become
``network``     every way out by a socket
``files``       files that can be written, read and reached by a path
``donated``     a file of root's, open for reading, as an object is given to a storlet
``processes``   the supervisor and the host's processes
``limits``      each limit, reached on purpose
``model``       a test, and the facts that it may use

Each test runs in a separate process, for a bounded time. A test that crashes, hangs or is killed
is reported, and the others continue. To add one, write a function that returns "" or a line, and
add a row. Operators see its name and may accept its failure (``[sandbox] accept_failures``), so a
name never changes.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable, Mapping

from storlet_daemon import kernel
from storlet_daemon.protocol.messages import one_line
from storlet_daemon.selftest import calls, donated, files, limits, network, privileges, processes
from storlet_daemon.selftest.model import Facts, SelfTest

TESTS: tuple[SelfTest, ...] = (
    *calls.TESTS,
    *privileges.TESTS,
    *network.TESTS,
    *files.TESTS,
    *donated.TESTS,
    *processes.TESTS,
    *limits.TESTS,
)
OUTSIDE = {
    "sandbox-as-configured": "a sandbox that is weaker than its configuration",
    "sandbox-survives": "a tenant's code that ends the sandbox of all its storlets",
    "donated-unchanged": "an object that a storlet has changed",
}
"""Faults that the node daemon detects from outside: name, and what it protects against."""
FAULT_MAX = 200
"""Characters of one fault: all faults together have to fit into one message."""


def run(facts: Facts, tests: Iterable[SelfTest] = TESTS) -> Mapping[str, str]:
    """The outcome of each test by its name, without those that the trust class may fail."""
    return {
        test.name: outcome(test, facts)
        for test in tests
        if not test.unless or test.unless not in facts.allowed
    }


def outcome(test: SelfTest, facts: Facts) -> str:
    """The outcome of one test, which runs in a child."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _run_in_child(test, facts, writing)
    os.close(writing)
    with contextlib.suppress(OSError):  # the child has done so itself, or has exited
        os.setpgid(pid, pid)
    try:
        result = _read_result(reading, test.seconds)
    finally:
        os.close(reading)
        kernel.kill_group(pid)
        _, status = os.waitpid(pid, 0)
    if result:
        return result[1:]
    # A seccomp filter may kill the process instead of refusing the call.
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSYS:
        return ""
    if result is None:
        return f"the test did not end within {test.seconds:g} seconds"
    return f"the test was ended: {os.waitstatus_to_exitcode(status)}"


def _run_in_child(test: SelfTest, facts: Facts, writing: int) -> None:
    try:
        os.setpgid(0, 0)
        try:
            result = test.attempt(facts)
        except Exception as error:  # noqa: BLE001  a test that fails proves nothing
            result = f"the test failed: {type(error).__name__}: {error}"
        os.write(writing, f".{one_line(result)[:FAULT_MAX]}".encode("utf-8", "replace"))
    finally:
        os._exit(0)


def _read_result(reading: int, seconds: float) -> str | None:
    """The child's result: "" if it exits without one, None at the timeout."""
    end = time.monotonic() + seconds
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    while (left := end - time.monotonic()) > 0:
        if poll.poll(left * 1000):
            return os.read(reading, 4096).decode("utf-8", "replace")
    return None
