"""Swift's servers and sandboxd of test clusters begin with their modules imported.

The imports take most of the processor time of a server's start.  Here each server is a fork of one
process, the parent, which has imported what the servers need: as Swift's own workers are.  sandboxd
and the keeper, which restarts it, have another parent, because Swift's imports replace parts of
Python that they use.  A process of pytest has one parent of each kind, which ends with it.

Everything else of a server is as by :class:`subprocess.Popen`: its session, user, environment,
descriptors and signals, also as the kernel shows them in ``/proc``.  Its configuration is read
after the fork.  Servers with ``[swift-constraints]`` start as usual, because Swift's modules copy
those when they are imported, and so do servers with another ``PYTHONPATH``.

The child processes of a forked server are forks, too (``children``).  A forked sandboxd repeats at
its start no self-test that an earlier one has passed (``self_tests``).

``make up``, the benchmarks and the one-box image start their servers as usual.
"""

from __future__ import annotations

import configparser
import ctypes
import errno
import functools
import gc
import hashlib
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

SERVE: Final = "storlet_middleware.aio.serve"
SANDBOXD: Final = "/bin/storlet-sandboxd"
KEEPER: Final = ["-m", "storlet_middleware.aio", "keep"]
#: The name of the socket of a parent begins with its kind.
_SWIFT: Final = "swift"
_NODE: Final = "node"
_CHECKOUT: Final = Path(__file__).resolve().parents[2]
#: For commands of a cluster: the folder of the parent, and the process with which it ends.
VARIABLE: Final = "STORLETS_TEST_PARENT"
#: The folder of this file has modules with names of Python's own.
_PROGRAM: Final = """
import runpy, sys
sys.path.remove("")
runpy.run_path(sys.argv[1], run_name="__main__")
"""
_START_SECONDS: Final = 60
_REQUEST_BYTES: Final = 1 << 16
_OPTIONS: Final = ("env", "cwd", "umask", "start_new_session", "user")
#: Memory for the environment of a server, in that of the parent.
_SPACE: Final = {"SPACE": "-" * (1 << 15)}
#: In ``/proc/self/stat``: the start and the end of the command and of the environment.
_BOUNDS: Final = slice(45, 49)
_PR_SET_DUMPABLE: Final = 4


