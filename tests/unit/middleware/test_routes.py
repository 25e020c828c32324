"""The filter's own part in an operation, decided by the request alone."""

from __future__ import annotations

import pytest

from storlet_middleware.routes import Route, route_of
from storlet_middleware.wsgi.operation import parse as parse_operation
from tests.unit.middleware.support import FakeSwift, Proxy


@pytest.mark.parametrize("path", ["/v1//c/o", "/v1/AUTH_test//o", "/v1", "/", "/info", "/v2/a/c/o"])
def test_a_path_that_is_no_object_is_left_to_swift(
    proxy: Proxy, swift: FakeSwift, path: str
) -> None:
    environ = {"PATH_INFO": path, "REQUEST_METHOD": "GET", "HTTP_X_RUN_STORLET": "up.py"}
    assert route_of(environ, parse_operation(environ), ("storlet", "dependency")) is Route.PASS
    assert swift.seen == []


@pytest.mark.parametrize("referer", ["//storlets.bob_up.py", "HTTP://STORLETS.x/"])
def test_a_referer_cannot_pretend_to_be_a_storlet(proxy: Proxy, referer: str) -> None:
    answer = proxy.call("GET", "c/o", {"Referer": referer})
    assert (answer.status, answer.error) == (403, "access.denied")
