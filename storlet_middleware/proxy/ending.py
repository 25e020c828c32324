"""How a run has ended: the code of its record and of its log line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from swift.common.swob import HTTPException

from storlet_middleware import errors
from storlet_middleware.errors import StorletError
from storlet_middleware.records.record import OK, REFUSED
from storlet_middleware.wsgi.subrequest import SwiftRefusal


@dataclass(frozen=True)
class Ending:
    """How a run has ended.

    :param code: ``ok``, ``refused`` (by Swift), or an error code.
    :param is_failure: a condition of the request that does not hold is none.
    """

    code: str
    message: str = ""
    traceback: str = ""
    is_failure: bool = True

    @classmethod
    def of_error(cls, error: BaseException) -> Ending:
        """The ending of a run that ``error`` ended."""
        if isinstance(error, StorletError):
            return cls(error.code, str(error), error.detail)
        if isinstance(error, SwiftRefusal):
            return cls.of_answer(error.answer)
        if isinstance(error, HTTPException):
            return cls.of_answer(error)
        if isinstance(error, Exception):
            return cls(errors.INTERNAL, "Internal server error")
        return cls(errors.CLIENT_GONE, "the request was ended")

    @classmethod
    def of_answer(cls, answer: Any) -> Ending:
        """The ending of a run for which Swift gave ``answer``."""
        if answer.status_int // 100 == 2:
            return SUCCESS
        is_failure = answer.status_int >= 400
        return cls(REFUSED, f"Swift answered {answer.status}", is_failure=is_failure)


SUCCESS: Final = Ending(OK, is_failure=False)
