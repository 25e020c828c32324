"""The objects to pack, and the comparison with the same list at the end."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from typing import Any

from parameters import shown
from refusal import Refusal
from storlet import services

MOST_MEMBERS = 100_000
DIGEST_BYTES = 16


class PackError(Refusal):
    """The objects cannot be packed."""


class Listing:
    """The objects of a container whose names begin with ``prefix``, in their order."""

    def __init__(self, container: str, prefix: str) -> None:
        self._container = container
        self._prefix = prefix
        self._digests: list[bytes] = []

    def entries(self) -> Iterator[Any]:
        """The entries, at least one.

        :raises PackError: there is none.
        """
        found = self._found()
        first = next(found, None)
        if first is None:
            what = f"has no object that begins with {shown(self._prefix)}"
            raise PackError(f"container {shown(self._container)} {what}")
        return self._noted(itertools.chain((first,), found))

    def _found(self) -> Iterator[Any]:
        return iter(services.list(self._container, prefix=self._prefix))

    def _noted(self, found: Iterator[Any]) -> Iterator[Any]:
        for number, entry in enumerate(found, 1):
            if number > MOST_MEMBERS:
                raise PackError(f"there are more than {MOST_MEMBERS} objects")
            self._digests.append(digest_of(entry))
            yield entry

    def require_unchanged(self) -> None:
        """Compare all entries that were taken with the list of now.

        :raises PackError: an object was added, changed or deleted.
        """
        for digest, entry in itertools.zip_longest(self._digests, self._found()):
            if entry is None or digest != digest_of(entry):
                where = "the last one" if entry is None else shown(entry.name)
                raise PackError(
                    "objects were added, changed or deleted while they were packed; the first"
                    f" difference is at {where}"
                )


def digest_of(entry: Any) -> bytes:
    """A short form of all facts of an entry that change with its object."""
    facts = (entry.name, entry.size, entry.etag, entry.last_modified)
    return hashlib.blake2b(repr(facts).encode(), digest_size=DIGEST_BYTES).digest()
