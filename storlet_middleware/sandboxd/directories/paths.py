"""Every path on the node that sandboxd makes, with its owner and mode.

::

    <run_dir>/                  root   0755
        sandboxd.lock           root   0644   held (flock) by the live sandboxd; contains its pid
        sandboxd.sock           group  0660   requests of the filters
        admission               group  0660   see ``storlet_middleware.admission.shared_table``
        self-test.json          root   0644   which trust classes passed, for ``/info``
        c/                      root   0700   control directories (``sandbox_dirs``)
            <sandbox key>/      root   0755   mounted into its sandbox as /run/storlets
                control.sock    root   0666   only while sandboxd waits for the supervisor
        s/                      group  0750   sockets of storlets; never mounted anywhere
            <sandbox key>/      group  0750
                <version>.sock  group  0660   first 24 digits of the storlet version
        a/                      root   0700   notes about pre-warmed sandboxes
            <sandbox key>       root   0600   "free", or the tenant it belongs to: see ``spares``
        e/                      root   0755   empty: mounted into a pre-warmed sandbox as its code
    <state_dir>/                root   0755
        identities.json         root   0600   see ``identity``
        code/                   group  0750   see ``code_dirs``
            .boot               root   0600   the kernel during which its code was written
            <tenant key>/       Swift  0755   written by the filters; mounted into its sandboxes
        spool/                  group  0770   files without names, of the filters' flows
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from typing import Final

from storlet_middleware import names, self_test
from storlet_middleware.admission import shared_table
from storlet_middleware.sandboxd.directories import filesystem
from storlet_middleware.sandboxd.directories.code_dirs import CodeDirs
from storlet_middleware.sandboxd.directories.sandbox_dirs import SOCKET_NAME_LENGTH, SandboxDirs
from storlet_middleware.sandboxd.errors import StartupFault

#: Longest path of a Unix socket.
SOCKET_PATH_MAX: Final = 107
REQUEST_BACKLOG: Final = 256


class NodePaths:
    """The paths of one node; ``owner`` is root's uid except in unit tests, ``gid`` Swift's group.

    ``sandboxes`` has the directories of each sandbox, ``code`` those of each account's code.
    """

    def __init__(self, run_dir: Path, state_dir: Path, owner: int, gid: int) -> None:
        self.run_dir = run_dir
        self.state_dir = state_dir
        self.request_socket = run_dir / "sandboxd.sock"
        self.lock_file = run_dir / "sandboxd.lock"
        self.admission_table = run_dir / shared_table.FILE_NAME
        self.empty_dir = run_dir / "e"
        self.sandboxes = SandboxDirs(run_dir, owner, gid)
        self.code = CodeDirs(state_dir / "code", owner, gid)
        self.spool_dir = state_dir / names.SPOOL_FOLDER
        self._self_test = run_dir / self_test.FILE_NAME
        self._owner = owner
        self._gid = gid

    def check(self) -> None:
        """Raise :class:`StartupFault` for a run_dir or state_dir that can never work."""
        for option, path in (("run_dir", self.run_dir), ("state_dir", self.state_dir)):
            if not path.is_absolute():
                raise StartupFault(f"[sandbox] {option} = {path}: want an absolute path")
        surplus = len(os.fsencode(self.run_dir)) + SOCKET_NAME_LENGTH - SOCKET_PATH_MAX
        if surplus > 0:
            raise StartupFault(
                f"[sandbox] run_dir = {self.run_dir}: too long by {surplus} bytes, because the "
                f"path of a Unix socket ends at {SOCKET_PATH_MAX} bytes"
            )

    def make_run_dir(self) -> None:
        """Make ``run_dir`` itself, for the lock."""
        filesystem.make_parents(self.run_dir)
        filesystem.make_directory(self.run_dir, 0o755, self._owner)

    def make(self) -> None:
        """Make what all sandboxes share; raises :class:`PathFault`."""
        filesystem.make_parents(self.state_dir)
        self.make_run_dir()
        filesystem.make_directory(self.state_dir, 0o755, self._owner)
        with filesystem.path_faults(self.admission_table):
            shared_table.create(self.admission_table, self._gid)
        self.sandboxes.make_roots()
        filesystem.make_directory(self.empty_dir, 0o755, self._owner)
        self.code.make_root()
        filesystem.make_directory(self.spool_dir, 0o770, self._owner, self._gid)

    def listen_for_requests(self) -> socket.socket:
        """The listening request socket, which replaces a stale one.  Requires the node's lock."""
        return filesystem.listening_socket(self.request_socket, 0o660, self._gid, REQUEST_BACKLOG)

    def write_self_test(self, text: str) -> None:
        """Publish the states of the trust classes."""
        filesystem.replace_text(self._self_test, text, 0o644)

    def clear_run_dir(self) -> None:
        """Remove everything of ours in ``run_dir``, for the removal of the node; the lock last."""
        self.sandboxes.remove_roots()
        filesystem.remove_tree(self.empty_dir)
        for path in (self.request_socket, self._self_test, self.lock_file, self.admission_table):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.run_dir.rmdir()  # stays when it holds other files or is a mount point
