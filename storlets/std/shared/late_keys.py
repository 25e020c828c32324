"""Keys of JSON lines that only lines after the first MiB have.

The columns come from the first MiB, and the engine's reader drops each key that they do not have.
So such a key is an error with its line, where the result would show it.  A query that names its
columns needs no check: ``SELECT a`` is complete, and ``SELECT b`` of a late ``b`` is an unknown
column.  ``*`` shows all keys, and a column with keys of its own shows these.  In a query over many
objects a key that the first MiB lacks is ``NULL`` (``missing_keys``), so no later line may have it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from parameters import shown
from sql_check import TABLE, SqlError, nodes_of
from sql_input import MOST_LINE_BYTES
from sql_keys import require_levels


class Known:
    """The keys that have columns.

    :ivar is_empty: nothing is checked.
    """

    def __init__(
        self,
        types: Mapping[str, Any],
        columns: Iterable[str],
        missing: Collection[str] = (),
        *,
        has_all: bool,
    ) -> None:
        """
        :param types: the type of each column, as ``Engine.type_of`` gives it.
        :param columns: the columns whose own keys are checked.
        :param missing: keys that no line may have.
        :param has_all: the keys of lines are checked, too.
        """
        self._names = types.keys()
        self._has_all = has_all
        found = {name: known_keys(types[name]) for name in columns}
        self._nested = {name: known for name, known in found.items() if known is not None}
        self._missing = {name.casefold() for name in missing}
        self.is_empty = not has_all and not self._nested and not self._missing

    def require(self, row: dict[str, Any], number: int) -> None:
        """Raise :class:`SqlError` for a key of a line that no column has."""
        if self._has_all and not row.keys() <= self._names:
            raise _unknown(min(row.keys() - self._names), "", number)
        if self._missing:
            for key in row:
                if key.casefold() in self._missing:
                    raise _unknown(key, "", number)
        for name, known in self._nested.items():
            if row.get(name) is not None:
                _require_nested(name, row[name], known, number)


def known_keys(kind: Any) -> Any:
    """The keys that a value of the type may have.

    A dictionary has those of a ``STRUCT``, with the same for their values.  A list of one has that
    of the items of a list or a map, and ``None`` is any value.
    """
    if kind.id == "struct":
        return {key: known_keys(each) for key, each in kind.children}
    if kind.id in ("list", "map"):
        known = known_keys(kind.children[-1][1])
        return None if known is None else [known]
    return None


def _require_nested(name: str, value: Any, known: Any, number: int) -> None:
    todo = [(value, known)]
    while todo:
        value, known = todo.pop()
        if isinstance(known, list) and isinstance(value, (list, dict)):
            items = value if isinstance(value, list) else value.values()
            todo += [(each, known[0]) for each in items]
        elif isinstance(known, dict) and isinstance(value, dict):
            if not value.keys() <= known.keys():
                raise _unknown(min(value.keys() - known.keys()), f" of {shown(name)}", number)
            todo += [(each, known[key]) for key, each in value.items()]


def _unknown(key: str, where: str, number: int) -> SqlError:
    return SqlError(
        f"line {number}: the key {shown(key)}{where} is not in the first MiB, which has the columns"
    )


def shown_by(tree: Any, types: Mapping[str, Any], missing: Collection[str] = ()) -> Known:
    """The keys that a query may show.

    :param tree: the syntax tree of the checked query.
    :param types: the type of each column of the object.
    :param missing: the keys that are ``NULL``, because the object lacks them.
    """
    folded = {name.casefold(): name for name in types}
    tables = {TABLE}
    paths: list[list[str]] = []
    has_all = False
    for node in nodes_of(tree):
        if "class" not in node:  # a table has none, and an expression has one
            names = [node.get(key) for key in ("alias", "table_name")]
            tables |= {str(name).casefold() for name in names if name}
        # The rows of a pivot are grouped by all columns that it does not name.
        has_all |= node.get("class") == "STAR" or node.get("type") == "PIVOT"
        if node.get("class") == "COLUMN_REF":
            paths.append([str(name).casefold() for name in node["column_names"]])
    # The name of a table alone is a value with all columns.
    has_all |= any(len(path) == 1 and path[0] in tables - folded.keys() for path in paths)
    whole = {folded[name] for path in paths for name in _whole_columns(path, folded, types)}
    return Known(types, types if has_all else whole, missing, has_all=has_all)


def _whole_columns(
    path: Sequence[str], folded: Mapping[str, str], types: Mapping[str, Any]
) -> Iterator[str]:
    """The columns of which ``a.b.c`` may show a value that has keys."""
    for place, name in enumerate(path):
        if name in folded:
            known = known_keys(types[folded[name]])
            for key in path[place + 1 :]:
                inner = known if isinstance(known, dict) else {}
                known = {each.casefold(): value for each, value in inner.items()}.get(key)
            if known is not None:
                yield name


class Watched:
    """A file with the bytes of ``source``, whose lines are checked before they are given."""

    def __init__(self, source: Any, head: bytes, known: Known) -> None:
        """
        :param head: the bytes before those of ``source``; its whole lines have the columns.
        """
        self._source = source
        self._known = known
        self._number = head.count(b"\n")
        #: The begin of a line, and how much of it was given before.
        self._rest = head[head.rfind(b"\n") + 1 :]
        self._given = len(self._rest)
        # Only the keys count.  No number is converted: one of 10,000 digits would need long.
        self._decoder = json.JSONDecoder(strict=False, parse_int=float)

    def read(self, size: int) -> bytes:
        """Some whole lines, and nothing only at the end.

        :raises SqlError: a line has an unknown key, or is no object of JSON.
        """
        lines = b""
        while not lines:
            data = bytes(self._source.read(size))
            if not data:
                lines, self._rest = self._rest, b""
                break
            end = data.rfind(b"\n") + 1
            if end:
                lines, self._rest = self._rest + data[:end], data[end:]
            else:
                self._rest += data
            if len(self._rest) > MOST_LINE_BYTES:
                raise SqlError(f"line {self._number + 1}: has more than {MOST_LINE_BYTES} bytes")
        if lines:
            self._check(lines.removesuffix(b"\n").split(b"\n"))
        given, self._given = self._given, 0
        return lines[given:]

    def _check(self, lines: Sequence[bytes]) -> None:
        """Check some lines, all in one call if it can: a call for each would be slow."""
        filled = [line for line in lines if line.strip()]
        try:
            rows = self._decoder.decode(f"[{b','.join(filled).decode(errors='replace')}]")
            is_usual = len(rows) == len(lines)
        except (ValueError, RecursionError):
            is_usual = False
        if not is_usual:
            rows = [self._row(line, number) for number, line in enumerate(lines, self._number + 1)]
        for number, row in enumerate(rows, self._number + 1):
            if isinstance(row, dict):
                self._known.require(row, number)
        self._number += len(lines)

    def _row(self, line: bytes, number: int) -> Any:
        require_levels(line, number)
        try:
            return self._decoder.decode(line.decode(errors="replace")) if line.strip() else None
        except (ValueError, RecursionError) as error:
            raise SqlError(f"line {number}: is no JSON: {error}") from None
