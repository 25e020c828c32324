"""Tries to break out of a sandbox and to break its limits, from inside one, and says what held.

The node daemon asks for it (``Check``) in a sandbox that was made for this and is removed afterwards; no tenant's code is
near.  :data:`TESTS` is the list, in the order in which it runs:

``calls``       system calls that no storlet needs
``privileges``  who the processes are, whom they can become
``network``     every way out by a socket
``files``       what can be written, read and reached by a path
``donated``     a file of root's, opened for reading, as an object is given to a storlet
``processes``   the supervisor and the host's processes
``limits``      each limit reached on purpose

Each test runs in a process of its own, for a bounded time: one that crashes, hangs or is killed says so and the others go
on.  To add one, write a function that answers "" or a line, and add a row; its name is what operators see and may accept
(``[sandbox] accept_failures``), so it stays what it is.
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
    "sandbox-as-configured": "a sandbox that came up weaker than its configuration says",
    "sandbox-survives": "a tenant's code that ends the sandbox of all its storlets",
    "donated-unchanged": "an object that is another one after a storlet has had it",
}
"""What the node daemon sees from outside, by name, and what it is against."""
FAULT_MAX = 200
"""Characters of one fault: all of them together have to fit into one message."""


def run(facts: Facts, tests: Iterable[SelfTest] = TESTS) -> Mapping[str, str]:
    """The outcome of each test by its name; those that the class may fail are not in it."""
    return {
        test.name: outcome(test, facts)
        for test in tests
        if not test.unless or test.unless not in facts.allowed
    }


def outcome(test: SelfTest, facts: Facts) -> str:
    """The outcome of one test, which runs in a child."""
    ear, mouth = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ear)
        _be_the_test(test, facts, mouth)
    os.close(mouth)
    with contextlib.suppress(OSError):  # it has done so itself, or has ended
        os.setpgid(pid, pid)
    try:
        said = _hear(ear, test.seconds)
    finally:
        os.close(ear)
        kernel.kill_group(pid)
        _, status = os.waitpid(pid, 0)
    if said:
        return said[1:]
    # A filter may kill instead of refusing.
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSYS:
        return ""
    if said is None:
        return f"the test did not end within {test.seconds:g} seconds"
    return f"the test was ended: {os.waitstatus_to_exitcode(status)}"


def _be_the_test(test: SelfTest, facts: Facts, mouth: int) -> None:
    try:
        os.setpgid(0, 0)
        try:
            said = test.attempt(facts)
        except Exception as error:  # noqa: BLE001  a test that fails has not shown that the sandbox holds
            said = f"the test failed: {type(error).__name__}: {error}"
        os.write(mouth, f".{one_line(said)[:FAULT_MAX]}".encode("utf-8", "replace"))
    finally:
        os._exit(0)


def _hear(ear: int, seconds: float) -> str | None:
    """What the child says: "" when it ends without a word, ``None`` when it does neither in time."""
    end = time.monotonic() + seconds
    poll = select.poll()
    poll.register(ear, select.POLLIN)
    while (left := end - time.monotonic()) > 0:
        if poll.poll(left * 1000):
            return os.read(ear, 4096).decode("utf-8", "replace")
    return None
