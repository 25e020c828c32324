"""The system library: storlets that every account has, named ``std:NAME``.

They come with this package (``storlets/std/``, a folder each) and from the operator's folders
(``[library] folders``).  A folder has the form of a project of ``storlet init``: ``storlet.toml``
and ``src/``, in which links may lead to modules of the folder ``shared/`` beside it.  It is packed
as a bundle when a server process starts.  All else is the same as for a tenant's bundle: typed
parameters, the code cache of each tenant, and a sandbox of the tenant with the trust class
``user``.

No account stores a storlet of the library, so its files have no container.  A proxy and an object
node both read their own installed copies (:class:`LibraryFetcher`), and the hash in the
description of an invocation says which version the proxy means.  A node with another version
answers with plain data, and the proxy runs the storlet.  The bundle is packed without compression:
equal files have equal hashes with every version of zlib.
"""

from __future__ import annotations

import functools
import hashlib
import io
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from storlet_middleware import names
from storlet_middleware.bundle import archive, manifest
from storlet_middleware.catalog import bundle_check
from storlet_middleware.catalog.bundle_store import version_of
from storlet_middleware.catalog.manifests import ContentTypes
from storlet_middleware.config import Config, ConfigError, nearest
from storlet_middleware.engine.code_cache import Fetcher
from storlet_middleware.engine.storlet_version import CodeFile, StorletVersion
from storlet_middleware.errors import InternalError, StorletNotFound
from storlet_middleware.wsgi.swift_paths import ContainerPath

#: The folders that come with this package; a link to ``storlets/std``.
FOLDER: Final = Path(__file__).resolve().parents[1] / "std"
_MANIFEST: Final = "storlet.toml"
_SOURCE: Final = "src"
#: Modules that several storlets share, each by a link in its source.
_SHARED: Final = "shared"
#: The members that are code of the proxy (:mod:`storlet_middleware.flows`), as ``/info`` has them.
_FLOWS: Final[Mapping[str, Mapping[str, Any]]] = {
    names.SEQUENCE: {
        "version": "1.0",
        "summary": "Runs several storlets, each on the output of the one before",
        "parameters": {
            "steps": {
                "type": "string",
                "help": "JSON list of 1 to 16 steps, each an object with storlet, parameters and"
                " limits",
            },
            "steps-object": {
                "type": "string",
                "help": "/container/object with such a list, instead of steps",
            },
        },
    },
    names.DISTRIBUTED: {
        "version": "1.0",
        "summary": "Runs a storlet on many objects, each where its data are: POST of an account,"
        " with a body of JSON",
        "parameters": {},
    },
}
#: Fields of a manifest that need a build, which has no place at the start of a server.
_BUILT: Final = ("requirements", "maven")


@dataclass(frozen=True)
class Member:
    """A storlet of the library.

    :param document: its manifest in the normal form.
    :param facts: the part of it that a run needs, as for bundles.
    """

    name: str
    document: Mapping[str, Any]
    packed: bytes
    facts: Mapping[str, Any]

    @functools.cached_property
    def file(self) -> CodeFile:
        etag = hashlib.md5(self.packed, usedforsecurity=False).hexdigest()
        return CodeFile("", self.name + names.BUNDLE_SUFFIX, etag, "", len(self.packed), 0o444)

    def version_for(self, account: str) -> StorletVersion:
        """The storlet as it runs for ``account``."""
        return version_of(ContainerPath("", account, ""), self.name, self.facts, self.file)

    @property
    def types(self) -> ContentTypes:
        """The content types that its manifest declares."""
        outputs = self.document["outputs"]["types"]
        return ContentTypes(tuple(self.document["inputs"]["types"]), (*outputs, None)[0])

    def published(self) -> dict[str, Any]:
        """Its row in ``/info`` and in the answer to ``?storlet-library``."""
        return {
            "version": self.document["version"],
            "sha256": self.facts["sha256"],
            "language": self.document["language"],
            "summary": self.document.get("summary", ""),
            "parameters": self.document["parameters"],
        }


class Library:
    """The storlets of one configuration.

    :param unavailable: the reason for each storlet that cannot be used.
    """

    def __init__(self, members: Mapping[str, Member], unavailable: Mapping[str, str]) -> None:
        self._members = {name: each for name, each in members.items() if name not in unavailable}
        self._unavailable = unavailable

    @property
    def names(self) -> list[str]:
        """The storlets and flows that can be used."""
        return sorted([*self._members, *(name for name in _FLOWS if name not in self._unavailable)])

    def member(self, name: str) -> Member:
        """The storlet ``name``.

        :raises StorletNotFound: the library has none, or the operator has switched it off.
        """
        found = self._members.get(name)
        if found is not None:
            return found
        self.require_available(name)
        if name in _FLOWS:
            raise StorletNotFound(
                f"{name}: a flow is no storlet: no rule and no flow can run it, and"
                f" {names.DISTRIBUTED} is a POST of the account"
            )
        raise StorletNotFound(f"the library has no storlet {name}{nearest(name, self.names)}")

    def require_available(self, name: str) -> None:
        """Raise :class:`~.errors.StorletNotFound` if the operator has switched ``name`` off."""
        if name in self._unavailable:
            raise StorletNotFound(f"{name}: {self._unavailable[name]}")

    def has(self, version: StorletVersion) -> bool:
        """Whether the installed files are those of ``version``."""
        found = self._members.get(version.name)
        return found is not None and found.facts["sha256"] == version.digest

    def published(self) -> dict[str, Any]:
        """All storlets by name, for ``/info``."""
        return {
            name: self._members[name].published() if name in self._members else dict(_FLOWS[name])
            for name in self.names
        }


