"""health.py: an object server that cannot run storlets says so, and not too often."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storlet_middleware.errors import (
    InternalError,
    NodeBusy,
    SandboxUnavailable,
    StorletError,
    TenantBusy,
    Unprocessable,
)
from storlet_middleware.object_server import health as module
from storlet_middleware.object_server.health import REPORT_SECONDS, Health
from storlet_middleware.recon import FILE_NAME, ReconCache
from tests.unit.middleware.logger import Logger


@pytest.fixture
def logger() -> Logger:
    return Logger()


@pytest.fixture
def health(logger: Logger, tmp_path: Path) -> Health:
    return Health(logger, ReconCache(str(tmp_path), logger))


def recon(tmp_path: Path) -> dict[str, dict[str, object]]:
    facts: dict[str, dict[str, object]] = json.loads((tmp_path / FILE_NAME).read_text())
    return facts


def test_failures_are_counted_and_logged_once_a_minute(
    health: Health, logger: Logger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    for _ in range(5):
        health.record_failure("tx1-1", SandboxUnavailable("Docker is down"))
    assert logger.text.count("node cannot run a storlet") == 1
    assert "id=tx1-1 code=sandbox.unavailable failures=1 why=Docker is down" in logger.text
    assert logger.stats.count("storlet.node.unable") == 5
    assert logger.stats.count("storlet.node.unable.sandbox-unavailable") == 5
    assert recon(tmp_path)["storlet_unable"]["code"] == "sandbox.unavailable"
    now[0] += REPORT_SECONDS + 1
    health.record_failure("tx1-2", InternalError("defect"))
    assert "id=tx1-2 code=internal failures=6 why=defect" in logger.text


def test_a_success_ends_the_report(health: Health, logger: Logger, tmp_path: Path) -> None:
    health.record_success()
    assert logger.text == ""
    health.record_failure("tx1-1", SandboxUnavailable("Docker is down"))
    health.record_success()
    assert "node runs storlets again failures=1" in logger.text
    assert recon(tmp_path) == {}
    health.record_failure("tx1-3", SandboxUnavailable("Docker is down again"))
    assert "why=Docker is down again" in logger.text


@pytest.mark.parametrize("error", [NodeBusy("full"), TenantBusy("queue"), Unprocessable("no")])
def test_a_full_node_and_failures_of_storlets_are_no_failures_of_the_node(
    health: Health, logger: Logger, error: StorletError
) -> None:
    health.record_failure("tx1-1", error)
    assert (logger.text, list(logger.stats)) == ("", [])
