"""The directories of accounts' code, below ``<state_dir>/code``."""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from storlet_middleware import code_folders
from storlet_middleware.keys import tenant_key
from storlet_middleware.sandboxd.directories import filesystem

#: The identity of the running kernel: another one after each start of the node.
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
#: The identity of the kernel that has written the code.
_BOOT_NOTE: Final = ".boot"


class CodeDirs:
    """One directory per account: filters write storlet versions into it, sandboxes see it."""

    def __init__(self, root: Path, owner: int, gid: int) -> None:
        self.root = root
        self._owner = owner
        self._gid = gid

    def make_root(self) -> None:
        """Make the directory above those of the accounts."""
        filesystem.make_directory(self.root, 0o750, self._owner, self._gid)

    def forget_unsynced(self, boot: str) -> int:
        """Remove the versions that were not on the disk when the node ended; return their number.

        Filters write a version and sync it later: a crash of the node in between may leave files
        that are empty or cut.  Nothing is removed while the kernel ``boot`` runs that wrote them.
        """
        note = self.root / _BOOT_NOTE
        with filesystem.path_faults(self.root):
            written_by = note.read_text("utf-8") if note.exists() else boot
            damaged = [] if written_by == boot else list(self._unsynced())
            for path in damaged:
                path.rename(code_folders.temporary(path))
            filesystem.replace_text(note, boot, 0o600)
            for path in (note, self.root):
                code_folders.sync(path)
        return len(damaged)

    def _unsynced(self) -> Iterator[Path]:
        for account in filesystem.folders(self.root):
            for path in filesystem.folders(account):
                if code_folders.is_version(path) and not code_folders.is_on_disk(
                    path.lstat().st_mode
                ):
                    yield path

    def path_of(self, account: str) -> Path:
        """The directory of an account's code, which need not exist."""
        return self.root / tenant_key(account)

    def make(self, account: str, peer_uid: int | None = None) -> Path:
        """Make an account's directory for the Swift user, which is the uid of the requesting peer.

        A request of root (an operator's tool) does not change the owner of an existing directory;
        a new one then belongs to the user whose primary group is Swift's, if there is one.
        """
        path = self.path_of(account)
        owner = peer_uid
        if not peer_uid or peer_uid == self._owner:
            owner = None if path.exists() else self._swift_uid()
        with filesystem.path_faults(path):
            with contextlib.suppress(FileExistsError):
                path.mkdir(0o755)
            with filesystem.opened_directory(path) as descriptor:
                status = os.fstat(descriptor)
                if owner is not None and (status.st_uid, status.st_gid) != (owner, self._gid):
                    os.fchown(descriptor, owner, self._gid)
                if stat.S_IMODE(status.st_mode) != 0o755:
                    os.fchmod(descriptor, 0o755)
        return path

    def mark(self, account: str) -> str:
        """The identity of an account's directory; changes when the directory is replaced.

        Raises :class:`PathFault` when it does not exist.
        """
        path = self.path_of(account)
        with filesystem.path_faults(path):
            status = path.lstat()
        return f"{status.st_dev}:{status.st_ino}"

    def version_dir(self, account: str, code: str) -> Path:
        """The folder of a storlet version's code, which need not exist."""
        return self.path_of(account) / code

    def has_version(self, account: str, code: str) -> bool:
        """Whether the code of a storlet version exists, as a real directory."""
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
