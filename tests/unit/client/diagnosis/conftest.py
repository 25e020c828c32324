"""An account that storlets are enabled for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storlet_client import Storlets
from storlet_client.diagnosis.check import Check
from tests.unit.client.server import Reply, Server


@pytest.fixture
def problems(server: Server, storlets: Storlets) -> Callable[..., list[Check]]:
    """The problems of an account with its three containers."""
    server.on("HEAD", "", Reply(204, {"X-Account-Meta-Storlet-Enabled": "True"}))
    for container in ("storlet", "dependency", "storletlog"):
        server.on("HEAD", f"/{container}", Reply(204))
        server.on("GET", f"/{container}", Reply(body=b"[]"))
    server.on("GET", "", Reply(body=b"[]"))

    def found(*named: str) -> list[Check]:
        return [check for check in storlets.diagnose(named) if not check.is_well]

    return found
