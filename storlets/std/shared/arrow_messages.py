"""The messages of a stream of Arrow's IPC format, each checked before the library gets it.

The library allocates what a message declares, uses offsets without a look at their sum, and takes
the end of the bytes for the end of the stream.  So this reads the metadata of each message first:
all lengths are bounded, each buffer is within its body, and the stream has its mark of the end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import arrow_dictionary
from arrow_types import Node, refusal
from flatbuffer import FlatError, Table
from sql_check import SqlError
from sql_errors import OBJECT

FILE = b"ARROW1"
CONTINUATION = b"\xff\xff\xff\xff"
END = CONTINUATION + bytes(4)
#: Bounds of the metadata of a message, and of a batch with its dictionaries in memory.
MOST_METADATA_BYTES = 8 << 20
MOST_BATCH_BYTES = 64 << 20
#: Bounds of the values of a batch; those within lists are in memory for some rows at once.
MOST_VALUES = 1 << 26
MOST_INNER_VALUES = 1 << 24
MOST_COLUMNS = 10_000
_BLOCK_BYTES = 256 * 1024
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
#: Types that the library does not read.
_UNREAD = {
    22: "run-end encoding", 23: "binary view", 24: "string view", 25: "list view",
    26: "large list view",
}  # fmt: skip
#: Levels of a type that are looked through for them.
_LEVELS = 64


class _Source:
    """The bytes of the object, in order."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.at = 0

    def blocks(self, size: int) -> Iterator[bytes]:
        """The next ``size`` bytes.

        :raises SqlError: the object ends before.
        """
        while size:
            block = bytes(self._file.read(min(size, _BLOCK_BYTES)))
            if not block:
                raise SqlError(
                    f"{OBJECT} is cut: its Arrow has no mark of the end (ff ff ff ff 00 00 00 00),"
                    f" and ends after {self.at} bytes"
                )
            self.at += len(block)
            size -= len(block)
            yield block

    def exact(self, size: int) -> bytes:
        return b"".join(self.blocks(size))

    def rest(self, most: int) -> bytes:
        """All that is left, if it has at most ``most`` bytes."""
        parts, size = [], 0
        while block := bytes(self._file.read(_BLOCK_BYTES)):
            size += len(block)
            self.at += len(block)
            if size > most:
                raise invalid(self.at - size, f"more than {most} bytes follow the mark of the end")
            parts.append(block)
        return b"".join(parts)


