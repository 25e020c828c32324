"""Rules in force: what they run and refuse, and that no request bypasses a mandatory rule."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator

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
    assert_masked,
    make_ward,
    tells_length,
    told,
)
from tests.support.accounts import unique
from tests.support.http import Answer, Client


@pytest.fixture(scope="module")
def ward(users: dict[str, Client]) -> Ward:
    made = make_ward(users)
    made.rule(RULES)
    return made


@pytest.fixture(scope="module")
def plain(users: dict[str, Client]) -> Ward:
    """Without rules, for tests that set their own."""
    return make_ward(users)


# --- effects of a rule
# -----------------------------------------------------------------------------


def test_a_mandatory_rule_runs_its_storlet_without_a_header(ward: Ward) -> None:
    answer = ward.researcher.get("patients/a.csv")
    assert_masked(answer)
    assert answer.meta("Masked") == "yes"
    assert answer.headers["X-Storlet-Invocation"]


def test_callers_outside_the_rule_get_the_object_itself(ward: Ward) -> None:
    answer = ward.physician.get("patients/a.csv")
    assert (answer.status, answer.body, answer.headers["Etag"]) == (200, CONTENT, ETAG)
    assert answer.headers["X-Storlet-Rule"] is None


def test_requests_without_a_rule_are_unchanged(ward: Ward) -> None:
    answer = ward.researcher.get("open/a.csv", {"Range": "bytes=0-9"})
    assert (answer.status, answer.body) == (206, CONTENT[:10])


# --- requests that a mandatory rule closes
# ------------------------------------------------------------

CLOSED: dict[str, Callable[[Client], Answer]] = {
    "range": lambda c: c.get("patients/a.csv", {"Range": "bytes=0-9"}),
    "several ranges": lambda c: c.get("patients/a.csv", {"Range": "bytes=0-9,20-29"}),
    "range of a HEAD": lambda c: c.head("patients/a.csv", {"Range": "bytes=0-9"}),
    "if-match": lambda c: c.get("patients/a.csv", {"If-Match": ETAG}),
    "if-none-match": lambda c: c.get("patients/a.csv", {"If-None-Match": ETAG}),
    "if-none-match of a HEAD": lambda c: c.head("patients/a.csv", {"If-None-Match": "*"}),
    "if-modified-since": lambda c: c.get(
        "patients/a.csv", {"If-Modified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"}
    ),
    "if-unmodified-since": lambda c: c.get(
        "patients/a.csv", {"If-Unmodified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"}
    ),
    "manifest": lambda c: c.get("patients/a.csv", query={"multipart-manifest": "get"}),
    "link itself": lambda c: c.get("patients/a.csv", query={"symlink": "get"}),
    "part": lambda c: c.get("patients/a.csv", query={"part-number": "1"}),
    "own storlet": lambda c: c.get("patients/a.csv", {"X-Run-Storlet": "mark.py"}),
    "own storlet on the proxy": lambda c: c.get(
        "patients/a.csv", {"X-Run-Storlet": "mark.py", "X-Storlet-Run-On-Proxy": ""}
    ),
    "own storlet on a range": lambda c: c.get(
        "patients/a.csv", {"X-Run-Storlet": "mark.py", "X-Storlet-Range": "bytes=0-9"}
    ),
    "own storlet's copy": lambda c: c.request(
        "COPY", "patients/a.csv", {"X-Run-Storlet": "mark.py", "Destination": "open/stolen"}
    ),
    "extra resource": lambda c: c.get(
        "open/a.csv", {"X-Run-Storlet": "mark.py", "X-Storlet-Extra-Resources": "/patients/a.csv"}
    ),
    "extra resource of a PUT": lambda c: c.put(
        "open/stolen",
        b"x",
        {"X-Run-Storlet": "mark.py", "X-Storlet-Extra-Resources": "/patients/a.csv"},
    ),
    "copy with fresh metadata": lambda c: c.request(
        "COPY", "patients/a.csv", {"Destination": "open/stolen", "X-Fresh-Metadata": "true"}
    ),
    "copy of a range": lambda c: c.put(
        "open/stolen", b"", {"X-Copy-From": "/patients/a.csv", "Range": "bytes=0-9"}
    ),
    "link over it, with its hash": lambda c: c.put(
        "open/stolen", b"", {"X-Symlink-Target": "patients/a.csv", "X-Symlink-Target-Etag": ETAG}
    ),
    "manifest over it": lambda c: c.put(
        "open/stolen",
        json.dumps([{"path": "/patients/a.csv"}]).encode(),
        query={"multipart-manifest": "put"},
    ),
}


@pytest.mark.parametrize("way", CLOSED)
def test_no_request_bypasses_a_mandatory_rule(ward: Ward, way: str) -> None:
    answer = CLOSED[way](ward.researcher)
    if way == "manifest over it":
        # Swift names each segment that it could not read, in its own response.
        assert answer.status in (400, 403), answer
        assert ETAG not in told(answer)
    else:
        assert_closed(answer)
    assert ward.admin.head("open/stolen").status == 404


def test_a_copy_is_the_result_of_the_rule(ward: Ward) -> None:
    for method, path, headers in (
        ("COPY", "patients/a.csv", {"Destination": "open/copy1"}),
        ("PUT", "open/copy1", {"X-Copy-From": "/patients/a.csv", "Content-Length": "0"}),
    ):
        answer = ward.researcher.request(method, path, headers)
        assert answer.status == 201, answer
        assert "SECRET" not in told(answer)
        copied = ward.admin.get("open/copy1")
        assert copied.body == MASKED
        assert "SECRET" not in told(copied)
        assert copied.meta("Study") is None
        assert ward.admin.delete("open/copy1").status == 204


def test_a_copy_to_another_account_is_refused(ward: Ward, users: dict[str, Client]) -> None:
    own = users[RESEARCHER]
    assert own.put("loot").status in (201, 202)
    headers = {
        "X-Copy-From": "/patients/a.csv",
        "X-Copy-From-Account": ward.admin.account,
        "Content-Length": "0",
    }
    assert_closed(own.put("loot/a", b"", headers))
    headers = {"Destination": "loot/a", "Destination-Account": own.account}
    assert_closed(ward.researcher.request("COPY", "patients/a.csv", headers))
    assert own.head("loot/a").status == 404


def test_head_shows_only_that_the_object_exists(ward: Ward) -> None:
    answer = ward.researcher.head("patients/a.csv")
    assert (answer.status, answer.headers["X-Storlet-Rule"]) == (200, "hide"), answer
    assert "SECRET" not in told(answer)
    for header in ("Etag", "Last-Modified", "X-Timestamp", "X-Object-Meta-Study", "Accept-Ranges"):
        assert answer.headers[header] is None, (header, answer)
    # Swift logs 0 bytes for an answer without a body.
    assert answer.headers["Content-Length"] in (None, "0")
    assert ward.researcher.head("patients/none").status == 404


def test_links_do_not_bypass_a_rule(ward: Ward, users: dict[str, Client]) -> None:
    name = unique("open/link")
    assert ward.admin.put(name, b"", {"X-Symlink-Target": "patients/a.csv"}).status == 201
    assert ward.physician.get(name).body == CONTENT
    assert_closed(ward.researcher.get(name))
    assert_closed(ward.researcher.get(name, {"Range": "bytes=0-9"}))
    assert_closed(ward.researcher.get(name, {"X-Run-Storlet": "mark.py"}))
    assert_closed(ward.researcher.request("COPY", name, {"Destination": "open/stolen"}))
    head = ward.researcher.head(name)
    assert (head.status, head.error) == (403, "access.rule"), head
    assert head.headers["Etag"] is None
    # From the caller's own account, which has no rules.
    own = users[RESEARCHER]
    assert own.put("loot").status in (201, 202)
    link = {"X-Symlink-Target": "patients/a.csv", "X-Symlink-Target-Account": ward.admin.account}
    assert own.put("loot/link", b"", link).status == 201
    assert_closed(own.get("loot/link"))
    assert own.head("loot/link").status == 403
    assert own.delete("loot/link").status == 204


def test_static_large_objects_over_covered_segments(ward: Ward) -> None:
    manifest = json.dumps([{"path": "/open/a.csv"}, {"path": "/patients/a.csv"}]).encode()
    name = unique("open/large")
    assert ward.admin.put(name, manifest, query={"multipart-manifest": "put"}).status == 201
    assert ward.physician.get(name).body == CONTENT * 2
    for headers in (
        {},
        {"Range": "bytes=0-9"},
        {"Range": f"bytes={len(CONTENT)}-"},
        {"X-Run-Storlet": "mark.py"},
    ):
        assert_closed(ward.researcher.get(name, headers))
    assert_closed(ward.researcher.request("COPY", name, {"Destination": "open/stolen"}))
    head = ward.researcher.head(name)
    assert (head.status, head.headers["Etag"]) == (403, None), head
    assert ward.admin.head("open/stolen").status == 404


def test_dynamic_large_objects_over_covered_segments(ward: Ward) -> None:
    name = unique("open/dynamic")
    assert ward.admin.put(name, b"", {"X-Object-Manifest": "patients/a"}).status == 201
    assert ward.physician.get(name).body == CONTENT
    assert_closed(ward.researcher.get(name))
    assert_closed(ward.researcher.get(name, {"X-Run-Storlet": "mark.py"}))
    head = ward.researcher.head(name)
    assert (head.status, head.headers["Etag"]) == (403, None), head


def test_large_objects_that_are_covered_go_through_the_storlet_as_a_whole(ward: Ward) -> None:
    manifest = json.dumps([{"path": "/patients/a.csv"}, {"path": "/patients/a.csv"}]).encode()
    name = unique("patients/large")
    assert ward.admin.put(name, manifest, query={"multipart-manifest": "put"}).status == 201
    answer = ward.researcher.get(name)
    assert (answer.status, answer.body) == (200, MASKED * 2), answer
    assert ward.admin.delete(name).status == 204


def test_listings_show_only_names(ward: Ward) -> None:
    (entry,) = ward.researcher.listing("patients", prefix="a.csv")
    assert (entry["name"], entry["hash"], entry["bytes"]) == ("a.csv", "", 0)
    assert "csv" not in entry["content_type"]
    (entry,) = ward.physician.listing("patients", prefix="a.csv")
    assert (entry["hash"], entry["bytes"]) == (ETAG, len(CONTENT))
    xml = ward.researcher.get("patients", query={"format": "xml"})
    assert (xml.status, ETAG in xml.text) == (200, False)
    assert "a.csv" in ward.researcher.get("patients").text


def test_total_sizes_are_hidden(ward: Ward) -> None:
    for method in ("GET", "HEAD"):
        told_to_researcher = ward.researcher.request(method, "patients")
        assert told_to_researcher.status in (200, 204)
        assert told_to_researcher.headers["X-Container-Bytes-Used"] == "0"
        assert told_to_researcher.headers["X-Container-Object-Count"] is not None
        assert int(
            ward.physician.request(method, "patients").headers["X-Container-Bytes-Used"]
        ) >= len(CONTENT)


def test_total_sizes_of_an_account_are_hidden_from_an_owner_under_a_rule(
    users: dict[str, Client],
) -> None:
    ward = make_ward(users)
    ward.rule(RULES.replace(RESEARCHER, "admin:admin"))
    for query in ({"format": "json"}, {"format": "xml"}, {}):
        answer = ward.admin.get("", query=query)
        assert answer.status == 200, answer
        assert {value for name, value in answer.headers.items() if name.endswith("Bytes-Used")} == {
            "0"
        }, answer
        assert "patients" in answer.text
        assert not tells_length(answer.text)


def test_old_versions_are_as_covered_as_the_object(users: dict[str, Client]) -> None:
    """Only an account's owner may read them, so the rule is about owners."""
    ward = make_ward(users)
    assert ward.admin.put("patients-kept", b"", {"X-Versions-Enabled": "true"}).status == 201
    for content in (CONTENT, b"short SECRET"):
        assert ward.admin.put("patients-kept/o", content).status == 201
    versions = ward.admin.listing("patients-kept", versions="")
    old = next(each["version_id"] for each in versions if each["bytes"] == len(CONTENT))
    ward.rule(RULES.replace(RESEARCHER, "admin:admin"))
    assert_masked(ward.admin.get("patients-kept/o", query={"version-id": old}))
    assert ward.admin.get("patients-kept/o").body == b"short ------"
    assert ward.admin.head("patients-kept/o", query={"version-id": old}).headers["Etag"] is None
    listed = ward.admin.listing("patients-kept", versions="")
    assert {(each["hash"], each["bytes"]) for each in listed} == {("", 0)}
    assert_closed(
        ward.admin.get("patients-kept/o", {"Range": "bytes=0-9"}, query={"version-id": old})
    )


