"""Swift's authentication middlewares over an application that records the caller."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from swift.common.swob import Request, Response

from rules.facts import Caller
from storlet_middleware.wsgi.caller import caller_of
from tests.unit.middleware.support import ACCOUNT

PATH = f"/v1/{ACCOUNT}/c/o"
#: Environment of a request with a signed URL.
SIGNED = {"REMOTE_USER": ".wsgi.tempurl", "swift.authorize_override": True}


class RecordingApp:
    """The end of a pipeline: records the environment, and serves the account's keys."""

    def __init__(self) -> None:
        self.environ: dict[str, Any] = {}

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        if request.method == "HEAD":
            headers = {"X-Account-Meta-Temp-Url-Key": "key", "X-Container-Sync-Key": "key"}
            return Response(status=204, headers=headers, request=request)(environ, start_response)
        self.environ = environ
        return Response(status=201, request=request)(environ, start_response)

    @property
    def caller(self) -> Caller:
        assert self.environ, "the request did not reach the end of the pipeline"
        return caller_of(self.environ)


def send(
    app: Any,
    seen: RecordingApp,
    headers: Mapping[str, str] | None = None,
    path: str = PATH,
    **more: Any,
) -> Caller:
    environ = {"swift.infocache": {}, **more.pop("environ", {})}
    request = Request.blank(path, environ=environ, headers=headers or {}, **more)
    answer = request.get_response(app)
    assert answer.status_int in (200, 201), answer.body
    return seen.caller


class Tokens:
    """memcached with the tokens of TempAuth."""

    def __init__(self, **groups: str) -> None:
        self._groups = {f"AUTH_/token/{token}": value for token, value in groups.items()}

    def get(self, key: str, *args: Any, **more: Any) -> Any:
        groups = self._groups.get(key)
        return None if groups is None else (time.time() + 60, groups)

    def set(self, *args: Any, **more: Any) -> None:
        """Do not cache account info."""