class Messages:
    """A file with the stream: the others after the schema, up to the mark of the end.

    :ivar head: the message of the schema.

    An object of the file format has the same messages between its magic number and its footer.
    """

    def __init__(self, file: Any) -> None:
        """Read the schema.

        :raises SqlError: the object is no Arrow, or has too many columns.
        """
        self._source = _Source(file)
        start = self._source.exact(8)
        self._is_file = start.startswith(FILE)
        if self._is_file:
            start = self._source.exact(8)
        self._blocks: list[tuple[int, int, int]] = []
        prefix, data, message = self._message(start)
        self.head = prefix + data
        self._dictionary_ids: list[int | None] = []
        self._parsed(self._read_schema, message)
        self._body: Iterator[bytes] = iter(())
        self._is_over = False
        self._plan: Sequence[Node] = ()
        self._dictionaries: dict[int, tuple[Node, int]] = {}

    def _parsed(self, function: Any, *values: Any) -> Any:
        try:
            return function(*values)
        except FlatError as error:
            raise self._wrong(f"its metadata is not valid: {error}") from None

    def _wrong(self, why: str) -> SqlError:
        return invalid(self._source.at, why)

    def _read_schema(self, message: Table | None) -> None:
        schema = None if message is None else message.table(2)
        is_first = message is not None and message.number(1, "B") == _SCHEMA
        if message is None or schema is None or not is_first or message.number(3, "q"):
            raise self._wrong("it does not begin with a schema")
        if schema.number(0, "h"):
            raise self._wrong("it is big endian")
        _, count = schema.vector(1, 4)
        if not 0 < count <= MOST_COLUMNS:
            raise SqlError(f"{OBJECT} has {count} columns: want 1 to {MOST_COLUMNS}")
        parts = 0
        for field in schema.tables(1):
            name = field.text(0)
            if "\0" in name:
                raise self._wrong("a name has a NUL")
            parts += _parts(field, name, 0)
            if parts > MOST_COLUMNS:
                raise SqlError(f"{OBJECT} has columns of over {MOST_COLUMNS} parts")
            dictionary = field.table(4)
            self._dictionary_ids.append(None if dictionary is None else dictionary.number(0, "q"))

    def expect(self, columns: Sequence[Any]) -> None:
        """Check the batches that follow by the nodes of ``columns``.

        :raises SqlError: two columns of different types share a dictionary.
        """
        self._plan = [node for column in columns for node in column.nodes]
        for column, key in zip(columns, self._dictionary_ids, strict=True):
            if key is not None:
                if (
                    self._dictionaries.setdefault(key, (column.dictionary, 0))[0]
                    != column.dictionary
                ):
                    raise refusal(column.name, "a dictionary that columns of other types share")

    def read(self, _size: int) -> bytes:
        """The next bytes, and none only at the end.

        :raises SqlError: the object is cut, not valid, or a batch is too large.
        """
        while True:
            for block in self._body:
                return block
            if self._is_over:
                return b""
            prefix, data, message = self._message(self._source.exact(8))
            if message is None:
                self._finish()
                return END
            self._body = self._parsed(self._next_body, prefix, data, message)

    def _message(self, start: bytes) -> tuple[bytes, bytes, Table | None]:
        """The bytes of a message before its body, and its table, but for the mark of the end."""
        at = self._source.at - len(start)
        length = int.from_bytes(start[4:], "little", signed=True)
        if not start.startswith(CONTINUATION):
            raise invalid(at, "want ff ff ff ff at the start of a message")
        if not length:
            return start, b"", None
        if not 0 < length <= MOST_METADATA_BYTES or length % 8:
            raise invalid(
                at,
                f"its metadata has {length} bytes: want a multiple of 8, up to {MOST_METADATA_BYTES}",
            )
        data = self._source.exact(length)
        message = self._parsed(Table.root, data)
        body = self._parsed(message.number, 3, "q")
        self._blocks.append((at, 8 + length, body))
        return start, data, message

    def _next_body(self, prefix: bytes, data: bytes, message: Table) -> Iterator[bytes]:
        """The message, checked, with its body."""
        kind, size, table = message.number(1, "B"), message.number(3, "q"), message.table(2)
        if table is None or kind not in (_BATCH, _DICTIONARY):
            raise self._wrong("a message is neither a batch nor a dictionary")
        if size % 8 or not 0 <= size <= MOST_BATCH_BYTES:
            raise self._wrong(
                f"the body of a message has {size} bytes: want a multiple of 8, up to"
                f" {MOST_BATCH_BYTES}: write smaller batches"
            )
        if kind == _BATCH:
            batch = _Batch(self, table, self._plan, size, self._kept(None))
            batch.require_rows()
            return batch.message(prefix, data)
        key, batch_table = table.number(0, "q"), table.table(1)
        if batch_table is None or key not in self._dictionaries:
            raise self._wrong(f"no column has the dictionary {key}")
        node, _ = self._dictionaries[key]
        if table.number(2, "B"):
            raise self._wrong("a dictionary has a delta: write the whole of it")
        batch = _Batch(self, batch_table, [node], size, self._kept(key))
        return batch.dictionary(prefix, data, key)

    def _kept(self, key: int | None) -> int:
        """The bytes of the dictionaries, without the one that ``key`` names."""
        return sum(size for each, (_, size) in self._dictionaries.items() if each != key)

    def keep(self, key: int, size: int) -> None:
        """Note the size of a dictionary."""
        self._dictionaries[key] = (self._dictionaries[key][0], size)

    @property
    def source(self) -> _Source:
        return self._source

    def _finish(self) -> None:
        """Check what follows the mark of the end.

        :raises SqlError: other data, which would be lost, or another footer.
        """
        self._is_over = True
        end = self._source.at
        if not self._is_file:
            if self._source.rest(MOST_METADATA_BYTES):
                raise invalid(end, "more data follow the mark of the end")
            return
        footer = self._source.rest(MOST_METADATA_BYTES)
        size = int.from_bytes(footer[-10:-6], "little", signed=True)
        if not footer.endswith(FILE) or size != len(footer) - 10:
            raise invalid(end, "the object is cut, or its footer is not valid")
        listed = self._parsed(_blocks_of, footer[:size])
        if listed != sorted(self._blocks[1:]):
            raise invalid(end, "its footer lists other batches than there are before it")


