"""Translates the tree of a query to the SQL of the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import select_casts
import select_dates
import select_syntax as tree
from select_errors import SelectError, quoted, raised
from select_schema import Schema
from select_values import (
    NUMBERS,
    Kind,
    Value,
    compared,
    condition,
    in_utc,
    json_sum,
    number,
    present,
    text,
    unified,
    wrong_type,
)

_OF_DATES = ("DATE_ADD", "DATE_DIFF", "EXTRACT", "TO_STRING", "TO_TIMESTAMP", "UTCNOW")
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


class Translator:
    """Translates expressions over one schema.

    :param now: the time of the query, in SQL.
    """

    def __init__(self, schema: Schema, now: str) -> None:
        self._schema = schema
        self._now = now
        self._is_inside = False
        #: Whether the expressions so far have paths outside of aggregates, and aggregates.
        self.has_paths = False
        self.has_aggregates = False
        self._ways: dict[type, Callable[[Any], Value]] = {
            tree.Literal: _literal,
            tree.Missing: _missing,
            tree.Ion: select_dates.literal,
            tree.Path: self._path,
            tree.Unary: self._unary,
            tree.Binary: self._binary,
            tree.Logic: self._logic,
            tree.Not: self._not,
            tree.Like: self._like,
            tree.In: self._in,
            tree.Between: self._between,
            tree.Is: self._is,
            tree.Cast: self._cast,
            tree.Case: self._case,
            tree.Call: self._call,
            tree.Aggregate: self._aggregate,
        }

    def value(self, node: tree.Expression) -> Value:
        """The value of an expression.

        :raises SelectError: it has a wrong type, or names what is not there.
        """
        return self._ways[type(node)](node)

    def where(self, node: tree.Expression) -> str:
        """The condition of WHERE."""
        before = self.has_aggregates
        found = condition(self.value(node), "WHERE")
        if self.has_aggregates and not before:
            raise SelectError("UnsupportedSqlStructure", "WHERE has no aggregates")
        return found

    # --- paths and operators ----------------------------------------------------------------------

    def _path(self, node: tree.Path) -> Value:
        if not self._is_inside:
            self.has_paths = True
        return self._schema.value(node)

    def _unary(self, node: tree.Unary) -> Value:
        operand = number(self.value(node.operand), node.sign)
        if node.sign == "+":
            return operand
        return Value(f"(- {operand.sql})", operand.kind)

    def _binary(self, node: tree.Binary) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        if node.sign in _COMPARISONS:
            return Value(compared(node.sign, left, right), Kind.BOOL)
        if node.sign == "||":
            return Value(f"({text(left, '||')} || {text(right, '||')})", Kind.TEXT)
        return _arithmetic(node.sign, number(left, node.sign), number(right, node.sign))

    def _logic(self, node: tree.Logic) -> Value:
        parts = [condition(self.value(each), node.word) for each in node.operands]
        return Value(f"({f' {node.word} '.join(parts)})", Kind.BOOL)

    def _not(self, node: tree.Not) -> Value:
        return Value(f"(NOT {condition(self.value(node.operand), 'NOT')})", Kind.BOOL)

    def _like(self, node: tree.Like) -> Value:
        operand, pattern = self.value(node.operand), self.value(node.pattern)
        sql = f"{text(operand, 'LIKE')} LIKE {text(pattern, 'LIKE')}"
        if node.escape is not None:
            sql += f" ESCAPE {quoted(_escape(node))}"
        return Value(f"({sql})", Kind.BOOL)

    def _in(self, node: tree.In) -> Value:
        operand = self.value(node.operand)
        items = [self.value(item) for item in node.items]
        kinds = {operand.kind, *(item.kind for item in items)}
        if kinds in ({Kind.TEXT}, {Kind.INT}):
            return Value(f"({operand.sql} IN ({', '.join(item.sql for item in items)}))", Kind.BOOL)
        tests = [compared("=", operand, item) for item in items]
        return Value(f"({' OR '.join(tests)})", Kind.BOOL)

    def _between(self, node: tree.Between) -> Value:
        operand = self.value(node.operand)
        low = compared(">=", operand, self.value(node.low))
        high = compared("<=", operand, self.value(node.high))
        return Value(f"({low} AND {high})", Kind.BOOL)

    def _is(self, node: tree.Is) -> Value:
        operand = self.value(node.operand)
        if node.word == "MISSING":
            return Value(f"({operand.missing or 'false'})", Kind.BOOL)
        if operand.kind is Kind.ANY:
            null = f"({operand.sql} IS NULL OR json_type({operand.sql}) = 'NULL')"
            return Value(null, Kind.BOOL)
        return Value(f"({operand.sql} IS NULL)", Kind.BOOL)

    def _cast(self, node: tree.Cast) -> Value:
        return select_casts.cast(node, self.value(node.operand))

    def _case(self, node: tree.Case) -> Value:
        tests = []
        subject = self.value(node.subject) if node.subject is not None else None
        for test, _ in node.branches:
            given = self.value(test)
            tests.append(
                condition(given, "WHEN") if subject is None else compared("=", subject, given)
            )
        results = [self.value(result) for _, result in node.branches]
        if node.otherwise is not None:
            results.append(self.value(node.otherwise))
        kind, shown = unified(results, "CASE")
        cases = " ".join(
            f"WHEN {test} THEN {result}" for test, result in zip(tests, shown, strict=False)
        )
        otherwise = f" ELSE {shown[-1]}" if node.otherwise is not None else ""
        return Value(f"CASE {cases}{otherwise} END", kind)

    # --- functions --------------------------------------------------------------------------------

    def _call(self, node: tree.Call) -> Value:
        values = [self.value(argument) for argument in node.arguments]
        if node.name in _OF_DATES:
            return select_dates.called(node, values, self._now)
        if node.name == "COALESCE":
            values = [Value(present(value), value.kind) for value in values]
            kind, shown = unified(values, node.name)
            return Value(f"coalesce({', '.join(shown)})", kind)
        if node.name == "NULLIF":
            return _nullif(*values)
        if node.name == "SUBSTRING":
            return _substring(values)
        texts = [text(value, node.name) for value in values]
        if node.name == "TRIM":
            name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.word, "trim")
            return Value(f"{name}({', '.join([*texts, *_SPACE][:2])})", Kind.TEXT)
        if node.name in ("LOWER", "UPPER"):
            return Value(f"{node.name.lower()}({texts[0]})", Kind.TEXT)
        return Value(f"length({texts[0]})", Kind.INT)

    def _aggregate(self, node: tree.Aggregate) -> Value:
        if self._is_inside:
            raise SelectError(
                "UnsupportedSqlStructure", f"{node.name}: an aggregate within an aggregate"
            )
        self.has_aggregates = True
        if node.operand is None:
            return Value("count(*)", Kind.INT)
        self._is_inside = True
        operand = self.value(node.operand)
        self._is_inside = False
        if node.name == "COUNT":
            return Value(f"count({present(operand)})", Kind.INT)
        if node.name in ("MIN", "MAX") and operand.kind in (Kind.TIME, Kind.LOCAL):
            # The first field of a struct, which is its moment, decides.
            return Value(f"{node.name.lower()}({operand.sql})", operand.kind)
        if node.name == "SUM" and operand.kind is Kind.ANY:
            return json_sum(operand)
        given = number(operand, node.name)
        sql = f"{node.name.lower()}({given.sql})"
        if node.name == "AVG":
            return Value(sql, Kind.FLOAT)
        # A sum that is not finite is an overflow.
        is_whole = given.is_whole and (node.name != "SUM" or given.kind is not Kind.FLOAT)
        return Value(sql, given.kind, is_whole=is_whole)


#: TRIM without characters removes spaces.
_SPACE = ("' '",)


def _nullif(value: Value, other: Value) -> Value:
    """NULL, or the first value; values of different types are never equal."""
    kinds = {in_utc(value).kind, in_utc(other).kind}
    if len(kinds) > 1 and not kinds & {Kind.ANY, Kind.NULL} and not kinds <= set(NUMBERS):
        return value
    same = compared("=", value, other)
    return Value(f"CASE WHEN {same} THEN NULL ELSE {value.sql} END", value.kind)


def _missing(_node: tree.Missing) -> Value:
    return Value("NULL", Kind.NULL, "true")


def _literal(node: tree.Literal) -> Value:
    value = node.value
    if value is None:
        return Value("NULL", Kind.NULL)
    if isinstance(value, bool):
        return Value(str(value).lower(), Kind.BOOL)
    if isinstance(value, int):
        # In quotes: a minus of the engine comes after the cast.
        return Value(f"'{value}'::BIGINT" if value < 0 else f"{value}::BIGINT", Kind.INT)
    if isinstance(value, str):
        return Value(quoted(value), Kind.TEXT)
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        scale = -int(exponent)
        size = max(len(digits), scale, 1)
        return Value(f"CAST('{value:f}' AS DECIMAL({size}, {scale}))", Kind.DECIMAL)
    if value in (float("inf"), float("-inf")):
        raise SelectError("LexerInvalidLiteral", "a number is out of range")
    return Value(f"CAST('{value!r}' AS DOUBLE)", Kind.FLOAT)


def _arithmetic(sign: str, left: Value, right: Value) -> Value:
    kinds = {left.kind, right.kind}
    if Kind.FLOAT in kinds or (sign == "/" and Kind.DECIMAL in kinds):
        kind = Kind.FLOAT
        first, second = f"CAST({left.sql} AS DOUBLE)", f"CAST({right.sql} AS DOUBLE)"
    else:
        kind = Kind.DECIMAL if Kind.DECIMAL in kinds else Kind.INT
        first, second = left.sql, right.sql
    if sign not in ("/", "%"):
        return Value(f"({first} {sign} {second})", kind)
    # The engine divides whole numbers without a remainder by //, and gives NULL for zero.
    way = "//" if sign == "/" and kind is Kind.INT else sign
    zero = raised("IllegalSqlFunctionArgument", f"{sign}: division by zero")
    return Value(f"(CASE WHEN {second} = 0 THEN {zero} ELSE {first} {way} {second} END)", kind)


def _escape(node: tree.Like) -> str:
    """The escape character of LIKE."""
    escape = node.escape
    if not isinstance(escape, tree.Literal) or not isinstance(escape.value, str):
        raise SelectError("LikeInvalidInputs", "ESCAPE requires a literal")
    if len(escape.value) != 1 or not escape.value.isascii():
        raise SelectError("LikeInvalidInputs", "ESCAPE requires one ASCII character")
    pattern = node.pattern
    if isinstance(pattern, tree.Literal) and isinstance(pattern.value, str):
        rest = pattern.value.replace(escape.value * 2, "")
        for at, char in enumerate(rest):
            if char == escape.value and rest[at + 1 : at + 2] not in ("%", "_"):
                raise SelectError(
                    "EvaluatorLikePatternInvalidEscapeSequence",
                    f"LIKE: want %, _ or {char} after {char}",
                )
    return escape.value


def _substring(values: Sequence[Value]) -> Value:
    """Characters from a position, 1 the first; a position before it is 1, as S3 documents."""
    whole = text(values[0], "SUBSTRING")
    sizes = [number(value, "SUBSTRING") for value in values[1:]]
    for size, value in zip(sizes, values[1:], strict=True):
        if size.kind is not Kind.INT:
            raise wrong_type("SUBSTRING", value, "whole numbers")
    start = sizes[0].sql
    if len(sizes) == 1:
        # The engine's greatest() ignores NULL.
        return Value(
            f"CASE WHEN {start} IS NOT NULL THEN substring({whole}, greatest({start}, 1)) END",
            Kind.TEXT,
        )
    length = sizes[1].sql
    failed = raised("IllegalSqlFunctionArgument", "SUBSTRING: the length is negative")
    return Value(
        f"CASE WHEN {length} < 0 THEN {failed} WHEN {start} IS NULL OR {length} IS NULL THEN NULL"
        f" ELSE substring({whole}, greatest({start}, 1), {length}) END",
        Kind.TEXT,
    )