def test_archived_versions_are_as_covered_as_the_object(ward: Ward) -> None:
    acl = {"X-Container-Read": RESEARCHER, "X-Container-Write": RESEARCHER}
    assert ward.admin.put("archive", b"", acl).status == 201
    assert (
        ward.admin.put("patients-old", b"", acl | {"X-Versions-Location": "archive"}).status == 201
    )
    for content in (CONTENT, b"new"):
        assert ward.admin.put("patients-old/o", content).status == 201
    (entry,) = ward.admin.listing("archive")
    assert_closed(ward.researcher.get(f"archive/{entry['name']}"))
    assert_closed(
        ward.researcher.request("COPY", f"archive/{entry['name']}", {"Destination": "open/stolen"})
    )
    head = ward.researcher.head(f"archive/{entry['name']}")
    assert (head.status, head.headers["Etag"]) == (403, None)
    assert {each["hash"] for each in ward.researcher.listing("archive")} == {""}
    assert ward.admin.get(f"archive/{entry['name']}").body == CONTENT


def test_a_signed_url_gets_the_result_of_the_rule(ward: Ward) -> None:
    assert ward.admin.post("", {"X-Account-Meta-Temp-URL-Key": "key"}).status in (201, 204)
    path, expires = ward.admin.version_url.path + "/patients/a.csv", int(time.time()) + 300
    anonymous = Client(ward.admin.storage_url, "")
    for method in ("GET", "HEAD"):
        signature = hmac.new(
            b"key", f"{method}\n{expires}\n{path}".encode(), hashlib.sha256
        ).hexdigest()
        query = {"temp_url_sig": signature, "temp_url_expires": str(expires)}
        answer = anonymous.request(method, "patients/a.csv", query=query)
        assert answer.status == 200, answer
        assert "SECRET" not in told(answer)
        if method == "GET":
            assert answer.body == MASKED
            closed = anonymous.request(
                method, "patients/a.csv", {"Range": "bytes=0-9"}, query=query
            )
            assert_closed(closed)


