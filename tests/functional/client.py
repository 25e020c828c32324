"""A small HTTP client for black-box tests: it sees what a careful client sees, above all whether a body is whole.

``http.client`` underneath: no retries, no redirects, no decoding, headers exactly as given (also empty ones).
"""

from __future__ import annotations

import hashlib
import http.client
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Answer:
    """Status, headers and body; ``is_broken`` when the connection ended before the body did."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes
    is_broken: bool = False
    md5: str = ""
    size: int = 0

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def error(self) -> str | None:
        """The product's error code."""
        return self.headers.get("X-Storlet-Error")

    def meta(self, name: str) -> str | None:
        """User metadata of the object, as text."""
        value = self.headers.get(f"X-Object-Meta-{name}")
        return None if value is None else value.encode("latin-1").decode()

    def __repr__(self) -> str:
        shown = self.body[:2000]
        return f"Answer({self.status}, {dict(self.headers.items())}, {shown!r}, broken={self.is_broken})"


@dataclass(frozen=True)
class Url:
    """Host, port and the path below which a client works."""

    host: str
    port: int
    path: str

    @classmethod
    def of(cls, text: str) -> Url:
        parts = urlsplit(text)
        assert parts.hostname is not None
        return cls(parts.hostname, parts.port or 80, parts.path.rstrip("/"))


def wire(headers: Mapping[str, str]) -> dict[str, str]:
    """Header values as ``http.client`` wants them: UTF-8 bytes seen as Latin-1."""
    return {key: value.encode().decode("latin-1") for key, value in headers.items()}


def open_request(
    url: Url,
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: bytes | Iterable[bytes] | None,
    timeout: float,
) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    """Send a request; an iterable body goes chunked. The caller closes the connection."""
    connection = http.client.HTTPConnection(url.host, url.port, timeout=timeout)
    try:
        connection.request(method, target, body=body, headers=wire(headers), encode_chunked=True)
        return connection, connection.getresponse()
    except BaseException:
        connection.close()
        raise


def read_all(response: http.client.HTTPResponse, *, keep: bool) -> tuple[bytes, str, int, bool]:
    """Body (empty unless ``keep``), MD5, size, and whether it broke off."""
    digest, size, pieces, is_broken = hashlib.md5(usedforsecurity=False), 0, [], False
    while True:
        try:
            # read1: what had come before a connection is reset must not be lost with it.
            piece = response.read1(PIECE_BYTES)
        except http.client.IncompleteRead as error:
            piece, is_broken = error.partial, True
        except ConnectionError:
            piece, is_broken = b"", True
        digest.update(piece)
        size += len(piece)
        if keep:
            pieces.append(piece)
        if not piece or is_broken:
            # A length that was promised and not delivered does not always raise when the reads are sized.
            return b"".join(pieces), digest.hexdigest(), size, is_broken or bool(response.length)


@dataclass
class Client:
    """One user on one account. Paths are ``container/object`` as text; quoting is done here."""

    storage_url: str
    token: str
    user: str = ""
    version_url: Url = field(init=False)

    def __post_init__(self) -> None:
        self.version_url = Url.of(self.storage_url)

    @property
    def account(self) -> str:
        return self.version_url.path.rsplit("/", 1)[1]

    def on(self, account: str) -> Client:
        """The same user on another account."""
        return Client(self.storage_url.rsplit("/", 1)[0] + "/" + account, self.token, self.user)

    def target(self, path: str, query: Mapping[str, str] | str | None = None) -> str:
        text = query if isinstance(query, str) else urlencode(query or {})
        return (
            self.version_url.path
            + ("/" + quote(path) if path else "")
            + ("?" + text if text else "")
        )

    def open(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        query: Mapping[str, str] | str | None = None,
        body: bytes | Iterable[bytes] | None = None,
        timeout: float = 90,
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """A request whose answer the test reads itself."""
        sent = {"X-Auth-Token": self.token} if self.token else {}
        return open_request(
            self.version_url,
            method,
            self.target(path, query),
            sent | dict(headers or {}),
            body,
            timeout,
        )

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        query: Mapping[str, str] | str | None = None,
        body: bytes | Iterable[bytes] | None = None,
        timeout: float = 90,
        keep: bool = True,
    ) -> Answer:
        """A request and its whole answer."""
        connection, response = self.open(
            method, path, headers, query=query, body=body, timeout=timeout
        )
        try:
            content, md5, size, is_broken = read_all(response, keep=keep)
        finally:
            connection.close()
        return Answer(response.status, response.headers, content, is_broken, md5, size)

    def get(self, path: str, headers: Mapping[str, str] | None = None, **more: Any) -> Answer:
        return self.request("GET", path, headers, **more)

    def head(self, path: str, headers: Mapping[str, str] | None = None, **more: Any) -> Answer:
        return self.request("HEAD", path, headers, **more)

    def post(self, path: str, headers: Mapping[str, str] | None = None, **more: Any) -> Answer:
        return self.request("POST", path, {"Content-Length": "0"} | dict(headers or {}), **more)

    def put(
        self,
        path: str,
        body: bytes | Iterable[bytes] = b"",
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Answer:
        return self.request("PUT", path, headers, body=body, **more)

    def delete(self, path: str, **more: Any) -> Answer:
        return self.request("DELETE", path, **more)

    def listing(self, container: str, **query: str) -> list[dict[str, Any]]:
        answer = self.get(container, query={"format": "json"} | query)
        assert answer.status in (200, 204, 404), answer
        entries: list[dict[str, Any]] = (
            json.loads(answer.body or b"[]") if answer.status == 200 else []
        )
        return entries


def log_in(auth_url: str, user: str, key: str) -> Client:
    """A client with a fresh token (TempAuth, version 1)."""
    url = Url.of(auth_url)
    connection, response = open_request(
        url, "GET", url.path, {"X-Auth-User": user, "X-Auth-Key": key}, None, 30
    )
    try:
        response.read()
        assert response.status == 200, f"{user} cannot log in at {auth_url}: {response.status}"
        return Client(response.headers["X-Storage-Url"], response.headers["X-Auth-Token"], user)
    finally:
        connection.close()


def pieces_of(data: bytes, size: int = 65536) -> Iterator[bytes]:
    """A body that is sent chunked."""
    for start in range(0, len(data), size):
        yield data[start : start + size]
