"""The part of a run that does not depend on the format of the object."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any

import select_output
import select_syntax as tree
from select_errors import SelectError, from_engine
from select_frames import Frames
from select_request import Request
from select_schema import Schema
from sql_check import SqlError
from sql_engine import Engine

#: Bound of a record of the result, in characters.
MOST_CHARACTERS = 1 << 20
ROWS = 2048
#: Bound of a statement: it names each column that ``SELECT *`` has.
MOST_STATEMENT_CHARACTERS = 400_000


@contextmanager
def framed(target: Any, parsing: str = "") -> Iterator[Frames]:
    """The frames of a run as its output; a failure of the query is the last one.

    :param parsing: the code of an error of the engine's reader; empty: it is found in the message.
    """
    target.set_metadata({"Content-Type": "application/octet-stream"})
    frames = Frames(target)
    try:
        yield frames
    except SelectError as error:
        frames.error(error.code, str(error))
    except SqlError as error:
        failure = from_engine(str(error), parsing)
        frames.error(failure.code, str(failure))


def translated(query: tree.Query, schema: Schema, request: Request) -> select_output.Statement:
    """The statement of a query, for :func:`checked`; it needs no engine.

    :raises SelectError: the query is not valid.
    """
    now = f"CAST('{datetime.now(tz=UTC):%Y-%m-%d %H:%M:%S.%f}' AS TIMESTAMP)"
    return select_output.statement(query, schema, request.target, now)


def checked(
    engine: Engine, statement: select_output.Statement, request: Request
) -> select_output.Statement:
    """The statement as it may run, for :func:`send`.

    :raises sql_check.SqlError: it is too long.
    """
    for definition in select_output.definitions(request.target):
        engine.rows(definition)
    return statement._replace(sql=engine.syntax.checked(statement.sql, MOST_STATEMENT_CHARACTERS))


def send(engine: Engine, statement: str, write: Callable[[bytes], None]) -> None:
    """Run a statement, and write its records.

    :raises SelectError: a record is too long, or the query has failed.
    :raises sql_check.SqlError: the engine has failed.
    """
    # Closed at once: the engine's end of a pipe is open until then.
    with closing(engine.batches(statement, ROWS)) as batches:
        for rows in batches:
            if max(len(record) for (record,) in rows) > MOST_CHARACTERS:
                raise SelectError("OverMaxRecordSize", "a record of the result has over 1 MiB")
            write("".join(record for (record,) in rows).encode())