def test_static_pages_are_covered(ward: Ward) -> None:
    """``staticweb`` serves anonymous visitors; the storlet must be readable to them too."""
    acl = {"X-Container-Read": ".r:*,.rlistings", "X-Container-Meta-Web-Index": "index.html"}
    assert ward.admin.put("patients-web", b"", acl).status == 201
    assert (
        ward.admin.put("patients-web/index.html", CONTENT, {"Content-Type": "text/html"}).status
        == 201
    )
    anonymous = Client(ward.admin.storage_url, "")
    answer = anonymous.get("patients-web/")
    assert answer.status in (401, 403), answer
    assert "SECRET" not in told(answer)
    acl = {"X-Container-Read": f".r:*,{RESEARCHER},{PHYSICIAN}"}
    assert ward.admin.post("storlet", acl).status == 204
    try:
        answer = anonymous.get("patients-web/")
        assert (answer.status, answer.body) == (200, MASKED), answer
    finally:
        assert (
            ward.admin.post("storlet", {"X-Container-Read": f"{RESEARCHER},{PHYSICIAN}"}).status
            == 204
        )


@pytest.mark.parametrize(
    "condition", ['client-address: "127.0.0.0/8"', f'user: "{RESEARCHER}"', "header: {a: b}"]
)
def test_pages_that_staticweb_makes_are_covered(users: dict[str, Client], condition: str) -> None:
    """Its own requests, for listings and pages of errors, lack facts of the client's."""
    ward, web = make_ward(users), {"X-Web-Mode": "true"}
    pages = {"X-Container-Meta-Web-Listings": "true", "X-Container-Meta-Web-Error": "error.html"}
    assert ward.admin.post("patients", pages).status == 204
    assert ward.admin.put("patients/404error.html", CONTENT).status == 201
    assert "4Ki" in ward.researcher.get("patients/", web).text
    assert ward.researcher.get("patients/none", web).body == CONTENT
    ward.rule(
        f"version: 1\nrules:\n- name: hide\n  when: {{method: GET, container: patients, {condition}}}"
        "\n  mandatory: true\n  run: mask.py\n"
    )
    listing = ward.researcher.get("patients/", web)
    assert (listing.status, "4Ki" in listing.text) == (200, False), listing
    answer = ward.researcher.get("patients/none", web)
    assert (answer.status, answer.body) == (404, MASKED), answer


