"""Storlets of the system library against the usual programs on the node's own file: ``std:grep``,
``std:fixity`` with SHA-256, ``std:compress`` with zstd.

Each program works in one thread, as the storlet does.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.bench import tables
from tests.bench.bench import Bench, Family
from tests.bench.figures import Figure
from tests.bench.http import BadAnswer
from tests.bench.rows.s3_select import file_of
from tests.bench.site import CONTAINER, PLAIN, Treatment

_OBJECT: Final = f"{CONTAINER}/library.txt"
_MIB: Final = 1 << 20
_READ_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Work:
    """A storlet and the program that does the same.

    :ivar slack: how much the sizes of the outputs may differ, as a share of the program's.
    """

    name: str
    title: str
    command: tuple[str, ...]
    parameters: dict[str, str] = field(default_factory=dict)
    slack: float = 0.0

    def headers(self) -> dict[str, str]:
        """Headers of a request that runs the storlet."""
        given = enumerate(self.parameters.items(), 1)
        numbered = {f"X-Storlet-Parameter-{n}": f"{key}:{value}" for n, (key, value) in given}
        return {"X-Run-Storlet": f"std:{self.name}"} | numbered

    def has_size(self, size: int, wanted: int) -> bool:
        """Whether an output of ``size`` bytes is like one of ``wanted`` bytes."""
        return abs(size - wanted) <= self.slack * wanted


WORKS: Final = (
    Work(
        "grep",
        "grep of 1% of the lines",
        ("grep", "-F", f",{tables.KEPT},"),
        {"pattern": f",{tables.KEPT},", "fixed": "true"},
    ),
    # The outputs are no digest alone: JSON, and a line with the file's name.
    Work("fixity", "SHA-256", ("sha256sum",), {"algorithms": "sha256"}, slack=1.0),
    Work(
        "compress",
        "zstd, level 3",
        ("zstd", "-3", "--single-thread", "--check", "-c", "-q"),
        {"format": "zstd", "policy": "fast", "level": "3"},
        slack=0.02,
    ),
)


def measure(bench: Bench) -> Iterator[Figure]:
    """MB/s of the object's bytes, on either side."""
    text = tables.text(bench.plan.scan_bytes).data
    bench.site.main.send("PUT", _OBJECT, body=text)
    path = file_of(bench, len(text))
    for work in WORKS:
        yield _figure(bench, work, path, len(text))


def _figure(bench: Bench, work: Work, path: Path, size: int) -> Figure:
    account = bench.site.main
    storlet = Treatment(work.name, f"against {work.command[0]}", work.headers())
    request = account.request("GET", _OBJECT, storlet.headers)
    sizes: dict[str, int] = {}

    def one(treatment: Treatment) -> float:
        began = time.perf_counter()
        if treatment is PLAIN:
            sizes[treatment.key] = output_bytes(work, path)
        else:
            sizes[treatment.key] = account.connection.exchange(request).size
        return size / (time.perf_counter() - began) / 1e6

    bench.alternate([storlet], 1, one)
    if not work.has_size(sizes[storlet.key], sizes[PLAIN.key]):
        raise BadAnswer(f"{work.title}: outputs of {sizes} bytes")
    samples = bench.alternate([storlet], bench.plan.large, one)
    title = f"{work.title}, {size / _MIB:.0f} MiB"
    return Family("library", title, "MB/s", is_rate=True).figures([storlet], samples)[0]


def output_bytes(work: Work, path: Path) -> int:
    """The length of the output of the program.

    It is read, because ``grep`` stops at the first line if its output is ``/dev/null``.
    """
    command = [*work.command, str(path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
    ) as program:
        if program.stdout is None:
            raise AssertionError
        buffer, total = bytearray(_READ_BYTES), 0
        while count := program.stdout.readinto(buffer):  # type: ignore[attr-defined]
            total += count
    if program.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {program.returncode}")
    return total
