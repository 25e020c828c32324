"""A double for ``test_further_outputs.py``: a Swift that loses an object after its last byte.

The test puts this folder on a proxy's Python path, and the filter behind ours in its pipeline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from swift.common.swob import HTTPServiceUnavailable, Request


def factory(global_conf: dict[str, str], **options: str) -> Callable[[Any], Any]:
    """A paste filter: a PUT whose path has ``lost`` takes its whole body, and ends with 503."""

    def make(app: Any) -> Any:
        def answer(environ: dict[str, Any], start_response: Any) -> Any:
            request = Request(environ)
            if request.method != "PUT" or "lost" not in request.path:
                return app(environ, start_response)
            while environ["wsgi.input"].read(65536):
                pass
            return HTTPServiceUnavailable(request=request)(environ, start_response)

        return answer

    return make