def test_callers_under_a_rule_cannot_change_settings_that_copy_data(
    users: dict[str, Client],
) -> None:
    """In Swift only an account's owner can set these; this is for rules about owners."""
    other = make_ward(users)
    other.rule(RULES.replace(RESEARCHER, "admin:admin"))
    for header in ("X-Versions-Location", "X-History-Location", "X-Container-Sync-To"):
        assert_closed(other.admin.post("patients", {header: "open"}))


def test_a_rule_applies_to_erasure_coded_objects(users: dict[str, Client]) -> None:
    ward = make_ward(users, policy="ec21")
    ward.rule(RULES)
    assert_masked(ward.researcher.get("patients/a.csv"))
    assert_closed(ward.researcher.get("patients/a.csv", {"Range": "bytes=0-9"}))
    assert ward.researcher.head("patients/a.csv").headers["Etag"] is None


def test_a_deleted_storlet_of_a_rule_closes_the_object(users: dict[str, Client]) -> None:
    ward = make_ward(users)
    ward.rule(RULES)
    assert ward.admin.delete("storlet/mask.py").status == 204
    answer = ward.researcher.get("patients/a.csv")
    assert (answer.status, answer.headers["X-Storlet-Rule"]) == (422, "hide"), answer
    assert "SECRET" not in told(answer)


