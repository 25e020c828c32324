"""Run a program that was uploaded as a dependency, and stream the object through it.

Parameters: none; ``storlet_execution_path``, which every storlet receives, is the folder of its
file and dependencies.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

PROGRAM = "rot13.sh"
CHUNK_BYTES = 256 * 1024


class ExecDependency:
    """The input goes to the program's standard input; its standard output is the result."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        """Raise RuntimeError when the program fails, so that a partial result never looks
        complete."""
        target = out_files[0]
        target.set_metadata({})
        program = Path(params["storlet_execution_path"]) / PROGRAM
        # The program writes directly to the output: no copy here, and no unread pipe that could
        # fill up.
        with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=target.fileno()) as process:
            feed(in_files[0], process)
        if process.returncode != 0:
            raise RuntimeError(f"{PROGRAM} ended with code {process.returncode}")


def feed(source: Any, process: subprocess.Popen[bytes]) -> None:
    """Copy the input to the program; if it stops reading early, its exit code decides."""
    assert process.stdin is not None
    try:
        while chunk := source.read(CHUNK_BYTES):
            process.stdin.write(chunk)
        process.stdin.close()
    except BrokenPipeError:
        pass
