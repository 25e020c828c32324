"""Answers that could reveal a covered object without reading it: links, manifests, containers,
refused requests."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.functional.wards import (
    CONTENT,
    ETAG,
    MASKED,
    PHYSICIAN,
    RESEARCHER,
    RULES,
    Ward,
    assert_closed,
    make_ward,
    tells_length,
    told,
)
from tests.support.accounts import unique
from tests.support.http import Client

STATIC = {"X-Symlink-Target": "patients/a.csv", "X-Symlink-Target-Etag": ETAG}


@pytest.fixture(scope="module")
def ward(users: dict[str, Client]) -> Ward:
    made = make_ward(users)
    made.rule(RULES)
    return made


@pytest.fixture(scope="module")
def unruled(users: dict[str, Client]) -> Ward:
    return make_ward(users)


@pytest.fixture
def blank(unruled: Ward) -> Iterator[Ward]:
    """A ward without rules; those of the test are deleted."""
    yield unruled
    assert unruled.admin.delete("storlet_rules/rules.yaml").status in (204, 404)


def test_a_post_to_a_link_reveals_nothing_of_its_target(ward: Ward) -> None:
    assert ward.physician.put("open/static", b"", STATIC).status == 201
    assert_closed(ward.researcher.post("open/static", {"X-Object-Meta-A": "b"}))
    link = {"X-Symlink-Target": "open/a.csv", "X-Symlink-Target-Etag": ETAG}
    assert ward.physician.put("patients/static", b"", link).status == 201
    assert_closed(ward.researcher.post("patients/static", {"X-Object-Meta-A": "b"}))
    assert ward.physician.post("open/static", {"X-Object-Meta-A": "b"}).status == 307
    dynamic = {"X-Symlink-Target": "open/a.csv"}
    assert ward.physician.put("patients/dynamic", b"", dynamic).status == 201
    assert_closed(ward.researcher.post("patients/dynamic", {"X-Object-Meta-A": "b"}))
    assert ward.physician.post("patients/dynamic", {"X-Object-Meta-A": "b"}).status == 307


def test_a_static_link_in_an_account_without_rules(ward: Ward, users: dict[str, Client]) -> None:
    own, container = users[PHYSICIAN], unique("links")
    assert own.put(container, b"", {"X-Container-Read": RESEARCHER}).status == 201
    link = STATIC | {"X-Symlink-Target-Account": ward.admin.account}
    assert own.put(f"{container}/l", b"", link).status == 201
    reader = users[RESEARCHER].on(own.account)
    for query in ("", "symlink=get"):
        assert_closed(reader.get(f"{container}/l", query=query))
        assert reader.head(f"{container}/l", query=query).status == 403
    assert own.head(f"{container}/l", query="symlink=get").status == 200
    assert own.delete(f"{container}/l").status == 204


def assert_conflict(ward: Ward, link: str) -> None:
    """Each read of a static link whose target was replaced is refused, and a conflict for a reader
    that no rule covers."""
    copy = {"Destination": "open/loot"}
    run = {"X-Run-Storlet": "mark.py"}
    for answer in (
        ward.researcher.get(link),
        ward.researcher.request("COPY", link, copy),
        ward.researcher.put("open/loot", b"", {"X-Copy-From": link}),
        ward.researcher.get(link, run),
        ward.researcher.get("open/a.csv", run | {"X-Storlet-Extra-Resources": f"/{link}"}),
        *(
            ward.researcher.put(
                "open/loot", b"", {"X-Symlink-Target": link, "X-Symlink-Target-Etag": etag}
            )
            for etag in (ETAG, "0" * 32)
        ),
    ):
        assert_closed(answer)
    assert ward.researcher.head(link).status == 403
    for answer in (
        ward.physician.get(link),
        ward.physician.head(link),
        ward.physician.request("COPY", link, copy),
        ward.physician.get(link, run),
    ):
        assert answer.status == 409, answer


def test_a_static_link_to_a_link_that_was_replaced(ward: Ward) -> None:
    """Swift's conflict quotes the ETag that the link has: that of a covered object."""
    middle = {"X-Symlink-Target": "open/middle", "X-Symlink-Target-Etag": ETAG}
    assert ward.physician.put("open/middle", b"", STATIC).status == 201
    assert ward.physician.put("open/stale", b"", middle).status == 201
    assert ward.physician.put("open/middle", b"plain").status == 201
    assert_conflict(ward, "open/stale")
    wrong = {"X-Symlink-Target": "open/middle", "X-Symlink-Target-Etag": ETAG}
    answer = ward.researcher.put("open/other", b"", wrong)
    assert answer.status == 409, answer


