"""Errors of a query, with the codes of S3's documentation."""

from __future__ import annotations

from refusal import Refusal

#: So begins the text of an error that the query itself raises, before its code.
MARK = "S3:"


class SelectError(Refusal):
    """The query is wrong, or the object does not fit it.

    :ivar code: the code of S3, such as ``CastFailed``.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


def quoted(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def raised(code: str, text: str, value: str = "") -> str:
    """The SQL that fails with an error.

    :param text: the fault.
    :param value: an expression; its text begins the message.
    """
    if not value:
        return f"error({quoted(f'{MARK}{code}: {text}')})"
    shown = f"left(CAST({value} AS VARCHAR), 40)"
    # In quotes, or an empty text would be no value in the message.
    before, after = quoted(f'{MARK}{code}: "'), quoted(f'" {text}')
    return f"error({before} || {shown} || {after})"


def from_engine(text: str, parsing: str = "") -> SelectError:
    """The error behind a message of the engine.

    :param parsing: the code of an error of the reader; empty: it is found in the message.
    """
    _, mark, rest = text.partition(MARK)
    code, colon, explanation = rest.partition(": ")
    if mark and colon and code.isalpha():
        return SelectError(code, explanation)
    text = text.removeprefix("query: ").partition(" (types=text")[0]
    lowered = text.lower()
    if "has more than" in lowered and "characters" in lowered:
        return SelectError(
            "UnsupportedSqlStructure", "the result has too many columns: name those that are needed"
        )
    if "memory" in lowered and "needs more" in lowered:
        return SelectError("ExternalEvalException", "the query needs more memory than it may have")
    if (
        "not in timestamp range" in lowered
        or "out of range" in lowered
        or "overflow" in lowered
        or "could not be cast" in lowered
    ):
        return SelectError("IntegerOverflow", f"a number is out of range: {text}")
    return SelectError(parsing, text) if parsing else _of_reader(text, lowered)


def _of_reader(text: str, lowered: str) -> SelectError:
    if "maximum line size" in lowered or "maximum_object_size" in lowered:
        return SelectError("OverMaxRecordSize", "a record has more than 1 MiB")
    if "json" in lowered:
        return SelectError("JSONParsingError", text)
    if "cr without lf" in lowered:
        # Quotes are checked before.
        return SelectError("CSVParsingError", "a CR that ends no record")
    if "csv error" in lowered or "invalid unicode" in lowered or "utf-8" in lowered:
        return SelectError("CSVParsingError", text)
    return SelectError("ExternalEvalException", text)
