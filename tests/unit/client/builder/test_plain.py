"""Plain files of storlets, and the bundles that run them here."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_client import ConfigurationError
from storlet_client.builder import plain
from storlet_client.bundle.archive import Bounds, Verified, verify

CODE = b"class Apple:\n    pass\n"


def bundle(
    file: Path, language: str | None = None, main: str | None = None, *needed: str
) -> Verified:
    out = file.parent / "out"
    out.mkdir(exist_ok=True)
    with plain.bundle(file, out, language, main, needed).open("rb") as packed:
        return verify(packed, Bounds())


def modes(found: Verified) -> dict[str, int]:
    return {each.path: each.mode for each in found.files if each.path.startswith("code/")}


def made(folder: Path, name: str, content: bytes = CODE) -> Path:
    place = folder / name
    place.write_bytes(content)
    return place


def test_the_bundle_of_a_python_file_has_its_class_and_dependencies(tmp_path: Path) -> None:
    made(tmp_path, "units.py")
    made(tmp_path, "tool")
    found = bundle(made(tmp_path, "Fruit_1.py"), None, None, "units.py", "tool:0700")
    document = found.manifest
    assert (document["name"], document["main"]) == ("fruit_1", "Fruit_1.Apple")
    assert (document["language"], document["parameters"]) == ("python", {})
    assert document["inputs"]["max"] > 1
    assert document["outputs"]["max"] > 1
    assert modes(found) == {
        "code/Fruit_1.py": 0o644, "code/units.py": 0o644, "code/tool": 0o755,
    }  # fmt: skip


def test_a_native_program_is_its_own_entry_point_and_executable(tmp_path: Path) -> None:
    found = bundle(made(tmp_path, "sum.bin", b"#!/bin/sh\n"), "native")
    assert (found.manifest["main"], modes(found)) == ("sum.bin", {"code/sum.bin": 0o755})
    found = bundle(tmp_path / "sum.bin", "native", "sum.bin:sum")
    assert found.manifest["main"] == "sum.bin:sum"


def test_a_jar_needs_its_class(tmp_path: Path) -> None:
    jar = made(tmp_path, "9.jar", b"PK")
    found = bundle(jar, None, "org.example.Thumb")
    assert (found.manifest["name"], found.manifest["language"]) == ("storlet-9", "java")
    with pytest.raises(ConfigurationError, match="add --main with the class to run"):
        bundle(jar)


@pytest.mark.parametrize(
    ("name", "words", "fault"),
    [
        ("a.txt", (None, None), "the language of a.txt is unknown: add --language"),
        ("a-b.py", (None, None), "want module.Class"),
        ("a.py", (None, "other.Apple"), "a.py: main: code/other.py is missing"),
        (
            "a.py",
            (None, None, "missing.py"),
            "--dependency missing.py: there is no file missing.py",
        ),
        ("a.py", (None, None, "b.py:rwx"), "want an octal mode such as 0700"),
    ],
)
def test_faults_are_named(
    tmp_path: Path, name: str, words: tuple[str | None, ...], fault: str
) -> None:
    made(tmp_path, "b.py")
    language, main, *needed = words
    with pytest.raises(ConfigurationError) as caught:
        bundle(made(tmp_path, name), language, main, *filter(None, needed))
    assert fault in str(caught.value)