def test_a_static_link_whose_target_was_replaced_under_a_rule_on_metadata(blank: Ward) -> None:
    ward, secret = blank, {"X-Object-Meta-Class": "secret"}
    rule = RULES.replace("container: {prefix: patients}", "metadata: {class: secret}")
    link = {"X-Symlink-Target": "open/target", "X-Symlink-Target-Etag": ETAG}
    assert ward.physician.put("open/target", CONTENT, secret).status == 201
    assert ward.physician.put("open/stale", b"", link).status == 201
    ward.rule(rule)
    assert ward.researcher.get("open/stale").body == MASKED
    for headers in ({}, secret):
        assert ward.physician.put("open/target", b"another", headers).status == 201
        assert_conflict(ward, "open/stale")
        assert_closed(ward.researcher.post("open/stale", {"X-Object-Meta-A": "b"}))
    assert ward.researcher.delete("open/stale").status == 204
    for name, target in (("one", "two"), ("two", "one")):
        loop = {"X-Symlink-Target": f"open/{target}"}
        assert ward.researcher.put(f"open/{name}", b"", loop).status == 201
    assert ward.researcher.get("open/one").status == 409
    assert ward.researcher.delete("open/one").status == 204


def test_a_large_object_of_links(ward: Ward) -> None:
    physician, researcher = ward.physician, ward.researcher
    assert physician.put("open/link", b"", {"X-Symlink-Target": "patients/a.csv"}).status == 201
    assert physician.put("open/link2", b"", {"X-Symlink-Target": "open/link"}).status == 201
    for names in (["link"], ["a.csv", "link2"]):
        manifest = json.dumps([{"path": f"/open/{name}"} for name in names]).encode()
        assert (
            physician.put("open/of-links", manifest, query={"multipart-manifest": "put"}).status
            == 201
        )
        assert_closed(researcher.get("open/of-links"))
        assert_closed(researcher.get("open/of-links", query={"multipart-manifest": "get"}))
        assert_closed(researcher.get("open/of-links", {"If-None-Match": "*"}))
        head = researcher.head("open/of-links")
        assert (head.status, head.headers["Etag"]) == (403, None), head
    manifest = json.dumps([{"path": "/open/a.csv"}]).encode()
    assert (
        physician.put("open/of-links", manifest, query={"multipart-manifest": "put"}).status == 201
    )
    assert researcher.get("open/of-links").body == CONTENT


def test_a_covered_owner_sets_no_quota_on_covered_objects(users: dict[str, Client]) -> None:
    ward = make_ward(users)
    quota = {"X-Container-Meta-Quota-Bytes": "100000"}
    assert ward.admin.post("patients", quota).status == 204
    ward.rule(RULES.replace("any: [", 'any: [{user: "admin:admin"}, '))
    for method in ("POST", "PUT"):
        answer = ward.admin.request(method, "patients", quota | {"X-Container-Meta-Color": "red"})
        assert_closed(answer)
    assert ward.admin.head("patients").headers["X-Container-Meta-Color"] is None
    assert ward.admin.post("patients", {"X-Container-Meta-Color": "red"}).status == 204
    assert ward.admin.post("open", quota).status == 204


def test_a_container_of_covered_objects_hides_their_total_size(
    ward: Ward, users: dict[str, Client]
) -> None:
    other = make_ward(users)
    other.rule(RULES)
    for method in ("GET", "HEAD"):
        answer = other.researcher.request(method, "patients")
        assert answer.headers["X-Container-Bytes-Used"] == "0", answer
        assert not tells_length(told(answer))
        assert other.physician.request(method, "patients").headers["X-Container-Bytes-Used"] != "0"
        assert other.researcher.request(method, "open").headers["X-Container-Bytes-Used"] != "0"


