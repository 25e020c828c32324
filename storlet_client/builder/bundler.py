"""The bundle of a project: ``NAME-VERSION.storlet``.

The same project, with its lock, gives the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path

from storlet_client.builder import bundled_source, jars, native, project, rights, wheels
from storlet_client.builder import files as new_files
from storlet_client.bundle import archive, languages
from storlet_client.bundle.languages import Form

#: Bytes of a source that are named if the bundle is refused.
_MUCH = 16 << 20
_RENAME = "rename these files, or list in .gitignore of a native project what is no source"
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
    files, resolved = _PARTS[languages.form_of(document)](made, sandbox)
    others = {archive.TESTS + path: (data, 0o644) for path, data in made.test_files().items()}
    source = bundled_source.files_of(made)
    others |= {archive.SOURCE + path: each for path, each in source.items()}
    faults = [
        f"source {path!r}: {wrong}"
        for path in source
        if (wrong := archive.fault_of_file_name(path))
    ]
    faults += [
        f"source {one!r} and {other!r}: the names differ in case only"
        for one, other in archive.similar(source)
    ]
    if faults:
        raise project.ProjectError([*faults, _RENAME])
    packed = io.BytesIO()
    archive.write(packed, document, files, resolved, others)
    try:
        archive.verify(packed, archive.Bounds())
    except archive.BundleError as error:
        raise project.ProjectError([*error.faults, *_share_of(source)]) from error
    path = out / f"{document['name']}-{document['version']}{archive.SUFFIX}"
    new_files.make_folder(out)
    with new_files.replacement(path) as file:
        file.write(packed.getvalue())
    return path


def _share_of(source: bundled_source.Files) -> list[str]:
    """The size of the source of a bundle that is refused, as a line; empty if it is small."""
    sizes = {path: len(content) for path, (content, _) in source.items()}
    return [bundled_source.share_of(sizes)] if sum(sizes.values()) >= _MUCH else []


def _module_parts(made: project.Project, sandbox: wheels.Sandbox) -> Parts:
    requirements = made.document.get("requirements", ())
    libraries, resolved = wheels.install(made.folder, requirements, sandbox)
    source = made.source()
    both = sorted(libraries.keys() & source.keys())
    if both:
        raise project.ProjectError([f"src/{path}: a library has this file, too" for path in both])
    return {**source, **libraries}, resolved


def _jar_parts(made: project.Project, _sandbox: wheels.Sandbox) -> Parts:
    document = made.document
    return jars.build(made.folder, document["name"], made.source(), document.get("maven", ()))


def _file_parts(made: project.Project, _sandbox: wheels.Sandbox) -> Parts:
    return native.build(made.folder, made.document), ()


_PARTS: Mapping[Form | None, Callable[[project.Project, wheels.Sandbox], Parts]] = {
    Form.MODULES: _module_parts,
    Form.JARS: _jar_parts,
    Form.FILES: _file_parts,
}
