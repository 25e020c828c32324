"""The exceptions of the client.

::

    StorletsError
    ├── ConfigurationError   credentials are missing or contradict each other; lists all faults
    ├── LoginFailed          the authentication service refused them
    ├── Unreachable          no answer: connection refused, timeout, broken TLS
    ├── BrokenAnswer         the answer ended before its end: what was read is incomplete
    ├── NotThere             a storlet, or another object that an operation needs, does not exist
    ├── NotRepeatable        a recorded run cannot be repeated: its input or storlet has changed
    └── Refused              an answer with an error status; has the server's error code
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Mapping, Sequence

#: Headers of an error.
ERROR = "x-storlet-error"
INVOCATION = "x-storlet-invocation"
RULE = "x-storlet-rule"
_TRANSACTION = "x-trans-id"


class StorletsError(Exception):
    """Base class."""


class ConfigurationError(StorletsError):
    """Credentials are missing or wrong; ``faults`` lists every reason."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


class LoginFailed(StorletsError):
    """The authentication service refused the credentials."""


class Unreachable(StorletsError):
    """No answer from the server."""


class BrokenAnswer(StorletsError):
    """The connection ended before the end of the answer.

    :ivar invocation: id of the invocation, for its record and its log; empty if there is none.
    """

    def __init__(self, text: str, invocation: str = "") -> None:
        super().__init__(text)
        self.invocation = invocation


class NotThere(StorletsError):
    """A storlet, or another object that an operation needs, does not exist."""


class NotRepeatable(StorletsError):
    """A recorded run cannot be repeated."""


class Refused(StorletsError):
    """An answer with an error status.

    :ivar request: method and path, such as ``GET container/object``.
    :ivar status: HTTP status.
    :ivar code: error code of the server, such as ``storlet.failed``; empty for Swift's own errors.
    :ivar message: reason, as the server states it.
    :ivar retry_after: seconds to wait before the same request can succeed, if the server states it.
    :ivar invocation: id of the invocation, for its log.
    :ivar transaction: id of the request in the logs of the cluster.
    """

    def __init__(self, request: str, status: int, headers: Mapping[str, str], body: str) -> None:
        self.request = request
        self.status = status
        self.code = headers.get(ERROR, "")
        self.message = plain(body) or reason(status, headers)
        self.invocation = headers.get(INVOCATION, "")
        self.rule = headers.get(RULE, "")
        self.transaction = headers.get(_TRANSACTION, "")
        self.retry_after = _seconds(headers.get("retry-after"))
        super().__init__()
        self.restate(self.message)

    def restate(self, message: str) -> None:
        """Replace the reason."""
        self.message = message
        code = f"{self.status} {self.code}".strip()
        self.args = (f"{self.request}: {code}: {message}",)


#: The start of an error of the operating system.
_NUMBER = re.compile(r"^\[Errno -?\d+\] ")


def without_number(error: Exception) -> str:
    """The text of an error, without the number that an operating system has for it."""
    return _NUMBER.sub("", str(error))


_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]*@")


def without_credentials(url: str) -> str:
    """A URL without a user and a password."""
    return _CREDENTIALS.sub("", url)


#: Reasons of answers without a text.
_REASONS = {
    401: "the token is not valid for this account",
    403: "access denied",
    404: "not found",
    507: "insufficient storage",
}


def reason(status: int, headers: Mapping[str, str]) -> str:
    """The reason of an answer that has none in its body."""
    place = headers.get("location")
    if status // 100 == 3 and place:
        return f"the server is now at {place}: correct the URL"
    return _REASONS.get(status, "the server states no reason")


def plain(body: str) -> str:
    """The text of an error, which Swift, a proxy or a load balancer may write as a page of HTML."""
    if not _PAGE.match(body):
        return body.strip()
    words = _HEADING.sub(": ", _UNSEEN.sub(" ", body))
    text = " ".join(html.unescape(_TAG.sub(" ", words)).split()).replace(" : ", ": ").strip(": ")
    return textwrap.shorten(text, _PAGE_CHARACTERS, placeholder=" ...")


_PAGE = re.compile(r"\s*<(!doctype\b|html\b|\?xml\b)", re.IGNORECASE)
#: Parts of a page that a browser shows elsewhere, or not at all.
_UNSEEN = re.compile(r"<!--.*?-->|<(head|style|script)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_HEADING = re.compile(r"</h\d\s*>", re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")
#: The most of a page that an error has.
_PAGE_CHARACTERS = 200


def _seconds(value: str | None) -> float | None:
    return float(value) if value is not None and value.isdecimal() else None
