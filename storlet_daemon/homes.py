"""The private folder of each worker group: home, temporary folder and working directory.

Programs execute files that they find in these places: Python its ``usercustomize`` and any file
with the name of an imported module, shells and tools their settings. In a shared folder, one
storlet could plant them for the others of its tenant. The folders lie in a file system of their
own, in which a worker can open nothing but its own folder (``landlock``).
"""

from __future__ import annotations

import os

HOMES = "/homes"
_NAME_DIGITS = 24


def path_of(homes: str, version: str) -> str:
    """The folder of the worker group of ``version``."""
    return os.path.join(homes, version[:_NAME_DIGITS])


def move_in(home: str) -> None:
    """Make ``home`` the place of this process, in its environment too.

    Raises ``OSError`` if there is no room for the folder, or if its name belongs to something else.
    """
    try:
        os.mkdir(home, 0o700)
    except FileExistsError:
        if os.path.islink(home):
            raise
    os.chdir(home)
    os.environ["HOME"] = os.environ["TMPDIR"] = home
    # Where the kernel has no Landlock, others can write to the folder.
    os.environ["PYTHONNOUSERSITE"] = "1"


def left_behind(homes: str, versions: set[str]) -> list[str]:
    """The folders of groups that are not among ``versions``, and what earlier removals left."""
    kept = {os.path.basename(path_of(homes, version)) for version in versions}
    return [os.path.join(homes, name) for name in _names(homes) if name not in kept]


def contents(homes: str) -> list[str]:
    """The paths of everything in the folders of all groups."""
    folders = [os.path.join(homes, name) for name in _names(homes)]
    return [
        os.path.join(folder, name)
        for folder in folders
        if not os.path.islink(folder)
        for name in _names(folder)
    ]


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
