"""A plain file of a storlet, without a project: its language, entry point and dependencies.

``storlet deploy FILE`` uploads it as it is.  ``storlet run FILE`` runs it as :func:`bundle`: with
the code and the entry point that the upload would have, and with any parameters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storlet_client.bundle import archive, languages, manifest
from storlet_client.bundle.languages import Form
from storlet_client.content import Content, opened
from storlet_client.errors import ConfigurationError
from storlet_client.operations import language_of

#: A class of a Python file that can be a storlet.
_CLASS = re.compile(r"class\s+([A-Za-z_]\w*)")
#: Bytes of a line that are read at once: a program has no lines.
_LINE_BYTES = 1 << 16
_MODE = re.compile(r"[0-7]{3,4}")
_DEFAULT_MODE = "0600"
#: The most inputs, and outputs, that a manifest can declare.
_MOST = 30
_PLAIN, _EXECUTABLE = 0o644, 0o755
_VERSION = "0"


@dataclass(frozen=True)
class Dependencies:
    """The dependencies of a plain file.

    :param files: place and file mode (octal) by name.
    :param names: all names; one without a file is that of a dependency that is uploaded already.
    """

    files: dict[str, tuple[Path, str]]
    names: tuple[str, ...]


def language(given: str | None, name: str) -> str:
    """The language of a file: the ``given`` one, or that of its suffix.

    :raises ConfigurationError: the suffix is none of a language.
    """
    found = given or language_of(name)
    if not found:
        raise ConfigurationError([f"the language of {name} is unknown: add --language"])
    return found


def entry_point(file: Path, name: str, spoken: str, code: Content) -> str:
    """The ``Main`` of a file: the only class of a Python file, or a native program itself.

    :param name: of the storlet; ``file`` is for the text of an error.
    :param spoken: its language.
    :raises ConfigurationError: the file has several, or its language has none in a file.
    """
    row = languages.language(spoken)
    if row is not None and row.form is Form.FILES:
        return name
    if row is None or row.form is not Form.MODULES:
        text = f"{file}: add --main with the class to run"
        if row is None:
            known = ", ".join(languages.NAMES)
            text = f"--language {spoken}: want {known}; of another language, add --main"
        raise ConfigurationError([text])
    classes = _classes(code)
    if len(classes) != 1:
        found = f"it has {', '.join(classes)}" if classes else "it has no class"
        raise ConfigurationError([f"{file}: {found}: add --main MODULE.CLASS"])
    return f"{Path(name).stem}.{classes[0]}"


def _classes(code: Content) -> list[str]:
    """The classes of a Python file; it is not loaded whole."""
    found, is_begin = [], True
    with opened(code) as lines:
        for line in iter(lambda: lines.readline(_LINE_BYTES), b""):
            begun = _CLASS.match(line.decode("utf-8", "replace")) if is_begin else None
            found += [begun[1]] if begun else []
            is_begin = line.endswith(b"\n")
    return found


def dependencies(folder: Path, given: Sequence[str]) -> Dependencies:
    """The dependencies ``FILE[:MODE]`` of a file in ``folder``.

    :raises ConfigurationError: files are missing.
    """
    files, names, faults = {}, [], []
    for each in given:
        word, _, mode = each.partition(":")
        (path,) = places(folder, (each,))
        names.append(path.name)
        if path.is_file():
            files[path.name] = (path, mode or _DEFAULT_MODE)
        elif mode or "/" in word:
            faults.append(f"--dependency {each}: there is no file {word}")
    if faults:
        raise ConfigurationError(faults)
    return Dependencies(files, tuple(names))


def places(folder: Path, given: Sequence[str]) -> list[Path]:
    """The file of each ``--dependency``, beside the storlet's unless there is one here."""
    words = [Path(each.partition(":")[0]) for each in given]
    return [word if word.is_file() else folder / word for word in words]


def bundle(
    file: Path,
    out: Path,
    given: str | None,
    main: str | None,
    needed: Sequence[str],
    declared: Mapping[str, Any] | None = None,
) -> Path:
    """The bundle of a file and its dependencies, in the folder ``out``.

    :param given: its language; by its suffix if it is ``None``.
    :param main: its entry point; see :func:`entry_point`.
    :param needed: see :func:`dependencies`.
    :param declared: more values of the manifest, such as its limits.
    :raises ConfigurationError: with all faults of the bundle.
    """
    code = file.read_bytes()
    spoken = language(given, file.name)
    found = dependencies(file.parent, needed)
    faults = [
        f"--dependency {name}: there is no file {name}"
        for name in found.names
        if name not in found.files
    ]
    faults += [
        f"--dependency {name}:{mode}: want an octal mode such as 0700"
        for name, (_, mode) in found.files.items()
        if not _MODE.fullmatch(mode)
    ]
    if faults:
        raise ConfigurationError(faults)
    # A cluster lets each native storlet be executed.
    row = languages.language(spoken)
    is_file = row is not None and row.form is Form.FILES
    own = _EXECUTABLE if is_file else _PLAIN
    files = {
        name: (path.read_bytes(), _bundled(mode)) for name, (path, mode) in found.files.items()
    }
    files[file.name] = (code, own)
    document: dict[str, Any] = {
        "name": _name(file),
        "version": _VERSION,
        "language": spoken,
        "main": main or entry_point(file, file.name, spoken, code),
        # The metadata of a plain file declares no number of inputs and outputs.
        "inputs": {"min": 1, "max": _MOST},
        "outputs": {"count": 1, "max": _MOST},
        **({"files": sorted(files)} if is_file else {}),
        **(declared or {}),
    }
    wrong = [f"{file}: {fault}" for fault in manifest.faults_of(document)]
    if wrong:
        raise ConfigurationError(wrong)
    place = out / f"{document['name']}{archive.SUFFIX}"
    with place.open("w+b") as packed:
        archive.write(packed, document, files)
        try:
            archive.verify(packed, archive.Bounds())
        except archive.BundleError as error:
            raise ConfigurationError([f"{file}: {fault}" for fault in error.faults]) from error
    return place


def _bundled(mode: str) -> int:
    """The mode in a bundle, which keeps the right to execute only."""
    return _EXECUTABLE if int(mode, 8) & 0o100 else _PLAIN


def _name(file: Path) -> str:
    """A name of a storlet, for texts: the file may have any."""
    name = re.sub(r"[^a-z0-9_-]", "-", file.stem.lower())
    return (name if name[:1].isalpha() else f"storlet-{name}")[:63]
