"""The cached metadata of an account."""

from __future__ import annotations

from typing import Any

from swift.common.swob import Request, Response
from swift.proxy.controllers.base import get_cache_key

from storlet_middleware.wsgi.account_info import (
    CONTAINER_KEY_PREFIX,
    KEY_PREFIX,
    account_metadata,
    account_sysmeta,
)

PATH = "/v1/AUTH_ü/c/o"


def not_asked(environ: dict[str, Any], start_response: Any) -> Any:
    raise AssertionError("Swift was asked")


def environ_with(**cached: Any) -> dict[str, Any]:
    environ: dict[str, Any] = Request.blank(PATH).environ
    environ["swift.infocache"] = {f"account/{key}": value for key, value in cached.items()}
    return environ


def test_the_keys_are_those_of_swift() -> None:
    assert f"{KEY_PREFIX}AUTH_ü" == get_cache_key("AUTH_ü")
    assert f"{CONTAINER_KEY_PREFIX}AUTH_ü/c" == get_cache_key("AUTH_ü", "c")


def test_cached_metadata_is_returned_without_a_request() -> None:
    environ = environ_with(AUTH_ü={"status": 204, "meta": {"storlet-enabled": "true"}})
    assert account_metadata(environ, not_asked, "AUTH_ü") == {"storlet-enabled": "true"}


def test_an_account_that_does_not_exist_has_no_metadata() -> None:
    environ = environ_with(AUTH_ü={"status": 404, "meta": {}})
    assert account_metadata(environ, not_asked, "AUTH_ü") == {}
    assert account_sysmeta(environ, not_asked, "AUTH_ü") == {}


def test_system_metadata_is_apart_from_metadata() -> None:
    environ = environ_with(AUTH_ü={"status": 204, "meta": {"a": "1"}, "sysmeta": {"a": "2"}})
    assert account_sysmeta(environ, not_asked, "AUTH_ü") == {"a": "2"}


def test_swift_is_queried_for_an_account_that_is_not_cached() -> None:
    asked = []

    def swift(environ: dict[str, Any], start_response: Any) -> Any:
        asked.append((environ["REQUEST_METHOD"], environ["swift.source"]))
        headers = {"X-Account-Meta-Storlet-Enabled": "true"}
        return Response(status=204, headers=headers)(environ, start_response)

    environ = environ_with(AUTH_other={"status": 204, "meta": {"storlet-enabled": "false"}})
    assert account_metadata(environ, swift, "AUTH_ü") == {"storlet-enabled": "true"}
    assert asked == [("HEAD", "ST")]
