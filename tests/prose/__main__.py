"""``python3 -m tests.prose``: check the prose of this checkout.

Without arguments the whole checkout is compared with the baseline. With paths, all findings of
these files and folders are printed. ``--write-baseline`` lowers the numbers in the baseline to
the findings that are left; it creates the file if there is none. Exit status 1: findings.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from . import baseline, check, passages

ROOT: Final = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Run the command; the exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.prose", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="print all findings of these files")
    parser.add_argument("--write-baseline", action="store_true", help="lower the baseline")
    options = parser.parse_args(arguments)
    if options.paths:
        return _print_all(options.paths, root)
    found = {str(path.relative_to(root)): check.file(path, root) for path in passages.files(root)}
    counts = {name: len(findings) for name, findings in found.items()}
    place = root / baseline.NAME
    if options.write_baseline and not place.exists():
        baseline.write(place, counts)
        return 0
    old = baseline.read(place)
    above = baseline.above(old, counts)
    for name in above:
        print(*found[name], sep="\n")
        print(f"{name}: {counts[name]} findings, {old.get(name, 0)} in the baseline: fix them")
    if options.write_baseline:
        baseline.write(place, baseline.lowered(old, counts))
        return 1 if above else 0
    below = baseline.below(old, counts)
    for name in below:
        number = counts.get(name, 0)
        print(f"{name}: {number} findings, {old[name]} in the baseline: lower the baseline")
    if below:
        print("to lower the baseline: python3 -m tests.prose --write-baseline")
    return 1 if above or below else 0


def _print_all(paths: Sequence[Path], root: Path) -> int:
    findings = []
    for path in paths:
        whole = path.resolve()
        found = passages.files(whole) if whole.is_dir() else [whole]
        findings += [finding for one in found for finding in check.file(one, root)]
    print(*findings, sep="\n", end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
