"""CSV in parts of whole records, which several threads query at the same time.

Each part is a file of the engine, and each thread has a session of the engine's database.  So a
query sees a part as its whole object, and must select record by record.  The records of the result
leave in the order of the object::

    source -> some MiB of records -> a query in each thread -> the turn of the part -> frames

The engine itself reads such CSV with one thread (``select_tables``).  Decision 0069.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import engine_file
import select_run
from object_stream import Inlet
from select_output import Statement
from select_request import CsvInput
from select_streams import BLOCK_BYTES, MOST_RECORD_BYTES, Stream, too_long
from sql_engine import Engine

PART_BYTES = 4 << 20
#: A query of a part takes 1 ms besides its records, and 25 ms with a thousand columns.
MOST_COLUMNS = 250
#: Bound of the result of a part that waits for its turn.
WAITING_BYTES = 4 << 20
_LINE_ENDS = b"\r\n"


def fits(form: CsvInput, width: int, statement: Statement) -> bool:
    """Whether the object can be cut at the ends of its records, and the query takes its parts."""
    has_escapes = form.quoted_records and form.escape not in ("", form.quote)
    return statement.is_by_record and width <= MOST_COLUMNS and not has_escapes


class Records:
    """The object in parts of whole records.

    :param source: each of its blocks ends outside of quoted fields, as those of ``CsvText``.
    :param head: the data before, with the whole header if there is one.
    :raises SelectError: the header is too long.
    """

    def __init__(self, source: Stream, head: bytes, form: CsvInput, *, has_header: bool) -> None:
        self._source = source
        self._line_end = b"\r" if form.record == "\r" else b"\n"
        # Without quoted records, no line end is within quotes.
        self._quote = form.quote.encode() if form.quoted_records else b""
        self._rest = head[self._header_end(head) :] if has_header else head

    def next(self) -> bytes:
        """The next part; none only at the end.

        :raises SelectError: a record is too long.
        """
        blocks, size = [], 0
        for block in self._blocks():
            size += len(block)
            cut = self._cut(block) if size >= PART_BYTES else 0
            if cut:
                self._rest = block[cut:]
                return b"".join([*blocks, block[:cut]])
            if size > PART_BYTES + 2 * MOST_RECORD_BYTES:
                raise too_long()
            blocks.append(block)
        return b"".join(blocks)

    def _blocks(self) -> Iterator[bytes]:
        """The rest of a block, and those after it."""
        rest, self._rest = self._rest, b""
        if rest:
            yield rest
        while block := self._source.read(BLOCK_BYTES):
            yield block

    def _cut(self, block: bytes) -> int:
        """The place in a block after the last record that another one follows; 0 if none does.

        The other one does not begin with a line end, of which the engine could make a record.
        """
        end = len(block)
        while (found := block.rfind(self._line_end, 0, end)) >= 0:
            if self._is_quoted(block, found):
                end = block.rindex(self._quote, 0, found)
            elif not block[found + 1 : found + 2].strip(_LINE_ENDS):
                end = len(block[:found].rstrip(_LINE_ENDS))
            else:
                return found + 1
        return 0

    def _header_end(self, head: bytes) -> int:
        """The place of the second record, after empty lines."""
        found = head.find(self._line_end)
        while found >= 0 and self._is_quoted(head, found):
            found = head.find(self._line_end, head.index(self._quote, found))
        if found < 0 and len(head) >= MOST_RECORD_BYTES:
            raise too_long()
        if found < 0:
            return len(head)
        return len(head) - len(head[found:].lstrip(self._line_end))

    def _is_quoted(self, text: bytes, at: int) -> bool:
        """Whether a place is within a quoted field.  A quote within one is doubled."""
        return bool(self._quote) and text.count(self._quote, 0, at) % 2 == 1


class Parts:
    """The file of the engine: of each thread, the part that it selects from.

    :param sessions: closes the sessions of the engine.
    """

    def __init__(self, engine: Engine, records: Records, sessions: ExitStack) -> None:
        self._records = records
        self._own = threading.local()
        engine_file.register(engine, lambda: io.BytesIO(self._part()), lambda: len(self._part()))
        self.inlet = Inlet(engine_file.PATH)
        engine.errors.has_all_lines = False
        self._engines = [engine]
        while len(self._engines) < engine.threads:
            self._engines.append(sessions.enter_context(engine.session()))
        engine.use_one_thread()

    def _part(self) -> bytes:
        return getattr(self._own, "part", b"")

    def select(
        self, statement: str, write: Callable[[bytes], None], report: Callable[[], None]
    ) -> None:
        """Write the records of the result; ``report`` is called for each part.

        :raises SelectError: the object or a query of it is wrong; the records before were written.
        """
        turns, reading = _Turns(), threading.Lock()

        def work(engine: Engine) -> None:
            number = -1
            try:
                while turns.error is None:
                    with reading:
                        number = turns.taken()
                        self._own.part = self._records.next()
                        report()
                    if not self._own.part:
                        return
                    result = _Result(turns, number, write)
                    select_run.send(engine, statement, result.write)
                    result.end()
            except BaseException as error:  # raised in the thread of the run
                turns.fail(number, error)

        threads = [
            threading.Thread(target=work, args=(engine,), name="sql-part", daemon=True)
            for engine in self._engines[1:]
        ]
        for thread in threads:
            thread.start()
        work(self._engines[0])
        for thread in threads:
            thread.join()
        if turns.error is not None:
            raise turns.error


class _Ended(Exception):
    """An earlier part has failed."""


class _Turns:
    """The order of the parts.

    :ivar error: of the first part that failed.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._turn = 0
        self.error: BaseException | None = None

    def taken(self) -> int:
        """The number of the next part; one thread at a time calls it."""
        self._count += 1
        return self._count - 1

    def wait(self, number: int) -> None:
        """Wait for the turn of a part.

        :raises _Ended: it will not come.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._turn == number or self.error is not None)
        if self.error is not None:
            raise _Ended

    def is_now(self, number: int) -> bool:
        """Whether it is the turn of a part."""
        return self._turn == number

    def end(self) -> None:
        """End the present turn."""
        with self._changed:
            self._turn += 1
            self._changed.notify_all()

    def fail(self, number: int, error: BaseException) -> None:
        """End all turns in the one of ``number``."""
        with self._changed:
            self._changed.wait_for(lambda: self._turn == number or self.error is not None)
            self.error = self.error or error
            self._changed.notify_all()


class _Result:
    """The result of one part, which waits for its turn up to a bound."""

    def __init__(self, turns: _Turns, number: int, write: Callable[[bytes], None]) -> None:
        self._turns = turns
        self._number = number
        self._write = write
        self._waiting: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """Write at once, or later."""
        self._waiting.append(data)
        self._size += len(data)
        if self._size > WAITING_BYTES or self._turns.is_now(self._number):
            self._send()

    def end(self) -> None:
        """Write what has waited; it is the turn of the next part then."""
        self._send()
        self._turns.end()

    def _send(self) -> None:
        self._turns.wait(self._number)
        waiting, self._waiting, self._size = self._waiting, [], 0
        for data in waiting:
            self._write(data)
