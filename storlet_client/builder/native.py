"""The files of a native storlet: those that the project's own build makes.

::

    build = ["cargo", "build", "--release"]
    files = ["target/release/fruit"]

``storlet build`` runs the command ``build`` in the project, if there is one, and puts ``files``
directly below ``code/`` of the bundle, with the execute permission that they have.  The command
finds ``storlet.h`` in the folder ``STORLET_INCLUDE``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from storlet_client.builder.project import ProjectError

_API = Path(__file__).parent / "native_api"

Files = dict[str, tuple[bytes, int]]


def build(folder: Path, document: Mapping[str, Any]) -> Files:
    """Run the project's own build; content and mode of each file, by its name.

    :raises ProjectError: with the end of the output of the command, or all files that are missing.
    """
    command = document.get("build", [])
    if command:
        _run(folder, command)
    faults = []
    files: Files = {}
    for place in document["files"]:
        path, name = folder / place, PurePosixPath(place).name
        if path.is_symlink():
            faults.append(f"files: {place}: a symbolic link: name the file that it leads to")
        elif not path.is_file():
            faults.append(f"files: {place}: there is no such file after the build")
        elif not path.resolve().is_relative_to(folder.resolve()):
            faults.append(f"files: {place}: a link leads out of the project: copy the file into it")
        elif name in files:
            faults.append(f"files: {place}: another file has this name, too")
        else:
            mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            files[name] = (path.read_bytes(), mode)
    if faults:
        raise ProjectError(faults)
    return files


def _run(folder: Path, command: list[str]) -> None:
    if "/" not in command[0] and shutil.which(command[0]) is None:
        raise ProjectError([f"build: {command[0]} is missing: install it, and put it on PATH"])
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "STORLET_INCLUDE": str(_API)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise ProjectError([f"build: {command[0]}: {error.strerror}"]) from error
    if done.returncode:
        said = done.stdout.rstrip() or "no output"
        raise ProjectError([f"build: {' '.join(command)}: exit status {done.returncode}", said])
