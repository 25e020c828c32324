"""Repetition of a recorded run in a sandbox of this machine.

A bundle has the version that ran.  Of a plain file there is the current one only, which the cluster
compares with the record after it was fetched: an earlier one never becomes current again.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from storlet_client import replay
from storlet_client.builder import plain
from storlet_client.bundle import languages, manifest
from storlet_client.errors import NotRepeatable, Refused
from storlet_client.local.run import Input
from storlet_client.local.sandbox import LocalNode
from storlet_client.operations import LIBRARY, Invocation, Storlet
from storlet_client.replay import Passing, Ran, unwatched
from storlet_client.storlets import Storlets

#: The alternative for a user without the server's package.
_BY_CLUSTER = "replay it on the cluster, without --local"
_CONDITION = 412
_METADATA = "x-object-meta-"
_DECLARED = "x-object-meta-storlet-"
_LANGUAGE_VERSION = "language-version"
_PERMISSIONS, _DEFAULT_MODE = f"{_DECLARED}dependency-permissions", "0600"


def here(
    storlets: Storlets,
    record: Mapping[str, Any],
    invocation: Invocation,
    output: BinaryIO,
    passing: Passing = unwatched,
) -> Ran:
    """Repeat the run; ``output`` is a file that gets the output.

    :raises NotRepeatable: the run is of another kind, or object or storlet have changed.
    """
    ran = record["storlets"][0]
    faults = []
    if ran["name"].startswith(LIBRARY):
        faults.append(f"{ran['name']} is of the library, which only the cluster has")
    if invocation.byte_range:
        faults.append("it read a part of its object, which only a cluster does")
    if faults:
        raise NotRepeatable(f"{record['id']}: {'; '.join(faults)}: {_BY_CLUSTER}")
    # First: a machine without sandboxes fetches nothing.
    with LocalNode(output.fileno(), _BY_CLUSTER) as node, TemporaryDirectory() as folder:
        fetch = _fetch_bundle if ran.get("sha256") else _fetch_file
        bundle = fetch(storlets, record, invocation, Path(folder), passing)
        places = [invocation.path, *invocation.resources]
        etags = [invocation.if_match, *(invocation.if_resources or [""] * (len(places) - 1))]
        inputs = [
            _fetch(storlets, record, (path, etag), Path(folder, str(number)), passing)
            for number, (path, etag) in enumerate(zip(places, etags))
        ]
        outcome = node.run(bundle, inputs, invocation.parameters, invocation.limits)
    if not outcome.is_ok:
        return Ran(outcome.code, outcome.message)
    output.seek(0)
    digest = hashlib.sha256()
    for chunk in iter(lambda: output.read(1 << 18), b""):
        digest.update(chunk)
    return Ran(replay.OK, "", output.tell(), digest.hexdigest())


def _fetch_bundle(
    storlets: Storlets,
    record: Mapping[str, Any],
    invocation: Invocation,
    folder: Path,
    passing: Passing,
) -> Path:
    place = folder / "bundle"
    name = invocation.storlet.partition("@")[0]
    versions = storlets.versions(name)
    version = replay.kept_version(record, versions)
    if not invocation.if_version:
        version = next((each for each in versions if each.current), None)
    if version is None:
        raise replay.gone(record)
    with storlets.download_version(name, version) as stream:
        _write(passing(stream, name), place)
    return place


def _fetch_file(
    storlets: Storlets,
    record: Mapping[str, Any],
    invocation: Invocation,
    folder: Path,
    passing: Passing,
) -> Path:
    """The bundle of a plain file and its dependencies, with what its metadata declares."""
    stored = storlets.show(invocation.storlet)
    if stored.name != invocation.storlet:
        raise NotRepeatable(f"{record['id']}: {stored.name} is a bundle now: {_BY_CLUSTER}")
    code = folder / "code"
    code.mkdir()
    file = _in(code, record, stored.name)
    with storlets.download(stored.name) as stream:
        _write(passing(stream, stored.name), file)
    container, needed = storlets.info().dependency_container, []
    for name in stored.dependencies:
        place = _in(code, record, name)
        with storlets.read(f"{container}/{name}") as stream:
            _write(passing(stream, name), place)
            mode = stream.headers.get(_PERMISSIONS, _DEFAULT_MODE)
            needed.append(f"{name}:{mode.replace('0o', '')}")
    if invocation.if_version and not replay.is_current(storlets, invocation):
        raise replay.gone(record)
    return plain.bundle(file, folder, stored.language, stored.main, needed, _declared(stored))


def _declared(stored: Storlet) -> dict[str, Any]:
    """The values of a manifest that the metadata of a plain file has."""
    known = manifest.schema()["properties"]["limits"]["properties"]
    limits = {name: text for name, text in stored.declared.items() if name in known}
    found: dict[str, Any] = {"limits": limits} if limits else {}
    if (
        stored.language in languages.owners_of(_LANGUAGE_VERSION)
        and _LANGUAGE_VERSION in stored.declared
    ):
        found[_LANGUAGE_VERSION] = stored.declared[_LANGUAGE_VERSION]
    return found


def _in(folder: Path, record: Mapping[str, Any], name: str) -> Path:
    """The place of a file, whose name comes from the cluster."""
    if name in {"", ".", ".."} or "/" in name:
        raise NotRepeatable(f"{record['id']}: {name!r} is no name of a file: {_BY_CLUSTER}")
    return folder / name


def _fetch(
    storlets: Storlets,
    record: Mapping[str, Any],
    given: tuple[str, str],
    place: Path,
    passing: Passing,
) -> Input:
    """The object with a path and an ETag."""
    path, etag = given
    try:
        with storlets.read(path, etag) as stream:
            _write(passing(stream, path), place)
            headers = stream.headers
    except Refused as error:
        if error.status == _CONDITION:
            raise replay.changed(record, path) from error
        raise
    metadata = {
        key[len(_METADATA) :].title(): value
        for key, value in headers.items()
        if key.startswith(_METADATA) and not key.startswith(_DECLARED)
    }
    return Input(place, metadata)


def _write(chunks: Iterable[bytes], place: Path) -> None:
    with place.open("wb") as target:
        for chunk in chunks:
            target.write(chunk)


def keep(output: BinaryIO, target: BinaryIO) -> None:
    """Copy an output from its start."""
    output.seek(0)
    shutil.copyfileobj(output, target)
