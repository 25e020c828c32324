"""The grammar of S3 Select: recursive descent, one method for each rule."""

from __future__ import annotations

from decimal import Decimal

import select_syntax as tree
from select_errors import SelectError
from select_lexer import Lexeme, Token, lexemes, place

#: Binding powers; a higher one binds closer.
_OR, _AND, _NOT, _TEST, _CONCAT, _SUM, _PRODUCT, _SIGN = range(1, 9)
_BINARY = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(("=", "<>", "!=", "<", "<=", ">", ">="), _TEST),
    **dict.fromkeys(("IS", "IN", "BETWEEN", "LIKE", "NOT"), _TEST),
    "||": _CONCAT,
    **dict.fromkeys(("+", "-"), _SUM),
    **dict.fromkeys(("*", "/", "%"), _PRODUCT),
}
AGGREGATES = ("AVG", "COUNT", "MAX", "MIN", "SUM")
DATE_PARTS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
ZONE_PARTS = ("TIMEZONE_HOUR", "TIMEZONE_MINUTE")
#: Functions, and how many arguments they have.
FUNCTIONS = {
    "CHAR_LENGTH": (1, 1),
    "CHARACTER_LENGTH": (1, 1),
    "COALESCE": (1, 100),
    "LOWER": (1, 1),
    "NULLIF": (2, 2),
    "TO_STRING": (2, 2),
    "TO_TIMESTAMP": (1, 1),
    "UPPER": (1, 1),
    "UTCNOW": (0, 0),
}
#: Words that are no column and no alias without quotes.
_RESERVED = frozenset(
    "AND AS BETWEEN CASE CAST ELSE END ESCAPE EXISTS FROM GROUP HAVING IN IS JOIN LIKE LIMIT NOT"
    " NULL OR ORDER SELECT THEN UNION WHEN WHERE".split()
)
_UNSUPPORTED = ("GROUP", "HAVING", "ORDER", "UNION", "JOIN", "INTERSECT", "EXCEPT", "OFFSET")
TYPES = {
    "BOOL": "BOOL",
    "BOOLEAN": "BOOL",
    "CHAR": "STRING",
    "CHARACTER": "STRING",
    "DEC": "DECIMAL",
    "DECIMAL": "DECIMAL",
    "DOUBLE": "FLOAT",
    "FLOAT": "FLOAT",
    "INT": "INT",
    "INTEGER": "INT",
    "NUMERIC": "DECIMAL",
    "REAL": "FLOAT",
    "SMALLINT": "INT",
    "STRING": "STRING",
    "TIMESTAMP": "TIMESTAMP",
    "VARCHAR": "STRING",
}
_SIZED = {"DECIMAL": 2, "STRING": 1, "FLOAT": 1}


