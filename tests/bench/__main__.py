"""``python3 -m tests.bench``: the overhead of storlets as ratios to plain Swift, measured in the
same run.

Starts a separate all-in-one cluster, alternates plain and storlet requests, and prints a line for
each figure: the value with the storlet and without it, their ratio with its spread, and whether the
promise of ``SPECIFICATION.rst`` is kept.  Absolute figures depend on the machine and the moment;
ratios are comparable.  All measurements are written to ``bench/results/<date>.json``, with an HTML
report and plots beside it.

Any Python from 3.11 on starts it; it then runs in a virtual environment
(``requirements-bench.txt``) with matplotlib.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from storlet_middleware.aio import cache, packages, venv
from storlet_middleware.aio.home import CHECKOUT

_INSIDE: Final = "STORLETS_BENCH_PYTHON"


def main(arguments: Sequence[str]) -> int:
    """Entry point; returns the exit code."""
    if os.environ.get(_INSIDE) != sys.executable:
        _restart_with_plots(arguments)
    from tests.bench import run  # noqa: PLC0415 - what it needs is there by now

    parser = argparse.ArgumentParser(
        prog="tests.bench", description=(__doc__ or "").split("\n\n", maxsplit=1)[0]
    )
    parser.add_argument(
        "--rows",
        default="",
        help=f"some of {','.join(run.NAMES)}; {','.join(run.APART)} only when named",
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer samples and rows: three minutes"
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=CHECKOUT / "bench/results",
        help="where results go (%(default)s)",
    )
    parser.add_argument(
        "--home", type=Path, help="use the cluster that is up there, and leave it up"
    )
    parser.add_argument(
        "--report", type=Path, metavar="JSON", help="only make the HTML report of an earlier run"
    )
    parser.add_argument(
        "--record",
        type=Path,
        metavar="JSON",
        help="keep the promised figures of a run, and publish those of all machines",
    )
    options = parser.parse_args(arguments)
    if options.record:
        return run.record(options.record)
    if options.report:
        return run.report_again(options.report)
    wanted = options.rows.split(",") if options.rows else []
    unknown = [name for name in wanted if name not in run.NAMES]
    if unknown:
        parser.error(f"unknown rows {', '.join(unknown)}: there are {', '.join(run.NAMES)}")
    return run.run(run.Choice(tuple(wanted), options.quick, options.results, options.home))


def _restart_with_plots(arguments: Sequence[str]) -> None:
    """Replace this process by a Python with matplotlib."""
    root = cache.cache_root()
    packages.install([packages.PYTHON, packages.CURL], root / "bench.log")
    python = str(venv.bench(root / "bench.log") / "bin/python3")
    environment = {
        **os.environ,
        _INSIDE: python,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(CHECKOUT),
        # Its font cache, which must not be written to a home directory.
        "MPLCONFIGDIR": str(root / "matplotlib"),
    }
    os.execve(python, [python, "-m", "tests.bench", *arguments], environment)  # noqa: S606 - a list of words, no shell


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
