"""The requests that this package makes of Swift: their paths, and what a refusal of Swift becomes."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

#: ``X-Storlet-Error`` of an answer that is Swift's own.
_SWIFT_CODES: Final = {401: "access.denied", 403: "access.denied", 404: "input.not_found", 412: "precondition.failed"}


class SwiftRefusal(Exception):
    """Swift answered the source or the target with something that the client gets as it is (404, 304, 412, ...)."""

    def __init__(self, answer: Any) -> None:
        super().__init__(answer.status)
        self.answer = answer
        self.code = _SWIFT_CODES.get(
            answer.status_int, "swift.refused" if answer.status_int < 500 else "backend.failed"
        )


def object_path(version: str, account: str, container: str, name: str = "") -> str:
    """A quoted path with an empty query, for Swift's ``make_subrequest`` and ``make_pre_authed_request``."""
    path = f"/{version}/{account}/{container}" + (f"/{name}" if name else "")
    # The question mark: without a query of its own a sub-request inherits the client's, whose parameters are the storlet's.
    return quote(path) + "?"
