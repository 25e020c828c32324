"""A node of one ``storlet-local``: directories and options of its own, and ``storlet-sandboxd``.

::

    <run_dir>-local/<n>.lock    held by the owner of node n as long as it lives
    <run_dir>-local/<n>/        sockets and options; exists while the node may have sandboxes
    <state_dir>-local/<n>/      uids, which are kept; code, which is not

``run_dir``, ``state_dir`` and all other options are the defaults of ``storlet.conf``, or those of
the file that ``STORLET_LOCAL_CONF`` names.

A node is removed at its end: containers, control groups, sockets, code.  An owner that is killed
takes its processes along, and leaves containers; the next owner removes those of every node whose
lock is free.
"""

from __future__ import annotations

import configparser
import contextlib
import ctypes
import dataclasses
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from storlet_middleware import config as configuration
from storlet_middleware import trial_host
from storlet_middleware.config import Config
from storlet_middleware.sandboxd.__main__ import remove_all
from storlet_middleware.sandboxd.directories.paths import NodePaths
from storlet_middleware.sandboxd.docker import Engine
from storlet_middleware.sandboxd.errors import (
    EngineFault,
    EngineUnavailable,
    ImageMissing,
    StartupFault,
)

#: Names a file of options.
CONF_VARIABLE: Final = "STORLET_LOCAL_CONF"
_NODES: Final = 32
_OPTIONS: Final = "storlet.conf"
_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
#: sandboxd of a killed owner is killed by the kernel, which takes a moment.
_RELEASE_SECONDS: Final = 3.0
_STOP_SECONDS: Final = 8.0
_LAST_LINES: Final = 5


class Unavailable(Exception):
    """No sandbox can be started here; the text has the remedy."""


@dataclasses.dataclass(frozen=True)
class Home:
    """The place of one node; ``text`` is the text of its options."""

    run_dir: Path
    state_dir: Path
    options: str

    @property
    def options_file(self) -> Path:
        return self.run_dir / _OPTIONS

    @property
    def config(self) -> Config:
        return configuration.parse(self.options, str(self.options_file))


