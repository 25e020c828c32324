"""Process 1 of a sandbox: ``python3 -B storlet_daemon``. Or, started by it, a worker under another Python version.

::

    python3 -B storlet_daemon [--control PATH] [--code-root DIR] [--python-dir DIR] [--java PATH] [--java-home-dir DIR]
    python3.x -B storlet_daemon worker LISTENING CHANNEL MAIN FILE EXECUTION_PATH RUNS_PER_WORKER CONTROL_GROUP
"""

from __future__ import annotations

import os
import sys

# The folder is run, not imported: its parent is what makes the package importable, and the folder itself must not be on
# the path, where its modules would hide a storlet's.
_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
sys.path.insert(0, os.path.dirname(_HERE))

DEFAULT_CONTROL = "/run/storlets/control.sock"

# What is imported here stays, in every idle sandbox (docs/decisions/0019). Of ``inspect`` with all that comes with it, the
# first import of ``dataclasses`` is in need of the name only.
from storlet_daemon.deferred import deferred  # noqa: E402  not importable before the path is set

with deferred("inspect"):
    from storlet_daemon.runtimes import Places


def _supervise(arguments: list[str]) -> int:
    from storlet_daemon.supervisor import Supervisor  # noqa: PLC0415  a worker under another Python version is none

    control, places = _chosen(arguments) if arguments else (DEFAULT_CONTROL, Places())
    return Supervisor(control, places).run()


def _chosen(arguments: list[str]) -> tuple[str, Places]:
    """Where things are on a host, where tests have them; an image has them where they belong."""
    import argparse  # noqa: PLC0415  see above

    places = Places()
    parser = argparse.ArgumentParser(prog="storlet_daemon", description="Supervisor of one sandbox.")
    parser.add_argument("--control", default=DEFAULT_CONTROL, help="the node daemon's socket (%(default)s)")
    parser.add_argument("--code-root", default=places.code_root, help="a folder per storlet version (%(default)s)")
    parser.add_argument("--python-dir", default=places.python_dir, help="where python3.x are (%(default)s)")
    parser.add_argument("--java", default=places.java, help="the java launcher (%(default)s)")
    parser.add_argument("--java-home-dir", default=places.java_dir, help="our jars and library (%(default)s)")
    chosen = parser.parse_args(arguments)
    return chosen.control, Places(chosen.code_root, chosen.python_dir, chosen.java, chosen.java_home_dir)


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
