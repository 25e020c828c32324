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


def answered(go: Path) -> Path:
    """The file that exists when Swift has answered the PUT of ``first``."""
    return go.with_suffix(".first")


def factory(global_conf: dict[str, str], **options: str) -> Callable[[Any], Any]:
    """A paste filter: a PUT whose path has ``lost`` takes its whole body, and ends with 503.

    The body of a PUT whose path has ``late`` ends when the file of the option ``go`` exists.  When
    Swift has answered a PUT whose path has ``first``, there is a file beside it: :func:`answered`.
    """

    def make(app: Any) -> Any:
        def answer(environ: dict[str, Any], start_response: Any) -> Any:
            request = Request(environ)
            if request.method == "PUT" and "late" in request.path:
                environ["wsgi.input"] = LateEnd(environ["wsgi.input"], Path(options["go"]))
            if request.method != "PUT" or "lost" not in request.path:
                chunks = app(environ, start_response)
                if "go" in options and request.method == "PUT" and "first" in request.path:
                    answered(Path(options["go"])).touch()
                return chunks
            while environ["wsgi.input"].read(65536):
                pass
            return HTTPServiceUnavailable(request=request)(environ, start_response)

        return answer

    return make
