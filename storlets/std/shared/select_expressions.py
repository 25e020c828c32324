"""The grammar of expressions, of the functions in them, and of paths: one method for each rule."""

from __future__ import annotations

from decimal import Decimal

import select_syntax as tree
from select_lexer import Lexeme, Token
from select_tokens import RESERVED, Tokens

#: Binding powers; a higher one binds closer.
_OR, _AND, _NOT, _EQUAL, _COMPARE, _TEST, _CONCAT, _SUM, _PRODUCT, _SIGN = range(1, 11)
_BINARY = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(("=", "IS"), _EQUAL),
    **dict.fromkeys(("<>", "!=", "<", "<=", ">", ">="), _COMPARE),
    **dict.fromkeys(("IN", "BETWEEN", "LIKE", "NOT"), _TEST),
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


class Paths:
    """The grammar of paths to a value in a record."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def path(self) -> tree.Expression:
        """The path at this place."""
        first = self._tokens.take()
        steps: list[tree.Step] = [tree.Name(first.text, first.kind is Token.QUOTED)]
        while True:
            if self._tokens.skip("["):
                if self._tokens.has("*"):
                    raise self._tokens.fault(
                        "ParseInvalidContextForWildcardInSelectList", "want a number"
                    )
                steps.append(self.index())
                self._tokens.want("]", "ParseInvalidPathComponent")
            elif self._tokens.skip("."):
                if self._tokens.skip("*"):
                    return tree.Path((*steps, tree.Wildcard()), first.at)
                steps.append(self.name())
            else:
                return tree.Path(tuple(steps), first.at)

    def name(self) -> tree.Name:
        """A step by name, after its point."""
        lexeme = self._tokens.take()
        if lexeme.kind not in (Token.WORD, Token.QUOTED):
            raise self._tokens.fault("ParseInvalidPathComponent", "want a name", lexeme)
        return tree.Name(lexeme.text, lexeme.kind is Token.QUOTED)

    def index(self) -> tree.Step:
        """A step in brackets: a position, or a name as a text."""
        if self._tokens.here.kind is Token.TEXT:
            return tree.Name(self._tokens.take().text, is_quoted=True)
        return tree.Index(self._tokens.whole_number("ParseInvalidPathComponent"))


class Expressions:
    """The grammar of expressions."""

    def __init__(self, tokens: Tokens, paths: Paths) -> None:
        self._tokens = tokens
        self._paths = paths

    def expression(self, least: int = 0) -> tree.Expression:
        """An expression whose operators bind at least as close as ``least``."""
        if self._tokens.has("NOT") and least <= _NOT:
            at = self._tokens.take().at
            left: tree.Expression = tree.Not(self.expression(_NOT), at)
        else:
            left = self._operand()
        while True:
            here = self._tokens.here
            power = _BINARY.get(here.upper, 0)
            if not power or power < least:
                return left
            left = self._continued(left, here, power)

    def _continued(self, left: tree.Expression, here: Lexeme, power: int) -> tree.Expression:
        """``left`` with the operator at this place."""
        word = self._tokens.take().upper
        if power in (_OR, _AND):
            operands = [left, self.expression(power + 1)]
            while self._tokens.skip(word):
                operands.append(self.expression(power + 1))
            return tree.Logic(word, tuple(operands), here.at)
        if word == "IS":
            return self._is(left, here.at)
        if word == "NOT":
            tested = self._tokens.skip("IN", "BETWEEN", "LIKE")
            if not tested:
                raise self._tokens.fault(
                    "ParseUnexpectedToken", "want IN, BETWEEN or LIKE after NOT"
                )
            return tree.Not(self._test(left, tested, here.at), here.at)
        if word in ("IN", "BETWEEN", "LIKE"):
            return self._test(left, word, here.at)
        sign = "<>" if word == "!=" else word
        return tree.Binary(sign, left, self.expression(power + 1), here.at)

    def _is(self, left: tree.Expression, at: int) -> tree.Expression:
        negated = self._tokens.skip("NOT")
        word = self._tokens.skip("NULL", "MISSING")
        if not word:
            raise self._tokens.fault("ParseUnexpectedToken", "want NULL or MISSING after IS")
        test = tree.Is(left, word, at)
        return tree.Not(test, at) if negated else test

    def _test(self, left: tree.Expression, word: str, at: int) -> tree.Expression:
        if word == "IN":
            self._tokens.want("(", "ParseExpectedLeftParenValueConstructor")
            return tree.In(left, self.items(")", "ParseUnexpectedToken"), at)
        if word == "BETWEEN":
            low = self.expression(_CONCAT)
            self._tokens.want("AND", "ParseExpectedKeyword")
            return tree.Between(left, low, self.expression(_CONCAT), at)
        pattern = self.expression(_CONCAT)
        escape = self.expression(_CONCAT) if self._tokens.skip("ESCAPE") else None
        return tree.Like(left, pattern, escape, at)

    def items(self, end: str, code: str) -> tuple[tree.Expression, ...]:
        """The expressions of a list, whose end is taken as well."""
        items = [self.expression()]
        while self._tokens.skip(","):
            items.append(self.expression())
        self._tokens.want(end, code)
        return tuple(items)

    def _operand(self) -> tree.Expression:
        here = self._tokens.here
        if here.kind is Token.NUMBER:
            return self._number(self._tokens.take(), here.at)
        if here.kind is Token.TEXT:
            return tree.Literal(self._tokens.take().text, here.at)
        if here.kind is Token.ION:
            return tree.Ion(self._tokens.take().text, here.at)
        if here.kind is Token.QUOTED:
            return self._paths.path()
        if here.upper in ("-", "+"):
            self._tokens.take()
            if here.upper == "-" and self._tokens.here.kind is Token.NUMBER:
                return self._negative(here.at)
            return tree.Unary(here.upper, self.expression(_SIGN), here.at)
        if self._tokens.skip("("):
            value = self.expression()
            if self._tokens.has(","):
                raise self._tokens.fault("ParseUnsupportedSyntax", "lists are for IN only")
            self._tokens.want(")")
            return value
        if here.kind is Token.WORD:
            return self._word(here)
        if here.kind is Token.END:
            raise self._tokens.fault("ParseExpectedExpression", "want an expression")
        raise self._tokens.fault("ParseUnexpectedToken", "want an expression")

    def _number(self, lexeme: Lexeme, at: int) -> tree.Expression:
        if lexeme.text.isdigit():
            return tree.Literal(self._tokens.bounded(lexeme), at)
        if "e" in lexeme.text.lower():
            return tree.Literal(float(lexeme.text), at)
        if len(lexeme.text) > 38:
            raise self._tokens.fault("LexerInvalidLiteral", "want up to 38 digits", lexeme)
        return tree.Literal(Decimal(lexeme.text), at)

    def _negative(self, at: int) -> tree.Expression:
        """A number after a minus; the least of 64 bits has none without it."""
        lexeme = self._tokens.take()
        if lexeme.text.lstrip("0") == str(1 << 63):
            return tree.Literal(-(1 << 63), at)
        return tree.Unary("-", self._number(lexeme, lexeme.at), at)

    def _word(self, here: Lexeme) -> tree.Expression:
        word = here.upper
        is_call = self._tokens.is_call()
        if word in ("NULL", "TRUE", "FALSE") and not is_call:
            self._tokens.take()
            return tree.Literal({"NULL": None, "TRUE": True, "FALSE": False}[word], here.at)
        if word == "MISSING" and not is_call:
            return tree.Missing(self._tokens.take().at)
        if word == "CASE":
            return self._case()
        if word == "CAST":
            return self._cast()
        if word == "SELECT":
            raise self._tokens.fault(
                "UnsupportedSqlStructure", "a query within a query is not supported"
            )
        if word in RESERVED:
            raise self._tokens.fault("ParseUnExpectedKeyword", "want an expression")
        return _Functions(self._tokens, self).call() if is_call else self._paths.path()

    def _case(self) -> tree.Expression:
        at = self._tokens.take().at
        subject = None if self._tokens.has("WHEN") else self.expression()
        branches = []
        while self._tokens.skip("WHEN"):
            condition = self.expression()
            self._tokens.want("THEN", "ParseExpectedKeyword")
            branches.append((condition, self.expression()))
        if not branches:
            raise self._tokens.fault("ParseExpectedWhenClause", "want WHEN")
        otherwise = self.expression() if self._tokens.skip("ELSE") else None
        self._tokens.want("END", "ParseExpectedKeyword")
        return tree.Case(subject, tuple(branches), otherwise, at)

    def _cast(self) -> tree.Expression:
        at = self._tokens.take().at
        self._tokens.want("(", "ParseExpectedLeftParenAfterCast")
        operand = self.expression()
        self._tokens.want("AS", "ParseExpectedKeyword")
        lexeme = self._tokens.take()
        if lexeme.kind is not Token.WORD:
            raise self._tokens.fault("ParseExpectedTypeName", "want a type", lexeme)
        if lexeme.upper not in TYPES:
            raise self._tokens.fault("InvalidDataType", "there is no such type", lexeme)
        name, sizes = TYPES[lexeme.upper], []
        if lexeme.upper == "DOUBLE":
            self._tokens.skip("PRECISION")
        if self._tokens.skip("("):
            sizes = [self._tokens.whole_number("ParseInvalidTypeParam")]
            while self._tokens.skip(","):
                sizes.append(self._tokens.whole_number("ParseInvalidTypeParam"))
            self._tokens.want(")", "ParseCastArity")
            if len(sizes) > _SIZED.get(name, 0):
                raise self._tokens.fault("ParseCastArity", "the type has fewer sizes", lexeme)
        self._tokens.want(")")
        return tree.Cast(operand, name, tuple(sizes), at)


class _Functions:
    """The grammar of calls, whose arguments are ``expressions``."""

    def __init__(self, tokens: Tokens, expressions: Expressions) -> None:
        self._tokens = tokens
        self._expressions = expressions

    def call(self) -> tree.Expression:
        """The function at this place, with its arguments."""
        lexeme = self._tokens.take()
        name = lexeme.upper
        self._tokens.want("(", "ParseExpectedLeftParenBuiltinFunctionCall")
        if name in AGGREGATES:
            return self._aggregate(lexeme)
        if name == "SUBSTRING":
            return self._substring(lexeme.at)
        if name == "TRIM":
            return self._trim(lexeme.at)
        if name == "EXTRACT":
            part = self._date_part(*DATE_PARTS, *ZONE_PARTS)
            self._tokens.want("FROM", "ParseExpectedKeyword")
            return tree.Call(name, self._rest(), lexeme.at, part)
        if name in ("DATE_ADD", "DATE_DIFF"):
            part = self._date_part(*DATE_PARTS)
            self._tokens.want(",", "ParseExpectedArgumentDelimiter")
            arguments = self._rest()
            if len(arguments) != 2:
                raise self._tokens.fault(
                    "EvaluatorInvalidArguments", f"{name} requires three arguments"
                )
            return tree.Call(name, arguments, lexeme.at, part)
        if name not in FUNCTIONS:
            raise self._tokens.fault("UnsupportedFunction", "there is no such function", lexeme)
        least, most = FUNCTIONS[name]
        arguments = () if self._tokens.skip(")") else self._rest()
        if not least <= len(arguments) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise self._tokens.fault(
                "EvaluatorInvalidArguments", f"requires {wanted} arguments", lexeme
            )
        return tree.Call(name, arguments, lexeme.at)

    def _rest(self) -> tuple[tree.Expression, ...]:
        return self._expressions.items(")", "ParseExpectedRightParenBuiltinFunctionCall")

    def _aggregate(self, lexeme: Lexeme) -> tree.Expression:
        if self._tokens.has("*"):
            if lexeme.upper != "COUNT":
                raise self._tokens.fault("ParseUnsupportedCallWithStar", "* is for COUNT only")
            self._tokens.take()
            self._tokens.want(")", "ParseExpectedRightParenBuiltinFunctionCall")
            return tree.Aggregate("COUNT", None, lexeme.at)
        if self._tokens.has("DISTINCT", "ALL"):
            raise self._tokens.fault(
                "UnsupportedSqlOperation", "DISTINCT and ALL are not supported"
            )
        arguments = () if self._tokens.skip(")") else self._rest()
        if len(arguments) != 1:
            raise self._tokens.fault(
                "ParseNonUnaryAgregateFunctionCall", "requires one argument", lexeme
            )
        return tree.Aggregate(lexeme.upper, arguments[0], lexeme.at)

    def _substring(self, at: int) -> tree.Expression:
        arguments = [self._expressions.expression()]
        if self._tokens.skip("FROM"):
            arguments.append(self._expressions.expression())
            if self._tokens.skip("FOR"):
                arguments.append(self._expressions.expression())
        else:
            while self._tokens.skip(","):
                arguments.append(self._expressions.expression())
        self._tokens.want(")", "ParseExpectedRightParenBuiltinFunctionCall")
        if len(arguments) not in (2, 3):
            raise self._tokens.fault(
                "EvaluatorInvalidArguments", "SUBSTRING requires two or three arguments"
            )
        return tree.Call("SUBSTRING", tuple(arguments), at)

    def _trim(self, at: int) -> tree.Expression:
        side = self._tokens.skip("LEADING", "TRAILING", "BOTH")
        if side and self._tokens.skip("FROM"):
            arguments: tuple[tree.Expression, ...] = (self._expressions.expression(),)
        else:
            first = self._expressions.expression()
            if self._tokens.skip("FROM"):
                arguments = (self._expressions.expression(), first)
            elif side:
                raise self._tokens.fault("ParseExpectedKeyword", "want FROM")
            else:
                arguments = (first,)
        self._tokens.want(")", "ParseExpectedRightParenBuiltinFunctionCall")
        return tree.Call("TRIM", arguments, at, side or "BOTH")

    def _date_part(self, *parts: str) -> str:
        if not self._tokens.has(*parts):
            raise self._tokens.fault(
                "ParseExpectedDatePart", f"want one of {', '.join(parts).lower()}"
            )
        return self._tokens.take().upper