def test_an_archive_of_covered_objects_hides_their_total_size(users: dict[str, Client]) -> None:
    ward = make_ward(users)
    admin, acl = ward.admin, f"{RESEARCHER},{PHYSICIAN}"
    assert admin.put("archive", b"", {"X-Container-Read": acl}).status == 201
    assert admin.post("patients", {"X-Versions-Location": "archive"}).status == 204
    ward.rule(RULES.replace("any: [", 'any: [{user: "admin:admin"}, '))
    quota = {"X-Container-Meta-Quota-Bytes": "100000"}
    assert admin.post("archive", quota).status == 204, "an empty container"
    assert ward.physician.put("patients/a.csv", b"new").status == 201
    for client in (ward.researcher, admin):
        for method in ("GET", "HEAD"):
            answer = client.request(method, "archive")
            assert answer.headers["X-Container-Bytes-Used"] == "0", answer
    assert ward.physician.head("archive").headers["X-Container-Bytes-Used"] == str(len(CONTENT))
    assert_closed(admin.post("archive", quota))


def test_a_deletion_does_not_show_whether_a_covered_object_is_large(ward: Ward) -> None:
    manifest, query = (
        json.dumps([{"path": "/patients/a.csv"}]).encode(),
        {"multipart-manifest": "put"},
    )
    large, plain = unique("patients/large"), unique("patients/plain")
    assert ward.admin.put(large, manifest, query=query).status == 201
    assert ward.admin.put(plain, CONTENT).status == 201
    answers = []
    for name in (large, plain):
        link = unique("open/link")
        assert ward.researcher.put(link, b"", {"X-Symlink-Target": name}).status == 201
        for path in (name, link):
            answer = ward.researcher.delete(path, query={"multipart-manifest": "delete"})
            answers.append((answer.status, answer.error, answer.text.replace(path, "")))
        assert_closed(ward.researcher.delete(name, query={"multipart-manifest": "delete"}))
        assert ward.researcher.delete(name).status == 204
    assert answers[:2] == answers[2:]
    assert ward.admin.get("patients/a.csv").body == CONTENT


def test_a_head_of_the_link_itself_shows_that_it_exists(ward: Ward) -> None:
    """S3's DELETE sends this HEAD before it deletes."""
    answer = ward.researcher.head("patients/a.csv", query="symlink=get")
    assert (answer.status, answer.headers["X-Storlet-Rule"]) == (200, "hide"), answer
    for header in (
        "Etag",
        "Last-Modified",
        "X-Timestamp",
        "X-Object-Meta-Patient",
        "X-Symlink-Target",
    ):
        assert answer.headers[header] is None, (header, answer)


def test_a_rules_result_is_not_stored_in_code_containers(ward: Ward) -> None:
    for container in ("storlet", "dependency"):
        assert ward.admin.post(container, {"X-Container-Write": RESEARCHER}).status == 204
        answer = ward.researcher.request(
            "COPY", "patients/a.csv", {"Destination": f"{container}/x.py"}
        )
        assert_closed(answer)
        assert ward.admin.head(f"{container}/x.py").status == 404


def test_a_copy_stores_no_link_where_a_rule_requires_bytes(users: dict[str, Client]) -> None:
    ward = make_ward(users)
    ward.rule(
        "version: 1\nrules:\n- {name: scrub, when: {method: PUT, container: patients}, mandatory: true, run: mask.py}\n"
    )
    for header in ({"X-Object-Manifest": "open/a"}, {"X-Symlink-Target": "open/a.csv"}):
        for method, path, headers in (
            ("COPY", "open/a.csv", {"Destination": "patients/new"}),
            ("PUT", "patients/new", {"X-Copy-From": "open/a.csv", "Content-Length": "0"}),
        ):
            assert_closed(ward.researcher.request(method, path, headers | header), "scrub")
    assert (
        ward.researcher.request("COPY", "open/a.csv", {"Destination": "patients/new"}).status == 201
    )
    assert ward.admin.get("patients/new").body == MASKED


def test_a_link_itself_can_be_read_where_rules_test_objects(blank: Ward) -> None:
    ward = blank
    ward.rule(
        "version: 1\nrules:\n- {name: a, when: {method: GET, metadata: {x: y}}, mandatory: true, run: mask.py}\n"
    )
    for target in ("open/a.csv", "open/none"):
        assert ward.physician.put("open/link", b"", {"X-Symlink-Target": target}).status == 201
        for method in ("GET", "HEAD"):
            answer = ward.physician.request(method, "open/link", query="symlink=get")
            assert (answer.status, answer.headers["X-Symlink-Target"]) == (200, target), answer


