"""Process 1 of a sandbox: ``python3 -B storlet_daemon``. Or, started by it, a worker under another Python version.

::

    python3 -B storlet_daemon [--control PATH] [--code-root DIR] [--python-dir DIR] [--java PATH] [--java-home-dir DIR]
    python3.x -B storlet_daemon worker LISTENING CHANNEL MAIN FILE EXECUTION_PATH RUNS_PER_WORKER CONTROL_GROUP
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# The folder is run, not imported: its parent is what makes the package importable, and the folder itself must not be on
# the path, where its modules would hide a storlet's.
_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
sys.path.insert(0, os.path.dirname(_HERE))

DEFAULT_CONTROL = "/run/storlets/control.sock"


def _supervise(arguments: list[str]) -> int:
    from storlet_daemon.runtimes import Places  # noqa: PLC0415  not importable before the path is set
    from storlet_daemon.supervisor import Supervisor  # noqa: PLC0415

    places = Places()
    parser = argparse.ArgumentParser(prog="storlet_daemon", description="Supervisor of one sandbox.")
    parser.add_argument("--control", default=DEFAULT_CONTROL, help="the node daemon's socket (%(default)s)")
    parser.add_argument(
        "--code-root", type=Path, default=places.code_root, help="a folder per storlet version (%(default)s)"
    )
    parser.add_argument("--python-dir", type=Path, default=places.python_dir, help="where python3.x are (%(default)s)")
    parser.add_argument("--java", type=Path, default=places.java, help="the java launcher (%(default)s)")
    parser.add_argument(
        "--java-home-dir", type=Path, default=places.java_dir, help="our jars and library (%(default)s)"
    )
    chosen = parser.parse_args(arguments)
    places = Places(chosen.code_root, chosen.python_dir, chosen.java, chosen.java_home_dir)
    return Supervisor(chosen.control, places).run()


def _work(arguments: list[str]) -> int:
    from storlet_daemon import kernel, worker  # noqa: PLC0415  see _supervise

    # A new program can be looked into again; see launch.py.
    kernel.hide_memory()
    listening, channel, main, file, path, runs, control_group = arguments
    worker.serve(worker.Assignment(int(listening), int(channel), main, file, path, int(runs), control_group))


def main(arguments: list[str]) -> int:
    """Be the supervisor, or with the word ``worker`` a worker."""
    if arguments[:1] == ["worker"]:
        return _work(arguments[1:])
    return _supervise(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
