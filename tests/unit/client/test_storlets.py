"""The two faces: equal methods, and the asynchronous one; the names of the package."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys

import pytest

import storlet_client
from storlet_client import AsyncStorlets, BrokenAnswer, Storlets, Tempauth
from tests.unit.client.server import Reply, Server

TEXT = "first\nsec\u00f6nd\n\nlast".encode()
FACTS = {"X-Storlet-Invocation": "tx1-1"}


def test_both_faces_have_the_same_methods() -> None:
    def methods(face: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(method).parameters)
            for name, method in vars(face).items()
            if inspect.isfunction(method) and not name.startswith("_")
        }

    assert methods(Storlets) == methods(AsyncStorlets)


def test_the_asynchronous_face(server: Server, credentials: Tempauth) -> None:
    server.on("GET", "/c/o", Reply(503), Reply(200, FACTS, TEXT))
    server.on("GET", "/c/short", Reply(200, {}, b"x" * 100, sent=40))
    server.on("PUT", "/c/p", Reply(201, FACTS))

    async def use() -> None:
        async with AsyncStorlets(credentials) as storlets:
            async with storlets.run("s.py", "c/o") as output:
                assert [line async for line in output.lines()] == TEXT.decode().split("\n")
            async with storlets.run("s.py", "c/short") as output:
                with pytest.raises(BrokenAnswer):
                    await output.read()
            answer = await storlets.put("s.py", "c/p", b"body")
            assert answer.headers["x-storlet-invocation"] == "tx1-1"

    asyncio.run(use())
    assert server.received[-1].body == b"body"


def test_every_name_of_the_package_is_found() -> None:
    assert all(getattr(storlet_client, name) for name in storlet_client.__all__)
    assert storlet_client.Storlets is Storlets
    with pytest.raises(AttributeError, match="'storlet_client' has no attribute 'Storlet_s'"):
        storlet_client.Storlet_s  # noqa: B018 - the attribute is what is tested


def test_the_cases_of_a_project_run_without_the_library_for_http() -> None:
    code = "import sys, storlet_client.local.cases; print('httpx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"False\n"
