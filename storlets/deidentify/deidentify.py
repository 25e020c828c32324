"""Remove personal data from a CSV object: drop, mask or hash columns by name.

Parameters::

    drop       columns to leave out:                name,email
    mask       columns of which only the last ``keep`` characters stay readable
    keep       the number of readable characters    default: 0
    hash       columns replaced by a keyed hash: the same value gives the same pseudonym,
               so that rows can still be joined
    secret     the key of the hash; needed with ``hash``. Send it as a header: query strings
               are written to access logs
    delimiter  one character                        default: ,

It fails closed: a missing column, a row that does not fit the header, a missing secret, or no
named column is an error.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
from collections.abc import Callable, Iterable, Iterator
from typing import Any

FLUSH_CHARACTERS = 64 * 1024
PSEUDONYM_DIGITS = 16

Change = Callable[[str], str]


class Deidentify:
    """Rewrite each row by one change per named column."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        """Write the input without the named data; raise ValueError where this is not guaranteed."""
        delimiter = params.get("delimiter", ",")
        rows = csv.reader(decoded(in_files[0]), delimiter=delimiter, strict=True)
        header = next(rows, None)
        if header is None:
            raise ValueError("the input is empty: it has no header to find columns in")
        dropped, changes = plan(header, params)
        out_files[0].set_metadata({"Content-Type": "text/csv; charset=utf-8"})
        kept = [index for index in range(len(header)) if index not in dropped]
        write_rows(
            out_files[0],
            [header[i] for i in kept],
            changed(rows, len(header), kept, changes),
            delimiter,
        )


def plan(header: list[str], params: dict[str, str]) -> tuple[set[int], dict[int, Change]]:
    """The columns to drop and the changes of others; every named column must exist."""
    dropped = set(indexes(header, params.get("drop", "")))
    keep = int(params.get("keep", "0"))
    if keep < 0:
        raise ValueError("keep must not be negative")
    changes: dict[int, Change] = dict.fromkeys(
        indexes(header, params.get("mask", "")), lambda value: masked(value, keep)
    )
    hashed = indexes(header, params.get("hash", ""))
    secret = params.get("secret", "").encode()
    if hashed and not secret:
        raise ValueError(
            "hash needs the parameter secret: without a key a hash can be guessed back"
        )
    changes.update(dict.fromkeys(hashed, lambda value: pseudonym(value, secret)))
    if not dropped and not changes:
        raise ValueError("name at least one column in drop, mask or hash")
    return dropped, changes


def indexes(header: list[str], names: str) -> list[int]:
    """Positions of the named columns; of all of them when a name occurs twice in the header."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    missing = [name for name in wanted if name not in header]
    if missing:
        raise ValueError(f"no column {', '.join(missing)}; there are: {', '.join(header)}")
    return [index for index, name in enumerate(header) if name in wanted]


def masked(value: str, keep: int) -> str:
    """Stars, and the last ``keep`` characters; a value that short is all stars."""
    shown = value[-keep:] if 0 < keep < len(value) else ""
    return "*" * (len(value) - len(shown)) + shown


def pseudonym(value: str, secret: bytes) -> str:
    """The first 16 hexadecimal digits of HMAC-SHA-256."""
    digest = hmac.new(secret, value.encode("utf-8", "surrogateescape"), hashlib.sha256)
    return digest.hexdigest()[:PSEUDONYM_DIGITS]


def changed(
    rows: Iterable[list[str]], width: int, kept: list[int], changes: dict[int, Change]
) -> Iterator[list[str]]:
    """Each row with its changes applied; a row of another width is an error, since its columns are
    unknown."""
    for number, row in enumerate(rows, start=1):
        if not row:
            continue
        if len(row) != width:
            raise ValueError(f"row {number} has {len(row)} fields, the header {width}")
        yield [changes[i](row[i]) if i in changes else row[i] for i in kept]


def decoded(source: Iterable[bytes]) -> Iterator[str]:
    """UTF-8 lines to text, without a byte order mark (it would hide the first column's name)."""
    for number, line in enumerate(source):
        text = line.decode("utf-8", "surrogateescape")
        yield text.removeprefix("\ufeff") if number == 0 else text


def write_rows(target: Any, header: list[str], rows: Iterable[list[str]], delimiter: str) -> None:
    """Write as CSV in pieces of about 64 KiB."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow(row)
        if buffer.tell() >= FLUSH_CHARACTERS:
            flush(buffer, target)
    flush(buffer, target)


def flush(buffer: io.StringIO, target: Any) -> None:
    """Move the content of the buffer to the output."""
    target.write(buffer.getvalue().encode("utf-8", "surrogateescape"))
    buffer.seek(0)
    buffer.truncate()
