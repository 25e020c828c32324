"""A query over many objects, split into a part for each object and two that merge partial results.

The parts are made from DuckDB's own syntax tree, never from the text.  There are two kinds:

* *groups*: an object gives one row for each of its groups, with partial aggregates.  A merge
  aggregates these again, and the last one computes the expressions over aggregates, ``HAVING``,
  ``ORDER BY`` and ``LIMIT``.
* *rows*: an object gives its rows, and behind them the values that ``ORDER BY`` compares.

With ``LIMIT`` an object gives its first rows only.  This is right for rows, and for groups only if
``ORDER BY`` has exactly the groups: else a group that is cut at one object would lack a part.

A query whose parts would not give the result of the whole is refused, and the error names the part
that cannot be split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from parameters import shown
from sql_check import TABLE, folded_name, nodes_of
from sql_engine import Engine, identifier
from sql_expressions import Expressions, Tree, changed, refusal, whole

Columns = Sequence[tuple[str, str]]
#: Aggregates that are merged by another one, by their names.
_SAME = {"sum": "sum", "min": "min", "max": "max", "bool_and": "bool_and", "bool_or": "bool_or"}
_COUNTS = ("count", "count_star")
_MEANS = ("avg", "mean")
#: All aggregates that a query over many objects may have.
MERGED = frozenset((*_SAME, *_COUNTS, *_MEANS))
_WANTED = "an aggregate over many objects is count, sum, min, max, avg, bool_and or bool_or"
#: Classes of expressions that no part may have.
_REFUSED = {
    "SUBQUERY": "a subquery would see the rows of one object only: run it as a query of its own",
    "WINDOW": "a window function would see the rows of one object only: it runs on one object",
    "COLLATE": "COLLATE is refused over many objects: use lower(...)",
    "POSITIONAL_REFERENCE": "a position is no name: name the column",
    "PARAMETER": "a parameter has no value: write the value",
}
_ORDERS = {"ASCENDING": " ASC", "DESCENDING": " DESC"}
_NULLS = {"NULLS FIRST": " NULLS FIRST", "NULLS LAST": " NULLS LAST"}


@dataclass(frozen=True)
class Plan:
    """The parts of a query, as SQL over the table ``input``.

    :ivar split: runs at each object.
    :ivar inner: merges partial results into one.
    :ivar last: merges partial results into the result.
    :ivar used: the columns of the object that the query reads.
    :ivar has_all: it reads all of them, by ``*`` or by the name of the table.
    """

    split: str
    inner: str
    last: str
    used: tuple[str, ...]
    has_all: bool


def plan_of(engine: Engine, query: str, names: Sequence[str], columns: Columns) -> Plan:
    """The parts of a checked query.

    :param names: the columns of the object, or those of them that the query reads.
    :param columns: names and types of the columns of the result.
    :raises SqlError: the query cannot be split.
    """
    return _Splitter(engine, query, names, columns).plan()


def table_name(node: Tree) -> str:
    """The name of the table in a query, as qualified names of columns have it."""
    return folded_name(str(node["from_table"]["alias"] or TABLE))


def _require_simple(query: str, node: Tree) -> None:
    """Refuse a query whose parts would not give the result of the whole."""
    if node["type"] != "SELECT_NODE":
        raise refusal(query, "UNION, EXCEPT and INTERSECT are refused over many objects")
    if node["cte_map"]["map"]:
        raise refusal(query, "WITH is refused over many objects: want one SELECT")
    table = node["from_table"]
    if table["type"] != "BASE_TABLE":
        raise refusal(query, f"over many objects FROM has the table {TABLE} alone, no join", table)
    if table["column_name_alias"] or table["sample"] or node["sample"]:
        raise refusal(query, "samples and other names of columns are refused over many objects")
    if node["qualify"]:
        raise refusal(query, "QUALIFY is refused over many objects: it needs a window function")
    if node["aggregate_handling"] != "STANDARD_HANDLING":
        raise refusal(query, "GROUP BY ALL is refused over many objects: name the groups")
    if len(node["group_sets"]) > 1:
        raise refusal(
            query,
            "ROLLUP, CUBE and GROUPING SETS are refused over many objects: run a query for each",
        )
    for each in nodes_of(node):
        reason = _REFUSED.get(str(each.get("class")))
        if reason:
            raise refusal(query, reason, each)


class _Modifiers:
    """``DISTINCT``, ``ORDER BY``, ``LIMIT`` and ``OFFSET`` of a query.

    :ivar limit: ``None`` without one.
    """

    def __init__(self, query: str, modifiers: Sequence[Tree]) -> None:
        self._query = query
        self.is_distinct = False
        self.orders: list[Tree] = []
        self.limit: int | None = None
        self._offset = 0
        for modifier in modifiers:
            self._take(modifier)

    @property
    def distinct(self) -> str:
        """The start of a SELECT list."""
        return "DISTINCT " if self.is_distinct else ""

    def _take(self, modifier: Tree) -> None:
        kind = modifier["type"]
        if kind == "DISTINCT_MODIFIER" and not modifier["distinct_on_targets"]:
            self.is_distinct = True
        elif kind == "ORDER_MODIFIER":
            self.orders = modifier["orders"]
            for order in self.orders:
                if order["expression"]["class"] == "STAR":
                    raise refusal(
                        self._query, "ORDER BY ALL is refused over many objects: name columns"
                    )
        elif kind == "LIMIT_MODIFIER":
            self.limit = self._count(modifier["limit"])
            self._offset = self._count(modifier["offset"]) or 0
        elif kind == "DISTINCT_MODIFIER":
            raise refusal(self._query, "DISTINCT ON is refused over many objects")
        else:
            raise refusal(self._query, "a LIMIT in percent is refused over many objects")

    def _count(self, node: Tree | None) -> int | None:
        if node is None:
            return None
        value = whole(node)
        if value is None or value < 0:
            raise refusal(self._query, "want a whole number after LIMIT and OFFSET", node)
        return value

    def text(self, texts: Sequence[str], *, is_last: bool) -> str:
        """``ORDER BY`` and ``LIMIT``; a part that is not the last skips no rows."""
        text = f" ORDER BY {', '.join(texts)}" if texts else ""
        if self.limit is not None:
            most = self.limit if is_last else self.limit + self._offset
            text += f" LIMIT {most}"
        if is_last and self._offset:
            text += f" OFFSET {self._offset}"
        return text


class _Splitter:
    """The split of one query."""

    def __init__(self, engine: Engine, query: str, names: Sequence[str], columns: Columns) -> None:
        self._names = {folded_name(name) for name in names}
        self._columns = columns
        self._node = node = engine.syntax.tree(query)["statements"][0]["node"]
        _require_simple(query, node)
        self._table = table_name(node)
        read = set(self._read_names())
        self._used = tuple(name for name in names if folded_name(name) in read)
        self._has_all = any(map(self._is_all, nodes_of(node)))
        self._expressions = Expressions(engine.syntax, query, self._table, self._names)
        self._select: list[Tree] = node["select_list"]
        self._modifiers = _Modifiers(query, node["modifiers"])

    def _is_all(self, node: Tree) -> bool:
        """Whether an expression has all columns of the object."""
        names = [folded_name(str(name)) for name in node.get("column_names", ())]
        return bool(node.get("class") == "STAR" or names == [self._table])

    def _read_names(self) -> Iterator[str]:
        """All names in the query that may be columns of the object."""
        for node in nodes_of(self._node):
            if self._is_all(node):
                yield from self._names
            elif node.get("class") == "COLUMN_REF":
                yield from (folded_name(str(name)) for name in node["column_names"])

    def plan(self) -> Plan:
        """The parts of the query."""
        node = self._node
        orders = [order["expression"] for order in self._modifiers.orders]
        is_grouped = node["group_sets"] or node["having"]
        if is_grouped or self._expressions.has_aggregate([self._select, orders]):
            return self._groups()
        return self._rows()

    def _rows(self) -> Plan:
        aliases, count = self._aliases(), len(self._columns)
        hidden: list[Tree] = []
        places: list[tuple[int, str]] = []
        for order in self._modifiers.orders:
            number = self._ordinal(order["expression"])
            if number is None and self._modifiers.is_distinct:
                number = self._selected(order["expression"])
            if number is None:
                self._require_clear_names(order["expression"])
                hidden.append(
                    self._expressions.without_aliases(order["expression"], aliases, is_clear=False)
                )
                number = count + len(hidden)
            places.append((number, _direction(order)))
        needed = ""
        if self._modifiers.limit is not None:
            needed = self._modifiers.text([f"{at}{how}" for at, how in places], is_last=False)
        # The last part shows no hidden columns, so they have no number there.
        ordered = [f"{_column(at - 1) if at > count else at}{how}" for at, how in places]
        selected = [self._expressions.text(item) for item in self._select] + [
            self._expressions.plain(each) for each in hidden
        ]
        distinct = self._modifiers.distinct
        table, where = identifier(TABLE), self._node["where_clause"]
        result = ", ".join(
            f"{_column(number)} AS {identifier(name)}"
            for number, (name, _) in enumerate(self._columns)
        )
        return Plan(
            f"SELECT {distinct}{', '.join(selected)}{self._from(where)}{needed}",
            f"SELECT {distinct}* FROM {table}{needed}",  # noqa: S608
            f"SELECT {distinct}{result} FROM {table}{self._modifiers.text(ordered, is_last=True)}",  # noqa: S608
            self._used,
            self._has_all,
        )

    def _require_clear_names(self, expression: Tree) -> None:
        """Refuse a part of ``ORDER BY`` that may name what a star has made of a column."""
        for each in nodes_of(self._select):
            if each.get("class") == "STAR" and (
                each["columns"] or each["replace_list"] or each["rename_list"]
            ):
                raise self._expressions.refused(
                    "with COLUMNS, REPLACE or RENAME over many objects ORDER BY has numbers of"
                    " columns only",
                    expression,
                )

    def _selected(self, expression: Tree) -> int:
        """The number of the column of the result that has this expression."""
        keys = [self._expressions.key(item) for item in self._select]
        if (
            any(item["class"] == "STAR" for item in self._select)
            or self._expressions.key(expression) not in keys
        ):
            raise self._expressions.refused(
                "with DISTINCT over many objects ORDER BY names a column of the result, or its"
                " number",
                expression,
            )
        return keys.index(self._expressions.key(expression)) + 1

    def _groups(self) -> Plan:
        node, aliases = self._node, self._aliases()
        for each in nodes_of([self._select, node["having"], self._modifiers.orders]):
            if each.get("class") == "STAR":
                raise self._expressions.refused(
                    "* beside aggregates is refused over many objects", each
                )
        groups = self._group_expressions(aliases)
        partial = _Partial(self._expressions, groups)
        seen: dict[str, Tree] = {}
        items = []
        for item, (name, _) in zip(self._select, self._columns):
            plain = self._expressions.without_aliases(item, seen, is_clear=True)
            if item["alias"]:
                seen.setdefault(folded_name(str(item["alias"])), plain)
            items.append(f"{self._expressions.plain(partial.merged(plain))} AS {identifier(name)}")
        having = ""
        if node["having"]:
            plain = self._expressions.without_aliases(node["having"], aliases, is_clear=False)
            having = f" HAVING {self._expressions.plain(partial.merged(plain))}"
        texts, keys = [], []
        for order in self._modifiers.orders:
            number = self._ordinal(order["expression"])
            plain = self._select[number - 1] if number else order["expression"]
            plain = self._expressions.without_aliases(plain, aliases, is_clear=number is not None)
            text = str(number) if number else self._expressions.plain(partial.merged(plain))
            texts.append(text + _direction(order))
            keys.append((self._expressions.key(plain), _direction(order)))
        where = node["where_clause"]
        if where:
            where = self._expressions.without_aliases(where, aliases, is_clear=True)
        partial.require_a_column()
        needed = ""
        known = [self._expressions.key(each) for each in groups]
        is_ordered = bool(known) and {key for key, _ in keys} == set(known)
        if (
            self._modifiers.limit is not None
            and is_ordered
            and not having
            and not self._modifiers.is_distinct
        ):
            places = [f"{known.index(key) + 1}{direction}" for key, direction in keys]
            needed = self._modifiers.text(places, is_last=False)
        grouped = ", ".join(str(number + 1) for number in range(len(groups)))
        by_groups = f" GROUP BY {grouped}" if groups else ""
        last_groups = ", ".join(_column(number) for number in range(len(groups)))
        if not groups and node["group_sets"]:
            last_groups = "()"
        distinct = self._modifiers.distinct
        table = identifier(TABLE)
        return Plan(
            f"SELECT {partial.split}{self._from(where)}{by_groups}{needed}",
            f"SELECT {partial.inner} FROM {table}{by_groups}{needed}",  # noqa: S608
            f"SELECT {distinct}{', '.join(items)} FROM {table}"  # noqa: S608
            f"{f' GROUP BY {last_groups}' if last_groups else ''}{having}"
            f"{self._modifiers.text(texts, is_last=True)}",
            self._used,
            self._has_all,
        )

    def _group_expressions(self, aliases: dict[str, Tree]) -> list[Tree]:
        found: dict[str, Tree] = {}
        for expression in self._node["group_expressions"]:
            value = whole(expression)
            if value is not None:
                if not 1 <= value <= len(self._select):
                    raise self._expressions.refused(
                        f"GROUP BY {value}: there is no such column", expression
                    )
                item = self._select[value - 1]
                plain = self._expressions.without_aliases(item, aliases, is_clear=True)
            else:
                plain = self._expressions.without_aliases(expression, aliases, is_clear=False)
            found.setdefault(self._expressions.key(plain), plain)
        return list(found.values())

    def _from(self, where: Tree | None) -> str:
        alias = self._node["from_table"]["alias"]
        text = f" FROM {identifier(TABLE)}" + (f" AS {identifier(alias)}" if alias else "")
        return text + (f" WHERE {self._expressions.plain(where)}" if where else "")

    def _aliases(self) -> dict[str, Tree]:
        """The expressions of the result by their names, without names of others."""
        found: dict[str, Tree] = {}
        for item in self._select:
            if item["alias"]:
                plain = self._expressions.without_aliases(item, found, is_clear=True)
                found.setdefault(folded_name(str(item["alias"])), plain)
        return found

    def _ordinal(self, expression: Tree) -> int | None:
        """The number of the column of the result that a part of ``ORDER BY`` names, from 1."""
        value = whole(expression)
        if value is not None:
            if not 1 <= value <= len(self._columns):
                raise self._expressions.refused(
                    f"ORDER BY {value}: there is no such column", expression
                )
            return value
        if expression["class"] == "COLUMN_REF" and len(expression["column_names"]) == 1:
            name = folded_name(str(expression["column_names"][0]))
            places = [
                n for n, item in enumerate(self._select, 1) if folded_name(item["alias"]) == name
            ]
            has_star = any(item["class"] == "STAR" for item in self._select)
            if len(places) > 1:
                raise self._expressions.refused(
                    f"{shown(name)} names two columns of the result", expression
                )
            if places and not has_star and name not in self._names:
                return places[0]
        return None


class _Partial:
    """The columns of a partial result: the groups, then the partial aggregates.

    :ivar split: the columns that an object selects.
    :ivar inner: the columns that a merge selects of partial results.
    """

    def __init__(self, expressions: Expressions, groups: Sequence[Tree]) -> None:
        self._of = expressions
        self._groups = {expressions.key(each): number for number, each in enumerate(groups)}
        self._split = [expressions.plain(each) for each in groups]
        self._inner = [_column(number) for number in range(len(groups))]
        self._known: dict[str, int] = {}

    @property
    def split(self) -> str:
        return ", ".join(self._split)

    @property
    def inner(self) -> str:
        return ", ".join(self._inner)

    def require_a_column(self) -> None:
        """Give an object a column, also if the query needs none of its values."""
        if not self._split:
            self._added(self._of.parsed("count(*)"), _counted)

    def merged(self, expression: Tree) -> Tree:
        """The expression over the columns of partial results.

        :raises SqlError: it has a column or an aggregate that these do not have.
        """

        def replaced(node: Tree) -> Tree | None:
            # A constant may have several types, and a column of partial results has one.
            if node.get("class") in (None, "CONSTANT"):
                return None
            number = self._groups.get(self._of.key(node))
            if number is not None:
                return self._of.parsed(_column(number))
            if node["class"] == "COLUMN_REF":
                name = ".".join(map(str, node["column_names"]))
                raise self._of.refused(
                    f"{shown(name)}: over many objects a column is in GROUP BY or in an aggregate",
                    node,
                )
            if node["class"] == "FUNCTION" and node["function_name"] in self._of.aggregates:
                return self._aggregate(node)
            return None

        return changed(expression, replaced)

    def _aggregate(self, node: Tree) -> Tree:
        name = str(node["function_name"])
        if node["distinct"]:
            raise self._of.refused(
                f"{name}(DISTINCT ...) is refused over many objects, which may share values: use"
                " SELECT DISTINCT or GROUP BY, and count the result",
                node,
            )
        if node["order_bys"]["orders"] or len(node["children"]) != (name != "count_star"):
            raise self._of.refused(f"{name} with these arguments is refused: {_WANTED}", node)
        if name in _COUNTS:
            return self._of.parsed(_counted(self._added(node, _counted)))
        if name in _SAME:
            again = _again(_SAME[name])
            return self._of.parsed(again(self._added(node, again)))
        if name in _MEANS:
            total = self._added({**node, "function_name": "sum"}, _again("sum"))
            count = self._added({**node, "function_name": "count"}, _counted)
            sums, counts = _again("sum")(total), _again("sum")(count)
            return self._of.parsed(f"CAST({sums} AS DOUBLE) / {counts}")
        raise self._of.refused(f"{name} is refused: {_WANTED}", node)

    def _added(self, node: Tree, merge: Callable[[int], str]) -> int:
        """The number of the column that has this partial aggregate."""
        key = self._of.key(node)
        if key not in self._known:
            number = self._known[key] = len(self._split)
            self._split.append(self._of.plain(node))
            self._inner.append(merge(number))
        return self._known[key]


def _column(number: int) -> str:
    """A column of partial results in SQL; with its table it is no name of the result."""
    return f"{identifier(TABLE)}.c{number}"


def column_names(count: int) -> list[str]:
    """The names of the columns of partial results."""
    return [f"c{number}" for number in range(count)]


def _counted(number: int) -> str:
    return f"CAST(coalesce(sum({_column(number)}), 0) AS BIGINT)"


def _again(function: str) -> Callable[[int], str]:
    return lambda number: f"{function}({_column(number)})"


def _direction(order: Tree) -> str:
    return _ORDERS.get(order["type"], "") + _NULLS.get(order["null_order"], "")
