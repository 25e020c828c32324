"""Directories and listening sockets with a fixed owner and mode, made without following links.

Each function raises :class:`PathFault`.  A directory is created, then opened with ``O_NOFOLLOW``
and checked through the descriptor: a link planted in its place would have us change the owner of
its target, or mount it.  A listening socket is bound to a temporary name and renamed only once
it listens, so a path never refers to a dead socket.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from storlet_middleware.sandboxd.errors import PathFault

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_numbers = itertools.count()


@contextlib.contextmanager
def path_faults(path: Path) -> Iterator[None]:
    """Turn an :class:`OSError` of the block into a :class:`PathFault` that names ``path``."""
    try:
        yield
    except OSError as error:
        raise PathFault(f"{path}: {error.strerror or error}") from error


@contextlib.contextmanager
def opened_directory(path: Path) -> Iterator[int]:
    """A descriptor of a directory; fails on a link."""
    descriptor = os.open(path, _DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def temporary_name(path: Path) -> Path:
    """A hidden name beside ``path`` that this process has not used yet."""
    return path.with_name(f".{next(_numbers)}")


def make_parents(path: Path) -> None:
    """Make the directories above ``path``."""
    with path_faults(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)


def make_directory(path: Path, mode: int, owner: int, gid: int | None = None) -> None:
    """Make a directory with exactly this mode and group (``None``: any), owned by ``owner``.

    A directory with another owner is refused.
    """
    with path_faults(path):
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode)
        with opened_directory(path) as descriptor:
            status = os.fstat(descriptor)
            if status.st_uid != owner:
                raise PathFault(
                    f"{path} belongs to uid {status.st_uid}, not to {owner}: "
                    "remove it or fix its owner"
                )
            if gid is not None and status.st_gid != gid:
                os.fchown(descriptor, -1, gid)
            if stat.S_IMODE(status.st_mode) != mode:
                os.fchmod(descriptor, mode)


def folders(path: Path) -> list[Path]:
    """The folders in ``path``, without links; raises :class:`OSError`."""
    return [Path(entry.path) for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]


def replace_text(path: Path, text: str, mode: int) -> None:
    """Write a file; a reader sees the old text or the new one, never half of it."""
    temporary = temporary_name(path)
    with path_faults(path), _removed_after_fault(temporary):
        descriptor = os.open(temporary, _NEW_FILE, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, mode)
            file.write(text)
        temporary.replace(path)


@contextlib.contextmanager
def _removed_after_fault(path: Path) -> Iterator[None]:
    """Remove the file ``path`` if the block raises."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def bound_socket(path: Path, mode: int, gid: int | None, backlog: int) -> socket.socket:
    """A non-blocking socket that listens at ``path``."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    try:
        with path_faults(path):
            listener.bind(os.fspath(path))
            with _removed_after_fault(path):
                os.chown(path, -1, gid if gid is not None else -1, follow_symlinks=False)
                path.chmod(mode)
                listener.listen(backlog)
    except PathFault:
        listener.close()
        raise
    return listener


def listening_socket(path: Path, mode: int, gid: int | None, backlog: int) -> socket.socket:
    """A socket that listens at ``path`` and replaces a stale one there."""
    temporary = temporary_name(path)
    with path_faults(path):
        temporary.unlink(missing_ok=True)
    listener = bound_socket(temporary, mode, gid, backlog)
    try:
        with path_faults(path), _removed_after_fault(temporary):
            temporary.replace(path)
    except PathFault:
        listener.close()
        raise
    return listener


def names(path: Path) -> list[str]:
    """Names of the entries of a directory; none when it does not exist."""
    with path_faults(path):
        try:
            return [entry.name for entry in path.iterdir()]
        except FileNotFoundError:
            return []


def remove_tree(path: Path) -> None:
    """Remove a directory with its content, as far as possible.

    Everything below is made by root in directories of root; ``rmtree`` does not follow links.
    """
    shutil.rmtree(path, ignore_errors=True)
