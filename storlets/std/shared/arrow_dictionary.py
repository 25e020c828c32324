"""A dictionary of Arrow without compression, in place of one with it.

``nanoarrow`` takes the compressed bytes of a dictionary for its values, so it gets this message.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence

from packed import PackedError, Unpacked
from sql_check import SqlError
from sql_errors import OBJECT

#: Numbers of the codecs, with the names that ``packed`` has.
CODECS = {0: "lz4", 1: "zstd"}
_BLOCK_BYTES = 256 * 1024
_CONTINUATION = b"\xff\xff\xff\xff"
#: The tables Message, DictionaryBatch and RecordBatch of the format, each after its list of
#: offsets, and the vectors of one node and of the buffers.
_TABLES = struct.Struct("<I6HihBxI4xq 4HiIq 5H6xi4xqII 4xIqq 4xI")
_VERSION, _KIND = 4, 2


def message(key: int, node: tuple[int, int], buffers: Sequence[bytes]) -> bytes:
    """The message of a dictionary, with its body.

    :param node: the number of its values, and of the nulls among them.
    """
    body, places = b"", b""
    for buffer in buffers:
        places += struct.pack("<qq", len(body), len(buffer))
        body += buffer + bytes(-len(buffer) % 8)
    tables = _TABLES.pack(
        16,
        *(12, 24, 4, 6, 8, 16), 12, _VERSION, _KIND, 24, len(body),
        *(8, 16, 8, 4), 8, 28, key,
        *(10, 24, 8, 16, 20), 16, node[0], 12, 32,
        1, *node,
        len(buffers),
    )  # fmt: skip
    data = tables + places
    return _CONTINUATION + struct.pack("<i", len(data)) + data + body


def plain(codec: str, buffer: bytes) -> bytes:
    """A buffer of a compressed body, without its compression; the size before it is right.

    :raises SqlError: the buffer is not valid.
    """
    size = int.from_bytes(buffer[:8], "little", signed=True)
    data = buffer[8:]
    if size == -1:
        return data
    try:
        found = b"".join(_blocks(Unpacked(io.BytesIO(data), codec), size))
    except PackedError as error:
        raise SqlError(f"{OBJECT} is no valid Arrow: a dictionary: {error}") from None
    if len(found) != size:
        raise SqlError(
            f"{OBJECT} is no valid Arrow: a dictionary has not the {size} bytes that it states"
        )
    return found


def _blocks(file: Unpacked, size: int) -> Iterator[bytes]:
    """The data, up to one block more than ``size`` bytes."""
    while size >= 0 and (block := file.read(_BLOCK_BYTES)):
        size -= len(block)
        yield block
