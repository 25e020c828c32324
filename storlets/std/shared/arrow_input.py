"""An object of Arrow as a table of the engine, one batch after the other.

Checked messages (``arrow_messages``) go through the pipe of the input.  ``nanoarrow`` reads batches
from it, whose offsets it checks, and the engine reads these as a C stream of Arrow.
"""

from __future__ import annotations

import ctypes
import io
from typing import Any

from arrow_messages import END, Messages
from arrow_types import bare, column_of
from packages import loaded
from parameters import shown
from sql_check import SqlError, folded_name
from sql_engine import Engine, identifier
from sql_errors import OBJECT

#: The table behind the view; a query cannot name it (``sql_check``).
TABLE = "arrow_object"
_BUFFER_BYTES = 1 << 16


class _Stream(ctypes.Structure):
    """``ArrowArrayStream`` of Arrow's C stream interface."""


_GET = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.c_void_p)
_ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Stream))
_RELEASE = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Stream))
_Stream._fields_ = [
    ("get_schema", _GET),
    ("get_next", _GET),
    ("get_last_error", _ERROR),
    ("release", _RELEASE),
    ("private_data", ctypes.c_void_p),
]
#: Where ``release`` is in ``ArrowArray``: after five numbers and three pointers.
_ARRAY_RELEASE = 8 * ctypes.sizeof(ctypes.c_void_p)
_CUT = ctypes.create_string_buffer(b"a batch could not be read, perhaps for want of memory")
_EIO = 5


class ArrowTable:
    """The object as columns, and as a file of its messages.

    :ivar head: the first message.
    """

    def __init__(self, source: Any, storlet: str) -> None:
        """Read the schema.

        :raises SqlError: the object is no Arrow, or a column is refused.
        :raises packages.PackageError: the image does not have the package.
        """
        loaded(f"{storlet} with format=arrow", "nanoarrow.ipc")
        self._messages = Messages(source)
        self.head = self._messages.head
        try:
            schema = _schema_of(self.head)
            _require_names([str(each.name) for each in schema.children])
            self._columns = [
                column_of(child, f"column{number}") for number, child in enumerate(schema.children)
            ]
        except UnicodeDecodeError:
            raise SqlError(
                f"{OBJECT} is no valid Arrow: its schema has a name that is no UTF-8"
            ) from None
        self._messages.expect(self._columns)
        self._schema = bare(schema, "+s", [column.declared for column in self._columns])
        self._reader: Any = None
        self._stream: Any = None

    def read(self, size: int) -> bytes:
        """The next bytes of the other messages."""
        return self._messages.read(size)

    def select_of(self, engine: Engine, descriptor: int) -> str:
        """The SELECT of the columns, which reads the messages from a pipe of another owner."""
        self._reader = _Reader(open(descriptor, "rb", buffering=_BUFFER_BYTES, closefd=False))  # noqa: SIM115
        # Only one thread at a time can read the pipe: two are as fast, and keep more in memory.
        engine.use_one_thread()
        engine.register_table(TABLE, self)
        values = ", ".join(
            f"{column.value} AS {identifier(column.name)}" for column in self._columns
        )
        return f"SELECT {values} FROM {identifier(TABLE)}"  # noqa: S608

    def __arrow_c_schema__(self) -> Any:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """The stream, once: the engine keeps a table that it reads twice."""
        if self._reader is None or self._stream is not None:
            raise SqlError(f"{OBJECT} can be read only once")
        self._stream = _Whole(self._reader)
        return self._stream.capsule()


class _Reader:
    """The pipe of the messages, and whether the mark of their end has come."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.is_over = False

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        size = int(self._file.readinto(view))
        self.is_over = bytes(view[:8]) == END if size == 8 else self.is_over
        return size


class _Whole:
    """The stream of a reader, which ends only after the mark of the end.

    If memory is short the library may give the end of a stream in place of a batch.
    """

    def __init__(self, reader: _Reader) -> None:
        from nanoarrow.c_array_stream import allocate_c_array_stream, c_array_stream
        from nanoarrow.ipc import InputStream

        self._reader = reader
        self._inner = c_array_stream(InputStream.from_readable(reader))
        self._outer = allocate_c_array_stream()
        self._at = ctypes.cast(self._inner._addr(), ctypes.POINTER(_Stream))
        self._is_cut = False
        # The engine calls these as long as it has the stream.
        self._calls = (
            _GET(self._schema),
            _GET(self._next),
            _ERROR(self._error),
            _RELEASE(_released),
        )
        stream = ctypes.cast(self._outer._addr(), ctypes.POINTER(_Stream)).contents
        stream.get_schema, stream.get_next, stream.get_last_error, stream.release = self._calls

    def capsule(self) -> Any:
        return self._outer.__arrow_c_stream__()

    def _schema(self, _stream: Any, out: int) -> int:
        return int(self._at.contents.get_schema(self._at, out))

    def _next(self, _stream: Any, out: int) -> int:
        code = int(self._at.contents.get_next(self._at, out))
        if code == 0 and not self._reader.is_over:
            self._is_cut = ctypes.c_void_p.from_address(out + _ARRAY_RELEASE).value is None
        return _EIO if self._is_cut else code

    def _error(self, _stream: Any) -> int | None:
        if self._is_cut:
            return ctypes.addressof(_CUT)
        found = self._at.contents.get_last_error(self._at)
        return None if found is None else int(found)


def _released(stream: Any) -> None:
    """Mark the stream as released; the inner one belongs to :class:`_Whole`."""
    stream.contents.release = _RELEASE()


def _schema_of(head: bytes) -> Any:
    from nanoarrow._utils import NanoarrowException
    from nanoarrow.c_array_stream import c_array_stream
    from nanoarrow.ipc import InputStream

    try:
        with c_array_stream(InputStream.from_readable(io.BytesIO(head + END))) as stream:
            return stream.get_schema()
    except NanoarrowException as error:
        text = str(error).partition("): ")[2] or str(error)
        raise SqlError(f"{OBJECT} is no valid Arrow: its schema: {text}") from None


def _require_names(names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if not name:
            raise SqlError(f"{OBJECT}: a column has no name")
        if folded_name(name) in seen:
            raise SqlError(
                f"{OBJECT} has two columns {shown(name)}: upper and lower case are equal"
            )
        seen.add(folded_name(name))
