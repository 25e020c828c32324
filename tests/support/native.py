"""Shared objects for tests, built from C with the ``storlet.h`` of this checkout."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import Final

from storlet_middleware.aio import cache
from tests.support.cluster import CHECKOUT
from tests.support.storlets import SOURCES, Dependency

INCLUDE: Final = CHECKOUT / "storlet_daemon/native"
#: ``tested.h``: what the tests' storlets share.
SHARED: Final = CHECKOUT / "tests/support"
ASKER: Final = SOURCES / "native/asker.c"
SEEKER: Final = SOURCES / "native/seeker.c"
JANSSON: Final = "libjansson.so.4"


@functools.cache
def shared_object(source: Path, *options: str) -> bytes:
    """``source``, compiled and linked; it finds libraries beside it. Compiled once a machine."""
    target = f"{source.stem}.so"
    read = (source, INCLUDE / "storlet.h", SHARED / "tested.h")

    def make(folder: Path) -> None:
        run_path = "-Wl,-rpath,$ORIGIN"
        command = ["gcc", "-O1", "-fPIC", "-shared", "-pthread", run_path]
        command += [f"-I{INCLUDE}", f"-I{SHARED}", "-o", str(folder / target), str(source)]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    key = cache.digest([target, *options, *(path.read_bytes() for path in read)])
    return (cache.made("test-objects", key, make) / target).read_bytes()


@functools.cache
def asker() -> bytes:
    """The storlet that uses the store as its parameter says; it needs :func:`jansson`."""
    return shared_object(ASKER, "-ljansson")


@functools.cache
def jansson() -> Dependency:
    """The JSON library of this machine, for storlets that need it."""
    command = ["gcc", f"-print-file-name={JANSSON}"]
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return Dependency(JANSSON, Path(path).read_bytes(), "0600")
