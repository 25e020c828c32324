"""The two faces: equal methods, and the asynchronous one."""

from __future__ import annotations

import asyncio
import inspect

import pytest

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