class LocalNode:
    """See the module; made by :func:`taken`."""

    def __init__(self, home: Home, engine: Engine) -> None:
        self.home = home
        self._engine = engine
        self._log = home.run_dir / "sandboxd.log"

    def start_sandboxd(self) -> subprocess.Popen[bytes]:
        """Start ``storlet-sandboxd``; :func:`stop` it before :meth:`remove`.

        Almost every local run is of class ``user``: the test of another class would take as long as
        a run.
        """
        with self._log.open("wb") as log:
            return child(
                "storlet_middleware.sandboxd", "--conf", str(self.home.options_file),
                "--test", configuration.USER_CLASS,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def last_words(self) -> str:
        """The end of the log of sandboxd."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_LAST_LINES:])

    def remove(self) -> None:
        """Remove everything but the uids.

        :raises Unavailable: Docker did not; the next start tries again.
        """
        _remove(self.home, self._engine)


@contextlib.contextmanager
def taken(environ: dict[str, str]) -> Iterator[LocalNode]:
    """A node that no other process has; leftovers of killed owners are removed before.

    :raises Unavailable: the reason, and what to do.
    """
    options = _options(environ)
    config = _parsed(options)
    engine = Engine(config.sandbox.docker_url)
    accepted = trial_host.acceptable(_host(config, engine), trial_host.own_capabilities())
    top = Path(f"{config.sandbox.run_dir}-local")
    top.mkdir(mode=0o755, parents=True, exist_ok=True)
    with contextlib.ExitStack() as locks:
        mine: Home | None = None
        for number in range(_NODES):
            home = _home(options, config, number, accepted)
            if mine is not None and not home.run_dir.exists():
                continue
            lock = _lock(Path(f"{home.run_dir}.lock"))
            if lock is None:
                continue
            with contextlib.ExitStack() as held:
                held.callback(os.close, lock)
                if home.run_dir.exists():
                    _remove(home, engine)
                if mine is None:
                    mine = home
                    locks.push(held.pop_all())
        if mine is None:
            raise Unavailable(f"{_NODES} local runs are in progress: wait for one to end")
        mine.run_dir.mkdir(mode=0o755)
        mine.options_file.write_text(mine.options, encoding="utf-8")
        yield LocalNode(mine, engine)


def _options(environ: dict[str, str]) -> str:
    path = environ.get(CONF_VARIABLE)
    if not path:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Unavailable(f"{CONF_VARIABLE}: {path}: cannot be read: {error}") from error


def _parsed(options: str) -> Config:
    try:
        return configuration.parse(options, CONF_VARIABLE)
    except configuration.ConfigError as error:
        raise Unavailable(str(error)) from error


def _host(config: Config, engine: Engine) -> dict[str, object]:
    """Docker's description of this machine, if it can start a sandbox."""
    if os.geteuid() != 0:
        raise Unavailable("a sandbox can be started by root only: run the command with sudo")
    image = config.sandbox.image
    try:
        host = dict(engine.host())
        engine.image_id(image)
    except ImageMissing:
        raise Unavailable(
            f"the sandbox image {image} is missing: 'make up' in a checkout of swift-storlets"
            " builds it; or load it with 'docker load'; or name another one in a file of options"
            f" with [sandbox] image, and that file in {CONF_VARIABLE}"
        ) from None
    except EngineUnavailable as error:
        raise Unavailable(
            f"Docker at {config.sandbox.docker_url} does not answer ({error}): install it, and"
            " start it (systemctl start docker)"
        ) from None
    except EngineFault as error:
        raise Unavailable(f"Docker: {error}") from None
    return host


def _home(options: str, config: Config, number: int, accepted: tuple[str, ...]) -> Home:
    sandbox = config.sandbox
    run_dir = Path(f"{sandbox.run_dir}-local") / str(number)
    state_dir = Path(f"{sandbox.state_dir}-local") / str(number)
    parser = configparser.ConfigParser(interpolation=None, default_section="\0none")
    parser.read_string(options)
    if not parser.has_section("sandbox"):
        parser.add_section("sandbox")
    parser["sandbox"].update(
        {
            "run_dir": str(run_dir),
            "state_dir": str(state_dir),
            "node_id": f"{sandbox.node_id}-local-{number}",
            "group": "root",
            "accept_failures": ", ".join({*sandbox.accept_failures, *accepted}),
        }
    )
    lines = []
    for section in parser.sections():
        lines += [f"[{section}]", *(f"{name} = {text}" for name, text in parser[section].items())]
    return Home(run_dir, state_dir, "\n".join(lines) + "\n")


def _lock(path: Path) -> int | None:
    """A descriptor that holds the lock; ``None`` if another process has it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def _remove(home: Home, engine: Engine) -> None:
    paths = NodePaths(home.run_dir, home.state_dir, 0, 0)
    give_up = time.monotonic() + _RELEASE_SECONDS
    while True:
        try:
            failed = remove_all(home.config, paths, engine)
            break
        except StartupFault as fault:
            if time.monotonic() > give_up:
                raise Unavailable(str(fault)) from fault
            time.sleep(0.1)
    if failed:
        raise Unavailable(f"sandboxes of {home.config.sandbox.node_id} could not be removed")
    shutil.rmtree(paths.code.root, ignore_errors=True)
    # remove_all has removed it if it was empty.
    if home.run_dir.exists():
        shutil.rmtree(home.run_dir)


# --- processes ------------------------------------------------------------------------------------


def child(
    module: str,
    *arguments: str,
    stdin: int | BinaryIO | None = None,
    stdout: int | BinaryIO | None = None,
    stderr: int | BinaryIO | None = None,
    pass_fds: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    """Start a module of this product; the kernel kills it when this process ends."""
    path = os.pathsep.join(str(Path(each).absolute()) for each in sys.path)
    return subprocess.Popen(
        # Warnings are for developers of this product, and authors see the output.
        [sys.executable, "-P", "-W", "ignore", "-m", module, *arguments],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=pass_fds,
        # Nothing here resolves names, and the import of eventlet's resolver takes 0.2 s.
        env={**os.environ, "PYTHONPATH": path, "EVENTLET_NO_GREENDNS": "yes"},
        # This process has one thread.
        preexec_fn=_end_with_parent,  # noqa: PLW1509
    )


def _end_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a child, by force if it takes long."""
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