class LibraryFetcher:
    """Fetches the code of the library from the installed files, and all else with ``others``."""

    def __init__(self, library: Library, others: Fetcher) -> None:
        self._library = library
        self._others = others

    def fetch(self, account: str, file: CodeFile) -> Iterator[bytes]:
        """See :class:`~storlet_middleware.engine.code_cache.Fetcher`."""
        name = file.name.removesuffix(names.BUNDLE_SUFFIX)
        if file.container or not names.is_library(name):
            yield from self._others.fetch(account, file)
            return
        member = self._library.member(name)
        if member.file != file:
            raise InternalError(f"{name}: this node has another version of it")
        yield member.packed


def library_of(config: Config) -> Library:
    """The library of a configuration.

    :raises ConfigError: with every fault of the section ``[library]`` and the operator's folders.
    """
    members = dict(_own_members())
    faults: list[str] = []
    for place in _operators_places(config.library.folders, faults):
        wrong, document = _checked(place, config)
        faults += wrong
        if wrong:
            continue
        member = _member(place, document)
        if member.name in members or member.name in _FLOWS:
            faults.append(f"{place}: the library has a storlet {member.name} already")
        members.setdefault(member.name, member)
    disabled, known = config.library.disabled, [*sorted(members), *_FLOWS]
    faults += [
        f"disabled = {name}: the library has no such storlet{nearest(name, known)}"
        for name in disabled
        if name not in known
    ]
    if faults:
        path = config.path or "options"
        raise ConfigError("\n".join(f"{path}: [library] {each}" for each in faults))
    unavailable = {
        name: "; ".join(faults)
        for name, each in members.items()
        if (faults := bundle_check.faults_here(config, "", name, each.document))
    }
    unavailable |= dict.fromkeys(disabled, "the operator of this cluster has switched it off")
    return Library(members, unavailable)


@functools.lru_cache(maxsize=1)
def _own_members() -> Mapping[str, Member]:
    """The storlets of this package; its tests check their manifests."""
    places = [path.parent for path in sorted(FOLDER.glob(f"*/{_MANIFEST}"))]
    found = [_member(place, _document(place)) for place in places]
    return {member.name: member for member in found}


def _operators_places(folders: tuple[str, ...], faults: list[str]) -> Iterator[Path]:
    for folder in map(Path, folders):
        try:
            found = sorted(each for each in folder.iterdir() if each.is_dir())
        except OSError as error:
            faults.append(f"folders = {folder}: {error.strerror}")
            continue
        yield from (each for each in found if each.name != _SHARED and each.name[0] != ".")


def _document(place: Path) -> dict[str, Any]:
    return tomllib.loads((place / _MANIFEST).read_text(encoding="utf-8"))


def _checked(place: Path, config: Config) -> tuple[list[str], dict[str, Any]]:
    """The faults of an operator's storlet, and its manifest."""
    try:
        document = _document(place)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return [f"{place / _MANIFEST}: {error}"], {}
    faults = [str(each) for each in manifest.faults_of(document)]
    if not faults:
        normal = manifest.normal(document)
        faults = bundle_check.faults_here(config, "", names.LIBRARY + document["name"], normal)
        faults += [
            f"{key}: requires a build, and a library has source only"
            for key in _BUILT
            if document.get(key)
        ]
        if not any((place / _SOURCE).rglob("*.py")):
            faults.append(f"there is no Python source below {_SOURCE}/")
    return [f"{place / _MANIFEST}: {each}" for each in faults], document


def _member(place: Path, document: Mapping[str, Any]) -> Member:
    """The storlet of a valid folder; its cases are not a part of it."""
    document = {key: value for key, value in document.items() if key != "tests"}
    top = place / _SOURCE
    files = {
        path.relative_to(top).as_posix(): (path.read_bytes(), 0o644)
        for path in sorted(top.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = io.BytesIO()
    archive.write(packed, document, files, is_compressed=False)
    normal = manifest.normal(document)
    digest = hashlib.sha256(packed.getvalue()).hexdigest()
    found = {"manifest": normal, "sha256": digest, "archives": []}
    facts = {**bundle_check.facts_of(found), "sha256": digest}
    return Member(names.LIBRARY + document["name"], normal, packed.getvalue(), facts)
