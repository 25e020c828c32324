"""Headers of the filter's requests to Swift, checked before Swift's HTTP client sends them.

That client raises for a value with a line break, and for characters outside of Latin-1.  A storage
node closes the connection of a request with a line that is too long, so the client may raise, too:
it still sends.  Swift's proxy server counts the exception as an error of each storage node that it
tries.  After ten such errors in a minute it stops using the node, for all tenants.  So the
invariant is:

    **No request of ours has a line that Swift's HTTP client cannot send, or its servers refuse.**

Headers of clients are such as they were parsed from HTTP.  So this module checks the headers that
the filter adds, of which a storlet, a bundle or the body of a request may have chosen a part.
:mod:`~.stored_headers` checks those of a PUT further.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from swift.common import constraints

from storlet_middleware import names
from storlet_middleware.errors import BadRequest

#: The client sends control characters other than these.
_VALUE: Final = re.compile(r"[^\0\r\n\u0100-\U0010ffff]*")
_NAME: Final = re.compile("[!-9;-~][ -9;-~]*")
#: The same as the client has it.
_SENT_NAME: Final = re.compile(r"[^:\s\u0100-\U0010ffff][^:\r\n\u0100-\U0010ffff]*", re.ASCII)

_OURS: Final = (names.RUN_STORLET, "X-Storlet-")
#: Bytes of a line beside the name and the value, and beside the URL: Swift adds the device and the
#: partition, and parameters for a container that is sharded.
_REST_OF_HEADER: Final = 8
_REST_OF_LINE: Final = 512
#: Bytes of a request line that servers of Swift before 2.37 take, which have no option for it.
_LINE_OF_EVENTLET: Final = 8192


def can_send(name: str, value: str) -> bool:
    """Whether Swift's HTTP client sends a header that is not of this filter alone."""
    return bool(_SENT_NAME.fullmatch(name) and _VALUE.fullmatch(value))


def require_sendable(headers: Mapping[str, str]) -> None:
    """Raise unless HTTP can carry ``headers``.

    :raises BadRequest: with the names of all that it cannot.
    """
    faults = [
        f"{name[:60]!r}: HTTP cannot carry this header, or its value"
        for name, value in headers.items()
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value) or _is_long(name, value)
    ]
    if faults:
        raise BadRequest("; ".join(faults))


def require_short_line(path: str, query: str) -> None:
    """Raise unless Swift's servers take the first line of a request with this URL.

    :param path: and ``query``, quoted.
    :raises BadRequest: they do not.
    """
    limit = getattr(constraints, "MAX_REQUEST_LINE", _LINE_OF_EVENTLET)
    if len(path) + len(query) > limit - _REST_OF_LINE:
        raise BadRequest("the names in this request are too long together")


def _is_long(name: str, value: str) -> bool:
    """Whether Swift's servers refuse the header; they do not get those of this filter."""
    is_ours = name.title().startswith(_OURS)
    return not is_ours and len(name) + len(value) > constraints.MAX_HEADER_SIZE - _REST_OF_HEADER
