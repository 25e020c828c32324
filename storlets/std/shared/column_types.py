"""The parameter ``columns``: a type for each column that it names."""

from __future__ import annotations

import json
import re

from exact_json import RepeatedKey, unique
from parameters import shown
from sql_check import SqlError
from sql_types import ZONED

MOST_DIGITS = 38
MOST_COLUMNS = 1000
TYPES = {
    "text": "VARCHAR", "integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN",
    "date": "DATE", "time": "TIME", "timestamp": "TIMESTAMP", "timestamptz": ZONED,
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT",
    "uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER", "uint64": "UBIGINT",
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)", re.ASCII)


def types_of(text: str) -> dict[str, str]:
    """The type in SQL of each column that ``text`` names.

    :raises SqlError: with every fault.
    """
    if not text:
        return {}
    try:
        given = json.loads(text, object_pairs_hook=unique)
    except RepeatedKey:
        raise SqlError("columns: a column is named twice") from None
    except (ValueError, RecursionError) as error:
        raise SqlError(f"columns: is not JSON: {error}") from None
    if not isinstance(given, dict) or len(given) > MOST_COLUMNS:
        raise SqlError(
            f'columns: want an object of at most {MOST_COLUMNS} columns, such as {{"id": "integer"}}'
        )
    found, faults = {}, []
    for name, kind in given.items():
        sql = _type_of(kind)
        if sql is None:
            faults.append(
                f"columns: {shown(name)}: {shown(kind)}: want one of {', '.join(TYPES)},"
                f" decimal(DIGITS,FRACTION) with up to {MOST_DIGITS} digits"
            )
        else:
            found[name] = sql
    if faults:
        raise SqlError("; ".join(faults))
    return found


def _type_of(kind: object) -> str | None:
    if not isinstance(kind, str):
        return None
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is None:
        return TYPES.get(kind)
    digits, fraction = int(decimal[1]), int(decimal[2])
    is_valid = 1 <= digits <= MOST_DIGITS and fraction <= digits
    return f"DECIMAL({digits},{fraction})" if is_valid else None
