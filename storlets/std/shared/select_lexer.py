"""The tokens of a query."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from select_errors import SelectError

_OPERATORS = ("<=", ">=", "<>", "!=", "||")
_SIGNS = "=<>+-*/%()[],.;"
_ESCAPED = {"'": "text", '"': "name", "`": "Ion literal"}


class Token(Enum):
    """Kinds of tokens."""

    WORD = "word"
    QUOTED = "quoted name"
    TEXT = "text"
    NUMBER = "number"
    ION = "Ion literal"
    SIGN = "operator"
    END = "end of the query"


@dataclass(frozen=True)
class Lexeme:
    """One token; ``at`` is the offset of its first character."""

    kind: Token
    text: str
    at: int

    @property
    def upper(self) -> str:
        """The word in upper case, or the operator; no other token equals a keyword."""
        return self.text.upper() if self.kind in (Token.WORD, Token.SIGN) else ""


def place(query: str, at: int) -> str:
    """``line 1, column 8`` for an offset."""
    before = query[:at]
    return f"line {before.count(chr(10)) + 1}, column {at - before.rfind(chr(10))}"


def lexemes(query: str) -> list[Lexeme]:
    """The tokens of ``query``, with an end.

    :raises SelectError: a character or a literal is none of SQL.
    """
    found: list[Lexeme] = []
    at = 0
    while True:
        at = _after_space(query, at)
        if at >= len(query):
            return [*found, Lexeme(Token.END, "", len(query))]
        lexeme, at = _next(query, at)
        found.append(lexeme)


def _after_space(query: str, at: int) -> int:
    """Where the next token begins, after space and comments."""
    while at < len(query):
        if query[at].isspace():
            at += 1
        elif query.startswith("--", at):
            end = query.find("\n", at)
            at = len(query) if end < 0 else end
        elif query.startswith("/*", at):
            end = query.find("*/", at + 2)
            if end < 0:
                raise SelectError("LexerInvalidChar", f"{place(query, at)}: a comment has no end")
            at = end + 2
        else:
            break
    return at


def _next(query: str, at: int) -> tuple[Lexeme, int]:
    char = query[at]
    if char in _ESCAPED:
        return _delimited(query, at)
    if char in "0123456789" or (char == "." and query[at + 1 : at + 2] in tuple("0123456789")):
        return _number(query, at)
    if _begins_word(char):
        end = at + 1
        while end < len(query) and (_begins_word(query[end]) or query[end].isdigit()):
            end += 1
        return Lexeme(Token.WORD, query[at:end], at), end
    if query[at : at + 2] in _OPERATORS:
        return Lexeme(Token.SIGN, query[at : at + 2], at), at + 2
    if char in _SIGNS:
        return Lexeme(Token.SIGN, char, at), at + 1
    if char in "!|&^~":
        raise SelectError("LexerInvalidOperator", f"{place(query, at)}: {char} is no operator")
    raise SelectError("LexerInvalidChar", f"{place(query, at)}: {char!r} is not expected")


def _begins_word(char: str) -> bool:
    return char.isalpha() or char in "_$"


def _delimited(query: str, at: int) -> tuple[Lexeme, int]:
    """A text, a quoted name or an Ion literal; its quote is doubled within it."""
    quote, end, parts = query[at], at + 1, []
    while True:
        close = query.find(quote, end)
        if close < 0:
            code = "LexerInvalidIONLiteral" if quote == "`" else "LexerInvalidLiteral"
            raise SelectError(code, f"{place(query, at)}: the {_ESCAPED[quote]} has no end")
        parts.append(query[end:close])
        end = close + 1
        if quote == "`" or query[end : end + 1] != quote:
            break
        parts.append(quote)
        end += 1
    kind = {"'": Token.TEXT, '"': Token.QUOTED, "`": Token.ION}[quote]
    return Lexeme(kind, "".join(parts), at), end


def _number(query: str, at: int) -> tuple[Lexeme, int]:
    end = _digits(query, at)
    if query[end : end + 1] == ".":
        end = _digits(query, end + 1)
    if query[end : end + 1] in ("e", "E"):
        sign = end + 1 + (query[end + 1 : end + 2] in ("+", "-"))
        exponent = _digits(query, sign)
        if exponent == sign:
            raise SelectError("LexerInvalidLiteral", f"{place(query, at)}: the exponent is missing")
        end = exponent
    if end < len(query) and _begins_word(query[end]):
        raise SelectError("LexerInvalidLiteral", f"{place(query, at)}: a number ends with a letter")
    return Lexeme(Token.NUMBER, query[at:end], at), end


def _digits(query: str, at: int) -> int:
    while at < len(query) and query[at] in "0123456789":
        at += 1
    return at
