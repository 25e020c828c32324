"""Keys of JSON lines that only lines after the first MiB have.

The columns come from the first MiB, and the engine's reader drops each key that they do not have.
So such a key is an error with its line, where the result would show it.  A query that names its
columns needs no check: ``SELECT a`` is complete, and ``SELECT b`` of a late ``b`` is an unknown
column.  ``*`` shows all keys, and a column with keys of its own shows these.  In a query over many
objects a key that the first MiB lacks is ``NULL`` (``missing_keys``), so no later line may have it.

A key that differs from a used one in case only is an error, as in the first MiB: to the reader it
is another key, and in SQL it has the same name.  Such lines are searched before they are parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from parameters import shown
from sql_check import TABLE, SqlError, folded_name, nodes_of
from sql_input import MOST_LINE_BYTES
from sql_keys import require_levels


#: More names are not searched; all lines are parsed then.
MOST_SEARCHED = 64
#: Of a name and the quote before it, for the search.
BEGIN_BYTES = 4
#: Letters of ASCII as escape sequences.
_ESCAPED = re.compile(rb"\\u00[4-7]")


class Known:
    """The keys that have columns.

    :ivar is_empty: nothing is checked.
    """

    def __init__(
        self,
        types: Mapping[str, Any],
        columns: Iterable[str],
        missing: Collection[str] = (),
        used: Collection[str] | None = (),
        *,
        has_all: bool,
    ) -> None:
        """
        :param types: the type of each column, as ``Engine.type_of`` gives it.
        :param columns: the columns whose own keys are checked.
        :param missing: keys that no line may have.
        :param used: names, in lower case, that no key may have in another case; ``None``: of all.
        :param has_all: the keys of lines are checked, too.
        """
        self._names = types.keys()
        self._has_all = has_all
        all_keys = {name: known_keys(each) for name, each in types.items()}
        found = {name: all_keys[name] for name in columns}
        self._nested = {name: known for name, known in found.items() if known is not None}
        self._missing = {folded_name(name) for name in missing}
        self._needs_all = bool(has_all or self._nested or self._missing)
        self._cased = Cased(all_keys, used)
        self.is_empty = not self._needs_all and self._cased.is_empty

    def may_be_wrong(self, lines: bytes) -> bool:
        """Whether some lines may have a key that is an error."""
        return self._needs_all or self._cased.may_be_in(lines)

    def require(self, row: dict[str, Any], number: int) -> None:
        """Raise :class:`SqlError` for a key of a line that no column has."""
        if self._has_all and not row.keys() <= self._names:
            raise _unknown(min(row.keys() - self._names), "", number)
        self._cased.require(row, number)
        if self._missing:
            for key in row:
                if folded_name(key) in self._missing:
                    raise _unknown(key, "", number)
        for name, known in self._nested.items():
            if row.get(name) is not None:
                _require_nested(name, row[name], known, number)


class Cased:
    """Keys that a query uses, which no line may have in another case.

    :param keys: the columns, each with its keys, as of :func:`known_keys`.
    :ivar is_empty: there are none.
    """

    def __init__(self, keys: Mapping[str, Any], used: Collection[str] | None) -> None:
        self._keys, self._used = keys, used
        names = {name for name in _all_names(keys) if used is None or folded_name(name) in used}
        self.is_empty = not names
        is_plain = all(name.isascii() and json.dumps(name) == f'"{name}"' for name in names)
        is_searched = is_plain and len(names) <= MOST_SEARCHED
        #: Each name in quotes; empty: it cannot be searched.
        self._texts = [f'"{name}"'.encode() for name in names if is_searched]

    def may_be_in(self, lines: bytes) -> bool:
        """Whether some lines may have such a key."""
        if not self._texts:
            return not self.is_empty
        lower = lines.lower()
        for text in self._texts:
            # The interpreter counts a text several times as fast if a quote is not its last byte.
            begin = text[:BEGIN_BYTES]
            if lines.count(begin) != lower.count(begin.lower()) and (
                lines.count(text) != lower.count(text.lower())
            ):
                return True
        return b"\\u00" in lines and _ESCAPED.search(lines) is not None

    def require(self, row: dict[str, Any], number: int) -> None:
        """Raise :class:`SqlError` for such a key."""
        todo: list[tuple[Any, Any]] = [] if self.is_empty else [(row, self._keys)]
        while todo:
            value, known = todo.pop()
            if isinstance(known, list) and isinstance(value, (list, dict)):
                items = value if isinstance(value, list) else value.values()
                todo += [(each, known[0]) for each in items]
            elif isinstance(known, Mapping) and isinstance(value, dict):
                for key in value.keys() - known.keys():
                    self._require_other(key, known, number)
                todo += [(each, known[key]) for key, each in value.items() if known.get(key)]

    def _require_other(self, key: str, known: Mapping[str, Any], number: int) -> None:
        folded = folded_name(key)
        same = next((name for name in known if folded_name(name) == folded), None)
        if same is not None and (self._used is None or folded in self._used):
            raise SqlError(
                f"line {number}: the keys {shown(same)} and {shown(key)} are one name in SQL"
            )


def _all_names(known: Any) -> Iterator[str]:
    """The keys at all levels."""
    todo = [known]
    while todo:
        each = todo.pop()
        if isinstance(each, Mapping):
            yield from each
            todo += each.values()
        elif isinstance(each, list):
            todo += each


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


def shown_by(
    tree: Any,
    types: Mapping[str, Any],
    missing: Collection[str] = (),
    used: Collection[str] | None = None,
) -> Known:
    """The keys that a query may show.

    :param tree: the syntax tree of the checked query.
    :param types: the type of each column of the object.
    :param missing: the keys that are ``NULL``, because the object lacks them.
    :param used: the names in the query, as of ``names_in``.
    """
    folded = {folded_name(name): name for name in types}
    tables = {TABLE}
    paths: list[list[str]] = []
    has_all = False
    for node in nodes_of(tree):
        if "class" not in node:  # a table has none, and an expression has one
            names = [node.get(key) for key in ("alias", "table_name")]
            tables |= {folded_name(str(name)) for name in names if name}
        # The rows of a pivot are grouped by all columns that it does not name.
        has_all |= node.get("class") == "STAR" or node.get("type") == "PIVOT"
        if node.get("class") == "COLUMN_REF":
            paths.append([folded_name(str(name)) for name in node["column_names"]])
    # The name of a table alone is a value with all columns.
    has_all |= any(len(path) == 1 and path[0] in tables - folded.keys() for path in paths)
    whole = {folded[name] for path in paths for name in _whole_columns(path, folded, types)}
    return Known(types, types if has_all else whole, missing, used, has_all=has_all)


def _whole_columns(
    path: Sequence[str], folded: Mapping[str, str], types: Mapping[str, Any]
) -> Iterator[str]:
    """The columns of which ``a.b.c`` may show a value that has keys."""
    for place, name in enumerate(path):
        if name in folded:
            known = known_keys(types[folded[name]])
            for key in path[place + 1 :]:
                inner = known if isinstance(known, dict) else {}
                known = {folded_name(each): value for each, value in inner.items()}.get(key)
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
        #: Lines after the last one that was not counted, and the place of its end.
        self._number, self._start = head.count(b"\n"), 0
        #: The start of a line, and how much of it was given before.
        self._rest = head[head.rfind(b"\n") + 1 :]
        self._given = len(self._rest)
        self._end = len(head) - self._given
        # Only the keys count.  No number is converted: one of 10,000 digits would need long.
        self._decoder = json.JSONDecoder(strict=False, parse_int=float)

    def read(self, size: int) -> bytes:
        """Some whole lines, and nothing only at the end.

        :raises SqlError: a line has an unknown key, or is no object of JSON.
        """
        try:
            lines = self._lines(size)
            self._end += len(lines)
            if lines and self._known.may_be_wrong(lines):
                self._check(lines.removesuffix(b"\n").split(b"\n"))
            else:
                # To count the lines would take as long as the search.
                self._number, self._start = 0, self._end
        except SqlError as error:
            if not self._start:
                raise
            raise SqlError(f"after byte {self._start}, {error}") from None
        given, self._given = self._given, 0
        return lines[given:]

    def _lines(self, size: int) -> bytes:
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
        return lines

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
