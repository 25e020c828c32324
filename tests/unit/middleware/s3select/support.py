"""Requests of ``SelectObjectContent`` to the filter, in front of an application of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

from botocore.eventstream import EventStreamBuffer
from swift.common.swob import Request, Response

from storlet_middleware.s3select.filter import filter_factory

BODY = (
    b"<SelectObjectContentRequest xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"
    b"<Expression>SELECT 1</Expression><ExpressionType>SQL</ExpressionType>"
    b"<InputSerialization><CSV/></InputSerialization>"
    b"<OutputSerialization><CSV/></OutputSerialization></SelectObjectContentRequest>"
)


@dataclass
class Application:
    """The pipeline to the right of ``s3api``; ``answer`` gives the response to a request."""

    answer: Callable[[Request], Response]
    requests: list[Request] = field(default_factory=list)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = Request(environ)
        self.requests.append(request)
        # As the authentication does.
        environ["PATH_INFO"] = environ["PATH_INFO"].replace("/v1/test:tester/", "/v1/AUTH_test/")
        return self.answer(request)(environ, start_response)  # type: ignore[no-any-return]


class Closing:
    """A body that shows whether it was closed."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.is_closed = False

    def __iter__(self) -> Any:
        return iter(self._chunks)

    def close(self) -> None:
        self.is_closed = True


def send(
    app: Application,
    body: bytes = BODY,
    query: str = "select=&select-type=2",
    path: str = "/bucket/key",
    headers: dict[str, str] | None = None,
    factory: Any = filter_factory,
) -> Response:
    """The answer of the filter to a POST."""
    now = datetime.now(tz=UTC)
    given = {
        "X-Amz-Date": f"{now:%Y%m%dT%H%M%SZ}",
        "X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD",
        "Authorization": (
            f"AWS4-HMAC-SHA256 Credential=test:tester/{now:%Y%m%d}/us-east-1/s3/aws4_request,"
            " SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=x"
        ),
    }
    environ = {
        "REQUEST_METHOD": "POST",
        "QUERY_STRING": query,
        "wsgi.input": BytesIO(body),
        "CONTENT_LENGTH": str(len(body)),
    }
    request = Request.blank(path, environ=environ, headers=given | (headers or {}))
    return request.get_response(factory({})(app))


def events(answer: Response) -> list[tuple[str, bytes]]:
    """The kinds and payloads of a stream; of an error the code."""
    buffer = EventStreamBuffer()
    for chunk in answer.app_iter:
        buffer.add_data(chunk)
    return [
        (event.headers.get(":event-type", event.headers.get(":error-code", "")), event.payload)
        for event in buffer
    ]
