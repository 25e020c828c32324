"""The codes of S3's errors for a query, and their statuses."""

from __future__ import annotations

from typing import Any, Final

from swift.common.middleware.s3api.s3response import ErrorResponse

from storlet_middleware.wsgi.s3_errors import xml_text

_INTERNAL: Final = "InternalError"
#: All codes that a query can have.
CODES: Final = frozenset(
    """
    AmbiguousFieldName CSVEscapingRecordDelimiter CSVParsingError CSVUnescapedQuote CastFailed
    EmptyRequestBody EvaluatorBindingDoesNotExist EvaluatorInvalidArguments
    EvaluatorInvalidTimestampFormatPattern EvaluatorInvalidTimestampFormatPatternSymbol
    EvaluatorLikePatternInvalidEscapeSequence EvaluatorNegativeLimit
    EvaluatorUnterminatedTimestampFormatPatternToken ExpressionTooLong ExternalEvalException
    IllegalSqlFunctionArgument IncorrectSqlFunctionArgumentType IntegerOverflow InternalError
    InvalidCast InvalidColumnIndex InvalidCompressionFormat InvalidDataSource InvalidDataType
    InvalidExpressionType InvalidFileHeaderInfo InvalidJsonType InvalidQuoteFields
    InvalidRequestParameter InvalidScanRange InvalidTableAlias InvalidTextEncoding JSONParsingError
    LexerInvalidChar LexerInvalidIONLiteral LexerInvalidLiteral LexerInvalidOperator
    LikeInvalidInputs MalformedXML MissingHeaders MissingRequiredParameter
    MultipleDataSourcesUnsupported ObjectSerializationConflict OverMaxColumn OverMaxRecordSize
    ParquetParsingError ParseAsteriskIsNotAloneInSelectList ParseCastArity ParseEmptySelect
    ParseExpectedArgumentDelimiter ParseExpectedDatePart ParseExpectedExpression
    ParseExpectedIdentForAlias ParseExpectedKeyword ParseExpectedLeftParenAfterCast
    ParseExpectedLeftParenBuiltinFunctionCall ParseExpectedLeftParenValueConstructor
    ParseExpectedNumber ParseExpectedRightParenBuiltinFunctionCall ParseExpectedTypeName
    ParseExpectedWhenClause ParseInvalidContextForWildcardInSelectList ParseInvalidPathComponent
    ParseInvalidTypeParam ParseNonUnaryAgregateFunctionCall ParseSelectMissingFrom
    ParseUnExpectedKeyword ParseUnexpectedToken ParseUnsupportedCallWithStar ParseUnsupportedSelect
    ParseUnsupportedSyntax TruncatedInput UnsupportedFunction UnsupportedParquetType
    UnsupportedRangeHeader UnsupportedScanRangeInput UnsupportedSqlOperation
    UnsupportedSqlStructure ValueParseFailure
    """.split()  # noqa: SIM905 - a table of words
)


class SelectFault(Exception):
    """A query that S3 refuses.

    :ivar code: one of :data:`CODES`.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


def known(code: str) -> str:
    """``code``, or the one of a defect if a storlet has made it up."""
    return code if code in CODES else _INTERNAL


def answer_of(fault: SelectFault) -> Any:
    """The exception of ``s3api`` that answers a request with ``fault``."""
    code = known(fault.code)
    status = "500 Internal Server Error" if code == _INTERNAL else "400 Bad Request"
    kind = type(code, (ErrorResponse,), {"_code": code, "_status": status})
    return kind(xml_text(str(fault)), "s3_select")
