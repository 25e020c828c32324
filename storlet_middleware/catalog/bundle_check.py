"""Checks an uploaded bundle: its bytes in a process of its own, its manifest against a cluster."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from swift.common import constraints

from storlet_daemon.runtimes.table import API_VERSION
from storlet_middleware import child, names
from storlet_middleware.bundle import archive, languages, manifest
from storlet_middleware.bundle.languages import Form
from storlet_middleware.catalog import bundle_process
from storlet_middleware.catalog.manifests import (
    read_input,
    read_ranges,
    read_secrets,
    read_services,
)
from storlet_middleware.concurrency import WaitExpired
from storlet_middleware.config import Config
from storlet_middleware.engine import limits
from storlet_middleware.errors import BundleInvalid, InternalError, NodeBusy
from storlet_middleware.wsgi.strings import wsgi

#: To unpack and hash a bundle of 1 GiB takes 8 s.
_CPU_SECONDS: Final = 30


@dataclass(frozen=True)
class Checked:
    """A valid bundle; ``facts`` is the part of its manifest that a run needs, as JSON."""

    sha256: str
    label: str
    facts: dict[str, Any]
    metadata: dict[str, str]


class BundleChecker:
    """One instance in a proxy process."""

    def __init__(self, config: Config) -> None:
        self._config = config
        own = config.limits
        self._bounds = archive.Bounds(
            own.code_bytes,
            own.bundle_unpacked_bytes,
            own.bundle_files,
            own.bundle_ratio,
        )

    def check(self, account: str, name: str, packed: BinaryIO) -> Checked:
        """Verify the bundle in ``packed`` for the storlet ``name``.

        :raises BundleInvalid: with all faults.
        """
        found = self._verify(packed)
        faults = found["faults"]
        if not faults:
            document = found["manifest"]
            faults = _faults_of_name(name, document)
            faults += faults_here(self._config, account, name, document)
        if faults:
            raise BundleInvalid("; ".join(faults))
        return _checked(found)

    def _verify(self, packed: BinaryIO) -> dict[str, Any]:
        bounds = self._bounds
        arguments = (bounds.packed_bytes, bounds.unpacked_bytes, bounds.entries, bounds.ratio)
        try:
            status, output = child.run(
                bundle_process.__name__, packed, _CPU_SECONDS, *map(str, arguments)
            )
        except WaitExpired:
            raise NodeBusy("the check of the bundle exceeded its deadline") from None
        if status in child.TOO_MUCH:
            raise BundleInvalid("the check of the bundle exceeded its limit of CPU time or memory")
        if status:
            raise InternalError(f"the check of a bundle ended with {status}")
        found: dict[str, Any] = json.loads(output)
        return found


def faults_here(config: Config, account: str, name: str, document: Mapping[str, Any]) -> list[str]:
    """Why this cluster cannot run a manifest in the normal form as storlet ``name``."""
    faults = []
    if not manifest.fits_engine(document["engine"], API_VERSION):
        faults.append(f"engine: {document['engine']!r}: this cluster has {API_VERSION}")
    versions = config.storlet.languages.get(document["language"])
    wanted = document.get("language-version", "")
    if versions is None:
        known = ", ".join(config.storlet.languages)
        faults.append(f"language: {document['language']!r}: this cluster has {known}")
    elif wanted and wanted not in {*versions, *(each.partition(".")[0] for each in versions)}:
        faults.append(f"language-version: {wanted!r}: this cluster has {', '.join(versions)}")
    outputs, most = manifest.output_counts(document)[0], config.limits.outputs + 1
    if outputs > most:
        faults.append(f"outputs.count: {outputs}: this cluster has at most {most}")
    values, wrong = limits.declared(_limit_headers(document), document["language"])
    trust_class = config.class_of(account, name)
    wrong += limits.above_maximum(values, names.STORLET_META, trust_class)
    services = ", ".join(document.get("services", ()))
    wrong_services = read_services(services, document["language"], document["main"])[1]
    faults += [each.replace(names.META_SERVICES, "services") for each in wrong_services]
    wrong_input = read_input(document.get("input", ""), document["language"], document["main"])[1]
    faults += [each.replace(names.META_INPUT, "input") for each in wrong_input]
    ranges = str(document.get("ranges", "")).lower()
    wrong_ranges = read_ranges(ranges, document["language"], document["main"])[1]
    faults += [each.replace(names.META_RANGES, "ranges") for each in wrong_ranges]
    named = ", ".join(document.get("secrets", ()))
    wrong_secrets = read_secrets(named, document["language"])[1]
    faults += [each.replace(names.META_SECRETS, "secrets") for each in wrong_secrets]
    return faults + [f"limits.{each.replace(names.STORLET_META, '').lower()}" for each in wrong]


def _limit_headers(document: Mapping[str, Any]) -> dict[str, str]:
    return {
        names.STORLET_META + key.title(): str(value) for key, value in document["limits"].items()
    }


def _faults_of_name(name: str, document: Mapping[str, Any]) -> list[str]:
    if document["name"] == name:
        return []
    there = name + names.BUNDLE_SUFFIX
    return [f"name: {document['name']!r}: the object is {there}: use one name for both"]


def facts_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a bundle's manifest that a run needs.

    :param found: ``manifest`` in the normal form, and ``archives``.
    """
    document = found["manifest"]
    parameters = {
        name: {key: value for key, value in row.items() if key != "help"}
        for name, row in document["parameters"].items()
    }
    values, _ = limits.declared(_limit_headers(document), document["language"])
    return {
        "language": document["language"],
        "language_version": document.get("language-version", ""),
        "main": document["main"],
        "engine": document["engine"],
        "limits": values,
        "archives": found["archives"] if languages.form_of(document) is Form.JARS else [],
        "parameters": parameters,
        "arguments": document.get("arguments", []),
        "inputs": [document["inputs"]["min"], document["inputs"]["max"]],
        "outputs": list(manifest.output_counts(document)),
        "services": list(document.get("services", ())),
        "records": document.get("records", ""),
        "seekable": bool(document.get("input")),
        "ranges": bool(document.get("ranges")),
        "secrets": list(document.get("secrets", ())),
    }


def _checked(found: Mapping[str, Any]) -> Checked:
    document = found["manifest"]
    metadata = {
        names.META_LANGUAGE: document["language"],
        names.META_MAIN: document["main"],
        names.META_ARGUMENTS: shlex.join(document.get("arguments", ())),
        names.META_INPUT_TYPE: ", ".join(document["inputs"]["types"]),
        names.META_OUTPUT_TYPE: ", ".join(document["outputs"]["types"][:1]),
        names.META_SERVICES: ", ".join(document.get("services", ())),
        names.META_INPUT: document.get("input", ""),
        names.META_RANGES: "true" if document.get("ranges") else "",
        names.META_RECORDS: document.get("records", ""),
        names.META_SECRETS: ", ".join(document.get("secrets", ())),
        **_limit_headers(document),
    }
    shown = {key: wsgi(value) for key, value in metadata.items() if _can_be_metadata(value)}
    return Checked(found["sha256"], document["version"], facts_of(found), shown)


def _can_be_metadata(value: str) -> bool:
    """Whether clients see a part of the manifest in the object's metadata, where runs do not need
    it.
    """
    most = constraints.MAX_META_VALUE_LENGTH
    return bool(value) and value.isprintable() and len(wsgi(value)) <= most
