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
from typing import Final

from storlet_daemon.protocol import messages

#: With the most dependencies that metadata can name, a version takes 80 KB, and the number of a
#: tenant's versions is unbounded.
MAX_VERSIONS: Final = 256
_NOT_CODE: Final = ("limits", "records")


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


@dataclass(frozen=True)
class StorletVersion:
    """A storlet as it will run: ``files[0]`` is the storlet, the others are its dependencies.

    ``limits`` are those that it declares, by the names of
    :data:`storlet_middleware.engine.limits.TABLE`.  ``records`` is its wish for records of
    runs, for the proxy only: object nodes of the release before do not know the field.
    """

    account: str
    name: str
    language: str
    language_version: str
    main: str
    files: tuple[CodeFile, ...]
    limits: Mapping[str, float] = field(default_factory=dict)
    records: str = ""

    @cached_property
    def key(self) -> str:
        """64 hex digits that change with anything that matters to the code."""
        code = {name: value for name, value in asdict(self).items() if name not in _NOT_CODE}
        return hashlib.sha256(json.dumps(code, sort_keys=True).encode()).hexdigest()

    @cached_property
    def text(self) -> str:
        """All of it as JSON, for :meth:`from_text`."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @cached_property
    def node_text(self) -> str:
        """The same for an object node."""
        fields = asdict(self)
        del fields["records"]
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_text(text: str) -> StorletVersion:
        """Reverse of :attr:`text`; raises ``TypeError``, ``KeyError`` or ``ValueError`` if it is
        none.

        The same text gives the same object, so its cached properties are computed once.
        """
        return _of_text(text)

    def load_request(self, group: str, resources: messages.Resources) -> messages.Storlet:
        """The request to sandboxd to load this code in a ``group`` with ``resources``."""
        return messages.Storlet(
            name=self.name,
            version=group,
            code=self.key,
            language=self.language,
            main=self.main,
            file=self.name,
            language_version=self.language_version or None,
            dependencies=[file.name for file in self.files[1:]],
            limits=resources,
        )


@lru_cache(maxsize=MAX_VERSIONS)
def _of_text(text: str) -> StorletVersion:
    fields = json.loads(text)
    return StorletVersion(
        **{**fields, "files": tuple(CodeFile(**file) for file in fields["files"])}
    )
