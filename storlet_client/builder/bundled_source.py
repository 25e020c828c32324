"""The source of a project in its bundle, so that the bundle can be read and built again.

A bundle has each file once, but ``storlet.toml`` that is an input of a test case.  Its folder
``source/`` has the files of the project that are neither code nor files of test cases:

* Python: ``storlet.toml``, the lock, README and licence; the files below ``src/`` are the code,
  and those below ``src/lib/``, which libraries share, are in ``source/``, too
* Java: the same, ``pom.xml``, and all below ``src/``
* native: all files that the author keeps, without the ``files`` of ``storlet.toml``

Hidden files are no source, except below ``src/`` of Python and Java, and the few that native builds
need (:func:`~storlet_client.builder.sources.is_hidden`).  Neither are outputs of a native build:
what ``.gitignore`` names, the folders ``dist``, ``target`` and ``build``, folders that are tagged
as caches (``CACHEDIR.TAG``, as cargo does), and compiled files, by suffix or first bytes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from storlet_client.builder import ignored
from storlet_client.builder.project import MANIFEST, SOURCE, Project, ProjectError
from storlet_client.builder.sources import CACHE, COMPILED, COPY, OUTPUTS, is_hidden
from storlet_client.bundle import archive, manifest
from storlet_client.bundle.languages import Form, form_of

#: The file that tags a folder as a cache.
_TAG = "CACHEDIR.TAG"
#: The first bytes of programs, libraries and classes.
_BINARIES = (b"\x7fELF", b"!<arch>\n", b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe")
#: Files beside ``src/`` of a project in Python or Java.
_BESIDE = re.compile(
    r"storlet\.toml|storlet\.[a-z]+\.lock|pom\.xml|(README|LICENSE|NOTICE).*", re.IGNORECASE
)
_LIBRARY = archive.LIBRARY + "/"
_EXECUTABLE, _PLAIN = 0o755, 0o644

#: Content and mode by path.
Files = dict[str, tuple[bytes, int]]


def files_of(made: Project) -> Files:
    """The files of ``source/``, by path in the project.

    The project was built before: a build writes the locks.
    """
    document = made.document
    files = _native(made) if form_of(document) is Form.FILES else _of_modules(made)
    elsewhere = {os.path.normpath(path) for path in manifest.files_at_upload(document)}
    elsewhere -= {MANIFEST}  # by which a bundle with source is known
    return {path: files[path] for path in sorted(files.keys() - elsewhere)}


def collected(bundle: Path) -> list[str]:
    """The files that a native project has as source in its bundle, sorted.

    Its author has to know them: no build file names them.  Empty for other languages.
    """
    with zipfile.ZipFile(bundle) as zipped:
        names = zipped.namelist()
        document = json.loads(zipped.read(archive.MANIFEST))
    if form_of(document) is not Form.FILES:
        return []
    return sorted(name[len(archive.SOURCE) :] for name in names if name.startswith(archive.SOURCE))


def unpack(bundle: Path, target: Path) -> None:
    """Make the new folder ``target``: the project that a verified bundle was built from.

    It is complete or absent.

    :raises ProjectError: an older release built the bundle, ``target`` exists, or two files of the
        bundle have one place.
    """
    with zipfile.ZipFile(bundle) as zipped:
        infos = {info.filename: info for info in zipped.infolist()}
        document = json.loads(zipped.read(archive.MANIFEST))
        if archive.SOURCE + MANIFEST not in infos:
            text = "has no source: an older release built or stored it"
            raise ProjectError([f"{document['name']} {text}"])
        try:
            target.mkdir(parents=True)
        except FileExistsError:
            raise ProjectError([fault_of_existing(target)]) from None
        built = {*document.get("files", ())} if document.get("build") else set()
        try:
            # Sorted: what is code and an input of a test case has the permissions of code.
            for name, path in sorted(_places(document, infos).items()):
                content = zipped.read(infos[name])
                # The build makes programs again, maybe for another machine; scripts may be its own.
                if path in built and name.startswith(archive.CODE) and _is_compiled(path, content):
                    continue
                _make(target / path, content, (infos[name].external_attr >> 16) & 0o777)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise


def fault_of_existing(target: Path) -> str:
    return f"{target}: it exists already: name a new folder"


def _make(place: Path, content: bytes, mode: int) -> None:
    """Make a new file of a project.

    :raises ProjectError: the bundle has another one for this place.  Otherwise ``source/`` could
        hide the code that runs.
    """
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as file:
            file.write(content)
        place.chmod(mode)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        if not place.is_file() or place.read_bytes() != content:
            text = "the bundle has two files for this place, or one in place of a folder"
            raise ProjectError([f"{place}: {text}"]) from None


def _places(document: Mapping[str, Any], names: Mapping[str, Any]) -> dict[str, str]:
    """The path in the project of each file of a bundle that belongs to the project."""
    own = {PurePosixPath(path).name: path for path in document.get("files", ())}
    places = {}
    for name in names:
        for folder in (archive.SOURCE, archive.TESTS):
            if name.startswith(folder):
                places[name] = name[len(folder) :]
        if name.startswith(archive.CODE):
            path = name[len(archive.CODE) :]
            if form_of(document) is Form.MODULES and not path.startswith(_LIBRARY):
                places[name] = f"{SOURCE}/{path}"
            elif path in own:
                places[name] = own[path]
    return {name: path for name, path in places.items() if not _is_hidden(path)}


def _is_hidden(path: str) -> bool:
    """Whether no bundle of ours has this file: Git, among others, executes what such files say."""
    parts = PurePosixPath(path.lower()).parts
    return ".git" in parts or (parts[0] != SOURCE and is_hidden(path.lower()))


# --- Python and Java ------------------------------------------------------------------------------


def _of_modules(made: Project) -> Files:
    top = made.folder
    beside = [path for path in top.iterdir() if _BESIDE.fullmatch(path.name)]
    files = {path.name: _content(path) for path in beside if _target(path.name, top)}
    for path, each in made.source().items():
        if form_of(made.document) is Form.JARS or path.startswith(_LIBRARY):
            files[f"{SOURCE}/{path}"] = each
    return files


# --- native ---------------------------------------------------------------------------------------


def _native(made: Project) -> Files:
    document, top = made.document, made.folder
    # Those of cases that no bundle has can be of any size.
    left_out = {os.path.normpath(path) for path in document.get("files", ())}
    for case in document.get("tests", ()):
        named = (*manifest.inputs_of(case), *manifest.outputs_of(case))
        left_out.update(os.path.normpath(path) for path in named)
    left_out.discard(MANIFEST)
    where, rules = ignored.rules_above(top)
    kept = {*_kept(top, "", where, rules)}
    places = {path: top / path for path in kept - left_out if _target(path, top) in kept}
    own = {path: place for path, place in places.items() if not _is_compiled(path, _head(place))}
    sizes = {path: place.stat().st_size for path, place in own.items()}
    most = archive.Bounds().unpacked_bytes
    if sum(sizes.values()) > most:  # it may not fit into memory
        raise ProjectError([f"{share_of(sizes)}; at most {most:,} bytes are allowed"])
    return {path: _content(place) for path, place in own.items()}


def share_of(sizes: Mapping[str, int]) -> str:
    """A line for a source that is too large: its size, its largest file, and the advice.

    :param sizes: bytes by path.
    """
    largest = max(sizes, key=lambda path: sizes[path])
    text = f"{len(sizes)} files of the source have {sum(sizes.values()):,} bytes"
    return f"{text}, most of them {largest}: list in .gitignore what is no source"


def _kept(top: Path, inner: str, where: str, rules: tuple[ignored.Rule, ...]) -> Iterator[str]:
    """The files that the author keeps, by path in the project ``top``.

    :param inner: the path of a folder in it, with a final slash; empty for the project itself.
    :param where: the path of the project in its repository, to which the rules apply.
    :param rules: those of the folders above.
    """
    if inner and (top / inner / _TAG).is_file():
        return
    rules = (*rules, *ignored.rules_of(top / inner, where + inner))
    with os.scandir(top / inner) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        path = inner + name
        is_output = is_folder and (name == CACHE or (not inner and name in OUTPUTS))
        if is_hidden(path, is_folder=is_folder) or name.endswith(COPY) or is_output:
            continue
        if ignored.is_ignored(where + path, rules, is_folder=is_folder):
            continue
        if is_folder:
            yield from _kept(top, f"{path}/", where, rules)
        else:
            yield path


def _is_compiled(path: str, begin: bytes) -> bool:
    return PurePosixPath(path).suffix in COMPILED or begin.startswith(_BINARIES)


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(max(map(len, _BINARIES)))


def _target(path: str, top: Path) -> str | None:
    """The path in the project of a file, or of the one that a link leads to.

    ``None`` if that is not in the project, or is no file.

    :param path: in the project ``top``, below folders that are no links.
    """
    place = top / path
    if not place.is_file():
        return None
    if not place.is_symlink():
        return path
    found, project = place.resolve(), top.resolve()
    return found.relative_to(project).as_posix() if found.is_relative_to(project) else None


def _content(path: Path) -> tuple[bytes, int]:
    return path.read_bytes(), _EXECUTABLE if path.stat().st_mode & 0o100 else _PLAIN
