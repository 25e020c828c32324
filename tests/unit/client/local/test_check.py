"""Checks of bundles; those in a real sandbox are in the functional tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast, final

import pytest

from storlet_client.bundle import archive, manifest
from storlet_client.local import check
from storlet_client.local.run import Input, Outcome
from tests.support.bundles import tool

if TYPE_CHECKING:
    from storlet_client.local.sandbox import LocalNode

X86 = b"\x7fELF\x02\x01\x01" + bytes(11) + b"\x3e\x00" + bytes(40)
ARM = b"\x7fELF\x02\x01\x01" + bytes(11) + b"\xb7\x00" + bytes(40)


@final
class Node:
    """A sandbox in which the import of ``helper`` fails, or ends the run."""

    ends = False

    def __init__(self, output: int) -> None:
        self._output = output

    def run(self, bundle: Path, inputs: list[Input], parameters: dict[str, str]) -> Outcome:
        with bundle.open("rb") as packed:
            document = archive.verify(packed, archive.Bounds()).manifest
        assert document["main"] == "storlet_import_check.ImportCheck"
        assert inputs[0].path.read_text() == "helper"
        if self.ends:
            log = "fruit INFO: import a\nfruit INFO: import helper\n"
            return Outcome("storlet.failed", "it exited", log=log)
        line = json.dumps(["helper", "ImportError: no libfoo"]).encode() + b"\n"
        with open(self._output, "wb", closefd=False) as out:
            out.write(line)
        return Outcome("ok")

    def load(self, bundle: Path) -> Outcome:
        return Outcome("storlet.load", "no class", "a traceback\n")


def faults(tmp_path: Path) -> list[str]:
    bundle = tmp_path / "bundle"
    bundle.write_bytes(tool("tool"))
    document = manifest.normal(
        {"name": "tool", "version": "1", "language": "python", "main": "tool.Tool"}
    )
    with (tmp_path / "out").open("w+b") as output:
        node = cast("LocalNode", Node(output.fileno()))
        return check.faults_of(bundle, document, node, output)


def test_faults_of_libraries_and_of_the_storlet_come_together(tmp_path: Path) -> None:
    assert faults(tmp_path) == [
        "library helper: ImportError: no libfoo",
        "storlet.load: no class\na traceback",
    ]


def test_a_library_whose_import_ends_the_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Node, "ends", True)
    first = "library helper: the import ended the run: storlet.failed: it exited"
    assert faults(tmp_path)[0] == first


@pytest.mark.parametrize(
    ("path", "data", "fault"),
    [
        ("lib/a.so", X86, ""),
        ("lib/a.so.1", X86, ""),
        ("lib/a.cpython-311-x86_64-linux-gnu.so", X86, ""),
        ("lib/a.abi3.so", X86, ""),
        ("lib/a.solution", b"", ""),
        ("fruit", ARM, "fruit: built for aarch64; the sandbox of this machine is x86_64"),
        ("lib/a.so", ARM, "lib/a.so: built for aarch64; the sandbox of this machine is x86_64"),
        (
            "lib/a.cpython-39-x.so",
            X86,
            "lib/a.cpython-39-x.so: built for CPython 39; the sandbox has 311",
        ),
        ("lib/a.so", b"text", "lib/a.so: not a native library of Linux"),
        (
            "lib/a.pyd",
            b"MZ",
            "lib/a.pyd: native code of another operating system; a sandbox is Linux",
        ),
    ],
)
def test_native_code_that_a_sandbox_cannot_load_is_named(
    path: str, data: bytes, fault: str
) -> None:
    assert list(check.native_faults({path: data}, "x86_64")) == ([fault] if fault else [])


def test_the_modules_of_libraries_are_found() -> None:
    code = (
        "fruit.py", "lib/six.py", "lib/numpy/__init__.py", "lib/numpy/core/__init__.py",
        "lib/_private/__init__.py", "lib/tests/__init__.py", "lib/fast.cpython-311-x.so",
        "lib/numpy-2.0.dist-info/METADATA", "lib/space/inner.py",
    )  # fmt: skip
    assert check.libraries(code) == ["fast", "numpy", "six"]
