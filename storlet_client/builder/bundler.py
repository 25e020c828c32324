"""The bundle of a project: ``NAME-VERSION.storlet``.

The same project, with its lock, gives the same bytes.  Only Python projects can be built yet.
"""

from __future__ import annotations

import io
from pathlib import Path

from storlet_client.builder import project, wheels
from storlet_client.bundle import archive


def build(folder: Path, out: Path, sandbox: wheels.Sandbox) -> Path:
    """Build the project in ``folder``; the path of the bundle, in the folder ``out``.

    :raises ProjectError: with all faults.
    """
    made = project.read(folder)
    document = made.document
    if document["language"] != "python":
        raise project.ProjectError(
            [f"language: {document['language']!r}: storlet build makes bundles of python only"]
        )
    libraries, resolved = wheels.install(folder, document.get("requirements", ()), sandbox)
    source = made.source()
    both = sorted(libraries.keys() & source.keys())
    if both:
        raise project.ProjectError([f"src/{path}: a library has this file, too" for path in both])
    packed = io.BytesIO()
    archive.write(packed, document, {**source, **libraries}, resolved)
    try:
        archive.verify(packed, archive.Bounds())
    except archive.BundleError as error:
        raise project.ProjectError(error.faults) from error
    path = out / f"{document['name']}-{document['version']}{archive.SUFFIX}"
    out.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(packed.getvalue())
    partial.replace(path)
    return path
