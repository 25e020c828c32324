"""Empty the scratch space of a sandbox without blocking on its contents.

The contents are first renamed into a hidden folder. That is quick and atomic for each entry, so a
storlet that starts meanwhile cannot lose a file of its own. Then a child removes the folder: it may
hold a million files, or folders nested deeper than any recursion can follow.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

_PREFIX = ".cleared-"
_REMOVE = 'chmod -R u+rwX -- "$@"; exec rm -rf -- "$@"'


def has_contents(path: str) -> bool:
    """Whether ``path`` has entries, except folders that are being removed."""
    try:
        with os.scandir(path) as entries:
            return any(not entry.name.startswith(_PREFIX) for entry in entries)
    except OSError:
        return False


def contents(path: str) -> list[str]:
    """The paths of all entries of ``path``."""
    return [os.path.join(path, name) for name in os.listdir(path)]


def begin_to_remove(paths: Iterable[str]) -> int:
    """Start a child that removes files and folders; return its pid.

    The caller reaps it. Raises ``OSError`` if the child cannot be started.
    """
    by_folder: dict[str, list[str]] = {}
    for path in paths:
        folder, name = os.path.split(path)
        by_folder.setdefault(folder, []).append(name)
    hidden = [_set_aside(folder, names) for folder, names in by_folder.items()]
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(OSError):
            os.execv("/bin/sh", ["sh", "-c", _REMOVE, "sh", *hidden])  # noqa: S606  the paths are our own
        os._exit(1)
    return pid


def _set_aside(path: str, names: list[str]) -> str:
    """Move entries of ``path`` into a hidden folder there, which is returned."""
    aside = os.path.join(path, _PREFIX + os.urandom(8).hex())
    try:
        os.mkdir(aside, 0o700)
    except OSError:
        _make_from_entries(aside, [os.path.join(path, name) for name in names])
    for name in names:
        _move(os.path.join(path, name), os.path.join(aside, name))
    return aside


def _make_from_entries(aside: str, entries: list[str]) -> None:
    """Make a folder where there is no room for one more: of an entry, or in its place."""
    for entry in entries:
        if _is_folder(entry):
            _move(entry, aside)
        else:
            with contextlib.suppress(OSError):
                os.unlink(entry)
                os.mkdir(aside, 0o700)
        if os.path.isdir(aside):
            return
    os.mkdir(aside, 0o700)


def _move(path: str, to: str) -> None:
    with contextlib.suppress(OSError):
        if _is_folder(path):
            # A folder without write permission cannot be moved.
            os.chmod(path, 0o700)
        os.rename(path, to)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)
