"""The filter's own part in an operation, decided by the request alone."""

from __future__ import annotations

import pytest
from swift.common.swob import Request

from storlet_middleware.routes import Route, route_of
from storlet_middleware.wsgi.operation import parse as parse_operation
from storlet_middleware.wsgi.storlet_request import ON_DATA
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


GRANT = {"X-Storlet-Container-Read": "bob", "X-Storlet-Name": "up.py"}
REVOKE = {"X-Remove-Storlet-Container-Read": "bob", "X-Storlet-Name": "up.py"}
RUN = {"X-Run-Storlet": "up.py"}


@pytest.mark.parametrize(
    ("method", "path", "headers", "route"),
    [
        ("GET", "c/o", {}, Route.PASS),
        ("PUT", "c/o", {}, Route.PASS),
        ("GET", "c/o", RUN, Route.RUN),
        # The parser of storlet requests refuses the methods.
        ("HEAD", "c/o", RUN, Route.RUN),
        ("GET", "c/o", {"X-Run-Storlet": ""}, Route.RUN),
        ("GET", "c/o", {"X-Storlet-Range": "bytes=0-1"}, Route.REFUSE_HEADERS),
        ("GET", "c/o", {"X-Storlet-None": "1"}, Route.REFUSE_HEADERS),
        # A run is not a write of code; a write with headers for storlets is refused.
        ("PUT", "storlet/x.py", RUN, Route.RUN),
        ("PUT", "storlet/x.py", {"X-Storlet-None": "1"}, Route.REFUSE_HEADERS),
        ("PUT", "storlet/x.py", {}, Route.WRITE_CODE),
        ("POST", "dependency/x", {}, Route.WRITE_CODE),
        ("DELETE", "storlet/x.py", {}, Route.WRITE_CODE),
        ("GET", "storlet/x.py", {}, Route.PASS),
        ("COPY", "storlet/x.py", {"Destination": "c/x"}, Route.PASS),
        ("COPY", "c/o", {"Destination": "/storlet/x.py"}, Route.WRITE_CODE),
        ("PUT", "storlet/x.py", {"X-Copy-From": "c/o"}, Route.WRITE_CODE),
        ("PUT", "storlet/x.py", {"X-Storlet-Check": "true"}, Route.WRITE_CODE),
        ("POST", "storlet/x.py", {"X-Storlet-Check": ""}, Route.WRITE_CODE),
        ("DELETE", "storlet/x.py", {"X-Storlet-Check": "true"}, Route.REFUSE_HEADERS),
        ("PUT", "dependency/x.py", {"X-Storlet-Check": "true"}, Route.REFUSE_HEADERS),
        ("GET", "storlet/x.py", {"X-Storlet-Check": "true"}, Route.REFUSE_HEADERS),
        # Swift refuses these copies: the first has no target, the second no source.
        ("COPY", "storlet/x.py", {}, Route.PASS),
        ("PUT", "storlet/x.py", {"X-Copy-From": "c"}, Route.WRITE_CODE),
        ("POST", "c", GRANT, Route.CHANGE_GRANTS),
        ("POST", "c", REVOKE, Route.CHANGE_GRANTS),
        ("POST", "c", {"X-Storlet-Name": "up.py"}, Route.CHANGE_GRANTS),
        ("POST", "c", {}, Route.PASS),
        ("PUT", "c", GRANT, Route.PASS),
        ("POST", "c/o", GRANT, Route.REFUSE_HEADERS),
        ("GET", "c", {}, Route.SHOW_GRANTS),
        ("HEAD", "c", {}, Route.SHOW_GRANTS),
        ("DELETE", "c", {}, Route.PASS),
        ("GET", "", {}, Route.PASS),
    ],
)
def test_each_request_has_one_route(
    method: str, path: str, headers: dict[str, str], route: Route
) -> None:
    environ = Request.blank(f"/v1/AUTH_test/{path}", method=method, headers=headers).environ
    assert route_of(environ, parse_operation(environ), ("storlet", "dependency")) is route
    environ["HTTP_REFERER"] = "http://Storlets.example.org/"
    found = route_of(environ, parse_operation(environ), ("storlet", "dependency"))
    assert found is Route.REFUSE_REFERER


def test_a_storlet_runs_another_one_on_data_and_no_client_does() -> None:
    environ = Request.blank("/v1/AUTH_test", method="PUT", headers=RUN).environ
    assert route_of(environ, parse_operation(environ), ("storlet", "dependency")) is Route.PASS
    environ[ON_DATA] = True
    found = route_of(environ, parse_operation(environ), ("storlet", "dependency"))
    assert found is Route.RUN_ON_DATA


@pytest.mark.parametrize(
    ("method", "query", "route"),
    [
        ("POST", "storlet-secrets=a", Route.SECRETS),
        ("PUT", "storlet-secrets=a", Route.SECRETS),
        ("DELETE", "storlet-secrets=a", Route.SECRETS),
        ("GET", "storlet-secrets", Route.SECRETS),
        # Refused: there is no request for a value.
        ("GET", "storlet-secrets=a", Route.SECRETS),
        ("HEAD", "storlet-secrets=a", Route.PASS),
        ("POST", "x=storlet-secrets", Route.PASS),
    ],
)
def test_requests_for_secrets_are_those_of_the_account(
    method: str, query: str, route: Route
) -> None:
    for path, expected in (("/v1/AUTH_test", route), ("/v1/AUTH_test/c", None)):
        environ = {"PATH_INFO": path, "REQUEST_METHOD": method, "QUERY_STRING": query}
        found = route_of(environ, parse_operation(environ), ("storlet", "dependency"))
        assert found is expected if expected else found is not Route.SECRETS
