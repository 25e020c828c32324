"""Metadata of a storlet never makes an object server refuse a PUT, which Swift's proxy would count
as a node error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.accounts import unique
from tests.support.bundles import bundle
from tests.support.cluster import Cluster
from tests.support.http import Answer, Client
from tests.support.storlets import SOURCES, Tool, declaration

#: A PUT that an object server answered with a client's error, and what a proxy logs when it counts
#: an error of a node.
REFUSED_BY_NODE = re.compile(r'"PUT [^"]*" 4\d\d ')
COUNTED_BY_PROXY = re.compile(r"ERROR|error.limit|Handoff requested", re.IGNORECASE)
SERVERS = ("object-1", "object-2")
#: More errors than Swift's proxy forgives a node in a minute.
MANY = 12
#: More than a PUT keeps back: it begins while the storlet runs.
BODY = b"some bytes " * 100_000

#: Names and values near special cases of HTTP, Swift and UTF-8.
ODD = st.sampled_from(
    [
        "",
        " ",
        "\t",
        " x",
        "x ",
        "é",
        "à",
        "\x85",
        "\xa0",
        "ß",
        "ÿ",
        "漢",
        "\u2028",
        "_",
        "-",
        ";",
        ":",
        ",",
        '"',
        "=",
        "%00",
    ]
)
WORDS = st.lists(
    ODD | st.sampled_from(["a", "text/plain", "swift_bytes=1", "boundary=b"]), max_size=4
).map("".join)
TYPES = st.sampled_from(
    ["message/rfc822", "multipart/mixed; boundary=b", "a/b; swift_bytes=9", "a/b;c", "text/à", "/"]
)
LONG = st.sampled_from([128, 129, 256, 257]).map("n".__mul__)
METADATA = st.fixed_dictionaries(
    {}, optional={"Content-Type": WORDS | TYPES | LONG, "content-type": WORDS, "Transfer-Encoding": WORDS, "X-Timestamp": WORDS}
).flatmap(
    lambda fixed: st.dictionaries(WORDS.filter(bool) | LONG, WORDS | LONG, max_size=4).map(lambda free: {**free, **fixed})
)  # fmt: skip


def errors_of_nodes(cluster: Cluster, lengths: dict[str, int]) -> list[str]:
    """Lines that the servers logged behind ``lengths`` about PUTs that a node refused."""
    lines = []
    for name, length in lengths.items():
        pattern = COUNTED_BY_PROXY if name == "proxy" else REFUSED_BY_NODE
        with cluster.process(name).log.open(encoding="utf-8", errors="replace") as log:
            log.seek(length)
            lines += [line for line in log if pattern.search(line)]
    return lines


def lengths_of_logs(cluster: Cluster) -> dict[str, int]:
    return {name: cluster.process(name).log.stat().st_size for name in (*SERVERS, "proxy")}


@pytest.fixture
def new_errors(cluster: Cluster) -> Callable[[], list[str]]:
    """Lines about refused PUTs since the test began."""
    lengths = lengths_of_logs(cluster)
    return lambda: errors_of_nodes(cluster, lengths)


@pytest.mark.parametrize("method", ["PUT", "COPY"])
@pytest.mark.parametrize(
    "metadata",
    [{"Content-Type": " "}, {"content-type": "   "}],
    ids=["space", "lower case"],
)
def test_a_blank_content_type_is_dropped_without_a_node_error(
    any_tool: Tool, plain: str, container: str, new_errors: Callable[[], list[str]], metadata: dict[str, str], method: str
) -> None:  # fmt: skip
    for number in range(MANY):
        path = f"{container}/made-{number}.txt"
        answer = store(any_tool, method, plain, path, metadata)
        assert answer.status == 201, answer
        assert any_tool.client.get(plain).status == 200
    assert any_tool.client.head(path).headers["Content-Type"] == "text/plain", (
        "Swift guesses by the name what it is not told"
    )
    assert new_errors() == []


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(metadata=METADATA, method=st.sampled_from(["PUT", "COPY"]))
@example(metadata={f"k{number}": "v" for number in range(91)}, method="PUT")
@example(metadata={"ü": "x", "Content-Type": "message/rfc822"}, method="COPY")
@example(metadata={f"k{number}": "v" * 50 for number in range(80)}, method="COPY")
def test_no_metadata_of_a_storlet_makes_a_node_refuse_a_put(
    any_tool: Tool,
    plain: str,
    container: str,
    cluster: Cluster,
    metadata: dict[str, str],
    method: str,
) -> None:
    lengths = lengths_of_logs(cluster)
    path = f"{container}/{unique('made')}"
    answer = store(any_tool, method, plain, path, metadata)
    assert answer.status in (201, 422), answer
    assert errors_of_nodes(cluster, lengths) == []
    stored = any_tool.client.head(path)
    if answer.status == 422:
        assert answer.error in ("storlet.failed", "storlet.limit.metadata"), answer
        assert stored.status == 404, "a refused result must not be stored"
        return
    expected = {
        key.lower(): value.strip(" \t")
        for key, value in metadata.items()
        if key.lower() != "content-type"
    }
    for key, value in expected.items():
        if key.isascii():
            assert (stored.meta(key) or "") == value, (key, stored)


def test_client_headers_that_nodes_refuse_are_refused_by_name(
    any_tool: Tool, owner: Client, container: str, new_errors: Callable[[], list[str]]
) -> None:
    many = {f"X-Unused-{number}": "x" for number in range(180)}
    answer = any_tool.put(f"{container}/o", b"x", headers=many)
    assert (answer.status, answer.error) == (400, "bad_request"), answer
    assert "too many headers" in answer.text
    assert owner.head(f"{container}/o").status == 404
    assert new_errors() == []


@pytest.mark.parametrize(
    ("metadata", "code", "said"),
    [
        ({"a" * 129: "v", "b": "v" * 257}, "storlet.limit.metadata", ["name of 129 bytes", "b: a value of 257 bytes"]),
        ({f"k{number}": "v" for number in range(91)}, "storlet.limit.metadata", ["91 items of metadata, 90 are allowed"]),
        ({"Content-Type": "a/b; swift_bytes=1"}, "storlet.failed", ["Content-Type", "swift_"]),
    ],
    ids=["too long", "too many", "reserved"],
)  # fmt: skip
def test_all_faults_of_metadata_are_named_and_nothing_is_stored(
    any_tool: Tool,
    owner: Client,
    container: str,
    metadata: dict[str, str],
    code: str,
    said: list[str],
) -> None:
    path = f"{container}/o"
    assert owner.put(path, b"before").status == 201
    answer = store(any_tool, "PUT", path, path, metadata)
    assert (answer.status, answer.error) == (422, code), answer
    for part in said:
        assert part in answer.text
    assert owner.get(path).body == b"before"


def store(tool: Tool, method: str, source: str, target: str, metadata: dict[str, str]) -> Answer:
    """Store the output of a storlet that sets ``metadata``."""
    said = {f"set_{key}": value for key, value in metadata.items()}
    if method == "PUT":
        return tool.put(target, BODY, **said)
    return tool.copy(source, target, **said)


#: Values that HTTP cannot carry in a header, and that a JSON text can have.
UNSENDABLE = ("a\nb", "a\r\nX-Backend-Replication: true", "\u6f22")


@pytest.mark.usefixtures("shared_storlets")
def test_a_request_of_a_storlet_to_the_store_is_no_error_of_a_node(
    owner: Client, plain: str, container: str, new_errors: Callable[[], list[str]]
) -> None:
    name, main = "requesting.py", "requesting.Asker"
    source = (SOURCES / "asker.py").read_bytes()
    headers = declaration("python", main, Services="read, list, write")
    assert owner.put(f"storlet/{name}", source, headers).status == 201
    here, made = f"/{plain}", f"/{container}/made"
    asked: list[tuple[str, dict[str, Any]]] = [
        ("open", {"path": here, "etag": UNSENDABLE[number % 3]}) for number in range(MANY)
    ]
    asked += [
        ("set_metadata", {"path": here, "changes": {"a": UNSENDABLE[0], UNSENDABLE[2]: "b"}}),
        ("set_metadata", {"path": here, "changes": {"Content-Type": UNSENDABLE[1]}}),
        ("create", {"path": made, "metadata": {"a": UNSENDABLE[1]}}),
        ("create", {"path": made, "content_type": UNSENDABLE[0]}),
        ("list", {"container": container, "prefix": UNSENDABLE[0], "marker": UNSENDABLE[2]}),
        ("open", {"path": here + UNSENDABLE[1]}),
    ]
    query = {"ask": json.dumps([["raw", *each] for each in asked])}
    answer = owner.get(plain, {"X-Run-Storlet": name}, query=query)
    assert answer.status == 200, answer
    outcomes = [outcome[:2] for outcome in json.loads(answer.body)]
    assert outcomes[: MANY + 4] == [["ServiceError", "bad_request"]] * (MANY + 4)
    assert new_errors() == []
    assert owner.get(plain).status == 200
    # Swift's proxy sends the client's other headers on with the object.
    many = {f"X-Unused-{number}": "x" for number in range(180)}
    query = {"ask": json.dumps([["create", made, "text"], ["copy", here, made]])}
    answer = owner.get(plain, {"X-Run-Storlet": name, **many}, query=query)
    assert answer.status == 200, answer
    assert ["too many headers" in outcome[2] for outcome in json.loads(answer.body)] == [True] * 2
    assert owner.head(made[1:]).status == 404
    assert new_errors() == []


#: Longer than Swift's names, and than the requests that its servers read; the same in bytes only.
TOO_LONG = ("n" * 1025, "n" * 5000, "\u6f22" * 342)


@pytest.mark.parametrize("word", TOO_LONG, ids=["name", "request", "bytes"])
def test_a_name_that_no_node_takes_is_refused_before_a_node_sees_it(
    owner: Client, plain: str, container: str, word: str, new_errors: Callable[[], list[str]]
) -> None:
    name, main = "naming.py", "naming.Asker"
    source = (SOURCES / "asker.py").read_bytes()
    headers = declaration("python", main, Services="read, list, write, delete, call")
    assert owner.put(f"storlet/{name}", source, headers).status == 201
    here, there = f"/{plain}", f"/{container}/{word}"
    asked = [
        ["open", there], ["stat", there], ["list", word], ["open", f"/{word}/o"],
        ["raw", "set_metadata", {"path": there, "changes": {}}], ["copy", here, there], ["copy", there, here],
        ["raw", "create", {"path": there}], ["delete", there],
        ["call", name, there], ["call", word, here], ["call", f"{word}.py", here],
    ]  # fmt: skip
    # Swift's limit of a request's line allows only one of the longest at a time.
    for each in asked:
        answer = owner.get(
            plain, {"X-Run-Storlet": name}, query={"ask": json.dumps([each], ensure_ascii=False)}
        )
        assert answer.status == 200, answer
        [outcome] = json.loads(answer.body)
        assert outcome[:2] == ["ServiceError", "bad_request"], each
        assert "bytes" in outcome[2], "the limit is named"
    if len(word) < 5000:
        for header in ("X-Storlet-Extra-Resources", "X-Storlet-Output"):
            answer = owner.get(plain, {"X-Run-Storlet": name, header: there})
            assert (answer.status, answer.error) == (400, "bad_request"), answer
            assert "1024 bytes" in answer.text
    answer = owner.get(plain, {"X-Run-Storlet": word})
    assert (answer.status, answer.error) == (400, "bad_request"), answer
    assert new_errors() == []
    assert owner.get(plain).status == 200


def test_the_manifest_of_a_bundle_is_no_error_of_a_node(
    owner: Client, new_errors: Callable[[], list[str]]
) -> None:
    for word in (UNSENDABLE[0], UNSENDABLE[2], "x" * 300):
        files = {"run": (b"#!/bin/sh\n", 0o755)}
        fields = {"language": "native", "main": "run", "files": ["run"], "arguments": [word]}
        packed = bundle("odd-words", files, **fields)
        assert owner.put("storlet/odd-words.storlet", packed).status == 201
    assert new_errors() == []
    assert owner.delete("storlet/odd-words.storlet").status == 204
