"""Odd paths and headers, and requests that Swift refuses late: nothing of a covered object
leaves."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.functional.wards import (
    CONTENT,
    ETAG,
    MASKED,
    RULES,
    Ward,
    assert_closed,
    make_ward,
    tells_length,
    told,
)
from tests.support.http import Answer, Client, fetch


@pytest.fixture(scope="module")
def ward(users: dict[str, Client]) -> Ward:
    made = make_ward(users)
    made.rule(RULES)
    return made


@pytest.fixture(scope="module")
def by_metadata(users: dict[str, Client]) -> Ward:
    """A ward whose rule needs the facts of an object's HEAD."""
    made = make_ward(users)
    made.rule(
        "version: 1\nrules:\n- {name: a, when: {metadata: {x: y}}, mandatory: true, run: mask.py}\n",
        accept=True,
    )
    return made


@pytest.fixture(scope="module")
def unruled(users: dict[str, Client]) -> Ward:
    return make_ward(users)


def raw(
    client: Client,
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> Answer:
    """A request for the account's URL followed by ``path`` as it is written, without quoting."""
    headers = {"X-Auth-Token": client.token, **(headers or {})}
    return fetch(client.storage_url + path, headers, method=method, body=body, timeout=60)


def assert_reveals_no_content(answer: Answer) -> None:
    assert "SECRET" not in told(answer), answer
    assert ETAG not in told(answer), answer
    assert not tells_length(told(answer)), answer


@pytest.mark.parametrize("query", ["", "?heartbeat=on"])
@pytest.mark.parametrize("path", ["/open/%ff", "/%ff/x", "/open/%00"])
def test_a_copy_with_an_invalid_path_reveals_nothing(ward: Ward, path: str, query: str) -> None:
    """Swift reads the source first, and with heartbeats its metadata is in the answer even if the
    copy fails."""
    answer = raw(ward.researcher, "PUT", path + query, {"X-Copy-From": "/patients/a.csv"})
    assert_reveals_no_content(answer)
    assert answer.status == 412, answer


@pytest.mark.parametrize(
    "headers",
    [
        {"Destination": "open/%ff"},
        {"Destination": "open/%00"},
        {"Destination": "open"},
        {"Destination": "open/x", "Destination-Account": "%ff"},
        {},
    ],
)
@pytest.mark.parametrize("query", ["", "?heartbeat=on"])
def test_a_copy_without_a_valid_destination_reveals_nothing(
    ward: Ward, headers: dict[str, str], query: str
) -> None:
    answer = raw(ward.researcher, "COPY", "/patients/a.csv" + query, headers)
    assert_reveals_no_content(answer)
    assert answer.status == 412, answer


@pytest.mark.parametrize("query", ["", "?heartbeat=on"])
def test_a_copy_with_a_source_account_header_reveals_nothing(
    ward: Ward, users: dict[str, Client], query: str
) -> None:
    own = users["test2:tester2"]
    assert own.put("loot").status in (201, 202)
    headers = {"Destination": "loot/x", "X-Copy-From-Account": ward.admin.account}
    assert_closed(raw(own, "COPY", "/patients/a.csv" + query, headers))


@pytest.mark.parametrize("path", ["//x", "//x/y", "//", "/"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST", "DELETE"])
def test_paths_without_a_container_are_left_to_swift(
    by_metadata: Ward, unruled: Ward, path: str, method: str
) -> None:
    expected, answer = raw(unruled.admin, method, path), raw(by_metadata.admin, method, path)
    assert (answer.status, answer.body) == (expected.status, expected.body)


def test_a_copy_of_an_old_version_is_decided_by_that_version(users: dict[str, Client]) -> None:
    """The version's size and metadata decide, not the current object's."""
    ward = make_ward(users)
    ward.rule(
        "version: 1\nrules:\n- {name: hide, when: {method: GET, metadata: {study: '7'}}, mandatory: true, run: mask.py}\n"
    )
    assert ward.admin.put("kept", b"", {"X-Versions-Enabled": "true"}).status == 201
    assert ward.admin.put("kept/o", CONTENT, {"X-Object-Meta-Study": "7"}).status == 201
    old = ward.admin.listing("kept", versions="")[0]["version_id"]
    assert ward.admin.put("kept/o", b"new").status == 201
    assert ward.admin.get("kept/o").body == b"new"
    for method, path, headers in (
        ("COPY", "kept/o", {"Destination": "open/copied"}),
        ("PUT", "open/copied", {"X-Copy-From": "kept/o", "Content-Length": "0"}),
    ):
        assert ward.admin.request(method, path, headers, query={"version-id": old}).status == 201
        assert ward.admin.get("open/copied").body == MASKED
        assert ward.admin.delete("open/copied").status == 204
