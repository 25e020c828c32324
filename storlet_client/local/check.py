"""Checks of a bundle beyond its format: does it work in a sandbox of this machine?

All faults come at once:

* native code for another machine, another Python or another operating system
* each library, imported in a sandbox; not only those that the storlet itself imports at its start
* the storlet, loaded as a run loads it: module imported, class found

The libraries are imported by a storlet that exists for this check only: the same bundle with
another entry point.
"""

from __future__ import annotations

import io
import json
import platform
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from storlet_client.bundle import archive, languages, manifest
from storlet_client.bundle.languages import Form
from storlet_client.local.run import Input
from storlet_client.local.sandbox import LocalNode

_MODULE, _CLASS = "storlet_import_check", "ImportCheck"
#: Imports the modules of its parameter; the log names each before its import.
_SOURCE = f"""\
import importlib
import json


class {_CLASS}:
    def __init__(self, logger):
        self.logger = logger

    def __call__(self, in_files, out_files, params):
        out_files[0].set_metadata({{}})
        for name in in_files[0].read().decode().split():
            self.logger.info("import " + name)
            try:
                importlib.import_module(name)
            except BaseException as error:
                text = " ".join((type(error).__name__ + ": " + str(error)).split())
                out_files[0].write((json.dumps([name, text]) + "\\n").encode())
        out_files[0].close()
"""
#: ``e_machine`` of ELF, by the names of ``platform.machine()``.
_MACHINES = {"x86_64": 62, "aarch64": 183}
_NAMES = {number: name for name, number in _MACHINES.items()}
_OF_OTHERS = (".pyd", ".dll", ".dylib")
_CPYTHON = re.compile(r"\.cpython-(\d+)")
#: Names that wheels install by mistake; their import needs what tests need.
_SKIPPED = ("test", "tests", "testing", "docs", "examples", "benchmarks")


def faults_of(
    bundle: Path, document: Mapping[str, Any], node: LocalNode, output: BinaryIO
) -> list[str]:
    """All faults of a verified bundle.

    :param output: the file of the node's output, which can be truncated.
    :raises ConfigurationError: no sandbox can be started.
    """
    with zipfile.ZipFile(bundle) as zipped:
        files = {info.filename: zipped.read(info) for info in zipped.infolist()}
    code = {
        path[len(archive.CODE) :]: data
        for path, data in files.items()
        if path.startswith(archive.CODE)
    }
    faults = list(native_faults(code, platform.machine()))
    if languages.form_of(document) is Form.MODULES:
        faults += _import_faults(node, document, code, output)
    loaded = node.load(bundle)
    if not loaded.is_ok:
        faults.append(f"{loaded.code}: {loaded.message}\n{loaded.traceback}".rstrip())
    return faults


def native_faults(code: Mapping[str, bytes], machine: str, python: str = "311") -> Iterator[str]:
    """The native code that a sandbox on ``machine`` cannot load."""
    for path, data in sorted(code.items()):
        if path.endswith(_OF_OTHERS):
            yield f"{path}: native code of another operating system; a sandbox is Linux"
        elif data[:4] == b"\x7fELF":
            number = int.from_bytes(data[18:20], "little")
            if number != _MACHINES.get(machine, number):
                built = _NAMES.get(number, f"machine {number}")
                yield f"{path}: built for {built}; the sandbox of this machine is {machine}"
            tag = _CPYTHON.search(PurePosixPath(path).name)
            if tag and tag[1] != python:
                yield f"{path}: built for CPython {tag[1]}; the sandbox has {python}"
        elif re.search(r"\.so(\.|$)", path):
            yield f"{path}: not a native library of Linux"


def libraries(code: Iterable[str]) -> list[str]:
    """The modules and packages at the top of the libraries of a Python bundle."""
    found = set()
    for path in code:
        parts = PurePosixPath(path).parts
        if parts[0] != archive.LIBRARY or len(parts) < 2:
            continue
        name = parts[1]
        if len(parts) == 2 and (name.endswith(".py") or ".so" in name):
            found.add(name.partition(".")[0])
        elif len(parts) == 3 and parts[2] == "__init__.py":
            found.add(name)
    return sorted(
        name for name in found if name.isidentifier() and name not in _SKIPPED and name[0] != "_"
    )


def _import_faults(
    node: LocalNode, document: Mapping[str, Any], code: Mapping[str, bytes], output: BinaryIO
) -> list[str]:
    names = libraries(code)
    if not names:
        return []
    output.seek(0)
    output.truncate()
    with TemporaryDirectory() as folder:
        probe, listed = Path(folder, "probe"), Path(folder, "names")
        probe.write_bytes(_probe(document, code))
        listed.write_text("\n".join(names), encoding="utf-8")
        outcome = node.run(probe, [Input(listed)], {})
    output.seek(0)
    faults = [": ".join(json.loads(line)) for line in output.read().splitlines()]
    if not outcome.is_ok:
        begun = re.findall(r"import (\S+)$", outcome.log, re.MULTILINE)
        where = begun[-1] if begun else "the libraries"
        faults.append(f"{where}: the import ended the run: {outcome.code}: {outcome.message}")
    return [f"library {fault}" for fault in faults]


def _probe(document: Mapping[str, Any], code: Mapping[str, bytes]) -> bytes:
    """The bundle with the importing storlet as its entry point."""
    whole = manifest.normal(document)
    kept = {key: whole[key] for key in ("version", "language", "limits", "engine")}
    changed = {"name": "import-check", "main": f"{_MODULE}.{_CLASS}", **kept}
    files = {path: (data, 0o644) for path, data in code.items()}
    out = io.BytesIO()
    archive.write(out, changed, {**files, f"{_MODULE}.py": (_SOURCE.encode(), 0o644)})
    return out.getvalue()