@pytest.mark.parametrize("headers", [{}, {"Destination": "open"}, {"Destination": "/"}])
def test_copies_that_swift_refuses_keep_swifts_answer(
    ward: Ward, blank: Ward, headers: dict[str, str]
) -> None:
    expected = blank.physician.request("COPY", "open/a.csv", headers)
    answer = ward.physician.request("COPY", "open/a.csv", headers)
    assert (answer.status, answer.body, answer.error) == (expected.status, expected.body, None)


@pytest.mark.parametrize("path", ["open/a\0b", "open/" + 1100 * "x"])
def test_swift_answers_requests_for_missing_objects(blank: Ward, path: str) -> None:
    ward = blank
    expected = {method: ward.researcher.request(method, path) for method in ("GET", "HEAD", "POST")}
    version = ward.admin.get("open/a.csv", query="version-id=1795320159.25948")
    ward.rule(
        "version: 1\nrules:\n- {name: a, when: {method: GET, metadata: {x: y}}, mandatory: true, run: mask.py}\n"
    )
    for method, answer in expected.items():
        assert ward.researcher.request(method, path).status == answer.status
    assert (
        ward.admin.get("open/a.csv", query="version-id=1795320159.25948").status == version.status
    )


def test_the_object_read_is_the_object_that_was_decided_on(users: dict[str, Client]) -> None:
    """An object changes all the time between one that is covered and one that is not; no reader
    receives the one as the other."""
    ward = make_ward(users)
    ward.rule(
        "version: 1\nrules:\n- {name: hide, when: {method: GET, metadata: {study: '7'}, "
        f'user: "{RESEARCHER}"}}, mandatory: true, run: mask.py}}\n'
    )
    end = time.monotonic() + 2

    def change() -> None:
        while time.monotonic() < end:
            ward.admin.put("open/f", CONTENT, {"X-Object-Meta-Study": "7"})
            ward.admin.put("open/f", b"harmless", {"X-Object-Meta-Study": "8"})

    def read(method: str, headers: dict[str, str], copy: str = "") -> set[int]:
        statuses = set()
        while time.monotonic() < end:
            answer = ward.researcher.request(method, "open/f", headers)
            statuses.add(answer.status)
            assert "SECRET" not in told(answer)
            assert not copy or answer.status != 201 or b"SECRET" not in ward.admin.get(copy).body
        return statuses

    with ThreadPoolExecutor(6) as pool:
        changing = [pool.submit(change) for _ in range(2)]
        reading = [
            pool.submit(read, "GET", {}),
            pool.submit(read, "GET", {"X-Run-Storlet": "mark.py"}),
            pool.submit(read, "COPY", {"Destination": "open/g"}, "open/g"),
            pool.submit(
                read, "COPY", {"Destination": "open/h", "X-Run-Storlet": "mark.py"}, "open/h"
            ),
        ]
        assert {status for each in reading for status in each.result()} <= {200, 201, 403, 404, 503}
        assert [each.result() for each in changing] == [None, None]


@pytest.mark.parametrize("query", ["symlink=get", "multipart-manifest=get"])
def test_copies_of_links_and_manifests_themselves(blank: Ward, query: str) -> None:
    ward = blank
    ward.rule(
        "version: 1\nrules:\n- {name: a, when: {method: GET, metadata: {x: y}, container: open}, mandatory: true, run: mask.py}\n"
    )
    manifest = json.dumps([{"path": "/patients/a.csv"}]).encode()
    assert ward.admin.put("open/large", manifest, query={"multipart-manifest": "put"}).status == 201
    assert ward.admin.put("open/link", b"", {"X-Symlink-Target": "open/large"}).status == 201
    for name in ("large", "link", "a.csv"):
        answer = ward.admin.request(
            "COPY", f"open/{name}", {"Destination": "open/copied"}, query=query
        )
        assert answer.status == 201, answer
        assert ward.admin.get("open/copied").body == CONTENT
