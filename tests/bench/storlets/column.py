"""Adds the column ``small`` of a Parquet file, which is a seekable input."""

from __future__ import annotations

from typing import Any

from pyarrow import compute, parquet


class Column:
    """The storlet."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source = parquet.ParquetFile(in_files[0])
        total = 0
        for number in range(source.num_row_groups):
            table = source.read_row_group(number, columns=["small"], use_threads=False)
            total += compute.sum(table["small"]).as_py()
        out_files[0].set_metadata({})
        out_files[0].write(str(total).encode())
