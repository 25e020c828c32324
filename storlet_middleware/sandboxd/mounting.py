"""Read-only mounts in running sandboxes, for the tenant's code in a pre-warmed sandbox.

A bind mount is made as a detached tree (``open_tree``), its attributes are set (``mount_setattr``),
and a thread that has entered the sandbox's mount namespace attaches it (``move_mount``).  The tree
is never visible without its attributes, and the sandbox cannot undo it: it lacks CAP_SYS_ADMIN.

The thread exists only for this.  It first unshares the file system attributes of the process
(``unshare(CLONE_FS)``) and ends at once: any other path that it opened would be the sandbox's.  No
code of a tenant has run in a pre-warmed sandbox, so its paths are those of the image.

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
    """Mount ``source`` at ``target`` in the mount namespace of process ``pid``.

    ``is_alive`` returns whether the sandbox with this pid is alive; it is called once a descriptor
    pins the process, so that a reused pid is noticed.  Raises :class:`MountFault`.
    """
    with (
        _faults(f"{source} cannot be mounted in the sandbox"),
        _namespace_of(pid, is_alive) as namespace,
    ):
        tree = _tree(source)
        try:
            _in_namespace(namespace, lambda: _attach(tree, target))
        finally:
            os.close(tree)


def check(directory: Path, pid: int) -> None:
    """Raise :class:`MountFault` when this host cannot mount in sandboxes; mounts nothing."""
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
    process = os.open(f"/proc/{pid}", _DIRECTORY)  # pins the process: its pid may be reused
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
    """A detached, read-only mount of ``source``; the caller must close it."""
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
    """Run ``work`` in a new thread that has entered a mount namespace; raise its exception."""
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


def _attach(tree: int, target: str) -> None:
    where, flags = ctypes.c_int(_AT_FDCWD), ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH)
    _call(_SYS_MOVE_MOUNT, ctypes.c_int(tree), b"", where, os.fsencode(target), flags)


def _call(number: int, *arguments: object) -> int:
    return _check(_LIBC.syscall(ctypes.c_long(number), *arguments))


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