class Forked:
    """A server, used as a :class:`subprocess.Popen`; its exit code is not known."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._handle = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """None while it runs."""
        if self.returncode is None and select.select([self._handle], [], [], 0)[0]:
            self.returncode = 0
            os.close(self._handle)
        return self.returncode

    def wait(self, timeout: float) -> int:
        if self.returncode is None and not select.select([self._handle], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return self.poll() or 0

    def send_signal(self, signum: signal.Signals) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._handle, signum)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


@dataclass(frozen=True)
class Parent:
    """Starts servers.  ``folder`` has its sockets and logs; it ends with the process ``owner``."""

    folder: Path
    owner: int

    @property
    def variables(self) -> dict[str, str]:
        """The environment of commands that start their servers here."""
        return {VARIABLE: f"{self.owner}:{self.folder}"}

    def popen(self, command: Sequence[str], **options: Any) -> Forked | subprocess.Popen[bytes]:
        """:class:`subprocess.Popen`, and a fork of a parent for a process that has one.

        :raises OSError: the process cannot be started.
        """
        asked = {name: options[name] for name in _OPTIONS if options.get(name) is not None}
        environment = asked.setdefault("env", dict(os.environ))
        kind = kind_of(command, environment)
        if not kind:
            return subprocess.Popen(command, **options)
        out, error = options["stdout"], options["stderr"]
        mine, given = socket.socketpair()
        with mine, given, Path(os.devnull).open("rb") as nothing:
            files: list[IO[bytes]] = [nothing, out, out if error == subprocess.STDOUT else error]
            numbers = [*(file.fileno() for file in files), given.fileno()]
            request = json.dumps({"command": [*command], **asked}).encode()
            self._send(kind, command[0], request, numbers)
            given.close()
            answer = mine.recv(_REQUEST_BYTES).decode()
        if not answer.isdigit():
            raise ChildProcessError(0, f"{answer or 'the parent has ended'}; {self.folder}")
        return Forked(int(answer))

    def _send(self, kind: str, python: str, request: bytes, files: list[int]) -> None:
        """Send a request to the parent with this Python, which is started if there is none."""
        path = self.folder / f"{kind}-{hashlib.sha256(python.encode()).hexdigest()[:16]}"
        deadline, started = time.monotonic() + _START_SECONDS, None
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            while True:
                try:
                    client.connect(str(path))
                    socket.send_fds(client, [request], files)
                except (FileNotFoundError, ConnectionRefusedError):
                    started = started or self._start(python, path)
                    if started.poll() is not None or time.monotonic() > deadline:
                        raise
                    time.sleep(0.01)
                else:
                    break
        if started:
            started.returncode = 0  # it outlives this: no warning that it was not waited for

    def _start(self, python: str, path: Path) -> subprocess.Popen[bytes]:
        from storlet_middleware.aio import processes, programs  # noqa: PLC0415  (not for the parent)

        # Python and the modules read it during imports.
        environment = {**processes.ENVIRONMENT, **programs.SWIFT_ENV}
        with path.with_suffix(".log").open("ab") as log:
            return subprocess.Popen(
                [python, "-c", _PROGRAM, __file__, str(path), str(self.owner)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"], **environment, **_SPACE},
                cwd="/",
                start_new_session=True,
            )


def kind_of(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """The kind of the parent of a process; "": it starts as usual."""
    # The server's code is a copy of the checkout's.
    if environment.get("PYTHONPATH") not in {None, "", str(_CHECKOUT)}:
        return ""
    if [*command[1:]] == KEEPER or command[1].endswith(SANDBOXD):
        return _NODE
    return _SWIFT if [*command[1:3]] == ["-m", SERVE] and _has_usual_constraints(command) else ""


def _has_usual_constraints(command: Sequence[str]) -> bool:
    config = configparser.RawConfigParser()
    config.read(Path(command[3], "swift.conf"), encoding="utf-8")
    return not config.has_section("swift-constraints") or not config["swift-constraints"]


def main(words: Sequence[str]) -> int:
    """A command of the all-in-one cluster, whose servers are forks."""
    from storlet_middleware.aio import __main__ as aio  # noqa: PLC0415  (not for the parent)
    from storlet_middleware.aio import processes  # noqa: PLC0415

    owner, _, folder = os.environ.pop(VARIABLE, "").partition(":")
    if folder:
        processes.popen = Parent(Path(folder), int(owner)).popen
    return aio.main(words)


# --- the parent -----------------------------------------------------------------------------------


def _import_node() -> None:
    """Import sandboxd and the keeper."""
    for name in ("storlet_middleware.aio.__main__", "tests.support.self_tests"):
        importlib.import_module(name)


def _import_swift() -> None:
    """Import what servers need, in the order of a server: patched by eventlet before filters."""
    from importlib.metadata import distribution  # noqa: PLC0415

    from storlet_middleware.aio import configs, serve  # noqa: PLC0415

    serve.use("/nonexistent")
    names = f"{configs.PROXY_PIPELINE} {configs.OBJECT_PIPELINE} {configs.PLAIN_FILTERS}"
    wanted = {name.replace("-", "_") for name in [*names.split(), "memcache", "keymaster"]}
    servers = [f"swift-{kind}-server" for kind in ("proxy", "account", "container", "object")]
    points = [*distribution("swift").entry_points, *distribution("swift-storlets").entry_points]
    for point in points:
        if point.group == "console_scripts" and point.name in servers:
            point.load()
    import eventlet  # noqa: PLC0415
    from swift.common import utils  # noqa: PLC0415

    from storlet_middleware.catalog import library  # noqa: PLC0415
    from storlet_middleware.config import parse  # noqa: PLC0415

    utils.monkey_patch()
    for point in points:
        if point.group == "paste.app_factory" or (
            point.group == "paste.filter_factory" and point.name in wanted
        ):
            point.load()
    library.library_of(parse(""))  # packs the storlets of the system library, for all
    eventlet.hubs.use_hub()  # forgets the hub that the patch has made: each server makes its own


def _serve(listener: socket.socket, path: Path, owner: int) -> list[str]:
    """Fork a server for each request; ``path`` is that of the socket.

    :return: in a server, its command; in the parent nothing, at the end of ``owner``.
    """
    end = os.pidfd_open(owner)
    poll = select.poll()
    poll.register(listener.fileno(), select.POLLIN)
    poll.register(end, select.POLLIN)
    sys.path.append(str(_CHECKOUT))  # for `tests`; the modules of the environment come first
    if path.name.startswith(_NODE):
        _import_node()
    else:
        from storlet_middleware.aio.packages import USER  # noqa: PLC0415
        from tests.support import children  # noqa: PLC0415

        children.start(path.with_suffix(".children"), owner, USER)
        _import_swift()
    gc.collect()
    gc.freeze()  # else each server copies the pages of all modules to count what refers to them
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # leaves no zombies
    while end not in dict(poll.poll()):
        request, files, _, _ = socket.recv_fds(listener, _REQUEST_BYTES, 4)
        if not os.fork():
            listener.close()
            os.close(end)
            return _become(json.loads(request), files)
        for file in files:
            os.close(file)
    return []


def _become(asked: Mapping[str, Any], files: list[int]) -> list[str]:
    """Become a process as :class:`subprocess.Popen` starts it; return its command."""
    *files, answer = files
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if asked.get("start_new_session"):
            os.setsid()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.chdir(asked.get("cwd", "."))
        os.umask(asked.get("umask", os.umask(0o022)))
        os.environ.clear()
        os.environ.update(asked["env"])
        show(asked["command"], asked["env"])
        if user := asked.get("user"):
            change_user(user)
    except (OSError, LookupError) as error:
        os.write(answer, repr(error).encode())
        os._exit(1)
    os.write(answer, str(os.getpid()).encode())
    os.close(answer)
    return list(asked["command"])


def change_user(name: str) -> None:
    """Become a user, without further groups."""
    import pwd  # noqa: PLC0415

    entry = pwd.getpwnam(name)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
    # As after an exec: without it, the process cannot look at its own /proc.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


def show(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Show a command and an environment in ``/proc``, where a cluster finds its processes.

    The kernel shows the memory that has those of the last exec.  No variable may be used from it.

    :raises OSError: they need more memory.
    """
    numbers = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    bounds = [int(number) for number in numbers[_BOUNDS]]
    variables = [f"{name}={value}" for name, value in environment.items()]
    for begin, end, words in ((*bounds[:2], command), (*bounds[2:], variables)):
        text = b"".join(os.fsencode(word) + b"\0" for word in words)
        if len(text) > end - begin:
            raise OSError(errno.E2BIG, f"{len(text)} bytes of {end - begin}")
        ctypes.memmove(begin, text.ljust(end - begin, b"\0"), end - begin)


