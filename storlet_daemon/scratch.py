"""Empty the scratch space of a sandbox, without being held up by what storlets have left there.

What is there is first moved aside, which is quick and leaves no moment in which a storlet that starts meanwhile could lose
a file of its own; then a child removes it: there may be a million files, or folders deeper than any recursion.
"""

from __future__ import annotations

import contextlib
import os

_PREFIX = ".cleared-"
_REMOVE = 'chmod -R u+rwX -- "$1"; exec rm -rf -- "$1"'


def begin_to_clear(place: str) -> int:
    """The child that removes what is in ``place``. The caller reaps it. ``OSError`` when there is none to be had."""
    names = os.listdir(place)
    aside = _folder(place, names)
    for name in names:
        _move(os.path.join(place, name), os.path.join(aside, name))
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(OSError):
            os.execv("/bin/sh", ["sh", "-c", _REMOVE, "sh", aside])  # noqa: S606  the path is our own
        os._exit(1)
    return pid


def _folder(place: str, names: list[str]) -> str:
    aside = os.path.join(place, _PREFIX + os.urandom(8).hex())
    try:
        os.mkdir(aside, 0o700)
    except OSError:
        # So full that there is not even a folder to be had: one file goes first.
        for name in names:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(place, name))
                break
        os.mkdir(aside, 0o700)
    return aside


def _move(path: str, to: str) -> None:
    with contextlib.suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            # A folder that may not be written to cannot be moved.
            os.chmod(path, 0o700)
        os.rename(path, to)
