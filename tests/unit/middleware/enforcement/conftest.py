"""Fixtures for the tests of enforcement."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.middleware.ruled_proxy import BOB, CONTENT, Cache, Ruled
from tests.unit.middleware.rules_account import AccountSwift
from tests.unit.middleware.rules_pipeline import SECRET, Pipeline
from tests.unit.middleware.support import Node, Proxy, make_config


@pytest.fixture
def swift() -> Pipeline:
    made = Pipeline()
    made.request("PUT", "closed/o", body=SECRET)
    made.request("PUT", "/v1/AUTH_b/closed/o", body=SECRET)
    made.request("PUT", "open/o", body=b"public")
    return made


@pytest.fixture
def ruled(node: Node, short_dir: Path) -> Ruled:
    swift = AccountSwift()
    for name in ("o", "other"):
        swift.put("c", name, CONTENT, Content_Type="text/csv", X_Object_Meta_Study="7")
    for container in ("c", "storlet"):
        swift.containers[container].read = BOB
    proxy = Proxy(swift, make_config(short_dir))
    proxy.memcache = Cache()
    return Ruled(swift, proxy)
