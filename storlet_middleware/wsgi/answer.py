"""An answer that is ready to be sent: what a WSGI application gives, and no more.

Swift's ``Response`` builds its headers anew and has ranges, conditions and texts ready; what is sent as it is needs none of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """An answer for whoever calls it, which is a WSGI application.

    :param status: with its reason: ``200 OK``.
    """

    status: str
    headers: list[tuple[str, str]]
    chunks: Iterable[bytes]

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """WSGI."""
        start_response(self.status, self.headers)
        return self.chunks

    def header(self, name: str) -> str:
        """The value of the first header with this name in lower case; empty where there is none."""
        return next((value for key, value in self.headers if key.lower() == name), "")
