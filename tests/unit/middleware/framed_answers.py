"""Framed answers of object nodes to the GET of a source."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from swift.common.swob import Response

from storlet_middleware.backend import frames
from tests.unit.middleware.support import ACCOUNT, FakeSwift


def framed(swift: FakeSwift, *answers: Iterable[bytes]) -> list[Any]:
    """The source's GET gives these framed bodies, one after the other, then plain data."""
    left, given = list(answers), []

    def node(request: Any) -> Any:
        if "X-Backend-Storlet-Invocation" not in request.headers or not left:
            return None
        given.append(request)
        headers = {
            "X-Backend-Storlet-Run": "1",
            "Content-Type": "text/plain",
            "X-Object-Meta-A": "b",
        }
        return Response(status=200, request=request, headers=headers, app_iter=iter(left.pop(0)))

    swift.hooks["GET", f"/v1/{ACCOUNT}/c/o"] = node
    return given


def frame(*data: bytes, done: dict[str, Any] | None = None) -> bytes:
    encoder = frames.Encoder(65536)
    start = {"metadata": {"m": "1"}, "size": 5, "ranges": [], "sandbox_seconds": 0.0}
    body = (
        encoder.pad()
        + encoder.message(frames.START, start)
        + b"".join(encoder.data(piece) for piece in data)
    )
    return body + (encoder.message(frames.DONE, done) if done else b"")


OK = {"outcome": "ok", "bytes_in": 5}


def done_frame(message: dict[str, Any]) -> bytes:
    return frames.Encoder(65536).message(frames.DONE, message)
