"""Which answers of the object server are plain objects, and the descriptor of such an object's
file.

A storlet runs at the object node only if the file on disk is the object as its reader knows it.  A
fragment, a manifest, a symlink and encrypted bytes are not: the proxy assembles or decrypts those,
so the storlet runs there.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from swift.common.utils import close_if_possible

#: Headers of objects whose stored bytes differ from what a reader gets.
NOT_PLAIN: Final = frozenset(
    (
        "x-static-large-object",
        "x-object-manifest",
        "x-object-sysmeta-symlink-target",
        "x-object-sysmeta-ec-frag-index",
        "x-object-sysmeta-crypto-body-meta",
        "x-object-transient-sysmeta-crypto-meta",
    )
)
#: The beginning of an object, which is read from disk before a worker reads it.
_AHEAD_BYTES: Final = 128 * 1024


class StoredObject(NamedTuple):
    """An object on disk: a descriptor of its file, its size in bytes, and its metadata as storlets
    see them.

    The holder of the value owns ``fd`` and closes it.
    """

    fd: int
    size: int
    metadata: dict[str, str]


def plain_file(status: str, by_name: Mapping[str, str], reader: Any) -> Any:
    """The open file of a complete, plain object; ``None`` for any other answer.  ``reader`` keeps
    its ownership.

    :param by_name: the answer's headers; names in lower case.
    :param reader: the answer's body, as Swift's disk file gives it.
    """
    if not status.startswith("200 ") or not NOT_PLAIN.isdisjoint(by_name):
        return None
    # Swift has no public way to the file.  With another disk-file backend the proxy runs the
    # storlet.
    return getattr(reader, "_fp", None)


def duplicate(file: Any, reader: Any) -> int:
    """A new descriptor of the object's file, positioned at its start, which the caller owns;
    ``reader`` is closed.

    If this raises, no descriptor is left open, and ``reader`` may still be open.
    """
    fd = os.dup(file.fileno())
    try:
        _remove_others_permissions(fd)
        os.lseek(fd, 0, os.SEEK_SET)
        # The disk reads while a worker is found: Swift drops objects from memory after a GET.
        with contextlib.suppress(OSError):  # some file systems and sandboxes of servers refuse it
            os.posix_fadvise(fd, 0, _AHEAD_BYTES, os.POSIX_FADV_WILLNEED)
        close_if_possible(reader)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _remove_others_permissions(fd: int) -> None:
    """Clear the mode's permissions for others, so that a sandbox can only read the bytes of the
    object's file.

    Swift creates files with the mode that its umask leaves, often readable by all.  A process that
    may read a file by its mode can read the extended attributes through a descriptor.  Swift stores
    all metadata there, including system metadata that no client sees.
    """
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    if mode & 0o007:
        with contextlib.suppress(PermissionError):
            os.fchmod(fd, mode & ~0o007)