# --- explicit storlets and pipelines --------------------------------------------------------------


@pytest.fixture
def ruled(plain: Ward) -> Iterator[Callable[[str], Ward]]:
    """Gives the account other rules for one test."""

    def rule(text: str) -> Ward:
        plain.rule("version: 1\nrules:\n" + text, accept=True)
        return plain

    yield rule
    assert plain.admin.delete("storlet_rules/rules.yaml").status in (204, 404)


def test_a_storlet_of_the_client_runs_after_a_mandatory_one(ruled: Callable[[str], Ward]) -> None:
    ward = ruled(
        "  - {name: hide, when: {method: GET, container: patients}, mandatory: true, explicit: after, run: mask.py}\n"
    )
    answer = ward.researcher.get(
        "patients/a.csv", {"X-Run-Storlet": "mark.py"}, query={"mark": "* "}
    )
    assert answer.status == 200, answer
    assert answer.body == b"".join(b"* " + line for line in MASKED.splitlines(keepends=True))


def test_a_storlet_of_the_client_replaces_an_ordinary_rules_storlet(
    ruled: Callable[[str], Ward],
) -> None:
    ward = ruled("  - {name: soft, when: {method: GET, container: patients}, run: mask.py}\n")
    assert ward.researcher.get("patients/a.csv").body == MASKED
    answer = ward.researcher.get("patients/a.csv", {"X-Run-Storlet": "mark.py"}, query={"mark": ""})
    assert (answer.status, answer.body) == (200, CONTENT)


def test_a_rule_with_two_storlets_runs_both(ruled: Callable[[str], Ward]) -> None:
    ward = ruled(
        "  - name: both\n    when: {method: GET, container: patients}\n    run:\n      - mask.py\n"
        '      - {storlet: mark.py, parameters: {mark: "{object}: "}}\n'
    )
    answer = ward.physician.get("patients/a.csv")
    assert answer.status == 200, answer
    assert answer.body == b"".join(b"a.csv: " + line for line in MASKED.splitlines(keepends=True))


def test_an_ordinary_rule_before_a_mandatory_one_opens_nothing(
    ruled: Callable[[str], Ward],
) -> None:
    ward = ruled(
        "  - {name: soft, when: {method: GET, container: patients}, run: mark.py}\n"
        "  - {name: hide, when: {method: GET, container: patients}, mandatory: true, run: mask.py}\n"
    )
    link = unique("open/link")
    assert ward.admin.put(link, b"", {"X-Symlink-Target": "patients/a.csv"}).status == 201
    assert_closed(ward.researcher.get(link))
    assert_closed(ward.researcher.get("patients/a.csv", {"X-Run-Storlet": "mark.py"}))
    assert ward.admin.delete(link).status == 204


