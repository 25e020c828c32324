"""Every path on the node that sandboxd makes, with its owner and mode.

::

    <run_dir>/                     root   0755
        sandboxd.lock              root   0644   held (flock) by the live sandboxd, whose pid is in it
        sandboxd.sock              group  0660   requests of the filters
        admission                  group  0660   see ``storlet_middleware.admission.shared_table``
        self-test.json             root   0644   which trust classes passed, for ``/info``
        c/                         root   0700   control directories; a sandbox sees only its own, as /run/storlets
            <sandbox key>/         root   0755
                control.sock       root   0666   only there while sandboxd waits for the supervisor
        s/                         group  0750   sockets of storlets; never mounted anywhere
            <sandbox key>/         group  0750
                <version>.sock     group  0660   its first 24 digits
        a/                         root   0700   pre-warmed sandboxes
            <sandbox key>          root   0600   whether it is free, or whom it was given to: see ``spares``
        e/                         root   0755   empty: what a pre-warmed sandbox sees in the place of code
    <state_dir>/                   root   0755
        identities.json            root   0600   see ``identity``
        code/                      group  0750
            <tenant key>/          Swift  0755   the filters write here; a sandbox sees its own, as /var/lib/storlets

Directories are made one by one and opened without following links; one that is somebody else's is refused, because a
link planted there would have us change the owner of, or mount, what it points to.  A path never refers to a dead socket:
each is bound to a temporary name and renamed when somebody listens.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import pwd
import shutil
import socket
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from storlet_middleware import self_test
from storlet_middleware.admission import shared_table
from storlet_middleware.keys import tenant_key
from storlet_middleware.sandboxd.errors import PlaceFault, StartupFault

SOCKET_PATH_MAX: Final = 107
GROUP_BACKLOG: Final = 1024
REQUEST_BACKLOG: Final = 256
#: The supervisor alone connects there.
CONTROL_BACKLOG: Final = 4
VERSION_DIGITS: Final = 24
_LONGEST_SOCKET: Final = "/s/" + 16 * "k" + "/" + VERSION_DIGITS * "v" + ".sock"

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Places:
    """The paths of one node; ``owner`` is root's uid but in unit tests, ``gid`` the group that Swift runs in."""

    def __init__(self, run_dir: Path, state_dir: Path, owner: int, gid: int) -> None:
        self.run_dir = run_dir
        self.state_dir = state_dir
        self.request_socket = run_dir / "sandboxd.sock"
        self.lock_file = run_dir / "sandboxd.lock"
        self._self_test = run_dir / self_test.FILE_NAME
        self.admission_table = run_dir / shared_table.FILE_NAME
        self._control = run_dir / "c"
        self._sockets = run_dir / "s"
        self._notes = run_dir / "a"
        self.empty_dir = run_dir / "e"
        self._code = state_dir / "code"
        self._owner = owner
        self._gid = gid
        self._numbers = itertools.count()

    def check(self) -> None:
        """Raise :class:`StartupFault` for a run_dir or state_dir that can never work."""
        for option, path in (("run_dir", self.run_dir), ("state_dir", self.state_dir)):
            if not path.is_absolute():
                raise StartupFault(f"[sandbox] {option} = {path}: want an absolute path")
        longest = len(os.fsencode(self.run_dir)) + len(_LONGEST_SOCKET)
        if longest > SOCKET_PATH_MAX:
            raise StartupFault(
                f"[sandbox] run_dir = {self.run_dir}: too long by {longest - SOCKET_PATH_MAX} bytes, because the path "
                f"of a Unix socket ends at {SOCKET_PATH_MAX} bytes"
            )

    def make_run_dir(self) -> None:
        """Make ``run_dir`` itself, for the lock."""
        _make_parents(self.run_dir)
        self._make_directory(self.run_dir, 0o755, self._owner, None)

    def make(self) -> None:
        """Make what all sandboxes share; raises :class:`PlaceFault`."""
        _make_parents(self.state_dir)
        self.make_run_dir()
        self._make_directory(self.state_dir, 0o755, self._owner, None)
        with _fault(self.admission_table):
            shared_table.create(self.admission_table, self._gid)
        self._make_directory(self._control, 0o700, self._owner, None)
        self._make_directory(self._sockets, 0o750, self._owner, self._gid)
        self._make_directory(self._notes, 0o700, self._owner, None)
        self._make_directory(self.empty_dir, 0o755, self._owner, None)
        self._make_directory(self._code, 0o750, self._owner, self._gid)

    # --- the node ---------------------------------------------------------------------------------------------------

    def listen_for_requests(self) -> socket.socket:
        """The listening request socket, in the place of a stale one; only the holder of the lock may call this."""
        return self._listening_at(self.request_socket, 0o660, self._gid, REQUEST_BACKLOG)

    def write_self_test(self, text: str) -> None:
        """Publish the states of the trust classes; a reader sees the old text or the new one."""
        temporary = self._self_test.with_name(f".{next(self._numbers)}")
        with _fault(self._self_test):
            temporary.write_text(text, encoding="utf-8")
            temporary.chmod(0o644)
            temporary.replace(self._self_test)

    def keys(self) -> set[str]:
        """Sandbox keys that have a control or socket directory, or a note."""
        return {
            name
            for parent in (self._control, self._sockets, self._notes)
            for name in _names(parent)
        }

    def clear_run_dir(self) -> None:
        """Remove everything of ours in ``run_dir``, for the removal of the whole node; the lock goes last."""
        for parent in (self._control, self._sockets, self._notes, self.empty_dir):
            _remove_tree(parent)
        for path in (self.request_socket, self._self_test, self.lock_file):
            path.unlink(missing_ok=True)
        self.admission_table.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.run_dir.rmdir()  # somebody else's files may be there, or it is a mount point: then it stays

    # --- one sandbox ------------------------------------------------------------------------------------------------

    def control_dir(self, key: str) -> Path:
        """The directory that the sandbox sees as ``/run/storlets``."""
        return self._control / key

    def make_sandbox_dirs(self, key: str) -> None:
        """New, empty directories for a sandbox; a leftover container keeps the old ones, which nobody looks at."""
        self.make()
        self.remove_sandbox_dirs(key)
        self._make_directory(self.control_dir(key), 0o755, self._owner, None)
        self.keep_sandbox_dirs(key)

    def keep_sandbox_dirs(self, key: str) -> None:
        """Make sure of the socket directory of a sandbox that is adopted; its control directory is mounted already."""
        self._make_directory(self._sockets / key, 0o750, self._owner, self._gid)

    def remove_sandbox_dirs(self, key: str) -> None:
        """Unlink every socket of a sandbox, and its note."""
        if not key:
            return  # a container whose label says nothing: nothing, not everything
        (self._notes / key).unlink(missing_ok=True)
        _remove_tree(self._sockets / key)
        _remove_tree(self._control / key)

    def write_note(self, key: str, text: str) -> None:
        """What the next sandboxd must know of a sandbox; it sees the old text or the new one."""
        temporary = self._notes / f".{next(self._numbers)}"
        with _fault(self._notes / key):
            with os.fdopen(os.open(temporary, _NEW_FILE, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
            temporary.replace(self._notes / key)

    def read_note(self, key: str) -> str:
        """The note of a sandbox; empty when there is none."""
        try:
            return (self._notes / key).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def set_aside(self, key: str, new_key: str) -> None:
        """Free the names of a sandbox that goes on: its sockets go; the control directory that it sees gets another name.

        By that name the next sandboxd finds its supervisor again.
        """
        _remove_tree(self._sockets / key)
        for parent in (self._control, self._notes):
            with contextlib.suppress(
                OSError
            ):  # then there is nothing, and the next sandboxd ends the sandbox
                (parent / key).rename(parent / new_key)

    def listen_for_supervisor(self, key: str) -> socket.socket:
        """The listening control socket of a sandbox, in its present control directory."""
        return self._listening_at(
            self.control_dir(key) / "control.sock", 0o666, None, CONTROL_BACKLOG
        )

    def stop_listening_for_supervisor(self, key: str) -> None:
        """Unlink the control socket, so that a tenant's code has nothing to connect to."""
        with contextlib.suppress(OSError):
            (self.control_dir(key) / "control.sock").unlink()

    # --- one storlet ------------------------------------------------------------------------------------------------

    def group_socket(self, key: str, version: str) -> Path:
        """Where filters find a storlet version of a sandbox."""
        return self._sockets / key / f"{version[:VERSION_DIGITS]}.sock"

    def listen_for_invocations(self, key: str) -> tuple[socket.socket, Path]:
        """A listening socket at a temporary path; :meth:`publish` it, or unlink the path."""
        path = self._sockets / key / f".{next(self._numbers)}"
        path.unlink(missing_ok=True)
        return self._bound(path, 0o660, self._gid, GROUP_BACKLOG), path

    def publish(self, temporary: Path, key: str, version: str) -> Path:
        """Give a socket that a supervisor serves now its name, in the place of an older one; returns the path."""
        path = self.group_socket(key, version)
        temporary.replace(path)
        return path

    def withdraw(self, key: str, version: str) -> None:
        """Unlink a storlet's socket; filters then ask for it anew."""
        self.group_socket(key, version).unlink(missing_ok=True)

    def keep_group_sockets(self, key: str, versions: Iterable[str]) -> set[str]:
        """Unlink a sandbox's sockets but those of ``versions``; returns the versions that have one."""
        wanted = {self.group_socket(key, version).name: version for version in versions}
        found = set()
        for name in _names(self._sockets / key):
            path = self._sockets / key / name
            if name in wanted and stat.S_ISSOCK(path.lstat().st_mode):
                found.add(wanted[name])
            else:
                path.unlink(missing_ok=True)
        return found

    # --- code -------------------------------------------------------------------------------------------------------

    def code_dir(self, account: str) -> Path:
        """The directory of an account's code, whether or not it exists."""
        return self._code / tenant_key(account)

    def make_code_dir(self, account: str, asker: int | None = None) -> Path:
        """Make the code directory of an account for the Swift user, who is the process that asks.

        ``asker`` is its uid.  Root (a tool of the operator) leaves a directory as it is and makes a new one for the user
        that has the name of the group, if there is one.
        """
        path = self.code_dir(account)
        owner = asker
        if not asker or asker == self._owner:
            owner = None if path.exists() else self._swift_uid()
        with _fault(path):
            with contextlib.suppress(FileExistsError):
                path.mkdir(0o755)
            with _opened(path) as descriptor:
                status = os.fstat(descriptor)
                if owner is not None and (status.st_uid, status.st_gid) != (owner, self._gid):
                    os.fchown(descriptor, owner, self._gid)
                if stat.S_IMODE(status.st_mode) != 0o755:
                    os.fchmod(descriptor, 0o755)
        return path

    def code_mark(self, account: str) -> str:
        """Which directory an account's code directory is: changes when it is removed and made anew; raises PlaceFault."""
        path = self.code_dir(account)
        with _fault(path):
            status = path.lstat()
        return f"{status.st_dev}:{status.st_ino}"

    @property
    def code_root(self) -> Path:
        """The directory of all accounts' code directories."""
        return self._code

    def version_dir(self, account: str, code: str) -> Path:
        """The folder of a version's code, whether or not it exists."""
        return self.code_dir(account) / code

    def has_version(self, account: str, code: str) -> bool:
        """Whether the code of a version is there, as a real directory."""
        try:
            status = self.version_dir(account, code).lstat()
        except OSError:
            return False
        return stat.S_ISDIR(status.st_mode)

    def _swift_uid(self) -> int:
        for user in pwd.getpwall():
            if user.pw_gid == self._gid and user.pw_uid != 0:
                return user.pw_uid
        return self._owner

    # --- how --------------------------------------------------------------------------------------------------------

    def _make_directory(self, path: Path, mode: int, owner: int, gid: int | None) -> None:
        """A directory with exactly this owner, group (``None``: as it is) and mode; refuses one that is not root's."""
        with _fault(path):
            with contextlib.suppress(FileExistsError):
                path.mkdir(mode)
            with _opened(path) as descriptor:
                status = os.fstat(descriptor)
                if status.st_uid != owner:
                    raise PlaceFault(
                        f"{path} belongs to uid {status.st_uid}, not to {owner}: remove it or fix its owner"
                    )
                if gid is not None and status.st_gid != gid:
                    os.fchown(descriptor, -1, gid)
                if stat.S_IMODE(status.st_mode) != mode:
                    os.fchmod(descriptor, mode)

    def _listening_at(self, path: Path, mode: int, gid: int | None, backlog: int) -> socket.socket:
        temporary = path.with_name(f".{next(self._numbers)}")
        temporary.unlink(missing_ok=True)
        listener = self._bound(temporary, mode, gid, backlog)
        try:
            with _fault(path):
                temporary.replace(path)
        except PlaceFault:
            listener.close()
            raise
        return listener

    def _bound(self, path: Path, mode: int, gid: int | None, backlog: int) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            with _fault(path):
                listener.bind(os.fspath(path))
                os.chown(path, -1, gid if gid is not None else -1, follow_symlinks=False)
                path.chmod(mode)
                listener.listen(backlog)
        except PlaceFault:
            listener.close()
            raise
        return listener


class Lock:
    """The lock of a node: the sandboxd that holds it owns ``run_dir`` and every sandbox of the node."""

    def __init__(self, places: Places) -> None:
        self._path = places.lock_file
        self._descriptor = -1

    def acquire(self) -> None:
        """Take the lock or raise :class:`StartupFault` naming the process that holds it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with _fault(self._path):
            descriptor = os.open(self._path, flags, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_at(self._path, descriptor):
                # Whoever held it has removed it meanwhile (``clear_run_dir``): the next one would lock another file.
                os.close(descriptor)
                raise StartupFault(
                    f"{self._path} was removed while it was being locked: start again"
                )
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise StartupFault(
                f"another storlet-sandboxd runs on {self._path.parent}: pid {holder or 'unknown'} holds {self._path.name}"
            ) from None
        self._descriptor = descriptor

    def release(self) -> None:
        """Let the next sandboxd in; the end of the process does it too."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except OSError:
        return False


@contextlib.contextmanager
def _fault(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PlaceFault(f"{path}: {error.strerror or error}") from error


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, _DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _make_parents(path: Path) -> None:
    with _fault(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)


def _names(path: Path) -> list[str]:
    try:
        return [entry.name for entry in path.iterdir()]
    except FileNotFoundError:
        return []


def _remove_tree(path: Path) -> None:
    # Everything below is made by root in directories of root's; rmtree itself does not follow links.
    shutil.rmtree(path, ignore_errors=True)
