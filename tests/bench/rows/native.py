"""Both forms of a native storlet, and Python in the same run: GET of 1 KiB and of 100 MiB.

Each figure is against a plain GET; those that end with ``beside_python`` are against Python. The
last one is the memory of an idle worker of the shared object: what no other process shares.

The program is ``cat`` of this machine; the shared object is ``storlets/native/identity.c``.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.bench.bench import WARM_UP, Bench, Family
from tests.bench.figures import Figure
from tests.bench.node import Node, processes_of, pss_bytes
from tests.bench.site import LARGE, LARGE_BYTES, PLAIN, SMALL, STORLETS, Code, Treatment
from tests.support.cluster import CHECKOUT

SOURCE: Final = STORLETS / "native/identity.c"
MAIN: Final = "identity.so:identity"
INCLUDE: Final = CHECKOUT / "storlet_daemon/native"
TREATMENTS: Final = (
    Treatment("python", "Python", {"X-Run-Storlet": "identity.py"}),
    Treatment("program", "program", {"X-Run-Storlet": "cat.bin"}),
    Treatment("object", "shared object", {"X-Run-Storlet": "identity.so"}),
)


def built(source: Path, *options: str) -> bytes:
    """A shared object."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, source.stem + ".so")
        command = ["gcc", "-O2", *options, "-fPIC", "-shared", f"-I{INCLUDE}", "-o", str(target)]
        subprocess.run([*command, str(source)], check=True)
        return target.read_bytes()


def codes() -> tuple[Code, Code]:
    """The program and the shared object."""
    program = Path(shutil.which("cat") or "/bin/cat").read_bytes()
    return (
        Code("cat.bin", "native", "cat.bin", program),
        Code("identity.so", "native", MAIN, built(SOURCE)),
    )


def measure(bench: Bench) -> Iterator[Figure]:
    """One client, one connection, at the object node."""
    account, treatments = bench.site.main, list(TREATMENTS)
    python, *others = treatments
    for code in codes():
        account.upload(code)
    small = {t.key: account.request("GET", SMALL, t.headers) for t in [PLAIN, *treatments]}
    large = {t.key: account.request("GET", LARGE, t.headers) for t in [PLAIN, *treatments]}

    def milliseconds(treatment: Treatment) -> float:
        return account.connection.exchange(small[treatment.key]).whole * 1000

    def rate(treatment: Treatment) -> float:
        return LARGE_BYTES / account.connection.exchange(large[treatment.key]).whole / 1e6

    bench.alternate(treatments, WARM_UP, milliseconds)
    samples = bench.alternate(treatments, bench.plan.latency, milliseconds)
    family = Family("native", "GET 1 KiB p50", "ms", suffix=".p50")
    yield from family.figures(treatments, samples)
    yield from family.beside(python, others, samples)
    bench.alternate(treatments, 1, rate)
    rates = Family("native", "GET 100 MiB", "MB/s", suffix=".rate", is_rate=True)
    samples = bench.alternate(treatments, bench.plan.large, rate)
    yield from rates.figures(treatments, samples)
    yield from rates.beside(python, others, samples)
    yield memory(bench)


def memory(bench: Bench) -> Figure:
    """Each idle worker of the shared object, in MB."""
    sandbox = Node(bench.site.cluster).of(bench.site.main.name)
    if sandbox is None:
        raise RuntimeError("the sandbox is gone")
    workers = [
        pid
        for pid in processes_of(sandbox.container)
        if MAIN.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    ]
    figure = Figure("native.object.memory", "idle worker of a shared object, its own memory", "MB")
    figure.treated += [pss_bytes([pid], own=True) / 1e6 for pid in workers]
    return figure
