"""Headers of the filter's requests to Swift, checked before Swift's HTTP client sends them.

That client raises for a value with a line break, and for characters outside of Latin-1.  Swift's
proxy server counts the exception as an error of each storage node that it tries.  After ten such
errors in a minute it stops using the node, for all tenants.  So the invariant is:

    **No request of ours has a header that Swift's HTTP client cannot send.**

Headers of clients are such as they were parsed from HTTP.  So this module checks the headers that
the filter adds, of which a storlet, a bundle or the body of a request may have chosen a part.
:mod:`~.stored_headers` checks those of a PUT further.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from storlet_middleware.errors import BadRequest

#: The client sends control characters other than these.
_VALUE: Final = re.compile(r"[^\0\r\n\u0100-\U0010ffff]*")
_NAME: Final = re.compile("[!-9;-~][ -9;-~]*")
#: The same as the client has it.
_SENT_NAME: Final = re.compile(r"[^:\s\u0100-\U0010ffff][^:\r\n\u0100-\U0010ffff]*", re.ASCII)


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
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value)
    ]
    if faults:
        raise BadRequest("; ".join(faults))
