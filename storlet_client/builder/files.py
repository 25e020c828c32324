"""Folders and files of a user: complete or absent, and never root's because of ``sudo``."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from storlet_client.builder import rights

#: A folder that may be written but not listed can be opened with ``O_PATH`` only (Linux).
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNNAMED = getattr(os, "O_TMPFILE", 0) | os.O_WRONLY | os.O_CLOEXEC
_MODE = 0o666


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing; it may exist."""

    def make() -> str:
        folder.mkdir(parents=True, exist_ok=True)
        return ""

    rights.with_rights_of(rights.owner_above(folder), make)


@contextmanager
def replacement(place: Path) -> Iterator[BinaryIO]:
    """A new file, which replaces ``place`` if the block succeeds, and has its permissions.

    It belongs to the user who started ``sudo`` if its folder does.  The folder is opened once, and
    all names are relative to it: another process that replaces a part of the path by a link cannot
    move the file to another folder.  The owner of the new file is changed by its descriptor, so
    that no link is followed and no earlier file is affected.

    :raises OSError: with ``place`` as its file name.
    """
    with _named(place):
        folder = os.open(place.parent, _FOLDER)
    name = ""
    try:
        with _named(place):
            handle, name = _new(folder)
        with os.fdopen(handle, "wb") as file:
            _give(handle, folder)
            with _named(place):
                _protect(handle, place.name, folder)
            yield file
            file.flush()
            if not name:
                with _named(place):
                    name = _link(handle, folder)
        with _named(place):
            os.replace(name, place.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException as error:
        if name:
            os.unlink(name, dir_fd=folder)
        if isinstance(error, OSError) and error.filename is None:  # of a write
            error.filename = str(place)
        raise
    finally:
        os.close(folder)


def _new(folder: int) -> tuple[int, str]:
    """A new file, and its temporary name.

    The name is empty if the file system and the kernel have files without one, of which a process
    that is killed leaves nothing.
    """
    if hasattr(os, "O_TMPFILE"):
        with contextlib.suppress(OSError):
            handle = os.open(".", _UNNAMED, _MODE, dir_fd=folder)
            if _path_of(handle).exists():
                return handle, ""
            os.close(handle)
    name = _temporary_name()
    return os.open(name, _NEW, _MODE, dir_fd=folder), name


def _link(file: int, folder: int) -> str:
    """Give a file without a name a temporary one."""
    name = _temporary_name()
    # A link does not replace a file; a rename does.
    os.link(_path_of(file), name, dst_dir_fd=folder)
    return name


def _path_of(file: int) -> Path:
    return Path("/proc/self/fd", str(file))


def _temporary_name() -> str:
    """A name without that of the file, which may be of any length."""
    return f".storlet-{secrets.token_hex(8)}"


def _give(file: int, folder: int) -> None:
    """Let a new file belong to the user, as if that user had made it."""
    facts = os.fstat(folder)
    user = rights.owner(facts)
    if user is not None:
        os.fchown(file, user.uid, -1 if facts.st_mode & stat.S_ISGID else user.gid)


def _protect(file: int, name: str, folder: int) -> None:
    """Give a new file the permissions of the one that it replaces: that may be a private one."""
    with contextlib.suppress(FileNotFoundError):
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISREG(facts.st_mode):
            os.fchmod(file, stat.S_IMODE(facts.st_mode) & 0o777)


@contextmanager
def _named(place: Path) -> Iterator[None]:
    """An error about a temporary name becomes one about ``place``."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(place)) from None
