"""``storlet-local``: owner of a node and of the processes that run storlets on it.

Started by the client's commands; see :mod:`storlet_middleware.local.requests` for the lines that it
reads and writes.  SIGINT, SIGTERM, or the end of the reader of the answers end it; it removes the
node in any case.  It has one thread and no engine of its own, so nothing of a run can hinder that.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from storlet_middleware.local import node as nodes
from storlet_middleware.local.node import LocalNode, Unavailable
from storlet_middleware.local.requests import fault_line

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DONE, NOT_AVAILABLE, ENDED = 0, 3, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the console script; returns the exit code."""
    options = _parser().parse_args(arguments)
    with _signals() as signalled:
        try:
            with nodes.taken(dict(os.environ)) as node:
                return _serve(node, options.report, signalled)
        except Unavailable as error:
            with contextlib.suppress(BrokenPipeError):
                os.write(options.report, fault_line(str(error)))
            return NOT_AVAILABLE


def _serve(node: LocalNode, report: int, signalled: int) -> int:
    """Run both processes until one of them, or the reader of the answers, has ended."""
    with contextlib.ExitStack() as children:
        children.callback(node.remove)
        sandboxd = node.start_sandboxd()
        children.callback(nodes.stop, sandboxd)
        session = nodes.child(
            "storlet_middleware.local.session", str(node.home.options_file), str(report),
            pass_fds=(report,),
        )  # fmt: skip
        children.callback(nodes.stop, session)
        ended = _wait(session, sandboxd, report, signalled)
        if ended == sandboxd.pid:
            raise Unavailable(f"storlet-sandboxd has ended:\n{node.last_words()}")
        if ended == session.pid and session.wait():
            raise Unavailable(f"the engine has ended with status {session.returncode}")
        return DONE if ended else ENDED


def _wait(
    session: subprocess.Popen[bytes], sandboxd: subprocess.Popen[bytes], report: int, signalled: int
) -> int:
    """The pid of the child that has ended, or 0 if this process has to end for another reason."""
    with contextlib.ExitStack() as opened:
        poll, pids = select.poll(), {}
        for process in (session, sandboxd):
            fd = os.pidfd_open(process.pid)
            opened.callback(os.close, fd)
            pids[fd] = process.pid
            poll.register(fd, select.POLLIN)
        poll.register(report, 0)  # POLLERR: its reader has ended
        poll.register(signalled, select.POLLIN)
        ready = {fd for fd, _ in poll.poll()}
        return next((pid for fd, pid in pids.items() if fd in ready), 0)


@contextlib.contextmanager
def _signals() -> Iterator[int]:
    """A descriptor that becomes readable when a signal is to end this process."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    kept = {each: signal.signal(each, lambda *_: None) for each in _SIGNALS}
    try:
        yield reader
    finally:
        for each, handler in kept.items():
            signal.signal(each, handler)
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="storlet-local",
        description="Runs storlets in sandboxes of this machine for 'storlet run', 'storlet test'"
        " and 'storlet check', which start it.",
        epilog=f"{nodes.CONF_VARIABLE}=FILE in the environment: options as in storlet.conf, such"
        " as [limits], [sandbox] image and [sandbox] docker_url.",
    )
    parser.add_argument(
        "--report", type=int, required=True, metavar="FD", help="descriptor that gets the answers"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