def test_deny_has_a_message_and_comes_after_swifts_own_refusal(
    ruled: Callable[[str], Ward],
) -> None:
    ward = ruled(
        "  - {name: closed, when: {method: GET, container: patients}, mandatory: true, deny: ask the ward}\n"
    )
    answer = ward.physician.get("patients/a.csv")
    assert_closed(answer, "closed")
    assert "rule closed: ask the ward" in answer.text
    stranger = Client(ward.admin.storage_url, "").get("patients/a.csv")
    assert (stranger.status, stranger.headers["X-Storlet-Rule"]) == (401, None), stranger


def test_rules_apply_to_accounts_and_containers(ruled: Callable[[str], Ward]) -> None:
    ward = ruled(
        "  - {name: night, when: {method: [GET, DELETE]}, mandatory: true, deny: not now}\n"
    )
    for path in ("", "patients", "patients/a.csv"):
        assert_closed(ward.admin.get(path), "night")
        stranger = Client(ward.admin.storage_url, "").get(path)
        assert (stranger.status, stranger.headers["X-Storlet-Rule"]) == (401, None), stranger
    assert_closed(ward.admin.delete("patients/a.csv"), "night")
    assert ward.admin.get("storlet_rules/rules.yaml").status == 200


def test_a_rule_applies_to_uploads(ruled: Callable[[str], Ward]) -> None:
    ward = ruled(
        "  - {name: scrub, when: {method: PUT, container: patients}, mandatory: true, run: mask.py}\n"
    )
    name = unique("patients/new")
    assert ward.researcher.put(name, CONTENT).status == 201
    assert ward.admin.get(name).body == MASKED
    assert_closed(ward.researcher.put(name, b"", {"X-Symlink-Target": "open/a.csv"}), "scrub")
    assert_closed(ward.researcher.put(name, b"", {"X-Object-Manifest": "open/a"}), "scrub")
    manifest = json.dumps([{"path": "/open/a.csv"}]).encode()
    assert_closed(ward.researcher.put(name, manifest, query={"multipart-manifest": "put"}), "scrub")
    assert ward.admin.get(name).body == MASKED
    assert ward.researcher.request("COPY", "open/a.csv", {"Destination": name}).status == 201
    assert ward.admin.get(name).body == MASKED


def test_reading_reverses_the_compression_of_an_upload(ruled: Callable[[str], Ward]) -> None:
    ward = ruled(
        "  - name: pack\n    when: {method: PUT, container: open}\n    run: pack.py\n"
        f'    and-reverse-on-read: {{run: unpack.py, when: {{user: "{PHYSICIAN}"}}}}\n'
    )
    name = unique("open/packed")
    assert ward.physician.put(name, CONTENT, {"Content-Type": "text/csv"}).status == 201
    answer = ward.physician.get(name)
    assert (answer.status, answer.body, answer.meta("Packed")) == (200, CONTENT, None), answer
    stored = ward.researcher.get(name)
    assert (stored.status, stored.meta("Packed")) == (200, "gzip")
    assert len(stored.body) < len(CONTENT)


def test_rules_can_test_facts_of_the_object(ruled: Callable[[str], Ward]) -> None:
    ward = ruled(
        "  - {name: hide, when: {method: GET, metadata: {study: '7'}, content-type: text/csv, size: {at-least: 1K}},"
        " mandatory: true, run: mask.py}\n"
    )
    assert ward.researcher.get("patients/a.csv").body == MASKED
    name = unique("patients/other")
    assert (
        ward.admin.put(
            name, CONTENT, {"X-Object-Meta-Study": "8", "Content-Type": "text/csv"}
        ).status
        == 201
    )
    assert ward.researcher.get(name).body == CONTENT
    assert (
        ward.admin.post(name, {"X-Object-Meta-Study": "7", "Content-Type": "text/csv"}).status
        == 202
    )
    assert ward.researcher.get(name).body == MASKED


