"""Objects for storlets of the system library: text that is a CSV table, and a Parquet table."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import duckdb

#: One row in this number is kept by the queries.
ONE_OF: Final = 100
KEPT: Final = "keep"
COLUMNS: Final = 20
#: The column that queries of the Parquet table read.
COLUMN: Final = "c7"
_HEADER: Final = b"id,kind,price,city,day,note\n"
_CITIES: Final = ("Haifa", "Zurich", "Boston", "Austin", "Kyoto")
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz     "
#: Rows of a block of some 4 MB. The text repeats it, beyond the window of the compressors.
_BLOCK_ROWS: Final = 40_000
_VALUE_BYTES: Final = 8


@dataclass(frozen=True)
class Text:
    """Lines of CSV.

    :ivar kept: the number of rows whose column ``kind`` is :data:`KEPT`.
    """

    data: bytes
    kept: int


def text(size: int) -> Text:
    """At least one block of rows, and about ``size`` bytes."""
    block = _block()
    count = max(1, size // len(block))
    return Text(_HEADER + block * count, count * _BLOCK_ROWS // ONE_OF)


def write_parquet(path: Path, size: int) -> int:
    """Write :data:`COLUMNS` columns of random whole numbers, about ``size`` bytes; return the sum
    of :data:`COLUMN`.
    """
    rows = size // (COLUMNS * _VALUE_BYTES)
    values = ", ".join(
        f"(hash(i * {COLUMNS} + {number}) >> 16)::BIGINT AS c{number}" for number in range(COLUMNS)
    )
    with duckdb.connect() as engine:
        engine.execute(
            f"COPY (SELECT {values} FROM range({rows}) AS t(i)) TO '{path}' (FORMAT parquet)"  # noqa: S608 - of constants
        )
        query = f"SELECT sum({COLUMN}) FROM read_parquet('{path}')"  # noqa: S608 - of constants
        found = engine.execute(query).fetchall()
    return int(found[0][0])


@cache
def _block() -> bytes:
    dice = random.Random(1)  # noqa: S311 - the same text each time
    lines = []
    for number in range(_BLOCK_ROWS):
        kind = KEPT if number % ONE_OF == ONE_OF // 2 else "drop"
        day = f"2026-{number % 12 + 1:02}-{number % 28 + 1:02}"
        note = "".join(dice.choices(_LETTERS, k=48))
        place = dice.choice(_CITIES)
        lines.append(
            f"{number:08},{kind},{dice.randrange(100_000) / 100:.2f},{place},{day},{note}\n"
        )
    return "".join(lines).encode()
