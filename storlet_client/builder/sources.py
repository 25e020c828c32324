"""The source files of a project, which its author saves.

Of a Python or Java project they are ``storlet.toml``, the files below ``src/``, and those of the
test cases.

A native project has a build of its own, with sources anywhere.  All its files are sources except:

* hidden ones that no build needs, object files, locks and bundles
* those in ``dist/``, ``target/`` and ``build/``
* the ``files`` of ``storlet.toml``
* files outside of ``src/`` that appear while the project is built
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from storlet_client.builder import jars, project, wheels
from storlet_client.builder.project import MANIFEST, SOURCE, ProjectError
from storlet_client.bundle import archive, languages, manifest
from storlet_client.bundle.languages import Form

#: Folders of outputs, directly in the project.
OUTPUTS = frozenset({"dist", "target", "build"})
#: A folder of outputs, anywhere.
CACHE = "__pycache__"
_LOCKS = frozenset({wheels.LOCK, jars.LOCK})
#: The suffixes of compiled files.
COMPILED = frozenset({".a", ".d", ".o", ".obj", ".so", archive.SUFFIX})
#: The last character of the names of copies that editors make.
COPY = "~"
#: Hidden files that builds need, in any folder.  Others may have secrets (.env, .npmrc).
_NEEDED = frozenset(
    {".bazelrc", ".bazelversion", ".cargo/config", ".cargo/config.toml", ".gitignore",
     ".tool-versions"}
)  # fmt: skip
_NEEDED_FOLDERS = frozenset({".cargo"})


def is_hidden(path: str, *, is_folder: bool = False) -> bool:
    """Whether a file or folder is hidden, or below a hidden folder, and no build needs it.

    :param path: in the project, with slashes.
    """
    parts = path.split("/")
    for number, part in enumerate(parts):
        if part.startswith("."):
            return "/".join(parts[number:]) not in (_NEEDED_FOLDERS if is_folder else _NEEDED)
    return False


class Sources:
    """The source files of the project in ``folder``; they come and go."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: The last valid manifest: an author may be in the middle of a change.
        self._document: Mapping[str, Any] = {}
        self._made: set[Path] = set()

    def files(self) -> list[Path]:
        """The files now; one of them may not exist."""
        with suppress(ProjectError):
            self._document = project.read(self._folder).document
        if languages.form_of(self._document) in {Form.MODULES, Form.JARS}:
            named = [MANIFEST, *manifest.files_at_upload(self._document)]
            return [*(self._folder / name for name in named), *_walk(self._folder / SOURCE)]
        return sorted(self._candidates() - self._made)

    @contextmanager
    def while_built(self) -> Iterator[None]:
        """The block builds the project: files that appear are outputs, but those of ``src/``."""
        before = self._candidates()
        try:
            yield
        finally:
            top = self._folder / SOURCE
            new = self._candidates() - before
            self._made |= {path for path in new if top not in path.parents}

    def _candidates(self) -> set[Path]:
        """All files that may be sources of a native project."""
        outputs = {self._folder / name for name in self._document.get("files", ())}
        return {
            path
            for path in _walk(self._folder, OUTPUTS)
            if path not in outputs and path.name not in _LOCKS and path.suffix not in COMPILED
        }


def _walk(top: Path, outputs: frozenset[str] = frozenset()) -> Iterator[Path]:
    """The files below ``top`` that are not hidden, without those in ``outputs`` of ``top``."""
    for place, folders, names in os.walk(top):
        folder = Path(place)
        inner = folder.relative_to(top).as_posix() + "/" if folder != top else ""
        left_out = {CACHE, *(outputs if folder == top else ())}
        folders[:] = [
            name
            for name in folders
            if name not in left_out and not is_hidden(inner + name, is_folder=True)
        ]
        for name in names:
            if not is_hidden(inner + name) and not name.endswith(COPY):
                yield folder / name
