"""Records of one length, made of the engine's JSON lines.

The columns have the names of the fields.  A value that its field cannot keep is an error: a text
that is too long, a number that is out of range or would be rounded, and no value.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import structure
from table_outputs import VARIANT, is_nested, json_of
from parameters import shown
from sql_check import SqlError
from sql_engine import Engine, identifier

TYPE = "application/octet-stream"
WHOLE = (
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
    "UBIGINT",
)  # fmt: skip
REAL = ("DOUBLE", "FLOAT")


class FromLines:
    """A file that takes JSON lines, and writes records to ``target``."""

    def __init__(self, target: Any, text: str, columns: Sequence[tuple[str, str]]) -> None:
        """
        :param columns: names and types in SQL.
        :raises SqlError: the fields are not the columns, or cannot have their types.
        """
        self._target = target
        self._layout = structure.parse(text)
        self._types = dict(columns)
        self._rest = b""
        self._number = 0
        self._require_fields()
        self._packers = [(each.name, _packer(each)) for each in self._layout.fields]

    def query(self, engine: Engine, table: str) -> str:
        """The SELECT of the fields, whose JSON keeps their values.

        :raises SqlError: a nested value has no JSON that keeps it.
        """
        shown = ", ".join(
            f"{self._expression(engine, field)} AS {identifier(field.name)}"
            for field in self._layout.fields
        )
        return f"SELECT {shown} FROM {table}"  # noqa: S608

    def write(self, data: bytes) -> None:
        """Take a part of the lines.

        :raises SqlError: a field cannot keep a value.
        """
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        self._target.write(b"".join(self._packed(line) for line in lines))

    def finish(self) -> None:
        """Check the end."""
        if self._rest:
            raise SqlError("the last row of the result is cut")

    def _require_fields(self) -> None:
        fields = {field.name: field for field in self._layout.fields}
        faults = [
            f"struct: there is no column {name}" for name in fields if name not in self._types
        ]
        left = [shown(name) for name in self._types if name not in fields]
        if left:
            faults.append(f"struct: there is no field for the columns {', '.join(left[:20])}")
        for name, field in fields.items():
            kind = self._types.get(name, "")
            if kind and not _is_fit(field, kind):
                faults.append(f"struct: {name}: no field {field.kind} for the type {kind}")
        if faults:
            raise SqlError("; ".join(faults))

    def _expression(self, engine: Engine, field: structure.Field) -> str:
        column, kind = identifier(field.name), self._types[field.name]
        if field.kind == "s" and is_nested(kind):
            made = json_of(engine, field.name, kind)
            column = f"CASE WHEN {column} IS NULL THEN NULL ELSE {made} END"
        if kind == "BLOB":
            return f"lower(hex({column}))"
        # JSON keeps 17 digits of a number with a point.
        is_text = field.kind in "sb" or (field.kind != "f" and kind == "HUGEINT")
        is_text |= field.kind == "f" and kind not in REAL
        return f"CAST({column} AS VARCHAR)" if is_text else column

    def _packed(self, line: bytes) -> bytes:
        self._number += 1
        row = json.loads(line)
        values = []
        for name, packer in self._packers:
            value = row[name]
            try:
                if value is None:
                    raise ValueError("no value, and a record has one for each field")
                values.append(packer(value))
            except (ValueError, OverflowError, struct.error) as error:
                raise SqlError(
                    f"row {self._number}: column {shown(name)}: {shown(value)}: {error}"
                ) from None
        return self._layout.packing.pack(*values)


def _is_fit(field: structure.Field, kind: str) -> bool:
    """Whether a field can have values of a type."""
    if field.kind == "s":
        return kind != VARIANT
    if field.kind == "b":
        return kind in ("VARCHAR", "BLOB")
    if field.kind == "f":
        return kind in (*WHOLE, *REAL) or kind.startswith("DECIMAL(")
    return kind in WHOLE


def _packer(field: structure.Field) -> Callable[[Any], Any]:
    """The function that gives the value to pack.

    It raises ``ValueError``, ``OverflowError`` or ``struct.error`` with the reason.
    """
    if field.kind == "s":
        return lambda value: _text(value, int(field.code[:-1]))
    if field.kind == "b":
        return lambda value: _bytes(value, int(field.code[:-1]))
    if field.kind == "f":
        return lambda value: _real(value, field.code)
    return lambda value: _whole(value, field.code)


def _text(value: str, size: int) -> bytes:
    data = value.encode()
    if len(data) > size:
        raise ValueError(f"has {len(data)} bytes, and the field {size}")
    if data.endswith(b"\0"):
        raise ValueError("ends with a NUL, which is padding")
    return data


def _bytes(value: str, size: int) -> bytes:
    data = bytes.fromhex(value)
    if len(data) != size or data.hex() != value.lower():
        raise ValueError(f"want {2 * size} hexadecimal digits")
    return data


def _whole(value: Any, code: str) -> int:
    number = int(value)
    struct.pack(code, number)
    return number


def _real(value: Any, code: str) -> float:
    number = float(value)
    if code == "d" and isinstance(value, float):
        # The column is a DOUBLE, whose digits in JSON are all that it has.
        return number
    if number == number and abs(number) != float("inf"):
        packed = struct.unpack(code, struct.pack(code, number))[0]
        texts = [repr(packed), f"{packed:.7g}"] if code == "f" else [repr(packed)]
        if not any(Decimal(text) == Decimal(str(value)) for text in texts):
            raise ValueError("would be rounded")
    return number
