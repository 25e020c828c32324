"""Records of an object, one at a time."""

from __future__ import annotations

import asyncio
import json
import struct
from urllib.parse import unquote

import pytest

from storlet_client import AsyncStorlets, BrokenAnswer, ConfigurationError, Storlets, Tempauth
from tests.unit.client.server import INFO, Reply, Server

STRUCT = "i4 id, s4 text"
BODY = b"".join(struct.pack("<4si", b"ab", n) for n in range(3))
FOUND = [{"text": "ab", "id": n} for n in range(3)]
ASKED = {"struct": STRUCT, "where": "id < 3", "fields": ("text", "id")}


@pytest.fixture(autouse=True)
def library(server: Server) -> None:
    described = {"storlet_handler": {**INFO["storlet_handler"], "library": {"std:records": {}}}}
    server.replies["GET", "/info"] = Reply(body=json.dumps(described).encode())


def test_records_are_mappings(server: Server, storlets: Storlets) -> None:
    server.on("GET", "/c/o", Reply(200, {}, BODY))
    assert list(storlets.records("c", "o", **ASKED)) == FOUND
    sent = server.received[-1].headers
    assert sent["x-run-storlet"] == "std:records"
    headers = {value for key, value in sent.items() if key.startswith("x-storlet-parameter-")}
    parameters = set(map(unquote, headers))
    assert parameters == {f"struct:{STRUCT}", "where:id < 3", "fields:text,id"}


def test_asyncio_has_them_too(server: Server, credentials: Tempauth) -> None:
    server.on("GET", "/c/o", Reply(200, {}, BODY))

    async def read() -> list[dict[str, object]]:
        async with AsyncStorlets(credentials) as storlets:
            return [record async for record in storlets.records("c", "o", **ASKED)]

    assert asyncio.run(read()) == FOUND


@pytest.mark.parametrize("length", [len(BODY) - 1, 5])
def test_an_output_that_ends_within_a_record_is_broken(
    server: Server, storlets: Storlets, length: int
) -> None:
    server.on("GET", "/c/o", Reply(200, {}, BODY[:length]))
    with pytest.raises(BrokenAnswer, match="its last record has"):
        list(storlets.records("c", "o", **ASKED))


def test_an_object_without_records_has_none(server: Server, storlets: Storlets) -> None:
    server.on("GET", "/c/o", Reply(200, {}, b""))
    assert list(storlets.records("c", "o", STRUCT)) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"struct": "i3 id"}, "struct: "),
        ({"where": "no = 1"}, "where: no"),
        ({"fields": ["x"]}, "x"),
    ],
)
def test_faults_are_found_before_a_request(
    server: Server, storlets: Storlets, change: dict[str, object], text: str
) -> None:
    with pytest.raises(ConfigurationError, match=text):
        storlets.records("c", "o", **{**ASKED, **change})
    assert server.received == []


def test_a_cluster_without_the_storlet_is_named(server: Server, storlets: Storlets) -> None:
    server.replies["GET", "/info"] = Reply(body=json.dumps(INFO).encode())
    with pytest.raises(ConfigurationError, match="this cluster has no std:records"):
        next(storlets.records("c", "o", STRUCT))
    assert server.calls() == []
