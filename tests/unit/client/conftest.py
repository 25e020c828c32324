"""A server, and clients of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import BinaryIO

import pytest

from storlet_client import Storlets, Tempauth, session
from storlet_client.cli.main import main
from storlet_client.local import cases
from tests.support.forking import Fork
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


@pytest.fixture
def forked_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of a case is a fork: its imports would take most of its time."""

    def start(command: list[str], *, stdout: BinaryIO, **options: object) -> Fork:
        assert command == [sys.executable, "-m", cases.__name__]
        assert options == {"stdin": -1, "stderr": stdout, "start_new_session": True}
        return Fork(cases._main, stdout)

    own = SimpleNamespace(**vars(subprocess) | {"Popen": start})
    monkeypatch.setattr(cases, "subprocess", own)
