"""SQL over one object or many: the storlet, its parameters and the document of each."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import unquote

import pytest

from storlet_client import AsyncStorlets, ConfigurationError, Storlets, Tempauth
from storlet_client.queries import SqlQuery, format_of
from tests.unit.client.server import Reply, Server

QUERY = "SELECT a FROM input"
MERGED = {"storlet": "std:sql-merge", "parameters": {"output": "csv"}}


def listed(*names: str) -> Reply:
    return Reply(200, body=json.dumps([{"name": name} for name in names]).encode())


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.csv", ""), ("a", ""), ("a.tsv.gz", ""), ("a.jsonl", "jsonl"), ("a.NDJSON.GZ", "jsonl"),
        ("a.json.zst", "json"), ("a.parquet", "parquet"), ("b/a.arrows", "arrow"),
        ("a.feather", "arrow"), ("*.json", "json"), ("json", ""),
    ],
)  # fmt: skip
def test_the_format_is_known_by_the_suffix(name: str, form: str) -> None:
    assert format_of(name) == form


@pytest.mark.parametrize(
    ("path", "given", "storlet", "parameters"),
    [
        ("c/a.txt", {}, "std:sql", {"format:csv"}),
        ("/c/a.jsonl.gz", {"types": "text"}, "std:sql", {"format:jsonl", "types:text"}),
        ("c/a.jsonl", {"format": "json"}, "std:sql", {"format:json"}),
        ("c/a.parquet", {}, "std:sql-parquet", set()),
        ("c/a", {"format": "parquet"}, "std:sql-parquet", set()),
    ],
)
def test_an_object_is_read_by_one_storlet(
    server: Server, storlets: Storlets, path: str, given: dict[str, str], storlet: str,
    parameters: set[str],
) -> None:  # fmt: skip
    server.on("GET", "/" + path.lstrip("/"), Reply(200, {}, b"a\n1\n"))
    with storlets.sql(QUERY, path, given, output="jsonl") as output:
        assert output.read() == b"a\n1\n"
    sent = server.received[-1].headers
    assert sent["x-run-storlet"] == storlet
    found = {unquote(sent[key]) for key in sent if key.startswith("x-storlet-parameter-")}
    assert found == {f"query:{QUERY}", "output:jsonl", *parameters}


@pytest.mark.parametrize(
    ("prefix", "options", "names", "form"),
    [
        ("", {}, ["a.csv", "b"], "csv"),
        ("2026/", {}, ["2026/", "2026/a.jsonl"], "jsonl"),
        ("", {"glob": "*.json*"}, ["a.csv", "b.json"], "json"),
        ("", {"suffix": ".jsonl"}, None, "jsonl"),
        ("", {"glob": "*.json.gz"}, None, "json"),
        ("empty/", {}, [], "csv"),
    ],
)
def test_many_objects_are_merged(
    server: Server, storlets: Storlets, prefix: str, options: dict[str, str],
    names: list[str] | None, form: str,
) -> None:  # fmt: skip
    path, selection = f"c/{prefix}", {"prefix": prefix} if prefix else {}
    if names is not None:
        server.on("GET", "/c", listed(*names))
    server.on("POST", "", Reply(200, {}, b"a\n1\n"))
    with storlets.sql(QUERY, path, **options) as output:
        assert output.read() == b"a\n1\n"
    assert json.loads(server.received[-1].body) == {
        "objects": {"container": "c", **selection, **options},
        "split": {
            "storlet": "std:sql",
            "parameters": {"query": QUERY, "output": "partial", "format": form},
        },
        "merge": MERGED,
    }


def test_a_caller_without_a_listing_may_still_run_a_query(
    server: Server, storlets: Storlets
) -> None:
    server.on("GET", "/c", Reply(403))
    server.on("POST", "", Reply(200, {}, b"a\n"))
    with storlets.sql(QUERY, "c", {"delimiter": ";"}) as output:
        assert output.read() == b"a\n"
    split = json.loads(server.received[-1].body)["split"]["parameters"]
    assert (split["format"], split["delimiter"]) == ("csv", ";")


def test_objects_of_several_formats_are_refused(server: Server, storlets: Storlets) -> None:
    server.on("GET", "/c", listed("a.csv", "b.parquet"))
    with pytest.raises(ConfigurationError, match=r"a\.csv \(csv\), b\.parquet \(parquet\)"):
        storlets.sql(QUERY, "c").__enter__()
    assert server.received[-1].method == "GET"


def test_all_faults_are_one_error() -> None:
    with pytest.raises(ConfigurationError) as caught:
        SqlQuery(" ", "c/o", {"query": "q", "output": "csv"}, "xml", ".csv")
    assert len(caught.value.faults) == 5
    with pytest.raises(ConfigurationError, match="want CONTAINER/OBJECT"):
        SqlQuery(QUERY, "/")


def test_asyncio_has_it_too(server: Server, credentials: Tempauth) -> None:
    server.on("GET", "/c/o", Reply(200, {}, b"a\n1\n"))

    async def read() -> bytes:
        async with AsyncStorlets(credentials) as storlets, storlets.sql(QUERY, "c/o") as output:
            return await output.read()

    assert asyncio.run(read()) == b"a\n1\n"
