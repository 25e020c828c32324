"""The grammar of S3 Select: recursive descent, one method for each rule."""

from __future__ import annotations

import select_syntax as tree
from select_errors import SelectError
from select_expressions import Expressions, Paths
from select_lexer import Lexeme, Token
from select_tokens import UNSUPPORTED, Tokens


def parsed(text: str) -> tree.Query:
    """The tree of a query.

    :raises SelectError: with the place of the first fault.
    """
    try:
        return _Clauses(text).query()
    except RecursionError:
        raise SelectError("UnsupportedSqlStructure", "the query is nested too deeply") from None


class _Clauses:
    """The grammar of the clauses of one query."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens = Tokens(text)
        self._paths = Paths(tokens)
        self._expressions = Expressions(tokens, self._paths)

    def query(self) -> tree.Query:
        if not self._tokens.skip("SELECT"):
            raise self._tokens.fault("ParseUnsupportedSelect", "want SELECT")
        if self._tokens.has("DISTINCT", "ALL"):
            raise self._tokens.fault(
                "UnsupportedSqlOperation", "DISTINCT and ALL are not supported"
            )
        columns = self._columns()
        if not self._tokens.skip("FROM"):
            raise self._tokens.fault("ParseSelectMissingFrom", "want FROM")
        steps, alias, is_numbered = self._source()
        columns = self._without_star(columns, alias, "_1" if is_numbered else alias)
        where = self._expressions.expression() if self._tokens.skip("WHERE") else None
        limit = self._limit() if self._tokens.skip("LIMIT") else None
        self._tokens.skip(";")
        if self._tokens.has(*UNSUPPORTED):
            raise self._tokens.fault(
                "UnsupportedSqlOperation", f"{self._tokens.here.upper} is not supported"
            )
        if self._tokens.here.kind is not Token.END:
            raise self._tokens.fault("ParseUnexpectedToken", "want the end of the query")
        return tree.Query(columns, steps, alias, where, limit, is_numbered)

    def _columns(self) -> tuple[tree.Column, ...]:
        """The select list; ``*`` and ``alias.*`` are columns whose path ends with a wildcard."""
        if self._tokens.has("FROM"):
            raise self._tokens.fault("ParseEmptySelect", "want a select list")
        columns = [self._column()]
        while self._tokens.skip(","):
            columns.append(self._column())
        return tuple(columns)

    def _column(self) -> tree.Column:
        at = self._tokens.here.at
        if self._tokens.skip("*"):
            return tree.Column(tree.Path((tree.Wildcard(),), at), "")
        value = self._expressions.expression()
        if self._tokens.skip("AS"):
            return tree.Column(value, self._alias("ParseExpectedIdentForAlias"))
        return tree.Column(value, self._alias("") if self._tokens.is_name() else "")

    def _without_star(
        self, columns: tuple[tree.Column, ...], alias: str, other: str
    ) -> tuple[tree.Column, ...]:
        """The columns; none for ``*``, or that of one of the names of a record."""
        stars = [column for column in columns if _is_star(column)]
        if not stars:
            return columns
        path = stars[0].value
        assert isinstance(path, tree.Path)
        here = Lexeme(Token.SIGN, "*", path.at)
        if len(path.steps) > 2:
            raise self._tokens.fault(
                "ParseInvalidContextForWildcardInSelectList", f"want * or {alias}.*", here
            )
        if len(columns) > 1:
            raise self._tokens.fault(
                "ParseAsteriskIsNotAloneInSelectList", "* must be the only item", here
            )
        root = path.steps[0]
        if isinstance(root, tree.Name) and not (root.fits(alias) or root.fits(other)):
            raise self._tokens.fault("InvalidTableAlias", f"want {alias}.*", here)
        return ()

    def _alias(self, code: str) -> str:
        if not self._tokens.is_name():
            raise self._tokens.fault(code, "want a name")
        return self._tokens.take().text

    def _source(self) -> tuple[tuple[tree.Step, ...], str, bool]:
        """The path to the records, their name, and whether ``_1`` is their name, too."""
        table = self._tokens.take()
        if table.kind is not Token.WORD or table.upper != "S3OBJECT":
            raise self._tokens.fault("InvalidDataSource", "want FROM S3Object", table)
        steps: list[tree.Step] = []
        alias = table.text
        while True:
            if self._tokens.skip("["):
                steps.append(tree.Wildcard() if self._tokens.skip("*") else self._paths.index())
                self._tokens.want("]", "ParseInvalidPathComponent")
            elif self._tokens.skip("."):
                if self._tokens.skip("*"):
                    steps.append(tree.AnyName())
                    continue
                name = self._paths.name()
                steps.append(name)
                alias = name.text
            else:
                break
        ends_with_wildcard = isinstance(steps[-1] if steps else None, tree.Wildcard | tree.AnyName)
        # A record is an element of the object, with its first [*] or without one.
        if steps[:1] == [tree.Wildcard()]:
            del steps[0]
        given = ""
        if self._tokens.skip("AS"):
            given = self._alias("ParseExpectedIdentForAlias")
        elif self._tokens.has("AT"):
            raise self._tokens.fault("ParseUnsupportedSyntax", "AT is not supported")
        elif self._tokens.is_name():
            given = self._alias("")
        if self._tokens.has(","):
            raise self._tokens.fault("MultipleDataSourcesUnsupported", "want one source")
        return tuple(steps), given or alias, ends_with_wildcard and not given

    def _limit(self) -> int:
        if self._tokens.has("-"):
            raise self._tokens.fault("EvaluatorNegativeLimit", "want a number that is not negative")
        return self._tokens.whole_number("ParseExpectedNumber")


def _is_star(column: tree.Column) -> bool:
    value = column.value
    return isinstance(value, tree.Path) and isinstance(value.steps[-1], tree.Wildcard)
