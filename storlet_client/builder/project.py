"""A project: a folder with ``storlet.toml``, and the source of the storlet below ``src/``.

All faults of ``storlet.toml`` come at once, each with its line and column.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storlet_client.bundle import archive, manifest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MANIFEST = "storlet.toml"
SOURCE = "src"
#: A folder beside projects: links below ``src/`` may lead to its files.
SHARED = "shared"
#: Made by tools; no part of a storlet.
_LEFT_OUT = ("__pycache__", ".git", ".DS_Store")
#: An error of the TOML parser.
_PLACE = re.compile(r"(.*) \(at line (\d+), column (\d+)\)", re.DOTALL)
_TABLE = re.compile(r"\s*(\[{1,2})\s*([^\]#]+?)\s*\]{1,2}\s*(#.*)?$")
_KEY = re.compile(r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"))*)\s*=")
_PART = re.compile(r"[\w-]+|\"([^\"]*)\"|'([^']*)'")


class ProjectError(ValueError):
    """The project cannot be built; ``faults`` lists the reasons."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


@dataclass(frozen=True)
class Project:
    """A valid project; ``document`` is its manifest."""

    folder: Path
    document: dict[str, Any]

    def source(self) -> dict[str, tuple[bytes, int]]:
        """Content and mode of each file below ``src/``, by its path there."""
        top = self.folder / SOURCE
        files = {}
        for path in sorted(top.rglob("*")):
            inner = path.relative_to(top)
            if path.is_symlink() and not self._is_shared(path):
                raise ProjectError(
                    [f"{path}: a symbolic link, which may only lead to a file in ../{SHARED}/"]
                )
            if path.is_file() and not any(part in _LEFT_OUT for part in inner.parts):
                mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
                files[inner.as_posix()] = (path.read_bytes(), mode)
        if not files:
            raise ProjectError([f"{top}: no source: put the storlet's files there"])
        return files

    def _is_shared(self, link: Path) -> bool:
        """Whether a link leads to a module that several projects share."""
        target = link.resolve()
        return target.parent == self.folder.resolve().parent / SHARED and target.is_file()

    def test_files(self) -> dict[str, bytes]:
        """The content of each file of the cases that the check at upload runs, by its path."""
        files, faults = {}, []
        for path in manifest.files_at_upload(self.document):
            wrong = archive.fault_of_file_name(path)
            place = self.folder / path
            if not wrong and not place.is_file():
                wrong = f"there is no such file in {self.folder}"
            elif not wrong and not place.resolve().is_relative_to(self.folder.resolve()):
                wrong = "a symbolic link to a file outside of the project"
            if wrong:
                faults.append(f"tests: {path}: {wrong}")
            else:
                files[path] = place.read_bytes()
        size = sum(map(len, files.values()))
        if size > archive.MAX_TESTS_BYTES:
            faults.append(
                f"tests: the files of the cases have {size:,} bytes; at most"
                f" {archive.MAX_TESTS_BYTES:,} go into a bundle: set upload = false for large cases"
            )
        if faults:
            raise ProjectError(faults)
        return files


def read(folder: Path) -> Project:
    """The project in ``folder``; raises :class:`ProjectError` with all faults."""
    place = folder / MANIFEST
    try:
        text = place.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        hint = "'storlet init NAME' makes a project, in a folder of this name"
        raise ProjectError([f"{place}: {error.strerror}: {hint}"]) from error
    except OSError as error:
        raise ProjectError([f"{place}: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ProjectError([f"{place}: not UTF-8: {error}"]) from error
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProjectError([f"{place}{_located(str(error), text)}"]) from error
    faults = [(position_of(text, fault.path), fault) for fault in manifest.faults_of(document)]
    if faults:
        faults.sort(key=lambda each: each[0])
        raise ProjectError(
            [f"{place}:{line}:{column}: {fault}" for (line, column), fault in faults]
        )
    return Project(folder, document)


def _located(error: str, text: str) -> str:
    """An error of the parser with its place at the start, as other faults have it."""
    found = _PLACE.fullmatch(error)
    if found is None:  # "(at end of document)"
        return f":{text.count(chr(10)) + 1}:1: not TOML: {error}"
    return f":{found[2]}:{found[3]}: not TOML: {found[1]}"


def folder_above(folder: Path) -> Path | None:
    """The nearest folder with a manifest: ``folder`` or one above it; ``None`` without one."""
    top = folder.resolve()
    for steps, each in enumerate((top, *top.parents)):
        if (each / MANIFEST).is_file():
            # Relative, so that messages name the files as the user does.
            return folder.joinpath(*[".."] * steps)
    return None


def position_of(text: str, path: Sequence[object]) -> tuple[int, int]:
    """Line and column of the key ``path``, or of the nearest table above it; from 1."""
    best, length = (1, 1), 0
    table: tuple[object, ...] = ()
    counts: dict[tuple[object, ...], int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        header = _TABLE.match(line)
        key = None if header else _KEY.match(line)
        if header:
            table = _parts(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            found, column = table, header.start(2) + 1
        elif key:
            found, column = (*table, *_parts(key[1])), key.start(1) + 1
        else:
            continue
        if len(found) > length and tuple(path[: len(found)]) == found:
            best, length = (number, column), len(found)
    return best


def _parts(dotted: str) -> tuple[object, ...]:
    return tuple(match[1] or match[2] or match[0] for match in _PART.finditer(dotted))
