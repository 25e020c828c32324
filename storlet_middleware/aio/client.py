"""A small HTTP client for the demo: tempauth, and requests to a user's account."""

from __future__ import annotations

import http.client
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from .progress import AioError


@dataclass(frozen=True)
class Answer:
    """A whole answer; ``broken`` when the connection ended before the body did."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes
    seconds: float
    broken: bool = False


@dataclass(frozen=True)
class Client:
    """One user with its token."""

    storage_url: str
    token: str

    def request(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        """``path`` below the account, quoted, perhaps with a query."""
        return request(method, f"{self.storage_url}/{path}" if path else self.storage_url, body,
                       {"X-Auth-Token": self.token, **(headers or {})})  # fmt: skip

    def must(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        """A request that has to succeed."""
        answer = self.request(method, path, headers, body)
        if answer.status >= 300:
            reason = answer.body.decode(errors="replace").strip()
            raise AioError(
                f"{method} {path or 'account'} was answered with {answer.status}: {reason}"
            )
        return answer


def log_in(auth_url: str, user: str, key: str) -> Client:
    answer = request("GET", auth_url, b"", {"X-Auth-User": user, "X-Auth-Key": key})
    if answer.status != 200:
        raise AioError(f"{user} cannot log in at {auth_url}: {answer.status}")
    return Client(answer.headers["X-Storage-Url"], answer.headers["X-Auth-Token"])


def request(method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)
    began = time.monotonic()
    try:
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body=body, headers=dict(headers))
        answer = connection.getresponse()
        try:
            content, broken = answer.read(), False
        except http.client.IncompleteRead as error:
            content, broken = error.partial, True
        return Answer(answer.status, answer.headers, content, time.monotonic() - began, broken)
    except OSError as error:
        raise AioError(f"{method} {url}: {error}") from error
    finally:
        connection.close()
