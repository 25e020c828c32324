"""Process 1 of a sandbox, or a worker under another Python version.

::

    python3 -B storlet_daemon [--control PATH] [--code-root DIR] [--python-dir DIR] ...
    python3.x -B storlet_daemon worker LISTENING CHANNEL MAIN FILE EXECUTION_PATH \\
        RUNS_PER_WORKER CONTROL_GROUP WORKER_SECONDS
"""

from __future__ import annotations

import os
import sys

# The folder is run, not imported: its parent is what makes the package importable. The folder
# itself must not be on the path, where its modules would hide a storlet's.
_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
sys.path.insert(0, os.path.dirname(_HERE))

DEFAULT_CONTROL = "/run/storlets/control.sock"

# Every idle sandbox keeps the modules imported here in memory (docs/decisions/0019). The first
# import of ``dataclasses`` needs only the name of ``inspect``, which is large.
from storlet_daemon.deferred import deferred  # noqa: E402  not importable before the path is set

with deferred("inspect"):
    from storlet_daemon.runtimes.language import ImagePaths


def _supervise(arguments: list[str]) -> int:
    from storlet_daemon.supervisor import Supervisor  # noqa: PLC0415  a worker does not need it

    if not arguments:
        return Supervisor(DEFAULT_CONTROL, ImagePaths()).run()
    control, paths, confines_descriptors = _parsed(arguments)
    return Supervisor(control, paths, confines_descriptors=confines_descriptors).run()


def _parsed(arguments: list[str]) -> tuple[str, ImagePaths, bool]:
    """The options by which tests on a host replace what an image and its kernel have."""
    import argparse  # noqa: PLC0415  an image uses no options

    from storlet_daemon.runtimes.table import path_options  # noqa: PLC0415  likewise

    parser = argparse.ArgumentParser(prog="storlet_daemon", description="Supervisor of a sandbox.")
    control_help = "the node daemon's socket (%(default)s)"
    parser.add_argument("--control", default=DEFAULT_CONTROL, help=control_help)
    parser.add_argument(
        "--confine-descriptors",
        action="store_true",
        help="keep workers from sending descriptors, as on a kernel older than Linux 6.16",
    )
    for option in path_options():
        option_help = f"{option.help} (%(default)s)"
        parser.add_argument(
            f"--{option.name}", dest=option.name, default=option.default, help=option_help
        )
    chosen = vars(parser.parse_args(arguments))
    control, confines_descriptors = chosen.pop("control"), chosen.pop("confine_descriptors")
    return control, ImagePaths(chosen), confines_descriptors


def _work(arguments: list[str]) -> int:
    from storlet_daemon import kernel  # noqa: PLC0415  see _supervise
    from storlet_daemon.worker import run_loop  # noqa: PLC0415
    from storlet_daemon.worker.config import WorkerConfig  # noqa: PLC0415

    # Executing a new program makes its memory readable again; see launch.py.
    kernel.hide_memory()
    listening, channel, main, file, path, runs, control_group, seconds = arguments
    place = (int(listening), int(channel), main, file, path)
    run_loop.serve(WorkerConfig(*place, int(runs), control_group, float(seconds)))


def main(arguments: list[str]) -> int:
    """Run the supervisor, or after the word ``worker`` a worker."""
    if arguments[:1] == ["worker"]:
        return _work(arguments[1:])
    return _supervise(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