class _Batch:
    """The nodes and buffers of one batch, which are checked one after the other."""

    def __init__(
        self, messages: Messages, table: Table, plan: Sequence[Node], size: int, kept: int
    ) -> None:
        self._messages = messages
        self._size = size
        #: Bytes in memory, of this and of the dictionaries.
        self._plain = size
        self._kept = kept
        self._plan = plan
        self.rows = table.number(0, "q")
        compression = table.table(3)
        self._codec = None if compression is None else compression.number(0, "b")
        if self._codec is not None and self._codec not in arrow_dictionary.CODECS:
            raise self._wrong(f"its compression {self._codec} is unknown")
        self._nodes = list(table.rows(1, "qq"))
        self._nodes_at = table.vector(1, 16)[0]
        self._buffers = list(table.rows(2, "qq"))
        self._require_nodes()
        #: The least bytes of each buffer, once it is not compressed.
        self._least = list(self._least_sizes())
        self._require_buffers()
        if self._codec is None:
            for least, (_, length) in zip(self._least, self._buffers):
                self._require_size(length, least)

    def _wrong(self, why: str) -> SqlError:
        return invalid(self._messages.source.at, why)

    def _require_nodes(self) -> None:
        count = len(self._plan)
        if len(self._nodes) != count:
            raise self._wrong(f"a batch has {len(self._nodes)} nodes: want {count}")
        total = inner = 0
        for node, (length, nulls) in zip(self._plan, self._nodes):
            if not 0 <= nulls <= length <= MOST_VALUES:
                raise self._wrong(
                    f"a batch has {length} values of a column, {nulls} of them null: want up to"
                    f" {MOST_VALUES}"
                )
            total += length
            inner += length if node.is_inner else 0
        if total > MOST_VALUES or inner > MOST_INNER_VALUES:
            raise self._wrong(
                f"a batch has {total} values, and {inner} in lists: want up to {MOST_VALUES} and"
                f" {MOST_INNER_VALUES}: write smaller batches"
            )

    def require_rows(self) -> None:
        """Raise :class:`SqlError` if a column has another number of rows than the batch."""
        for node, (length, _) in zip(self._plan, self._nodes):
            if node.is_top and length != self.rows:
                raise self._wrong(f"a batch of {self.rows} rows has a column of {length}")

    def _require_buffers(self) -> None:
        if len(self._buffers) != len(self._least):
            raise self._wrong(f"a batch has {len(self._buffers)} buffers: want {len(self._least)}")
        end = 0
        for offset, length in self._buffers:
            if length and (offset < end or offset % 8):
                raise self._wrong(f"a buffer is at {offset}: want the next multiple of 8")
            if not 0 <= length <= self._size or (length and offset > self._size - length):
                raise self._wrong(
                    f"a buffer has {length} bytes at {offset}, and its body {self._size}"
                )
            end = offset + length if length else end

    def _least_sizes(self) -> Iterator[int]:
        """The least size of each buffer that its node has; -1: it may be absent."""
        for node, (length, nulls) in zip(self._plan, self._nodes):
            if node.validity:
                yield (length + 7) // 8 if nulls else -((length + 7) // 8) - 1
            if node.offsets:
                yield (length + 1) * node.offsets if length else 0
            if node.bits:
                yield (length * node.bits + 7) // 8
            if node.has_data:
                yield 0

    def _require_size(self, size: int, least: int) -> None:
        """``least`` below zero: ``-least - 1`` bytes, or none."""
        if least < 0:
            least = -least - 1 if size else 0
        if size < least:
            raise self._wrong(f"a buffer has {size} bytes: want at least {least}")

    def message(self, prefix: bytes, data: bytes) -> Iterator[bytes]:
        """The message of a batch, with its body."""
        yield prefix + self._with_nulls(data)
        yield from self._body()

    def dictionary(self, prefix: bytes, data: bytes, key: int) -> Iterator[bytes]:
        """The message of a dictionary, with its body, which is not compressed."""
        if self._codec is None:
            yield from self.message(prefix, data)
        else:
            body = b"".join(self._body())
            codec = arrow_dictionary.CODECS[self._codec]
            buffers = [
                arrow_dictionary.plain(codec, body[offset : offset + length]) if length else b""
                for offset, length in self._buffers
            ]
            length, nulls = self._nodes[0]
            # As for a batch, the engine must look at each bit.
            has_bits = self._plan[0].validity and buffers[0] and length
            node = (length, max(nulls, 1) if has_bits else nulls)
            yield arrow_dictionary.message(key, node, buffers)
        self._messages.keep(key, self._plain)

    def _with_nulls(self, data: bytes) -> bytes:
        """The metadata, where a node with a bitmap has nulls: the engine must look at each."""
        changed = bytearray(data)
        buffers = iter(self._buffers)
        for number, (node, (length, nulls)) in enumerate(zip(self._plan, self._nodes)):
            parts = node.validity + bool(node.offsets) + bool(node.bits) + node.has_data
            sizes = [next(buffers)[1] for _ in range(parts)]
            if node.validity and sizes[0] and length and not nulls:
                struct.pack_into("<q", changed, self._nodes_at + 16 * number + 8, 1)
        return bytes(changed)

    def _body(self) -> Iterator[bytes]:
        """The body; in a compressed one the sizes of buffers are checked when they come."""
        source, at = self._messages.source, 0
        if self._codec is not None:
            for least, (offset, length) in zip(self._least, self._buffers):
                if not length:
                    self._require_size(0, least)
                    continue
                yield from source.blocks(offset - at)
                if length < 8:
                    raise self._wrong("a compressed buffer has no length")
                packed = source.exact(8)
                at = offset + 8
                size = int.from_bytes(packed, "little", signed=True)
                self._require_size(length - 8 if size == -1 else size, least)
                self._plain += max(size, 0)
                self._require_memory()
                yield packed
        self._require_memory()
        yield from source.blocks(self._size - at)

    def _require_memory(self) -> None:
        if self._plain + self._kept > MOST_BATCH_BYTES:
            raise self._wrong(
                f"a batch and its dictionaries have {self._plain + self._kept} bytes in memory: want up to"
                f" {MOST_BATCH_BYTES}: write smaller batches"
            )


def _parts(field: Table, column: str, level: int) -> int:
    """The number of types in ``field``.

    :raises SqlError: the library does not read one.
    """
    if level > _LEVELS:
        raise refusal(column, f"a type of more than {_LEVELS} levels")
    kind = field.number(2, "B")
    if kind in _UNREAD:
        raise refusal(column, _UNREAD[kind])
    return 1 + sum(_parts(child, column, level + 1) for child in field.tables(5))


def _blocks_of(footer: bytes) -> list[tuple[int, int, int]]:
    """Offset, bytes of metadata and of body of each message that a footer lists."""
    table = Table.root(footer)
    rows = [*table.rows(2, "qi4xq"), *table.rows(3, "qi4xq")]
    return sorted((offset, length, body) for offset, length, body in rows)


def invalid(at: int, why: str) -> SqlError:
    """The error for an object that is not valid near the byte ``at``."""
    return SqlError(f"{OBJECT} is no valid Arrow near byte {at}: {why}")
