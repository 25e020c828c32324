"""Runs of storlets of the system library in this process, with the author's own file objects."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import sys
import threading
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from storlet_client.bundle import manifest
from storlet_daemon.author import (
    StorletInputFile,
    StorletLogger,
    StorletOutputFile,
    account_secrets,
    offer,
)
from storlet_daemon.author.seekable import SeekableFile

FOLDER = Path(__file__).resolve().parents[2] / "storlets/std"
METADATA_BYTES = 4096


@dataclass(frozen=True)
class Ran:
    """The output of a run that succeeded."""

    output: bytes
    metadata: Mapping[str, str]


class Target:
    """An output in memory that takes a number of bytes."""

    def __init__(self, most: int = 1 << 30) -> None:
        self.data = bytearray()
        self._most = most

    def write(self, data: bytes) -> None:
        if len(self.data) + len(data) > self._most:
            raise OSError("the output is closed")
        self.data += data

    def set_metadata(self, metadata: dict[str, str]) -> None:
        pass


class LibraryStorlet:
    """One storlet; ``module`` is its code, whose constants a test may change."""

    def __init__(self, name: str) -> None:
        place = FOLDER / name
        self._document = tomllib.loads((place / "storlet.toml").read_text())
        file, self._class = self._document["main"].split(".")
        self.module = imported(place / f"src/{file}.py")

    def values(self, given: Mapping[str, str]) -> dict[str, str]:
        """The parameters of a run, with the defaults."""
        # The server adds its own parameter to those of the manifest.
        own = {key: value for key, value in given.items() if key == "storlet_range"}
        given = {key: value for key, value in given.items() if key not in own}
        values, faults = manifest.parameters_of_run(self._document.get("parameters", {}), given)
        assert faults == []
        return values | own

    def run(
        self,
        data: bytes,
        given: Mapping[str, str],
        metadata: Mapping[str, str] | None = None,
        secrets: Mapping[str, bytes] | None = None,
        further: Sequence[bytes] = (),
    ) -> Ran:
        """The output for ``data``, and for ``further`` inputs."""
        found: dict[str, str] = {}
        account_secrets.begin(secrets or {})
        with ExitStack() as opened:
            descriptor = filled(data)
            source: Any
            is_ranged = "storlet_range" in given
            if is_ranged or self._document.get("input") == "seekable":
                source = SeekableFile(metadata or {}, descriptor, len(data))
            else:
                source = StorletInputFile(metadata or {}, descriptor)
            opened.callback(source.close)
            sources = [source, *(StorletInputFile({}, filled(each)) for each in further)]
            for each in sources[1:]:
                opened.callback(each.close)
            read = os.memfd_create("output")
            opened.callback(os.close, read)
            target = StorletOutputFile(os.dup(read), METADATA_BYTES, found.update)
            opened.callback(target.abandon)
            storlet: Any = getattr(self.module, self._class)(StorletLogger("", None))
            storlet(sources, [target], self.values(given))
            target.close()
            size = os.fstat(read).st_size
            return Ran(os.pread(read, size, 0), found)


def shared(name: str) -> ModuleType:
    """A module of ``storlets/std/shared``, as a storlet of the test imports it."""
    return importlib.import_module(name)


def imported(path: Path) -> ModuleType:
    """The module in the file ``path``, under a name that no other module has.

    The modules that it imports have names of their own; two storlets share one of the same name.
    """
    offer.offer()
    spec = importlib.util.spec_from_file_location(f"library_{path.parts[-3]}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        # A run imports some modules where it needs them.
        sys.path.remove(str(path.parent))
        sys.path.append(str(path.parent))
        for name in offer.NAMES:
            sys.modules.pop(name, None)
    return module


def filled(data: bytes) -> int:
    """A descriptor of a file with ``data``, at its start."""
    descriptor = os.memfd_create("input")
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def close_earlier() -> None:
    """Close what earlier tests have left to the garbage collector, so that a count of descriptors
    stays; the next call does not look at their objects again.
    """
    gc.collect()
    gc.freeze()


def in_use() -> tuple[int, list[str]]:
    """The number of open descriptors, and the threads of runs of the engine."""
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("sql-")]
    return len(list(Path("/proc/self/fd").iterdir())), names
