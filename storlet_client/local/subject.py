"""The subject of a local command: the folder of a project, or a bundle."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from storlet_client.builder import bundler, project, rights, wheels
from storlet_client.builder.project import SOURCE, Project, ProjectError
from storlet_client.bundle import archive

_NEITHER = (
    f"neither the folder of a project nor a bundle ({archive.SUFFIX}): the plain file of a storlet"
    " is run by 'storlet run', and checked by 'storlet deploy' in the cluster"
)


@dataclass(frozen=True)
class Subject:
    """A valid project, or a verified bundle.

    :param path: the folder or the file.
    :param document: the manifest.
    """

    path: Path
    document: dict[str, Any]

    @property
    def is_bundle(self) -> bool:
        return self.path.is_file()

    @contextmanager
    def as_bundle(self) -> Iterator[Path]:
        """The bundle; that of a project exists during the block only."""
        if self.is_bundle:
            yield self.path
            return
        with TemporaryDirectory() as folder:
            rights.give(Path(folder), rights.user_of(self.path))
            yield bundler.build(self.path, Path(folder), wheels.Sandbox())

    @contextmanager
    def as_built(self) -> Iterator[Project]:
        """A project with the code of the bundle below ``src/``, during the block only."""
        with self.as_bundle() as bundle, TemporaryDirectory() as folder:
            _unpack(bundle, archive.CODE, Path(folder, SOURCE))
            yield Project(Path(folder), self.document)

    @contextmanager
    def as_project(self) -> Iterator[Project]:
        """The project, or that of a bundle as :meth:`as_built`."""
        if not self.is_bundle:
            yield Project(self.path, self.document)
            return
        with self.as_built() as project:
            yield project

    @contextmanager
    def with_cases(self) -> Iterator[Project]:
        """The project; of a bundle, the cases whose files it has, during the block only."""
        if not self.is_bundle:
            yield Project(self.path, self.document)
            return
        cases = [case for case in self.document.get("tests", ()) if _is_packed(case)]
        with TemporaryDirectory() as folder:
            _unpack(self.path, archive.TESTS, Path(folder))
            yield Project(Path(folder), {**self.document, "tests": cases})

    @property
    def left_out(self) -> list[str]:
        """The names of the cases whose files a bundle does not have."""
        cases = self.document.get("tests", ()) if self.is_bundle else ()
        return [case["name"] for case in cases if not _is_packed(case)]


def _is_packed(case: Mapping[str, Any]) -> bool:
    return bool(case.get("upload", True))


def read(path: Path) -> Subject:
    """The project in a folder, or the bundle in a file.

    :raises ProjectError: with all faults.
    """
    if path.is_dir():
        return Subject(path, project.read(path).document)
    try:
        with path.open("rb") as packed:
            return Subject(path, archive.verify(packed, archive.Bounds()).manifest)
    except archive.BundleError as error:
        if not is_bundle(path):
            raise ProjectError([f"{path}: {_NEITHER}"]) from error
        raise ProjectError([f"{path}: {fault}" for fault in error.faults]) from error
    except OSError as error:
        raise ProjectError([f"{path}: {error.strerror}"]) from error


def is_bundle(path: Path) -> bool:
    """Whether a file is to be read as a bundle: by its name, or because it has a manifest."""
    if path.suffix == archive.SUFFIX or not path.is_file():
        return path.is_file()
    try:
        with zipfile.ZipFile(path) as zipped:
            return archive.MANIFEST in zipped.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def _unpack(bundle: Path, prefix: str, target: Path) -> None:
    """Write the files below ``prefix`` of a bundle that was verified: paths lead nowhere else."""
    with zipfile.ZipFile(bundle) as zipped:
        for info in zipped.infolist():
            if info.filename.startswith(prefix):
                place = target / info.filename[len(prefix) :]
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(zipped.read(info))
                place.chmod((info.external_attr >> 16) & 0o777)
