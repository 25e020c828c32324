"""The folders of code on a node, for the filters that write them and for ``storlet-sandboxd``.

::

    <state_dir>/code/<tenant key>/<version key>/    the files of a storlet version
    <state_dir>/code/<tenant key>/.tmp-<digits>/    a partial fetch, or a partial deletion

This module imports nothing that the process which unpacks a bundle does not need.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

#: The beginning of a name that nothing runs.
TEMPORARY: Final = ".tmp-"
#: The mode of the folder of a version.  Some of its files may be in memory only, and are damaged
#: after a crash of the node.
IN_MEMORY: Final = 0o755
#: The mode of the folder of a version when all of it is on the disk.
ON_DISK: Final = stat.S_ISVTX | IN_MEMORY
_VERSION: Final = re.compile("[0-9a-f]{64}")


def is_version(path: Path) -> bool:
    """Whether ``path`` has the name of the folder of a version."""
    return _VERSION.fullmatch(path.name) is not None


def temporary(path: Path) -> Path:
    """A new temporary name beside ``path``."""
    return path.with_name(f"{TEMPORARY}{os.urandom(8).hex()}")


def is_on_disk(mode: int) -> bool:
    """Whether ``st_mode`` is that of a folder whose files are all on the disk."""
    return bool(mode & stat.S_ISVTX)


def sync(path: Path) -> None:
    """Return when the content of a file, or the names in a folder, are on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
