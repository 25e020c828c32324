"""One exact storlet version: every byte that will run, by hash and time of upload.

Its key decides the code directory on the node and, with the limits that hold, the worker group and
its socket, so a mix of two versions can never run.  The limits that the storlet declares, and its
wish for records, come with it, but are not part of the key: a change of them takes effect at once
and fetches nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final

from storlet_daemon.protocol import messages
from storlet_middleware.names import BUNDLE_SUFFIX

#: With the most dependencies that metadata can name, a version takes 80 KB, and the number of a
#: tenant's versions is unbounded.
MAX_VERSIONS: Final = 256
#: Each value of a limit in a request makes a worker group of its own.
_MAX_GROUPS: Final = 16
#: Fields that do not change the code; see the module.
_NOT_IN_KEY: Final = (
    "limits", "records", "parameters", "archives", "inputs", "outputs", "services", "seekable",
    "ranges", "number", "secrets",
)  # fmt: skip


@dataclass(frozen=True)
class CodeFile:
    """One object that becomes one file.

    ``etag`` is the MD5 of its bytes, or empty where Swift has no such hash (large objects);
    ``mode`` is the mode of the file on the node.
    """

    container: str
    name: str
    etag: str
    timestamp: str
    size: int
    mode: int
    is_segmented: bool = False

    @property
    def file_name(self) -> str:
        """Its name on the node, without the folders that only versions of bundles have."""
        return self.name.rpartition("/")[2]


@dataclass(frozen=True)
class StorletVersion:
    """A storlet as it will run: ``files[0]`` is the storlet, the others are its dependencies.

    ``limits`` are those that it declares, by the names of
    :data:`storlet_middleware.engine.limits.TABLE`.  ``records`` is its wish for records of runs.

    ``arguments`` are those of a native program.

    A bundle is one file.  ``digest`` is the SHA-256 of its bytes, ``archives`` are its jars, and
    ``parameters`` is the content of its manifest about them.  ``inputs`` is its least and greatest
    number of inputs, ``outputs`` that of outputs; empty: any.  ``services`` are the operations on
    the store that it declares, ``secrets`` the names of the secrets, ``seekable``: it seeks in its
    inputs, ``ranges``: it can give a range of its output.  Only the proxy needs ``parameters``,
    ``inputs``, ``outputs``, ``records``, ``services``, ``ranges`` and ``secrets``.  ``number`` is
    that of the version of a bundle, for records; 0: it has none.
    """

    account: str
    name: str
    language: str
    language_version: str
    main: str
    files: tuple[CodeFile, ...]
    limits: Mapping[str, float] = field(default_factory=dict)
    records: str = ""
    digest: str = ""
    archives: tuple[str, ...] = ()
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    arguments: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    seekable: bool = False
    ranges: bool = False
    number: int = 0
    secrets: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """64 hex digits that change with anything that matters to the code."""
        replaced = "files" if self.digest else "digest"
        left_out = {*_NOT_IN_KEY, replaced}
        if not self.arguments:
            left_out.add("arguments")  # versions keep the key that they had before there were any
        # The hash of a bundle says it all: the current version is the same code under its number.
        code = {name: value for name, value in asdict(self).items() if name not in left_out}
        return hashlib.sha256(json.dumps(code, sort_keys=True).encode()).hexdigest()

    @cached_property
    def text(self) -> str:
        """All of it as JSON, for :meth:`from_text`."""
        return _as_json(self._fields())

    @cached_property
    def for_node(self) -> str:
        """The same for an object node; older nodes know only plain storlets, without a wish for
        records.
        """
        fields = self._fields()
        del fields["records"]
        for name in ("inputs", "outputs", "services", "ranges", "number", "secrets"):
            fields.pop(name, None)
        if "parameters" in fields:
            fields["parameters"] = {}
        return _as_json(fields)

    def _fields(self) -> dict[str, Any]:
        fields = asdict(self)
        if not self.digest:
            for name in ("digest", "archives", "parameters", "inputs"):
                del fields[name]
        if not self.arguments:
            del fields["arguments"]
        for name in ("outputs", "services", "seekable", "ranges", "number", "secrets"):
            if not fields[name]:
                del fields[name]
        return fields

    @staticmethod
    def from_text(text: str) -> StorletVersion:
        """Reverse of :attr:`text`; raises ``TypeError``, ``KeyError`` or ``ValueError`` if it is
        none.

        The same text gives the same object, so its cached properties are computed once.
        """
        return _of_text(text)

    def load_request(self, group: str, resources: messages.Resources) -> messages.Storlet:
        """The request to sandboxd to load this code in a ``group`` with ``resources``."""
        known = self._load_requests.get(group)
        if known is None:
            if len(self._load_requests) >= _MAX_GROUPS:
                self._load_requests.clear()
            known = self._load_requests[group] = self._load_request(group, resources)
        return known

    @cached_property
    def _load_requests(self) -> dict[str, messages.Storlet]:
        """By group; most runs of a version are in the same one."""
        return {}

    def _load_request(self, group: str, resources: messages.Resources) -> messages.Storlet:
        # The jars of a bundle are in the folder of its code, like a plain storlet's.
        archives = self.archives or (self.name + BUNDLE_SUFFIX if self.digest else self.name,)
        file, *dependencies = [*archives, *(each.name for each in self.files[1:])]
        return messages.Storlet(
            name=self.name,
            version=group,
            code=self.key,
            language=self.language,
            main=self.main,
            file=file,
            language_version=self.language_version or None,
            dependencies=dependencies,
            arguments=self.arguments,
            limits=resources,
        )


def _as_json(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


@lru_cache(maxsize=MAX_VERSIONS)
def _of_text(text: str) -> StorletVersion:
    fields = json.loads(text)
    files = tuple(CodeFile(**file) for file in fields["files"])
    names = ("archives", "inputs", "outputs", "arguments", "services", "secrets")
    lists = {name: tuple(fields.get(name, ())) for name in names}
    return StorletVersion(**{**fields, "files": files, **lists})
