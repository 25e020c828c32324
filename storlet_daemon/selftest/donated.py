"""The donated descriptor: a file of root's, open for reading, in a process that may not open it.

On an object node this is the object itself. The process must be able to read it, and nothing else.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Callable

from storlet_daemon.selftest.model import Facts, SelfTest, listed, own_folder

XATTR = "user.storlets.selftest"
"""Set on the donated file by the node, like the metadata that Swift keeps beside an object."""


def _done(attempts: dict[str, Callable[[], object]]) -> str:
    """The attempts that the kernel allowed."""
    done = []
    for name, attempt in attempts.items():
        with contextlib.suppress(OSError, ValueError):
            attempt()
            done.append(name)
    return f"allowed: {listed(done, 8)}" if done else ""


def _path(facts: Facts) -> str:
    return f"/proc/self/fd/{facts.descriptor}"


def _reads(facts: Facts) -> str:
    """Needed because the other tests would pass for a useless descriptor."""
    try:
        return "" if os.pread(facts.descriptor, 1, 0) else "the file is empty"
    except OSError as error:
        return f"cannot be read: {os.strerror(error.errno or 0)}"


def _write(facts: Facts) -> str:
    fd = facts.descriptor
    return _done(
        {
            "pwrite": lambda: os.pwrite(fd, b"x", 0),
            "write": lambda: os.write(fd, b"x"),
            "truncate": lambda: os.ftruncate(fd, 1),
            "fallocate": lambda: os.posix_fallocate(fd, 0, 1 << 16),
            "mmap": lambda: mmap.mmap(fd, 1, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE),
        }
    )


def _reopen(facts: Facts) -> str:
    paths = (
        _path(facts),
        f"/dev/fd/{facts.descriptor}",
        f"/proc/thread-self/fd/{facts.descriptor}",
    )
    real = os.readlink(_path(facts))
    flags = {
        "for writing": os.O_WRONLY,
        "for reading and writing": os.O_RDWR,
        "for appending": os.O_WRONLY | os.O_APPEND,
    }
    attempts: dict[str, Callable[[], object]] = {
        f"{path} {name}": lambda path=path, flag=flag: os.close(os.open(path, flag))  # type: ignore[misc]
        for path in (*paths, real)
        for name, flag in flags.items()
    }
    attempts["truncate by path"] = lambda: os.truncate(_path(facts), 1)
    return _done(attempts)


def _attributes(facts: Facts) -> str:
    """The values; their names are the same on all of Swift's files."""
    return _done(
        {
            "reading by descriptor": lambda: os.getxattr(facts.descriptor, XATTR),
            "reading by path": lambda: os.getxattr(_path(facts), XATTR),
            "setting": lambda: os.setxattr(facts.descriptor, "user.storlets.more", b"x"),
            "removing": lambda: os.removexattr(facts.descriptor, XATTR),
        }
    )


def _change(facts: Facts) -> str:
    fd = facts.descriptor
    with own_folder() as folder:
        return _done(
            {
                "chmod": lambda: os.chmod(fd, 0o600),
                "chmod by path": lambda: os.chmod(_path(facts), 0o600),
                "chown": lambda: os.chown(fd, os.getuid(), -1),
                "utime": lambda: os.utime(fd, (0, 0)),
                "link": lambda: os.link(_path(facts), f"{folder}/link", follow_symlinks=True),
            }
        )


def _neighbours(facts: Facts) -> str:
    fd = facts.descriptor
    folder = os.path.dirname(os.readlink(_path(facts)))
    return _done(
        {
            "..": lambda: os.close(os.open("..", os.O_RDONLY, dir_fd=fd)),
            "itself by name": lambda: os.close(os.open("", os.O_RDONLY, dir_fd=fd)),
            f"{_path(facts)}/..": lambda: os.close(os.open(f"{_path(facts)}/..", os.O_RDONLY)),
            "fchdir": lambda: os.fchdir(fd),
            # The kernel shows the host's name, which must not exist here.
            folder: lambda: _listed_elsewhere(folder),
        }
    )


def _listed_elsewhere(folder: str) -> None:
    if folder in ("/", "/tmp"):  # noqa: S108  names that are here as well
        raise FileNotFoundError(folder)
    os.listdir(folder)


_OBJECT = "changing the object past Swift"

TESTS = (
    SelfTest("donated-reads", "a test without meaning", _reads),
    SelfTest("donated-write", _OBJECT, _write),
    SelfTest("donated-reopen", _OBJECT + ", by a second open through /proc", _reopen),
    SelfTest(
        "donated-attributes",
        "Swift's metadata of the object, with what is secret in it",
        _attributes,
    ),
    SelfTest("donated-change", "owner, mode, times or another name of the object's file", _change),
    SelfTest("donated-neighbours", "other objects", _neighbours),
)
