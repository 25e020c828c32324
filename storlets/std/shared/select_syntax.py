"""The syntax tree of a query.  ``at`` is the offset of a node in the query."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias


@dataclass(frozen=True)
class Name:
    """A step of a path by name; a quoted one is case-sensitive."""

    text: str
    is_quoted: bool = False

    def fits(self, other: str) -> bool:
        """Whether it names ``other``."""
        return self.text == other if self.is_quoted else self.text.lower() == other.lower()


@dataclass(frozen=True)
class Index:
    """A step of a path by position in a list, from 0."""

    position: int


@dataclass(frozen=True)
class Wildcard:
    """``[*]``: all elements of a list; after FROM only."""


@dataclass(frozen=True)
class AnyName:
    """``.*``: all values of an object; after FROM only."""


Step: TypeAlias = Name | Index | Wildcard | AnyName


@dataclass(frozen=True)
class Literal:
    """A value of the query; ``float`` is a number with an exponent."""

    value: bool | int | Decimal | float | str | None
    at: int


@dataclass(frozen=True)
class Missing:
    """``MISSING``, the value that a record does not have."""

    at: int


@dataclass(frozen=True)
class Ion:
    """A literal in backticks."""

    text: str
    at: int


@dataclass(frozen=True)
class Path:
    """A column, or a part of one."""

    steps: tuple[Step, ...]
    at: int


@dataclass(frozen=True)
class Unary:
    """``-`` or ``+``."""

    sign: str
    operand: Expression
    at: int


@dataclass(frozen=True)
class Binary:
    """Arithmetic, ``||`` or a comparison."""

    sign: str
    left: Expression
    right: Expression
    at: int


@dataclass(frozen=True)
class Logic:
    """``AND`` or ``OR`` of two or more conditions."""

    word: str
    operands: tuple[Expression, ...]
    at: int


@dataclass(frozen=True)
class Not:
    """``NOT``."""

    operand: Expression
    at: int


@dataclass(frozen=True)
class Like:
    """``LIKE``, perhaps with ``ESCAPE``."""

    operand: Expression
    pattern: Expression
    escape: Expression | None
    at: int


@dataclass(frozen=True)
class In:
    """``IN`` a list."""

    operand: Expression
    items: tuple[Expression, ...]
    at: int


@dataclass(frozen=True)
class Between:
    """``BETWEEN``, both bounds included."""

    operand: Expression
    low: Expression
    high: Expression
    at: int


@dataclass(frozen=True)
class Is:
    """``IS NULL`` or ``IS MISSING``."""

    operand: Expression
    word: str
    at: int


@dataclass(frozen=True)
class Cast:
    """``CAST``; ``sizes`` are those in parentheses after the type."""

    operand: Expression
    type: str
    sizes: tuple[int, ...]
    at: int


@dataclass(frozen=True)
class Case:
    """``CASE``, with a subject or without one."""

    subject: Expression | None
    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None
    at: int


@dataclass(frozen=True)
class Call:
    """A function; ``word`` is a part of a date, or the side of a TRIM."""

    name: str
    arguments: tuple[Expression, ...]
    at: int
    word: str = ""


@dataclass(frozen=True)
class Aggregate:
    """An aggregate; ``COUNT(*)`` has no operand."""

    name: str
    operand: Expression | None
    at: int


Expression: TypeAlias = (
    Literal
    | Missing
    | Ion
    | Path
    | Unary
    | Binary
    | Logic
    | Not
    | Like
    | In
    | Between
    | Is
    | Cast
    | Case
    | Call
    | Aggregate
)


@dataclass(frozen=True)
class Column:
    """One result of each record; an empty alias is none."""

    value: Expression
    alias: str


@dataclass(frozen=True)
class Query:
    """A whole query; no columns are ``*``.

    :ivar steps: the path after ``S3Object``.
    :ivar alias: the name of a record.
    :ivar is_numbered: whether a record of JSON also has the name ``_1``.
    """

    columns: tuple[Column, ...]
    steps: tuple[Step, ...]
    alias: str
    where: Expression | None
    limit: int | None
    is_numbered: bool = False
