"""``GET /v1/ACCOUNT?storlet-library``."""

from __future__ import annotations

import json
import tomllib

from tests.support.cluster import CHECKOUT
from tests.unit.middleware.support import FakeSwift, Proxy


def test_the_list_has_versions_and_parameters(proxy: Proxy) -> None:
    answer = proxy.call("GET", "/v1/AUTH_test?storlet-library")
    assert (answer.status, answer.headers["Content-Type"]) == (
        200,
        "application/json; charset=utf-8",
    )
    rows = {row["name"]: row for row in json.loads(answer.data)}
    document = tomllib.loads((CHECKOUT / "storlets/std/grep/storlet.toml").read_text())
    assert rows["std:grep"]["version"] == document["version"]
    assert rows["std:grep"]["parameters"]["pattern"]["type"] == "string"
    assert sorted(rows) == list(rows)


def test_callers_without_access_to_the_account_do_not_get_it(proxy: Proxy) -> None:
    assert proxy.call("GET", "/v1/AUTH_test?storlet-library", user="test2:reader").status == 403


def test_an_account_without_storlets_has_no_library(proxy: Proxy, swift: FakeSwift) -> None:
    swift.is_enabled = False
    answer = proxy.call("GET", "/v1/AUTH_test?storlet-library")
    assert (answer.status, answer.error) == (400, "bad_request")