def _run_parent(path: Path, owner: int) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        new = path.with_suffix(f".{os.getpid()}")
        listener.bind(str(new))
        new.replace(path)
        command = _serve(listener, path, owner)
    return _run(command[1:], path, owner) if command else 0


def _run(words: Sequence[str], path: Path, owner: int) -> int:
    """Run a process, in a fork."""
    if [*words] == KEEPER:
        from storlet_middleware.aio import __main__ as aio  # noqa: PLC0415
        from storlet_middleware.aio import processes  # noqa: PLC0415

        processes.popen = Parent(path.parent, owner).popen
        return aio.main(words[2:])
    if words[0].endswith(SANDBOXD):
        from tests.support import self_tests  # noqa: PLC0415

        return self_tests.main(words[1:], path.parent)
    from storlet_middleware import concurrency  # noqa: PLC0415
    from storlet_middleware.aio import serve  # noqa: PLC0415
    from tests.support import children  # noqa: PLC0415

    # The template has the user of clusters; a server that a test starts as root has other files.
    if os.geteuid():
        template = path.with_suffix(".children")
        concurrency.popen = functools.partial(children.popen, template)  # type: ignore[assignment]
    return serve.main(words[1:])


if __name__ == "__main__":
    sys.exit(_run_parent(Path(sys.argv[2]), int(sys.argv[3])))
