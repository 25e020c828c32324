"""The bundle of a project: ``NAME-VERSION.storlet``.

The same project, with its lock, gives the same bytes.
"""

from __future__ import annotations

import io
from pathlib import Path

from storlet_client.builder import files as new_files
from storlet_client.builder import jars, native, project, rights, wheels
from storlet_client.bundle import archive

#: Content and mode by path below ``code/``, and the lines of the lock.
Parts = tuple[dict[str, tuple[bytes, int]], tuple[str, ...]]


def build(folder: Path, out: Path, sandbox: wheels.Sandbox) -> Path:
    """Build the project in ``folder``; the path of the bundle, in the folder ``out``.

    The build has the rights of the user who started ``sudo``, if the folder is not root's.

    :raises ProjectError: with all faults.
    """
    user = rights.user_of(folder) if folder.is_dir() else None
    return Path(rights.with_rights_of(user, lambda: str(_build(folder, out, sandbox))))


def _build(folder: Path, out: Path, sandbox: wheels.Sandbox) -> Path:
    made = project.read(folder)
    document = made.document
    files, resolved = _PARTS[document["language"]](made, sandbox)
    packed = io.BytesIO()
    archive.write(packed, document, files, resolved, made.test_files())
    try:
        archive.verify(packed, archive.Bounds())
    except archive.BundleError as error:
        raise project.ProjectError(error.faults) from error
    path = out / f"{document['name']}-{document['version']}{archive.SUFFIX}"
    new_files.make_folder(out)
    with new_files.replacement(path) as file:
        file.write(packed.getvalue())
    return path


def _python_parts(made: project.Project, sandbox: wheels.Sandbox) -> Parts:
    requirements = made.document.get("requirements", ())
    libraries, resolved = wheels.install(made.folder, requirements, sandbox)
    source = made.source()
    both = sorted(libraries.keys() & source.keys())
    if both:
        raise project.ProjectError([f"src/{path}: a library has this file, too" for path in both])
    return {**source, **libraries}, resolved


def _java_parts(made: project.Project, _sandbox: wheels.Sandbox) -> Parts:
    document = made.document
    return jars.build(made.folder, document["name"], made.source(), document.get("maven", ()))


def _native_parts(made: project.Project, _sandbox: wheels.Sandbox) -> Parts:
    return native.build(made.folder, made.document), ()


_PARTS = {"python": _python_parts, "java": _java_parts, "native": _native_parts}
