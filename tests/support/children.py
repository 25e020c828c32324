"""Child processes of Swift's servers (``storlet_middleware.child``) begin with their modules
imported.

The imports take nine tenths of the processor time of a usual check of rules or of a bundle, and of
the unpacking of a bundle.  Here each of them is a fork of one process, the template, which has
imported their modules.  A parent of servers (``forked_servers``) has one template, which has the
user of the servers and ends with the session.  ``path`` is that of the template's socket.

A request has the descriptors of the child's input and output, and a pipe.  The template answers in
the pipe with the process id, and with the exit status at the end of the child.  The child stays a
zombie until the server has closed the pipe: a pidfd of it can be opened until then.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

MODULES: Final = (
    "storlet_middleware.catalog.bundle_process",
    "storlet_middleware.catalog.self_tests_process",
    "storlet_middleware.engine.unpack_process",
    "storlet_middleware.ruleset.check_process",
    "storlet_middleware.ruleset.parse_process",
)
_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_PROGRAM: Final = """
import pathlib, sys
sys.path[:] = [*sys.path[1:], sys.argv[1]]
from tests.support import children
children.run(pathlib.Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
"""
_REQUEST_BYTES: Final = 1 << 16
_NUMBER: Final = struct.Struct("i")


class Child:
    """A child, used as a :class:`subprocess.Popen`; ``answers`` is the pipe."""

    def __init__(self, answers: int) -> None:
        self._answers = answers
        (self.pid,) = _NUMBER.unpack(os.read(answers, _NUMBER.size))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """None while it runs."""
        with contextlib.suppress(BlockingIOError):
            return self._ended(is_blocking=False)
        return None

    def wait(self) -> int:
        return self._ended(is_blocking=True)

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _ended(self, *, is_blocking: bool) -> int:
        if self.returncode is None:
            os.set_blocking(self._answers, is_blocking)
            answer = os.read(self._answers, _NUMBER.size)
            # Without an answer the template has been killed.
            self.returncode = _NUMBER.unpack(answer)[0] if answer else -signal.SIGKILL
            os.close(self._answers)
        return self.returncode


def popen(path: Path, command: Sequence[str], **options: Any) -> Child | subprocess.Popen[bytes]:
    """:class:`subprocess.Popen`, or a fork of the template for one of :data:`MODULES`."""
    if [*command[1:3]] != ["-P", "-m"] or command[3] not in MODULES:
        return subprocess.Popen(command, **options)
    asked = {"words": command[3:], "env": options["env"], "cwd": options["cwd"]}
    answers, writing = os.pipe()
    files = [options["stdin"].fileno(), options["stdout"].fileno(), writing]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.connect(str(path))
        socket.send_fds(client, [json.dumps(asked).encode()], files)
    os.close(writing)
    return Child(answers)


def start(path: Path, owner: int, user: str) -> None:
    """Start a template, which ends with the process ``owner``."""
    path.parent.chmod(0o711)
    subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(_CHECKOUT), str(path), str(owner), user],
        stdin=subprocess.DEVNULL,
        cwd="/",
    )


# --- the template ---------------------------------------------------------------------------------


def run(path: Path, owner: int, user: str) -> None:
    """Be the template until the end of ``owner``."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        path.chmod(0o666)  # for the servers, whose user cannot list the folder
        for module in MODULES:
            importlib.import_module(module)
        end = os.pidfd_open(owner)
        if user:
            from tests.support.forked_servers import change_user  # noqa: PLC0415

            change_user(user)
        gc.freeze()  # else each child copies the pages of all modules to count what refers to them
        _serve(listener, end)


def _serve(listener: socket.socket, end: int) -> None:
    poll = select.poll()
    poll.register(listener.fileno(), select.POLLIN)
    poll.register(end, select.POLLIN)
    running: dict[int, tuple[int, int]] = {}  # the process id and the pipe, by pidfd
    ended: dict[int, int] = {}  # the process id, by pipe
    while True:
        for ready, _ in poll.poll():
            if ready == end:
                return
            if ready == listener.fileno():
                pid, answers = _begin(listener)
                running[handle := os.pidfd_open(pid)] = pid, answers
                poll.register(handle, select.POLLIN)
            elif ready in running:
                pid, answers = running.pop(ready)
                poll.unregister(ready)
                os.close(ready)
                with contextlib.suppress(BrokenPipeError):
                    os.write(answers, _NUMBER.pack(_status(pid)))
                ended[answers] = pid
                poll.register(answers, 0)  # until the server closes it
            else:
                poll.unregister(ready)
                os.close(ready)
                os.waitpid(ended.pop(ready), 0)


def _begin(listener: socket.socket) -> tuple[int, int]:
    """Fork a child; its process id and its pipe."""
    request, files, _, _ = socket.recv_fds(listener, _REQUEST_BYTES, 3)
    *both, answers = files
    pid = os.fork()
    if not pid:
        listener.close()
        _become(json.loads(request), both)
    for file in both:
        os.close(file)
    os.write(answers, _NUMBER.pack(pid))
    return pid, answers


def _status(pid: int) -> int:
    """The exit status of an ended process, which stays a zombie."""
    result = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert result
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


def _become(asked: Mapping[str, Any], files: list[int]) -> None:
    """Become a process as :class:`subprocess.Popen` starts it, and end."""
    code: object = 1
    try:
        for number, file in enumerate([*files, os.open(os.devnull, os.O_RDWR)]):
            os.dup2(file, number)
            os.close(file)
        os.chdir(asked["cwd"])
        os.environ.clear()
        os.environ.update(asked["env"])
        sys.argv = asked["words"]
        importlib.import_module(sys.argv[0]).main()
        sys.stdout.flush()
        code = 0
    except SystemExit as error:
        sys.stdout.flush()
        code = error.code
    finally:
        os._exit(code if isinstance(code, int) else 1)