def test_explain_answers_callers_with_read_access_to_the_rules(ward: Ward) -> None:
    answer = ward.admin.get("patients/a.csv", {"X-Storlet-Explain": "true"})
    assert answer.status == 200, answer
    assert "no rule matches" in answer.text
    assert "SECRET" not in answer.text
    refused = ward.researcher.get("patients/a.csv", {"X-Storlet-Explain": "true"})
    assert refused.status == 403, refused
    assert "hide" not in told(refused)


def test_rules_are_not_deleted_as_segments_of_a_manifest(users: dict[str, Client]) -> None:
    ward = make_ward(users)
    ward.rule(RULES)
    (version,) = ward.admin.listing("storlet_rules", prefix="versions/")
    paths = [f"/storlet_rules/{name}" for name in ("rules.yaml", version["name"])]
    manifest = json.dumps([{"path": path} for path in paths]).encode()
    for query in ("multipart-manifest=delete", "multipart%2Dmanifest=delete"):
        assert (
            ward.admin.put("open/large", manifest, query={"multipart-manifest": "put"}).status
            == 201
        )
        answer = ward.admin.delete("open/large", query=query)
        assert "403" in answer.text, answer
    for path in paths:
        assert ward.admin.head(path.lstrip("/")).status == 200
    assert_masked(ward.researcher.get("patients/a.csv"))


def test_explain_names_storlet_placement_and_limits(ruled: Callable[[str], Ward]) -> None:
    ward = ruled(
        '  - name: hide\n    when: {method: GET, container: patients, user: "admin:admin"}\n'
        "    mandatory: true\n    run: {storlet: mask.py, on: proxy, parameters: {word: '{object}'}, limits: {memory: 64M}}\n"
    )
    answer = ward.admin.get(
        "patients/a.csv", {"X-Storlet-Explain": "true", "Accept": "application/json"}
    )
    assert answer.status == 200, answer
    (told_rules,) = json.loads(answer.body)
    assert (told_rules["rule"], told_rules["mandatory"]) == ("hide", True)
    (step,) = told_rules["steps"]
    assert (step["storlet"], step["on"], step["parameters"]) == (
        "mask.py",
        "proxy",
        {"word": "a.csv"},
    )
    assert step["limits"]["memory"] == "64M"
    assert step["limits"]["timeout-total"]
    assert "SECRET" not in told(answer)
    assert answer.headers["X-Storlet-Invocation"] is None


def test_manifests_and_links_are_not_stored_where_a_rule_runs_a_storlet(
    ruled: Callable[[str], Ward],
) -> None:
    """An ordinary rule too: its storlet would transform the manifest, and the result would look
    stored."""
    ward = ruled("  - {name: pack, when: {method: PUT, container: open}, run: pack.py}\n")
    name = unique("open/large")
    manifest = json.dumps([{"path": "/patients/a.csv"}]).encode()
    assert_closed(ward.physician.put(name, manifest, query={"multipart-manifest": "put"}), "pack")
    assert_closed(ward.physician.put(name, b"", {"X-Symlink-Target": "patients/a.csv"}), "pack")
    assert_closed(ward.physician.put(name, b"", query={"version-id": "1640995200.00000"}), "pack")
    assert ward.admin.head(name).status == 404


def test_a_post_does_not_replace_the_bytes_of_an_upload(
    ruled: Callable[[str], Ward],
) -> None:
    ward = ruled(
        "  - {name: scrub, when: {method: PUT, container: patients}, mandatory: true, run: mask.py}\n"
    )
    name = unique("patients/new")
    assert ward.researcher.put(name, b"").status == 201
    assert_closed(ward.researcher.post(name, {"X-Object-Manifest": "open/a"}), "scrub")
    assert ward.researcher.get(name).body == b""
    assert ward.researcher.post(name, {"X-Object-Meta-Note": "x"}).status == 202


def test_preflights_and_unrequested_explanations_are_unchanged(
    ruled: Callable[[str], Ward],
) -> None:
    ward = ruled("  - {name: closed, mandatory: true, deny: never}\n")
    anonymous = Client(ward.admin.storage_url, "")
    headers = {"Origin": "http://a.example", "Access-Control-Request-Method": "GET"}
    answer = anonymous.request("OPTIONS", "patients/a.csv", headers)
    assert answer.headers["X-Storlet-Rule"] is None, answer
    assert answer.error is None, answer
    assert ward.physician.get("patients/a.csv", {"X-Storlet-Explain": "false"}).status in (400, 403)
