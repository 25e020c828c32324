"""The values that operations and transports exchange.

An operation is a generator (:data:`Flow`): it yields :class:`Call` and :class:`Pause`, is sent the
:class:`Answer` of each call, and returns its result.  It neither opens connections nor sleeps, so
the same operation serves the synchronous and the asynchronous face.  :func:`together` performs
several flows at the same time.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, Union
from urllib.parse import quote, urlencode

from storlet_client.content import FileContent
from storlet_client.errors import BrokenAnswer

T = TypeVar("T")
#: Characters of an answer that an error shows.
_SHOWN = 80
Body = Union[bytes, Iterable[bytes], AsyncIterable[bytes], None]


def body_of(given: Any) -> Body:
    """The body that a caller gives: other kinds of bytes as ``bytes``.

    :raises TypeError: it is a text.
    """
    if isinstance(given, str):
        raise TypeError("the body is a text: encode it, such as with text.encode()")
    body: Body = bytes(given) if isinstance(given, (bytearray, memoryview)) else given
    return body


@dataclass(frozen=True)
class Call:
    """One HTTP request.

    :param path: segments below the account, such as ``("container", "object/with/slash")``; unused
        if ``url`` is given.
    :param url: absolute URL of a request outside the account.
    :param is_streamed: the body of a successful answer is not read by the transport.
    """

    method: str
    path: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    query: tuple[tuple[str, str], ...] = ()
    body: Body = field(default=None, repr=False)
    url: str = ""
    is_streamed: bool = False

    @property
    def can_repeat(self) -> bool:
        """Whether the body can be sent again."""
        return self.body is None or isinstance(self.body, (bytes, FileContent))

    @property
    def is_quick(self) -> bool:
        """Whether the answer is due at once: nothing runs, and no data are stored, before it."""
        runs = "X-Run-Storlet" in self.headers
        # A session sets the URL of each call to the account, and only the path distinguishes
        # it from a login, whose body is short.
        stores = bool(self.path and self.body)
        return not (self.is_streamed or stores or runs)

    def target(self, account_url: str) -> str:
        """The URL, with the query."""
        path = "".join("/" + _quoted(segment) for segment in self.path)
        return (self.url or account_url + path) + (
            "?" + urlencode(self.query) if self.query else ""
        )

    def __str__(self) -> str:
        return f"{self.method} {self.url or '/'.join(self.path) or 'account'}"


def _quoted(segment: str) -> str:
    """A part of a path; ``.`` and ``..`` are names in Swift, and not folders."""
    parts = quote(segment).split("/")
    return "/".join(part.replace(".", "%2E") if part in {".", ".."} else part for part in parts)


@dataclass(frozen=True)
class Pause:
    """A wait before the next call."""

    seconds: float
    reason: str


@dataclass(frozen=True)
class Sent:
    """A part of a call's body was sent; ``size`` is its bytes."""

    size: int


@dataclass(frozen=True)
class Answer:
    """The answer to a call.

    :param headers: names in lower case.
    :param body: empty if the body is streamed.
    :param stream: the transport's response, if the body is streamed.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    stream: Any | None = None

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def document(self) -> Any:
        """The value of a JSON body.

        :raises BrokenAnswer: it is not JSON.
        """
        try:
            return json.loads(self.body or b"[]")
        except ValueError:
            begin = " ".join(self.text[:_SHOWN].split())
            raise BrokenAnswer(f"the answer is not JSON, but begins with: {begin!r}") from None


@dataclass(frozen=True)
class Together:
    """Flows that are performed at the same time; the transport adds their ``results`` in order."""

    flows: Sequence[Any]
    results: list[Any] = field(default_factory=list)


Flow = Generator[Union[Call, Pause, Together], Answer, T]


def together(flows: Iterable[Flow[T]]) -> Flow[list[T]]:
    """The results of flows that only read, a few of which are performed at the same time."""
    step = Together([*flows])
    if step.flows:
        yield step
    return step.results
