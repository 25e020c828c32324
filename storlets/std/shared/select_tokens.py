"""The tokens of a query, taken one after the other by the rules of the grammar."""

from __future__ import annotations

from select_errors import SelectError
from select_lexer import Lexeme, Token, lexemes, place

#: Words that are no column and no alias without quotes.
RESERVED = frozenset(
    "AND AS BETWEEN CASE CAST ELSE END ESCAPE EXISTS FROM GROUP HAVING IN IS JOIN LIKE LIMIT NOT"
    " NULL OR ORDER SELECT THEN UNION WHEN WHERE".split()
)
UNSUPPORTED = ("GROUP", "HAVING", "ORDER", "UNION", "JOIN", "INTERSECT", "EXCEPT", "OFFSET")


class Tokens:
    """The tokens that are left; the last one, the end of the query, stays.

    :raises SelectError: the text has a character or a literal that is none of SQL.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._lexemes = lexemes(text)
        self._next = 0

    @property
    def here(self) -> Lexeme:
        """The next token."""
        return self._lexemes[self._next]

    def take(self) -> Lexeme:
        """The next token, which is left no longer."""
        lexeme = self.here
        if lexeme.kind is not Token.END:
            self._next += 1
        return lexeme

    def has(self, *words: str) -> bool:
        """Whether the next token is one of the words."""
        return self.here.upper in words

    def is_call(self) -> bool:
        """Whether arguments follow the next token, which is a word."""
        return self._lexemes[self._next + 1].upper == "("

    def is_name(self) -> bool:
        """Whether the next token may be the name of a column or an alias."""
        here = self.here
        is_word = here.kind is Token.WORD and here.upper not in (*RESERVED, *UNSUPPORTED)
        return is_word or here.kind is Token.QUOTED

    def skip(self, *words: str) -> str:
        """Take the next token if it is one of the words; return which."""
        return self.take().upper if self.has(*words) else ""

    def want(self, word: str, code: str = "ParseUnexpectedToken") -> None:
        """Take the word, or raise the fault with ``code``."""
        if not self.skip(word):
            raise self.fault(code, f"want {word}")

    def whole_number(self, code: str) -> int:
        """Take a whole number, or raise the fault with ``code``."""
        lexeme = self.take()
        if lexeme.kind is not Token.NUMBER or not lexeme.text.isdigit():
            raise self.fault(code, "want a whole number", lexeme)
        return self.bounded(lexeme)

    def bounded(self, lexeme: Lexeme) -> int:
        """The value of a whole number, which was taken."""
        # Python refuses to read numbers of thousands of digits.
        number = int(lexeme.text) if len(lexeme.text) <= 40 else 1 << 64
        if number >= 1 << 63:
            raise self.fault("IntegerOverflow", "want a number below 2^63", lexeme)
        return number

    def fault(self, code: str, text: str, lexeme: Lexeme | None = None) -> SelectError:
        """The error at ``lexeme``, or at the next token."""
        here = lexeme or self.here
        shown = f"{here.text[:40]!r}" if here.kind is not Token.END else "the end of the query"
        return SelectError(code, f"{place(self._text, here.at)}, at {shown}: {text}")
