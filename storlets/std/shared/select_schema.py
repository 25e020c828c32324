"""Where the values of a record are: columns of CSV, or parts of JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import select_syntax as tree
from select_errors import SelectError, quoted
from select_values import Kind, Value

TABLE = "input"
LF = "\n"


class Schema(Protocol):
    """The records of an object."""

    def value(self, path: tree.Path) -> Value:
        """The value of a path.

        :raises SelectError: there is none, or more than one.
        """

    def source(self) -> str:
        """The table of the query, in the engine's SQL."""

    def star(self) -> list[tuple[str, Value]] | None:
        """The names and values of all columns; ``None``: each record has its own."""


@dataclass
class CsvSchema:
    """Columns by position, ``_1`` the first, and by the names in the first record.

    :ivar alias: the name of a record in the query.
    :ivar other_record: a character that has LF in its place, and LF that one.
    """

    width: int
    names: Sequence[str] | None
    alias: str
    other_record: str = ""

    def value(self, path: tree.Path) -> Value:
        steps = path.steps
        first = steps[0]
        if len(steps) > 1 and isinstance(first, tree.Name) and first.fits(self.alias):
            steps = steps[1:]
        elif len(steps) > 1 and isinstance(steps[1], tree.Name):
            raise SelectError("InvalidTableAlias", f"{_shown(path)}: the alias is {self.alias}")
        if len(steps) != 1 or not isinstance(steps[0], tree.Name):
            raise SelectError(
                "ParseInvalidPathComponent", f"{_shown(path)}: a column of CSV has no parts"
            )
        return self._column(steps[0])

    def _column(self, name: tree.Name) -> Value:
        found = [number for number, each in enumerate(self.names or (), 1) if name.fits(each)]
        if len(found) > 1:
            raise SelectError("AmbiguousFieldName", f"{name.text}: {len(found)} columns have it")
        if found:
            return self._value(found[0])
        position = name.text[1:]
        if name.text.startswith("_") and position.isascii() and position.isdigit():
            number = int(position) if len(position) < 10 else self.width + 1
            if number == 0:
                raise SelectError("InvalidColumnIndex", f"{name.text}: the first column is _1")
            if number > self.width:
                return Value("CAST(NULL AS VARCHAR)", Kind.TEXT, "true")
            return self._value(number)
        if self.names is None:
            raise SelectError(
                "EvaluatorBindingDoesNotExist",
                f"{name.text}: columns are _1, _2, ... unless FileHeaderInfo is USE",
            )
        raise SelectError("MissingHeaders", f"{name.text}: the first record has no such name")

    def source(self) -> str:
        return TABLE

    def star(self) -> list[tuple[str, Value]]:
        names: dict[str, int] = {}
        given = list(self.names or ())
        for number in range(1, self.width + 1):
            name = given[number - 1] if number <= len(given) else f"_{number}"
            if name in names:
                # An object of JSON with a key twice loses a value in most readers.
                name = f"_{number}"
            while name in names:
                name = f"_{name}"
            names[name] = number
        return [(name, self._value(number)) for name, number in names.items()]

    def _value(self, number: int) -> Value:
        column = text = f"c{number}"
        other = self.other_record
        if other:
            text = f"translate({column}, {quoted(other + LF)}, {quoted(LF + other)})"
        return Value(text, Kind.TEXT, f"{column} IS NULL")


@dataclass
class JsonSchema:
    """Parts of values of JSON.

    Each step of a path is a column of a query within the query, so no step is repeated in SQL.

    :ivar steps: the path after ``S3Object`` to the records.
    :ivar is_numbered: whether ``_1`` is the record, too.
    """

    alias: str
    steps: Sequence[tree.Step]
    is_numbered: bool = False
    _columns: dict[tuple[str, tree.Step], tuple[str, int]] = field(default_factory=dict)

    def value(self, path: tree.Path) -> Value:
        steps = path.steps
        first = steps[0]
        if isinstance(first, tree.Name) and self._is_record(first):
            steps = steps[1:]
        column, level = "r", 0
        for step in steps:
            if isinstance(step, tree.Wildcard):
                raise SelectError(
                    "ParseInvalidContextForWildcardInSelectList", f"{_shown(path)}: no place for *"
                )
            level += 1
            new = (f"p{len(self._columns) + 1}", level)
            column, level = self._columns.setdefault((column, step), new)
        return Value(column, Kind.ANY, f"{column} IS NULL")

    def _is_record(self, name: tree.Name) -> bool:
        return name.fits(self.alias) or (self.is_numbered and name.text == "_1")

    def source(self) -> str:
        inner = f"SELECT r FROM {TABLE}"  # noqa: S608 - of names of ours
        for step in self.steps:
            inner = f"SELECT {_element('r', step)} AS r FROM ({inner})"  # noqa: S608
        levels = max((level for _, level in self._columns.values()), default=0)
        for wanted in range(1, levels + 1):
            added = ", ".join(
                f"{part(parent, step)} AS {name}"
                for (parent, step), (name, level) in self._columns.items()
                if level == wanted
            )
            inner = f"SELECT *, {added} FROM ({inner})"  # noqa: S608
        return f"({inner})"

    def star(self) -> None:
        return None


def _element(value: str, step: tree.Step) -> str:
    """The part of a record; a wildcard makes a record of each element, and at least one."""
    if isinstance(step, tree.Wildcard):
        kind, parts = "ARRAY", f"json_extract({value}, '$[*]')"
    elif isinstance(step, tree.AnyName):
        kind, parts = "OBJECT", f"json_extract({value}, '$.*')"
    else:
        return part(value, step)
    some = f"CASE WHEN len({parts}) > 0 THEN {parts} ELSE [CAST(NULL AS JSON)] END"
    return f"unnest(CASE WHEN json_type({value}) = '{kind}' THEN {some} ELSE [{value}] END)"


def part(value: str, step: tree.Step) -> str:
    """The expression of a part of a value of JSON; NULL if it has none."""
    if isinstance(step, tree.Index):
        return f"json_extract({value}, '$[{step.position}]')"
    assert isinstance(step, tree.Name)
    is_object = f"json_type({value}) = 'OBJECT'"
    exact = f"json_extract({value}, {quoted(_pointer(step.text))})"
    if step.text.isdigit():
        # To the engine it is also the position in a list.
        exact = f"CASE WHEN {is_object} THEN {exact} END"
    if step.is_quoted:
        return exact
    same = f"list_filter(json_keys({value}), lambda k: lower(k) = {quoted(step.text.lower())})[1]"
    escaped = f"replace(replace({same}, '~', '~0'), '/', '~1')"
    return (
        f"coalesce({exact}, CASE WHEN {is_object} THEN json_extract({value}, '/' || {escaped}) END)"
    )


def _pointer(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")


def key_of(name: str) -> str:
    """A key of JSON, with its quotes."""
    return json.dumps(name, ensure_ascii=False)


def _shown(path: tree.Path) -> str:
    parts = [step.text if isinstance(step, tree.Name) else "[...]" for step in path.steps]
    return ".".join(parts)[:60]
