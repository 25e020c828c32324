"""PUTs that are decided now and sent later."""

from __future__ import annotations

from typing import Any

import pytest
from swift.common.swob import Request, Response

from storlet_middleware.errors import InternalError, RuleRefused
from storlet_middleware.wsgi import deferred_put
from storlet_middleware.wsgi.deferred_put import DeferredPut


def test_a_put_is_sent_later_from_where_it_was_kept() -> None:
    request = Request.blank("/v1/a/c/o", method="PUT")
    deferred = DeferredPut(request.environ)
    seen: list[Any] = []

    def rest(environ: dict[str, Any], start_response: Any) -> Any:
        seen.append(environ)
        assert deferred_put.taken_from(environ) is None
        return Response(status=201)(environ, start_response)

    def front(environ: dict[str, Any], start_response: Any) -> Any:
        found = deferred_put.taken_from(environ)
        assert found is deferred
        return found.keep(rest, start_response)

    with pytest.raises(InternalError):
        request.get_response(deferred)
    assert not deferred.is_decided
    assert request.get_response(front).status_int == 204
    assert deferred.is_decided
    assert not seen
    assert Request(deferred.environ).get_response(deferred).status_int == 201
    assert seen == [deferred.environ]


def test_only_a_deferred_put_may_not_run_a_storlet() -> None:
    environ = Request.blank("/v1/a/c/o", method="PUT").environ
    deferred_put.require_no_run(environ, "mask")
    DeferredPut(environ)
    with pytest.raises(RuleRefused, match="rule mask: it runs a storlet"):
        deferred_put.require_no_run(environ, "mask")
