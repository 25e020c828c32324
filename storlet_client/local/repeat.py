"""Repetition of a recorded run in a sandbox of this machine."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from storlet_client import replay
from storlet_client.errors import NotRepeatable, Refused
from storlet_client.local.run import Input
from storlet_client.local.sandbox import LocalNode
from storlet_client.operations import LIBRARY, Invocation
from storlet_client.replay import Passing, Ran, unwatched
from storlet_client.storlets import Storlets

#: The alternative for a user without the server's package.
_BY_CLUSTER = "replay it on the cluster, without --local"
_CONDITION = 412
_METADATA = "x-object-meta-"
_DECLARED = "x-object-meta-storlet-"


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
    if not ran.get("sha256"):
        faults.append(f"{ran['name']} is a plain file, and only bundles run here")
    elif ran["name"].startswith(LIBRARY):
        faults.append(f"{ran['name']} is of the library, which only the cluster has")
    if invocation.byte_range:
        faults.append("it read a part of its object, which only a cluster does")
    if faults:
        raise NotRepeatable(f"{record['id']}: {'; '.join(faults)}: {_BY_CLUSTER}")
    # First: a machine without sandboxes fetches nothing.
    with LocalNode(output.fileno(), _BY_CLUSTER) as node, TemporaryDirectory() as folder:
        bundle = Path(folder, "bundle")
        _fetch_bundle(storlets, record, invocation, bundle, passing)
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
    place: Path,
    passing: Passing,
) -> None:
    name = invocation.storlet.partition("@")[0]
    versions = storlets.versions(name)
    version = replay.kept_version(record, versions)
    if not invocation.if_version:
        version = next((each for each in versions if each.current), None)
    if version is None:
        raise replay.gone(record)
    with storlets.download_version(name, version) as stream:
        _write(passing(stream, name), place)


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
    """Copy an output from its begin."""
    output.seek(0)
    shutil.copyfileobj(output, target)
