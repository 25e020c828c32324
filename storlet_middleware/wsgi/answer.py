"""An answer that is sent unchanged: status, headers and body.

Swift's ``Response`` builds its headers again, and supports ranges, conditions and error texts.  An
answer that is sent unchanged needs none of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from swift.common.header_key_dict import HeaderKeyDict


@dataclass(frozen=True)
class Answer:
    """An answer; it is a WSGI application.

    :param status: with its reason: ``200 OK``.
    """

    status: str
    headers: list[tuple[str, str]]
    chunks: Iterable[bytes]

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """WSGI."""
        start_response(self.status, self.headers)
        return self.chunks

    def header(self, name: str) -> str:
        """The value of the first header with this name; empty if there is none.

        :param name: in lower case.
        """
        return next((value for key, value in self.headers if key.lower() == name), "")

    def header_dict(self) -> dict[str, str]:
        """All headers as a ``HeaderKeyDict``, which ignores the case of names; of a repeated name
        the last one.
        """
        # Not HeaderKeyDict(self.headers): it changes the case of each name twice, in three calls.
        headers: dict[str, str] = HeaderKeyDict()
        if self.headers:
            given, values = zip(*self.headers, strict=True)
            titled = "\n".join(given).encode("latin-1").title().decode("latin-1").split("\n")
            dict.update(headers, zip(titled, map(str, values), strict=True))
        return headers
