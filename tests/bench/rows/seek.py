"""One column of a Parquet file, read by a storlet that seeks: the share of the file that is read.

The column is 1% of the file's bytes.  A storlet in C reads 1% of each group of rows of the same
file.  At the object node the storlet's worker counts the bytes that it reads; at the proxy they are
those of the ranges that it requested.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from storlet_client.builder.bundler import build
from storlet_client.builder.wheels import Sandbox
from tests.bench.bench import Bench
from tests.bench.figures import Figure
from tests.bench.http import BadAnswer
from tests.bench.rows.native import built
from tests.bench.site import CONTAINER, STORLETS, Account, Code

_OBJECT: Final = f"{CONTAINER}/table.parquet"
_PYARROW: Final = "pyarrow==26.0.1"
_TOML: Final = f"""\
name = "column"
version = "1.0"
language = "python"
main = "column.Column"
input = "seekable"
requirements = ["{_PYARROW}"]
"""
#: Bytes of the column and of all columns in a row of the table, and the bytes of a group of rows.
_COLUMN_BYTES: Final = 8
_ROW_BYTES: Final = 800
_GROUP_BYTES: Final = 16 << 20
#: Bytes that the storlet in C reads of each group.
PART_BYTES: Final = _GROUP_BYTES // 100
_SHARED_OBJECT: Final = "strided.so"
_PLACES: Final = {"object": {}, "proxy": {"X-Storlet-Run-On-Proxy": ""}}


def measure(bench: Bench) -> Iterator[Figure]:
    """Bytes that are read for the column, against those of the file."""
    account = bench.site.main
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "table.parquet")
        total = _write_table(path, bench.plan.scan_bytes)
        size = path.stat().st_size
        strided = sum_of_parts(path, _GROUP_BYTES)
        account.send("PUT", _OBJECT, body=memoryview(path.read_bytes()))
    account.send("PUT", "storlet/column.storlet", body=_bundle())
    _upload_shared_object(account)
    parts = f"block:{_GROUP_BYTES}", f"part:{PART_BYTES}"
    in_c = {
        "X-Run-Storlet": _SHARED_OBJECT,
        **{f"X-Storlet-Parameter-{n}": given for n, given in enumerate(parts)},
    }
    runs = (
        ("parquet", "1% of a Parquet file", {"X-Run-Storlet": "column"}, total),
        ("c", "1% of each part of a file, in C", in_c, strided),
    )
    for number, (place, placed) in enumerate(_PLACES.items(), 1):
        for key, what, headers, wanted in runs:
            used = _bytes_read(account, {**headers, **placed}, str(wanted).encode())
            title = f"{what} of {size / (1 << 30):.2g} GiB, {place}: bytes read"
            yield Figure(f"seek.{key}.{place}", title, "MB", [used / 1e6], [size / 1e6])
        bench.progress.step(number, len(_PLACES))


def _bytes_read(account: Account, headers: dict[str, str], total: bytes) -> int:
    """The bytes that a run reads, which must give the sum ``total``."""
    got = bytearray()
    request = account.request("GET", _OBJECT, headers)
    answer = account.connection.exchange(request, got.extend)
    if bytes(got) != total:
        raise BadAnswer(f"the sum is {bytes(got[:100])!r}, not {total!r}")
    return bytes_in(answer.head)


def _upload_shared_object(account: Account) -> None:
    code = Code(
        _SHARED_OBJECT, "native", f"{_SHARED_OBJECT}:strided", built(STORLETS / "native/strided.c")
    )
    headers = {**code.headers(), "X-Object-Meta-Storlet-Input": "seekable"}
    account.send("PUT", f"storlet/{code.name}", headers, code.data)


def sum_of_parts(path: Path, block: int) -> int:
    """The sum of the first :data:`PART_BYTES` bytes of each ``block`` of a file."""
    with path.open("rb") as file:
        total = 0
        for offset in range(0, path.stat().st_size, block):
            file.seek(offset)
            total += sum(file.read(PART_BYTES))
        return total


def bytes_in(head: bytes) -> int:
    """The bytes that a run has read, from the head of its answer."""
    found = re.search(rb"^x-storlet-usage:(?:.*;| *)in=(\d+)", head, re.IGNORECASE | re.MULTILINE)
    if found is None:
        raise BadAnswer(f"no usage in {head!r}")
    return int(found[1])


def _write_table(path: Path, size: int) -> int:
    """Write about ``size`` bytes of random columns; return the sum of the small one."""
    import numpy  # noqa: ICN001, PLC0415  only this row needs both
    import pyarrow  # noqa: ICN001, PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    wide = pyarrow.binary(_ROW_BYTES - _COLUMN_BYTES)
    schema = pyarrow.schema([("small", pyarrow.int64()), ("wide", wide)])
    options: dict[str, Any] = {"compression": "none", "use_dictionary": False}
    total, rows = 0, _GROUP_BYTES // _ROW_BYTES
    with parquet.ParquetWriter(path, schema, write_statistics=False, **options) as writer:
        for number in range(size // _GROUP_BYTES):
            small = numpy.arange(number * rows, (number + 1) * rows, dtype="i8")
            total += int(small.sum())
            data = pyarrow.py_buffer(os.urandom(rows * (_ROW_BYTES - _COLUMN_BYTES)))
            column = pyarrow.Array.from_buffers(wide, rows, [None, data])
            writer.write_table(pyarrow.table([pyarrow.array(small), column], schema=schema))
    return total


def _bundle() -> bytes:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "src").mkdir()
        (folder / "src/column.py").write_bytes((STORLETS / "column.py").read_bytes())
        (folder / "storlet.toml").write_text(_TOML, encoding="utf-8")
        return build(folder, folder, Sandbox()).read_bytes()
