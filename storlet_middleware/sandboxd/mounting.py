"""Puts a directory of the host into a running sandbox, read-only: how a pre-warmed sandbox gets its tenant's code.

A bind mount is made as a tree of its own (``open_tree``), its attributes are set (``mount_setattr``), and a thread that has
entered the sandbox's mount namespace hangs it in (``move_mount``).  The tree is never visible half-done, and the sandbox
cannot undo it: that takes CAP_SYS_ADMIN, which it has not.

The thread is made for this, leaves the file system attributes of the process first (``unshare(CLONE_FS)``) and ends at once:
whatever else it would open would be the sandbox's.  Nothing of a tenant has run in a spare, so its paths are the image's.

Needs Linux 5.12, CAP_SYS_ADMIN, CAP_SYS_CHROOT and CAP_SYS_PTRACE, and the host's pid namespace.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from storlet_middleware.sandboxd.errors import MountFault

_SYS_OPEN_TREE: Final = 428
_SYS_MOVE_MOUNT: Final = 429
_SYS_MOUNT_SETATTR: Final = 442
_AT_FDCWD: Final = -100
_AT_EMPTY_PATH: Final = 0x1000
_OPEN_TREE_CLONE: Final = 1
_MOVE_MOUNT_F_EMPTY_PATH: Final = 4
_CLONE_FS: Final = 0x200
_CLONE_NEWNS: Final = 0x20000
_ATTR_RDONLY_NOSUID_NODEV: Final = 1 | 2 | 4
_MS_PRIVATE: Final = 1 << 18
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def mount_read_only(source: Path, pid: int, target: str, is_alive: Callable[[], bool]) -> None:
    """Show ``source`` of the host as ``target`` in the mount namespace of process ``pid``; raises :class:`MountFault`.

    ``is_alive`` says whether the sandbox that had this pid still lives: asked when the process can no more be taken for
    another one.
    """
    with (
        _faults(f"{source} cannot be mounted in the sandbox"),
        _namespace_of(pid, is_alive) as namespace,
    ):
        tree = _tree(source)
        try:
            _in_namespace(namespace, lambda: _hang_in(tree, target))
        finally:
            os.close(tree)


def check(directory: Path, pid: int) -> None:
    """Raise :class:`MountFault` when :func:`mount_read_only` cannot work on this host, without mounting anything."""
    with (
        _faults("directories cannot be mounted in running sandboxes"),
        _namespace_of(pid, lambda: True) as namespace,
    ):
        os.close(_tree(directory))
        _in_namespace(namespace, lambda: None)


@contextlib.contextmanager
def _faults(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise MountFault(f"{what}: {error.strerror or error}") from error


@contextlib.contextmanager
def _namespace_of(pid: int, is_alive: Callable[[], bool]) -> Iterator[int]:
    """A descriptor of the mount namespace of process 1 of a sandbox."""
    if pid <= 0:
        raise OSError(
            errno.ESRCH, "its process is out of sight: sandboxd is not in the host's pid namespace"
        )
    process = os.open(
        f"/proc/{pid}", _DIRECTORY
    )  # from here on this is one process, which may end and not be another
    try:
        if not is_alive():
            raise OSError(errno.ESRCH, "it has ended")
        namespace = os.open("ns/mnt", os.O_RDONLY | os.O_CLOEXEC, dir_fd=process)
    finally:
        os.close(process)
    try:
        if os.fstat(namespace).st_ino == Path("/proc/self/ns/mnt").stat().st_ino:
            raise OSError(errno.EINVAL, "its mount namespace is the host's")
        yield namespace
    finally:
        os.close(namespace)


def _tree(source: Path) -> int:
    """A mount of its own of ``source``, read-only for good; the caller's to close."""
    flags = ctypes.c_uint(_OPEN_TREE_CLONE | os.O_CLOEXEC)
    tree = _call(_SYS_OPEN_TREE, ctypes.c_int(_AT_FDCWD), os.fsencode(source), flags)
    attributes = struct.pack("=QQQQ", _ATTR_RDONLY_NOSUID_NODEV, 0, _MS_PRIVATE, 0)
    try:
        size = ctypes.c_size_t(len(attributes))
        _call(
            _SYS_MOUNT_SETATTR,
            ctypes.c_int(tree),
            b"",
            ctypes.c_uint(_AT_EMPTY_PATH),
            attributes,
            size,
        )
    except OSError:
        os.close(tree)
        raise
    return tree


def _in_namespace(namespace: int, work: Callable[[], None]) -> None:
    """Do ``work`` in a thread of its own that has entered a mount namespace; raises what that raises."""
    failures: list[OSError] = []

    def run() -> None:
        try:
            _check(_LIBC.unshare(_CLONE_FS))
            _check(_LIBC.setns(namespace, _CLONE_NEWNS))
            work()
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="in-a-sandbox")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def _hang_in(tree: int, target: str) -> None:
    where, flags = ctypes.c_int(_AT_FDCWD), ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH)
    _call(_SYS_MOVE_MOUNT, ctypes.c_int(tree), b"", where, os.fsencode(target), flags)


def _call(number: int, *arguments: object) -> int:
    return _check(_LIBC.syscall(ctypes.c_long(number), *arguments))


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