def parsed(text: str) -> tree.Query:
    """The tree of a query.

    :raises SelectError: with the place of the first fault.
    """
    try:
        return _Parser(text).query()
    except RecursionError:
        raise SelectError("UnsupportedSqlStructure", "the query is nested too deeply") from None


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._lexemes = lexemes(text)
        self._next = 0

    # --- tokens -----------------------------------------------------------------------------------

    @property
    def _here(self) -> Lexeme:
        return self._lexemes[self._next]

    def _take(self) -> Lexeme:
        lexeme = self._here
        if lexeme.kind is not Token.END:
            self._next += 1
        return lexeme

    def _has(self, *words: str) -> bool:
        return self._here.upper in words

    def _skip(self, *words: str) -> str:
        """Take the next token if it is one of the words; return which."""
        return self._take().upper if self._has(*words) else ""

    def _want(self, word: str, code: str = "ParseUnexpectedToken") -> None:
        if not self._skip(word):
            raise self._fault(code, f"want {word}")

    def _fault(self, code: str, text: str, lexeme: Lexeme | None = None) -> SelectError:
        here = lexeme or self._here
        shown = f"{here.text[:40]!r}" if here.kind is not Token.END else "the end of the query"
        return SelectError(code, f"{place(self._text, here.at)}, at {shown}: {text}")

    # --- clauses ----------------------------------------------------------------------------------

    def query(self) -> tree.Query:
        if not self._skip("SELECT"):
            raise self._fault("ParseUnsupportedSelect", "want SELECT")
        if self._has("DISTINCT", "ALL"):
            raise self._fault("UnsupportedSqlOperation", "DISTINCT and ALL are not supported")
        columns = self._columns()
        if not self._skip("FROM"):
            raise self._fault("ParseSelectMissingFrom", "want FROM")
        steps, alias = self._source()
        columns = self._without_star(columns, alias)
        where = self.expression() if self._skip("WHERE") else None
        limit = self._limit() if self._skip("LIMIT") else None
        self._skip(";")
        if self._has(*_UNSUPPORTED):
            raise self._fault("UnsupportedSqlOperation", f"{self._here.upper} is not supported")
        if self._here.kind is not Token.END:
            raise self._fault("ParseUnexpectedToken", "want the end of the query")
        return tree.Query(columns, steps, alias, where, limit)

    def _columns(self) -> tuple[tree.Column, ...]:
        """The select list; ``*`` and ``alias.*`` are columns whose path ends with a wildcard."""
        if self._has("FROM"):
            raise self._fault("ParseEmptySelect", "want a select list")
        columns = [self._column()]
        while self._skip(","):
            columns.append(self._column())
        return tuple(columns)

    def _column(self) -> tree.Column:
        at = self._here.at
        if self._skip("*"):
            return tree.Column(tree.Path((tree.Wildcard(),), at), "")
        value = self.expression()
        if self._skip("AS"):
            return tree.Column(value, self._alias("ParseExpectedIdentForAlias"))
        return tree.Column(value, self._alias("") if self._is_name() else "")

    def _without_star(
        self, columns: tuple[tree.Column, ...], alias: str
    ) -> tuple[tree.Column, ...]:
        """The columns; none for ``*``."""
        stars = [column for column in columns if _is_star(column)]
        if not stars:
            return columns
        path = stars[0].value
        assert isinstance(path, tree.Path)
        here = Lexeme(Token.SIGN, "*", path.at)
        if len(path.steps) > 2:
            raise self._fault(
                "ParseInvalidContextForWildcardInSelectList", f"want * or {alias}.*", here
            )
        if len(columns) > 1:
            raise self._fault("ParseAsteriskIsNotAloneInSelectList", "* wants to be alone", here)
        root = path.steps[0]
        if isinstance(root, tree.Name) and not root.fits(alias):
            raise self._fault("InvalidTableAlias", f"want {alias}.*", here)
        return ()

    def _is_name(self) -> bool:
        here = self._here
        is_word = here.kind is Token.WORD and here.upper not in (*_RESERVED, *_UNSUPPORTED)
        return is_word or here.kind is Token.QUOTED

    def _alias(self, code: str) -> str:
        if not self._is_name():
            raise self._fault(code, "want a name")
        return self._take().text

    def _source(self) -> tuple[tuple[tree.Step, ...], str]:
        table = self._take()
        if table.kind is not Token.WORD or table.upper != "S3OBJECT":
            raise self._fault("InvalidDataSource", "want FROM S3Object", table)
        steps: list[tree.Step] = []
        alias = table.text
        while True:
            if self._skip("["):
                steps.append(tree.Wildcard() if self._skip("*") else self._index())
                self._want("]", "ParseInvalidPathComponent")
            elif self._skip("."):
                name = self._name_step()
                steps.append(name)
                alias = name.text
            else:
                break
        # A record is an element of the object, with its first [*] or without one.
        if steps[:1] == [tree.Wildcard()]:
            del steps[0]
        if self._skip("AS"):
            alias = self._alias("ParseExpectedIdentForAlias")
        elif self._has("AT"):
            raise self._fault("ParseUnsupportedSyntax", "AT is not supported")
        elif self._is_name():
            alias = self._alias("")
        if self._has(","):
            raise self._fault("MultipleDataSourcesUnsupported", "want one source")
        return tuple(steps), alias

    def _limit(self) -> int:
        if self._has("-"):
            raise self._fault("EvaluatorNegativeLimit", "want a number that is not negative")
        lexeme = self._take()
        if lexeme.kind is not Token.NUMBER or not lexeme.text.isdigit():
            raise self._fault("ParseExpectedNumber", "want a whole number", lexeme)
        return self._bounded(lexeme)

    def _bounded(self, lexeme: Lexeme) -> int:
        # Python refuses to read numbers of thousands of digits.
        number = int(lexeme.text) if len(lexeme.text) <= 40 else 1 << 64
        if number >= 1 << 63:
            raise self._fault("IntegerOverflow", "want a number below 2^63", lexeme)
        return number

    # --- expressions ------------------------------------------------------------------------------

    def expression(self, least: int = 0) -> tree.Expression:
        """An expression whose operators bind at least as close as ``least``."""
        if self._has("NOT") and least <= _NOT:
            at = self._take().at
            left: tree.Expression = tree.Not(self.expression(_NOT), at)
        else:
            left = self._operand()
        while True:
            here = self._here
            power = _BINARY.get(here.upper, 0)
            if not power or power < least:
                return left
            left = self._continued(left, here, power)

    def _continued(self, left: tree.Expression, here: Lexeme, power: int) -> tree.Expression:
        """``left`` with the operator at this place."""
        word = self._take().upper
        if power in (_OR, _AND):
            operands = [left, self.expression(power + 1)]
            while self._skip(word):
                operands.append(self.expression(power + 1))
            return tree.Logic(word, tuple(operands), here.at)
        if word == "IS":
            return self._is(left, here.at)
        if word == "NOT":
            tested = self._skip("IN", "BETWEEN", "LIKE")
            if not tested:
                raise self._fault("ParseUnexpectedToken", "want IN, BETWEEN or LIKE after NOT")
            return tree.Not(self._test(left, tested, here.at), here.at)
        if word in ("IN", "BETWEEN", "LIKE"):
            return self._test(left, word, here.at)
        sign = "<>" if word == "!=" else word
        return tree.Binary(sign, left, self.expression(power + 1), here.at)

    def _is(self, left: tree.Expression, at: int) -> tree.Expression:
        negated = self._skip("NOT")
        word = self._skip("NULL", "MISSING")
        if not word:
            raise self._fault("ParseUnexpectedToken", "want NULL or MISSING after IS")
        test = tree.Is(left, word, at)
        return tree.Not(test, at) if negated else test

    def _test(self, left: tree.Expression, word: str, at: int) -> tree.Expression:
        if word == "IN":
            self._want("(", "ParseExpectedLeftParenValueConstructor")
            return tree.In(left, self._list(")", "ParseUnexpectedToken"), at)
        if word == "BETWEEN":
            low = self.expression(_CONCAT)
            self._want("AND", "ParseExpectedKeyword")
            return tree.Between(left, low, self.expression(_CONCAT), at)
        pattern = self.expression(_CONCAT)
        escape = self.expression(_CONCAT) if self._skip("ESCAPE") else None
        return tree.Like(left, pattern, escape, at)

    def _list(self, end: str, code: str) -> tuple[tree.Expression, ...]:
        items = [self.expression()]
        while self._skip(","):
            items.append(self.expression())
        self._want(end, code)
        return tuple(items)

    def _operand(self) -> tree.Expression:
        here = self._here
        if here.kind is Token.NUMBER:
            return self._number(self._take(), here.at)
        if here.kind is Token.TEXT:
            return tree.Literal(self._take().text, here.at)
        if here.kind is Token.ION:
            return tree.Ion(self._take().text, here.at)
        if here.kind is Token.QUOTED:
            return self._path()
        if here.upper in ("-", "+"):
            self._take()
            return tree.Unary(here.upper, self.expression(_SIGN), here.at)
        if self._skip("("):
            value = self.expression()
            if self._has(","):
                raise self._fault("ParseUnsupportedSyntax", "lists are for IN only")
            self._want(")")
            return value
        if here.kind is Token.WORD:
            return self._word(here)
        if here.kind is Token.END:
            raise self._fault("ParseExpectedExpression", "want an expression")
        raise self._fault("ParseUnexpectedToken", "want an expression")

    def _number(self, lexeme: Lexeme, at: int) -> tree.Expression:
        if lexeme.text.isdigit():
            return tree.Literal(self._bounded(lexeme), at)
        if "e" in lexeme.text.lower():
            return tree.Literal(float(lexeme.text), at)
        if len(lexeme.text) > 38:
            raise self._fault("LexerInvalidLiteral", "want up to 38 digits", lexeme)
        return tree.Literal(Decimal(lexeme.text), at)

    def _word(self, here: Lexeme) -> tree.Expression:
        word = here.upper
        is_call = self._lexemes[self._next + 1].upper == "("
        if word in ("NULL", "TRUE", "FALSE") and not is_call:
            self._take()
            return tree.Literal({"NULL": None, "TRUE": True, "FALSE": False}[word], here.at)
        if word == "CASE":
            return self._case()
        if word == "CAST":
            return self._cast()
        if word == "SELECT":
            raise self._fault("UnsupportedSqlStructure", "a query within a query is not supported")
        if word in _RESERVED:
            raise self._fault("ParseUnExpectedKeyword", "want an expression")
        return self._call() if is_call else self._path()

    def _path(self) -> tree.Expression:
        first = self._take()
        steps: list[tree.Step] = [tree.Name(first.text, first.kind is Token.QUOTED)]
        while True:
            if self._skip("["):
                if self._has("*"):
                    raise self._fault("ParseInvalidContextForWildcardInSelectList", "want a number")
                steps.append(self._index())
                self._want("]", "ParseInvalidPathComponent")
            elif self._skip("."):
                if self._skip("*"):
                    return tree.Path((*steps, tree.Wildcard()), first.at)
                steps.append(self._name_step())
            else:
                return tree.Path(tuple(steps), first.at)

    def _name_step(self) -> tree.Name:
        lexeme = self._take()
        if lexeme.kind not in (Token.WORD, Token.QUOTED):
            raise self._fault("ParseInvalidPathComponent", "want a name", lexeme)
        return tree.Name(lexeme.text, lexeme.kind is Token.QUOTED)

    def _index(self) -> tree.Step:
        lexeme = self._take()
        if lexeme.kind is Token.TEXT:
            return tree.Name(lexeme.text, is_quoted=True)
        if lexeme.kind is not Token.NUMBER or not lexeme.text.isdigit():
            raise self._fault("ParseInvalidPathComponent", "want a whole number", lexeme)
        return tree.Index(self._bounded(lexeme))

    def _case(self) -> tree.Expression:
        at = self._take().at
        subject = None if self._has("WHEN") else self.expression()
        branches = []
        while self._skip("WHEN"):
            condition = self.expression()
            self._want("THEN", "ParseExpectedKeyword")
            branches.append((condition, self.expression()))
        if not branches:
            raise self._fault("ParseExpectedWhenClause", "want WHEN")
        otherwise = self.expression() if self._skip("ELSE") else None
        self._want("END", "ParseExpectedKeyword")
        return tree.Case(subject, tuple(branches), otherwise, at)

    def _cast(self) -> tree.Expression:
        at = self._take().at
        self._want("(", "ParseExpectedLeftParenAfterCast")
        operand = self.expression()
        self._want("AS", "ParseExpectedKeyword")
        lexeme = self._take()
        if lexeme.kind is not Token.WORD:
            raise self._fault("ParseExpectedTypeName", "want a type", lexeme)
        if lexeme.upper not in TYPES:
            raise self._fault("InvalidDataType", "there is no such type", lexeme)
        name, sizes = TYPES[lexeme.upper], []
        if lexeme.upper == "DOUBLE":
            self._skip("PRECISION")
        if self._skip("("):
            sizes = [self._size()]
            while self._skip(","):
                sizes.append(self._size())
            self._want(")", "ParseCastArity")
            if len(sizes) > _SIZED.get(name, 0):
                raise self._fault("ParseCastArity", "the type has fewer sizes", lexeme)
        self._want(")")
        return tree.Cast(operand, name, tuple(sizes), at)

    def _size(self) -> int:
        lexeme = self._take()
        if lexeme.kind is not Token.NUMBER or not lexeme.text.isdigit():
            raise self._fault("ParseInvalidTypeParam", "want a whole number", lexeme)
        return self._bounded(lexeme)

    # --- functions --------------------------------------------------------------------------------

    def _call(self) -> tree.Expression:
        lexeme = self._take()
        name = lexeme.upper
        self._want("(", "ParseExpectedLeftParenBuiltinFunctionCall")
        if name in AGGREGATES:
            return self._aggregate(lexeme)
        if name == "SUBSTRING":
            return self._substring(lexeme.at)
        if name == "TRIM":
            return self._trim(lexeme.at)
        if name == "EXTRACT":
            part = self._date_part(*DATE_PARTS, *ZONE_PARTS)
            self._want("FROM", "ParseExpectedKeyword")
            return tree.Call(name, self._rest(), lexeme.at, part)
        if name in ("DATE_ADD", "DATE_DIFF"):
            part = self._date_part(*DATE_PARTS)
            self._want(",", "ParseExpectedArgumentDelimiter")
            arguments = self._rest()
            if len(arguments) != 2:
                raise self._fault("EvaluatorInvalidArguments", f"{name} wants three arguments")
            return tree.Call(name, arguments, lexeme.at, part)
        if name not in FUNCTIONS:
            raise self._fault("UnsupportedFunction", "there is no such function", lexeme)
        least, most = FUNCTIONS[name]
        arguments = () if self._skip(")") else self._rest()
        if not least <= len(arguments) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise self._fault("EvaluatorInvalidArguments", f"wants {wanted} arguments", lexeme)
        return tree.Call(name, arguments, lexeme.at)

    def _rest(self) -> tuple[tree.Expression, ...]:
        return self._list(")", "ParseExpectedRightParenBuiltinFunctionCall")

    def _aggregate(self, lexeme: Lexeme) -> tree.Expression:
        if self._has("*"):
            if lexeme.upper != "COUNT":
                raise self._fault("ParseUnsupportedCallWithStar", "* is for COUNT only")
            self._take()
            self._want(")", "ParseExpectedRightParenBuiltinFunctionCall")
            return tree.Aggregate("COUNT", None, lexeme.at)
        if self._has("DISTINCT", "ALL"):
            raise self._fault("UnsupportedSqlOperation", "DISTINCT and ALL are not supported")
        arguments = () if self._skip(")") else self._rest()
        if len(arguments) != 1:
            raise self._fault("ParseNonUnaryAgregateFunctionCall", "wants one argument", lexeme)
        return tree.Aggregate(lexeme.upper, arguments[0], lexeme.at)

    def _substring(self, at: int) -> tree.Expression:
        arguments = [self.expression()]
        if self._skip("FROM"):
            arguments.append(self.expression())
            if self._skip("FOR"):
                arguments.append(self.expression())
        else:
            while self._skip(","):
                arguments.append(self.expression())
        self._want(")", "ParseExpectedRightParenBuiltinFunctionCall")
        if len(arguments) not in (2, 3):
            raise self._fault("EvaluatorInvalidArguments", "SUBSTRING wants two or three arguments")
        return tree.Call("SUBSTRING", tuple(arguments), at)

    def _trim(self, at: int) -> tree.Expression:
        side = self._skip("LEADING", "TRAILING", "BOTH")
        if side and self._skip("FROM"):
            arguments: tuple[tree.Expression, ...] = (self.expression(),)
        else:
            first = self.expression()
            if self._skip("FROM"):
                arguments = (self.expression(), first)
            elif side:
                raise self._fault("ParseExpectedKeyword", "want FROM")
            else:
                arguments = (first,)
        self._want(")", "ParseExpectedRightParenBuiltinFunctionCall")
        return tree.Call("TRIM", arguments, at, side or "BOTH")

    def _date_part(self, *parts: str) -> str:
        if not self._has(*parts):
            raise self._fault("ParseExpectedDatePart", f"want one of {', '.join(parts).lower()}")
        return self._take().upper


def _is_star(column: tree.Column) -> bool:
    value = column.value
    return isinstance(value, tree.Path) and isinstance(value.steps[-1], tree.Wildcard)
