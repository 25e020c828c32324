"""The directories, sockets and notes of single sandboxes, below ``run_dir`` (tree in ``paths``)."""

from __future__ import annotations

import contextlib
import socket
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from storlet_middleware.sandboxd.directories import filesystem

GROUP_BACKLOG: Final = 1024
#: Only the supervisor connects there.
CONTROL_BACKLOG: Final = 4
VERSION_DIGITS: Final = 24
#: Bytes of the longest path of a socket below ``run_dir``.
SOCKET_NAME_LENGTH: Final = len("/s/" + 16 * "k" + "/" + VERSION_DIGITS * "v" + ".sock")


class SandboxDirs:
    """The files of each sandbox in ``run_dir``, named by the sandbox's key."""

    def __init__(self, run_dir: Path, owner: int, gid: int) -> None:
        self._control = run_dir / "c"
        self._sockets = run_dir / "s"
        self._notes = run_dir / "a"
        self._owner = owner
        self._gid = gid

    def make_roots(self) -> None:
        """Make the directories above those of the sandboxes."""
        filesystem.make_directory(self._control, 0o700, self._owner)
        filesystem.make_directory(self._sockets, 0o750, self._owner, self._gid)
        filesystem.make_directory(self._notes, 0o700, self._owner)

    def remove_roots(self) -> None:
        """Remove them with everything below."""
        for root in (self._control, self._sockets, self._notes):
            filesystem.remove_tree(root)

    def keys(self) -> set[str]:
        """Sandbox keys that have a control directory, a socket directory or a note."""
        roots = (self._control, self._sockets, self._notes)
        return {name for root in roots for name in filesystem.names(root)}

    # --- one sandbox ------------------------------------------------------------------------------

    def control_dir(self, key: str) -> Path:
        """The directory that the sandbox sees as ``/run/storlets``."""
        return self._control / key

    def make(self, key: str) -> None:
        """Make new, empty directories; a leftover container keeps the old, unused ones."""
        self.remove(key)
        filesystem.make_directory(self.control_dir(key), 0o755, self._owner)
        self.ensure_sockets_dir(key)

    def ensure_sockets_dir(self, key: str) -> None:
        """Make the socket directory when it is missing; the control directory is mounted."""
        filesystem.make_directory(self._sockets / key, 0o750, self._owner, self._gid)

    def remove(self, key: str) -> None:
        """Remove all sockets of a sandbox, its directories and its note."""
        if not key:
            return  # a container with an empty label: remove nothing instead of everything
        (self._notes / key).unlink(missing_ok=True)
        filesystem.remove_tree(self._sockets / key)
        filesystem.remove_tree(self._control / key)

    def rename(self, key: str, new_key: str) -> None:
        """Free the key of a sandbox that keeps running: remove its sockets, rename the rest.

        Under the new key of its control directory the next sandboxd finds its supervisor.
        """
        filesystem.remove_tree(self._sockets / key)
        for root in (self._control, self._notes):
            with contextlib.suppress(OSError):  # missing: then the next sandboxd ends the sandbox
                (root / key).rename(root / new_key)

    def write_note(self, key: str, text: str) -> None:
        """Record what the next sandboxd must know of a sandbox."""
        filesystem.replace_text(self._notes / key, text, 0o600)

    def read_note(self, key: str) -> str:
        """The note of a sandbox; empty when there is none."""
        try:
            return (self._notes / key).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def listen_for_supervisor(self, key: str) -> socket.socket:
        """The listening control socket of a sandbox, in its current control directory."""
        path = self.control_dir(key) / "control.sock"
        return filesystem.listening_socket(path, 0o666, None, CONTROL_BACKLOG)

    def stop_listening_for_supervisor(self, key: str) -> None:
        """Unlink the control socket, so that a tenant's code has nothing to connect to."""
        with contextlib.suppress(OSError):
            (self.control_dir(key) / "control.sock").unlink()

    # --- the sockets of its storlets --------------------------------------------------------------

    def group_socket(self, key: str, version: str) -> Path:
        """The path where filters connect to a storlet version of a sandbox."""
        return self._sockets / key / f"{version[:VERSION_DIGITS]}.sock"

    def listen_for_invocations(self, key: str) -> tuple[socket.socket, Path]:
        """A listening socket at a temporary path: :meth:`publish` it, or unlink the path."""
        path = filesystem.temporary_name(self._sockets / key / "new")
        with filesystem.path_faults(path):
            path.unlink(missing_ok=True)
        return filesystem.bound_socket(path, 0o660, self._gid, GROUP_BACKLOG), path

    def publish(self, temporary: Path, key: str, version: str) -> Path:
        """Rename a socket that a supervisor now serves to its final path, which is returned."""
        path = self.group_socket(key, version)
        temporary.replace(path)
        return path

    def withdraw(self, key: str, version: str) -> None:
        """Unlink a storlet's socket; filters then send a new load request."""
        self.group_socket(key, version).unlink(missing_ok=True)

    def keep_group_sockets(self, key: str, versions: Iterable[str]) -> set[str]:
        """Unlink all sockets of a sandbox except those of ``versions``; return those that exist."""
        wanted = {self.group_socket(key, version).name: version for version in versions}
        found = set()
        for name in filesystem.names(self._sockets / key):
            path = self._sockets / key / name
            if name in wanted and stat.S_ISSOCK(path.lstat().st_mode):
                found.add(wanted[name])
            else:
                path.unlink(missing_ok=True)
        return found
