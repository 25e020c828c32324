"""The objects that hold records: their names and their content.

An object holds records of one account and one proxy process, a line of JSON each, oldest first.
Its name is the time of its last record and a random part::

    .runs/20261123T191117.123456Z-5f0c9a3d21b7.jsonl

The records of an object are at most :data:`SPAN_SECONDS` older than its name.  So the records of a
period are in the objects whose names are in that period, or up to the span later.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from storlet_middleware.concurrency import Pace
from storlet_middleware.records.record import Record
from storlet_middleware.wsgi.swift_paths import AccountPath

PREFIX: Final = ".runs/"
#: Of the objects that hold log lines of running storlets, which have names of the same form.
LINES_PREFIX: Final = ".lines/"
CONTENT_TYPE: Final = "application/jsonl"
SPAN_SECONDS: Final = 5.0
#: Memory of the records of an object.  A character takes up to twelve bytes of JSON, and readers
#: take 32 MiB.
MOST_BYTES: Final = 1 << 20
#: The part of a name after the prefix and before the suffix.
KEY: Final = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{6}Z-[0-9a-f]{12}", re.ASCII)
_SUFFIX: Final = ".jsonl"


@dataclass(frozen=True)
class Batch:
    """The content of one object; a repeated write has the same name."""

    account_path: AccountPath
    name: str
    records: tuple[Record, ...]

    @property
    def size_bytes(self) -> int:
        return sum(record.size_bytes for record in self.records)

    def body(self) -> bytes:
        """The lines; pauses for other requests of the process."""
        pace, lines = Pace(), []
        for record in self.records:
            lines.append(record.as_line())
            pace.pause()
        return b"".join(lines)


def batches_of(account_path: AccountPath, records: Sequence[Record]) -> Iterator[Batch]:
    """``records`` as objects; usually one."""
    ordered = sorted(records, key=lambda record: record.time)
    begin = size = 0
    for index in range(1, len(ordered) + 1):
        is_end = index == len(ordered)
        size += ordered[index - 1].size_bytes
        is_full = size > MOST_BYTES
        if is_end or is_full or ordered[index].time - ordered[begin].time > SPAN_SECONDS:
            part = tuple(ordered[begin:index])
            yield Batch(account_path, new_name(part[-1].time), part)
            begin, size = index, 0


def new_name(seconds: float, prefix: str = PREFIX) -> str:
    """A name for an object of this time."""
    return f"{name_at(seconds, prefix)}-{secrets.token_hex(6)}{_SUFFIX}"


def name_at(seconds: float, prefix: str = PREFIX) -> str:
    """The beginning of the names of objects whose last record ended at this time."""
    return prefix + datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%dT%H%M%S.%fZ")


def name_of_key(key: str, prefix: str = PREFIX) -> str:
    """The name of an object, from the part that a marker has."""
    return f"{prefix}{key}{_SUFFIX}"


def key_of_name(name: str, prefix: str = PREFIX) -> str | None:
    """The reverse; ``None`` if ``name`` is no name of such an object."""
    key = name.removeprefix(prefix).removesuffix(_SUFFIX)
    return key if KEY.fullmatch(key) and name_of_key(key, prefix) == name else None
