"""A double for tests of further outputs: a Swift that loses an object after its last byte, or that
waits before the end of one.

The tests put this folder on a proxy's Python path, and the filter behind ours in its pipeline.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import eventlet
from swift.common.swob import HTTPServiceUnavailable, Request


class LateEnd:
    """A body whose end waits for a file."""

    def __init__(self, body: Any, go: Path) -> None:
        self._body = body
        self._go = go

    def read(self, size: int = -1) -> bytes:
        chunk: bytes = self._body.read(size)
        while not chunk and not self._go.exists():
            eventlet.sleep(0.02)
        return chunk


def factory(global_conf: dict[str, str], **options: str) -> Callable[[Any], Any]:
    """A paste filter: a PUT whose path has ``lost`` takes its whole body, and ends with 503.

    The body of a PUT whose path has ``late`` ends when the file of the option ``go`` exists.
    """

    def make(app: Any) -> Any:
        def answer(environ: dict[str, Any], start_response: Any) -> Any:
            request = Request(environ)
            if request.method == "PUT" and "late" in request.path:
                environ["wsgi.input"] = LateEnd(environ["wsgi.input"], Path(options["go"]))
            if request.method != "PUT" or "lost" not in request.path:
                return app(environ, start_response)
            while environ["wsgi.input"].read(65536):
                pass
            return HTTPServiceUnavailable(request=request)(environ, start_response)

        return answer

    return make
