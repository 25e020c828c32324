"""A server, and clients of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from storlet_client import Storlets, Tempauth, session
from storlet_client.cli.main import main
from tests.unit.client.server import Server, serving


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def credentials(server: Server) -> Tempauth:
    return Tempauth(server.auth_url, "test:tester", "secret-key")


@pytest.fixture
def storlets(credentials: Tempauth) -> Iterator[Storlets]:
    with Storlets(credentials) as storlets:
        yield storlets


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_FIRST_SECONDS", 0.01)


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


Command = Callable[..., Result]


@pytest.fixture
def command(
    server: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Command:
    """Run ``storlet`` with credentials of the server in the environment."""
    for name in ("OS_CLOUD", "OS_AUTH_URL", "OS_STORAGE_URL", "OS_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ST_AUTH", server.auth_url)
    monkeypatch.setenv("ST_USER", "test:tester")
    monkeypatch.setenv("ST_KEY", "secret-key")

    def run(*words: str) -> Result:
        capfd.readouterr()
        code = main(words)
        out, err = capfd.readouterr()
        return Result(code, out, err)

    return run
