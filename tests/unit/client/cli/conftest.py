"""Code and commands in processes that begin with the client imported."""

from __future__ import annotations

import contextlib
import os
import pty
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.cluster import CHECKOUT
from tests.support.forking import Commands, commands_of
from tests.unit.client.server import Server

#: The code of the command.
MAIN = "from storlet_client.cli.main import main; sys.exit(main(sys.argv[1:]))"


@dataclass(frozen=True)
class Shown:
    """:param err: all that the terminal got."""

    code: int
    out: bytes
    err: str


Terminal = Callable[..., Shown]


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    """Runs code in processes that begin with the client imported."""
    inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    variables = {**inherited, "PYTHONPATH": str(CHECKOUT), "TERM": "xterm", "COLUMNS": "200"}
    with commands_of(Path(sys.prefix), "code", "tests.support.code", variables) as made:
        yield made


@pytest.fixture
def on_terminal(commands: Commands) -> Terminal:
    """Runs Python code, whose standard error is a terminal, and its standard output is not."""

    def run(code: str, *words: str, **environment: str) -> Shown:
        parent, child = pty.openpty()
        text = b""

        def read() -> None:
            nonlocal text
            with contextlib.suppress(OSError):  # the end of a terminal
                while chunk := os.read(parent, 65536):
                    text += chunk

        given = {"NO_COLOR": "1", **environment}
        variables = {name: value for name, value in given.items() if value}
        reader = threading.Thread(target=read)
        reader.start()
        try:
            ended = commands.ended([code, *words], variables, terminal=os.ttyname(child))
        finally:
            os.close(child)
            reader.join()
            os.close(parent)
        return Shown(ended.code, ended.out.encode(), text.decode())

    return run


@pytest.fixture
def login(server: Server) -> dict[str, str]:
    return {"ST_AUTH": server.auth_url, "ST_USER": "test:tester", "ST_KEY": "secret-key"}
