"""``python3 -m tests.prose``: check the prose of this checkout, or of the given files and folders.

Prints the findings. Exit status 1: findings.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from . import check, passages

ROOT: Final = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Run the command; the exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.prose", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="files and folders; without, all")
    options = parser.parse_args(arguments)
    findings = [each for path in _files(options.paths, root) for each in check.file(path, root)]
    print(*findings, sep="\n", end="\n" if findings else "")
    return 1 if findings else 0


def _files(paths: Sequence[Path], root: Path) -> Iterator[Path]:
    if not paths:
        yield from passages.files(root)
    for path in paths:
        whole = path.resolve()
        yield from passages.files(whole) if whole.is_dir() else [whole]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
