"""Records of one length as CSV, which the engine reads with the types of their fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import csv_table
import structure
from sql_check import SqlError, folded_name

#: Types in SQL by kind and size of a field.
TYPES = {
    "b": "TINYINT", "h": "SMALLINT", "i": "INTEGER", "q": "BIGINT", "B": "UTINYINT",
    "H": "USMALLINT", "I": "UINTEGER", "Q": "UBIGINT", "f": "FLOAT", "d": "DOUBLE",
}  # fmt: skip


class AsCsv:
    """A file of CSV.

    :ivar columns: names and types in SQL.
    :ivar head: the first line.
    """

    def __init__(self, source: Any, struct: str) -> None:
        """
        :raises structure.StructureError: the struct is not valid.
        :raises SqlError: two of its names are one in SQL.
        """
        self.layout = structure.parse(struct)
        names: dict[str, str] = {}
        for field in self.layout.fields:
            first = names.setdefault(folded_name(field.name), field.name)
            if first != field.name:
                raise SqlError(f"struct: the names {first} and {field.name} are one name in SQL")
        self.columns = [
            (field.name, TYPES.get(field.code, "VARCHAR")) for field in self.layout.fields
        ]
        self.head = csv_table.head_of(self.columns)
        self._source = source
        self._rest = b""
        self._read = self._number = 0
        self._texts = [_writer(field) for field in self.layout.fields]

    def read(self, size: int) -> bytes:
        """The lines of some records, and none only at the end.

        :raises SqlError: the object is cut, or a text is not valid.
        """
        lines: list[str] = []
        while not lines:
            block = self._source.read(size)
            if not block:
                break
            self._read += len(block)
            data = self._rest + block
            whole = len(data) - len(data) % self.layout.size
            self._rest = data[whole:]
            for values in self.layout.packing.iter_unpack(memoryview(data)[:whole]):
                self._number += 1
                lines.append(self._line(values))
        if not lines and self._rest:
            raise SqlError(
                f"the object has {self._read} bytes, which is no multiple of {self.layout.size},"
                " the length of a record"
            )
        return "".join(lines).encode()

    def _line(self, values: tuple[Any, ...]) -> str:
        try:
            return ",".join([text(value) for text, value in zip(self._texts, values)]) + "\n"
        except ValueError:
            wrong = self._wrong_field(values)
            raise SqlError(
                f"record {self._number}: {wrong}: is no UTF-8 without NUL: a field bN has bytes"
            ) from None

    def _wrong_field(self, values: tuple[Any, ...]) -> str:
        for field, text, value in zip(self.layout.fields, self._texts, values):
            try:
                text(value)
            except ValueError:
                return repr(field.name)
        raise AssertionError("a field is not valid")


def _writer(field: structure.Field) -> Callable[[Any], str]:
    """The function that gives the text of a value."""
    if field.kind == "s":
        return _text
    return bytes.hex if field.kind == "b" else repr


def _text(packed: bytes) -> str:
    text = packed.rstrip(b"\0").decode()
    if "\0" in text:
        raise ValueError
    return csv_table.quoted(text)
