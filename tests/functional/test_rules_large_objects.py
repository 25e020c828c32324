"""Rules and objects that consist of others.

A storlet reads one object as its owner stored it, and no answer has facts of covered segments.  A
manifest deletes nothing that a rule protects, and no archived version returns past a rule.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.functional.wards import (
    CONTENT,
    MASKED,
    RESEARCHER,
    RULES,
    Ward,
    assert_closed,
    assert_reveals_nothing,
    make_ward,
    told,
)
from tests.support.accounts import unique
from tests.support.http import Client
from tests.support.storlets import declaration

#: Answers with the length of each of its inputs.
SIZES = b"""
class Sizes:
    def __init__(self, logger):
        pass

    def __call__(self, in_files, out_files, params):
        out_files[0].write(" ".join(str(each.size) for each in in_files).encode())
"""
#: More than is read of a seekable input before its storlet requests a range.
FIRST_BYTES = 70_000
KEEP = """
  - name: keep
    when: {method: DELETE, container: {prefix: patients}, user: "test2:tester2"}
    mandatory: true
    deny: "records are kept"
"""
PUT_MANIFEST = {"multipart-manifest": "put"}


@pytest.fixture(scope="module")
def ward(users: dict[str, Client]) -> Ward:
    ward = make_ward(users)
    ward.rule(RULES + KEEP, accept=True)
    return ward


@pytest.fixture
def own_rules(ward: Ward) -> Iterator[None]:
    """The test may replace the rules."""
    yield
    ward.rule(RULES + KEEP, accept=True)


@pytest.fixture
def foreign(ward: Ward) -> str:
    """A static large object of the owner's outside of the rule, with a covered segment."""
    name = unique("open/foreign")
    manifest = json.dumps([{"path": "/patients/a.csv"}]).encode()
    assert ward.admin.put(name, manifest, query=PUT_MANIFEST).status == 201
    return name


def derived_etag(ward: Ward, name: str) -> str:
    etag = ward.admin.head(name).headers["Etag"]
    assert etag
    return etag.strip('"')


# --- what a storlet reads -------------------------------------------------------------------------


@pytest.mark.parametrize("made_by", ["researcher", "admin"])
def test_a_dynamic_large_object_over_covered_segments_is_refused_even_under_the_same_rule(
    ward: Ward, made_by: str
) -> None:
    """Each writer of the container of its segments chooses what the storlet would read."""
    name = unique("patients/dynamic")
    maker = getattr(ward, made_by)
    assert maker.put(name, b"", {"X-Object-Manifest": "patients/a"}).status == 201
    assert ward.physician.get(name).body == CONTENT
    assert_closed(ward.researcher.get(name))
    answer = ward.researcher.request("COPY", name, {"Destination": unique("open/stolen")})
    assert_closed(answer)


def test_a_caller_makes_no_static_large_object_over_covered_segments(
    ward: Ward, foreign: str
) -> None:
    etag, length = derived_etag(ward, foreign), len(CONTENT)
    for path in ("patients/a.csv", foreign):
        for size in (length, length + 1):
            manifest = json.dumps([{"path": f"/{path}", "size_bytes": size}]).encode()
            name = unique("patients/mine")
            answer = ward.researcher.put(name, manifest, query=PUT_MANIFEST)
            assert_closed(answer)
            assert etag not in told(answer)
            assert ward.admin.head(name).status == 404


@pytest.mark.parametrize("requires", ["nothing", "its ETag", "another ETag"])
def test_a_further_input_has_no_facts_of_covered_segments(ward: Ward, requires: str) -> None:
    """Its first segment, which Swift reads at once, is not covered."""
    first, name, storlet = unique("open/first"), unique("open/mixed"), "sizes.py"
    assert ward.admin.put(first, b"x" * FIRST_BYTES).status == 201
    manifest = json.dumps([{"path": f"/{path}"} for path in (first, "patients/a.csv")]).encode()
    assert ward.admin.put(name, manifest, query=PUT_MANIFEST).status == 201
    headers = declaration("python", "sizes.Sizes", Input="seekable")
    assert ward.admin.put(f"storlet/{storlet}", SIZES, headers).status == 201
    etag = derived_etag(ward, name) if requires == "its ETag" else "0" * 32
    conditions = {} if requires == "nothing" else {"X-Storlet-If-Resources": etag}
    asked = {"X-Run-Storlet": storlet, "X-Storlet-Extra-Resources": f"/{name}", **conditions}
    assert_closed(ward.researcher.get(first, asked))
    answer = ward.physician.get(first, asked)
    if requires == "another ETag":
        assert answer.status == 412, answer
    else:
        assert answer.body == f"{FIRST_BYTES} {FIRST_BYTES + len(CONTENT)}".encode(), answer


def test_a_covered_caller_does_not_guess_an_expiry(ward: Ward) -> None:
    name, at = unique("patients/expiring"), "4000000000"
    assert ward.admin.put(name, CONTENT, {"X-Delete-At": at}).status == 201
    for guess in (at, "4000000001"):
        answer = ward.researcher.request("DELETE", name, {"X-If-Delete-At": guess})
        assert answer.status == 403, answer
        assert_reveals_nothing(answer)
    assert ward.admin.head(name).status == 200


def test_a_static_large_object_of_the_owner_runs_the_storlet_over_all_of_it(ward: Ward) -> None:
    name = unique("patients/large")
    manifest = json.dumps([{"path": "/patients/a.csv"}] * 2).encode()
    assert ward.admin.put(name, manifest, query=PUT_MANIFEST).status == 201
    assert ward.researcher.get(name).body == MASKED * 2


def test_a_rule_for_a_container_covers_the_containers_of_its_segments(
    ward: Ward, own_rules: None
) -> None:
    ward.rule(RULES.replace("{prefix: patients}", "docs"))
    for container in ("docs", "docs_segments", "docs+segments", "documents"):
        acl = {"X-Container-Read": RESEARCHER, "X-Container-Write": RESEARCHER}
        assert ward.admin.put(container, b"", acl).status == 201
    for part in ("docs_segments/1", "docs+segments/2", "documents/3"):
        assert ward.admin.put(part, CONTENT).status == 201
    manifest = json.dumps([{"path": "/docs_segments/1"}, {"path": "/docs+segments/2"}]).encode()
    assert ward.admin.put("docs/large", manifest, query=PUT_MANIFEST).status == 201
    assert ward.researcher.get("docs/large").body == MASKED * 2
    for part in ("docs_segments/1", "docs+segments/2"):
        assert ward.researcher.get(part).body == MASKED
        assert_reveals_nothing(ward.researcher.head(part))
        assert ward.admin.get(part).body == CONTENT
    assert ward.researcher.get("documents/3").body == CONTENT


# --- answers about uncovered objects with covered segments ----------------------------------------


@pytest.mark.parametrize(
    ("method", "headers", "query"),
    [
        ("GET", {"X-Run-Storlet": "mark.py"}, {"multipart-manifest": "get"}),
        ("GET", {"X-Run-Storlet": "mark.py", "If-None-Match": "ETAG"}, {}),
        ("GET", {"X-Run-Storlet": "mark.py", "If-Match": "ETAG"}, {}),
        ("GET", {"X-Run-Storlet": "mark.py", "X-Storlet-Range": "bytes=99999999-"}, {}),
        ("GET", {"Range": "bytes=99999999-"}, {}),
        ("GET", {"If-None-Match": "ETAG"}, {}),
        ("COPY", {"Destination": "open/stolen", "If-None-Match": "ETAG"}, {}),
        ("COPY", {"Destination": "open/stolen", "If-Match": "wrong"}, {}),
        ("COPY", {"Destination": "open/stolen"}, {"multipart-manifest": "get"}),
        ("COPY", {"Destination": "open/stolen", "X-Run-Storlet": "mark.py"}, {"multipart-manifest": "get"}),
    ],
)  # fmt: skip
def test_no_answer_has_hash_length_or_names_of_covered_segments(
    ward: Ward, foreign: str, method: str, headers: dict[str, str], query: dict[str, str]
) -> None:
    etag = derived_etag(ward, foreign)
    headers = {key: value.replace("ETAG", f'"{etag}"') for key, value in headers.items()}
    answer = ward.researcher.request(method, foreign, headers, query=query)
    assert_closed(answer)
    assert etag not in told(answer)
    assert ward.admin.head("open/stolen").status == 404


@pytest.mark.parametrize("headers", [{}, {"Range": "bytes=0-1"}])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_own_dynamic_large_object_reveals_nothing_of_a_foreign_static_one(
    ward: Ward, foreign: str, method: str, headers: dict[str, str]
) -> None:
    name = unique("open/own")
    assert ward.researcher.put(name, b"", {"X-Object-Manifest": foreign}).status == 201
    answer = ward.researcher.request(method, name, headers)
    assert answer.status == 403, answer
    assert_reveals_nothing(answer)
    assert derived_etag(ward, foreign) not in told(answer)
    assert answer.headers["Content-Length"] != str(len(CONTENT))


# --- deletions ------------------------------------------------------------------------------------


def test_a_manifest_deletes_no_object_whose_deletion_a_rule_denies(ward: Ward) -> None:
    kept, free, name = unique("patients/kept"), unique("open/free"), unique("open/manifest")
    for path in (kept, free):
        assert ward.admin.put(path, CONTENT).status == 201
    manifest = json.dumps([{"path": f"/{kept}"}, {"path": f"/{free}"}]).encode()
    assert ward.admin.put(name, manifest, query=PUT_MANIFEST).status == 201
    answer = ward.researcher.delete(name, query={"multipart-manifest": "delete"})
    assert (answer.status, "403 Forbidden" in answer.text) == (200, True), answer
    assert kept.partition("/")[2] in answer.text
    assert ward.admin.get(kept).body == CONTENT
    assert ward.admin.get(free).status == 404


def test_segments_are_not_deleted_asynchronously_past_a_rule(ward: Ward) -> None:
    kept, name = unique("patients/kept"), unique("open/manifest")
    assert ward.admin.put(kept, CONTENT).status == 201
    manifest = json.dumps([{"path": f"/{kept}"}]).encode()
    assert ward.admin.put(name, manifest, query=PUT_MANIFEST).status == 201
    answer = ward.researcher.delete(name, query={"multipart-manifest": "delete", "async": "yes"})
    assert (answer.status, answer.error) == (400, "bad_request"), answer
    assert "async" in answer.text
    assert ward.admin.get(name).status == 200


@pytest.mark.parametrize("header", ["X-Delete-At", "X-Delete-After"])
def test_an_expiry_is_a_deletion(ward: Ward, header: str) -> None:
    kept = unique("patients/kept")
    assert ward.admin.put(kept, CONTENT).status == 201
    expiry = {header: "4000000000" if header == "X-Delete-At" else "60"}
    answers = [
        ward.researcher.post(kept, expiry),
        ward.researcher.put(kept, b"short-lived", expiry),
        ward.researcher.put(unique("patients/new"), b"short-lived", expiry),
        ward.researcher.request("COPY", "open/a.csv", {"Destination": kept} | expiry),
    ]
    for answer in answers:
        assert_closed(answer, "keep")
        assert "expiry" in answer.text
    assert ward.admin.head(kept).headers["X-Delete-At"] is None
    assert ward.researcher.put(unique("open/new"), b"short-lived", expiry).status == 201
    assert ward.admin.post(kept, expiry).status == 202


# --- archived versions ----------------------------------------------------------------------------

SCRUB = """
  - {name: scrub, when: {method: PUT, container: {prefix: clean}}, mandatory: true, run: mask.py}
"""


@pytest.fixture(scope="module")
def archived(users: dict[str, Client]) -> Ward:
    """Containers that share an archive, which has the old content of a covered object."""
    ward = make_ward(users)
    acl = {"X-Container-Read": RESEARCHER, "X-Container-Write": RESEARCHER}
    assert ward.admin.put("archive", b"", acl).status == 201
    versioned = acl | {"X-Versions-Location": "archive"}
    for container in ("patients-v", "open-v", "clean-v"):
        assert ward.admin.put(container, b"", versioned).status == 201
    for content in (CONTENT, b"new"):
        assert ward.admin.put("patients-v/o", content).status == 201
    for path in ("open-v/o", "clean-v/o", "open-v/other"):
        assert ward.admin.put(path, b"own").status == 201
    ward.rule(RULES + SCRUB, accept=True)
    return ward


def test_a_delete_restores_no_version_of_a_covered_object_elsewhere(archived: Ward) -> None:
    assert_closed(archived.researcher.delete("open-v/o"))
    assert archived.admin.get("open-v/o").body == b"own"


def test_a_delete_restores_no_bytes_past_the_storlet_of_a_rule_about_put(archived: Ward) -> None:
    """The rule applies to the owner, who is covered by no rule about reads."""
    assert_closed(archived.admin.delete("clean-v/o"), "scrub")
    assert archived.admin.get("clean-v/o").body == b"own"


def test_an_uncovered_caller_deletes_and_restores_as_without_rules(archived: Ward) -> None:
    assert archived.admin.delete("open-v/other").status == 204
    assert archived.admin.get("open-v/other").status == 404


def test_a_delete_restores_nothing_where_a_rule_denies_put(users: dict[str, Client]) -> None:
    """Also an ordinary rule."""
    ward = make_ward(users)
    acl = {"X-Container-Read": RESEARCHER, "X-Container-Write": RESEARCHER}
    assert ward.admin.put("archive", b"", acl).status == 201
    assert ward.admin.put("locked", b"", acl | {"X-Versions-Location": "archive"}).status == 201
    for content in (b"old", b"new"):
        assert ward.admin.put("locked/o", content).status == 201
    ward.rule(
        "version: 1\nrules:\n- {name: lock, when: {method: PUT, container: locked}, deny: locked}\n"
    )
    assert_closed(ward.researcher.delete("locked/o"), "lock")
    assert ward.admin.get("locked/o").body == b"new"


def test_a_copy_brings_no_expiry_to_a_kept_object(ward: Ward) -> None:
    expiring = unique("open/expiring")
    assert ward.researcher.put(expiring, b"x", {"X-Delete-At": "4000000000"}).status == 201
    name = unique("patients/kept")
    for method, path, headers in (
        ("COPY", expiring, {"Destination": name}),
        ("PUT", name, {"X-Copy-From": expiring, "Content-Length": "0"}),
    ):
        assert_closed(ward.researcher.request(method, path, headers), "keep")
    assert ward.admin.head(name).status == 404
    copy = {"Destination": unique("open/copied")}
    assert ward.researcher.request("COPY", expiring, copy).status == 201


def test_an_expiry_deletes_nothing_that_a_rule_keeps_after_the_request(
    ward: Ward, own_rules: None
) -> None:
    kept = 'when: {method: DELETE, metadata: {keep: "1"}}, deny: it is kept'
    ward.rule(f"version: 1\nrules:\n- {{name: keep, {kept}}}\n")
    expiry, label = {"X-Delete-At": "4000000000"}, {"X-Object-Meta-Keep": "1"}
    plain, expiring, target = unique("open/o"), unique("open/o"), unique("open/o")
    assert ward.researcher.put(plain, b"x").status == 201
    assert ward.researcher.put(expiring, b"x", expiry).status == 201
    for method, path, headers in (
        ("PUT", target, expiry), ("COPY", plain, {"Destination": target} | expiry),
        ("COPY", expiring, {"Destination": target}), ("POST", plain, expiry),
    ):  # fmt: skip
        assert_closed(ward.researcher.request(method, path, headers | label), "keep")
        assert ward.researcher.request(method, path, headers).status in (201, 202)


def test_a_restored_version_is_judged_by_its_own_facts(ward: Ward, own_rules: None) -> None:
    container = unique("versions")
    rights = {"X-Container-Read": RESEARCHER, "X-Container-Write": RESEARCHER}
    assert ward.admin.put(container, b"", rights | {"X-Versions-Enabled": "true"}).status == 201
    path = f"{container}/o"
    versions = [
        ward.admin.put(path, b"x", headers).headers["X-Object-Version-Id"]
        for headers in ({"X-Object-Meta-Class": "secret"}, {}, {})
    ]
    shut = "{name: shut, when: {method: PUT, metadata: {class: secret}}, deny: it is shut}"
    ward.rule(f"version: 1\nrules:\n- {shut}\n")
    secret, plain, _ = ({"version-id": version or ""} for version in versions)
    assert_closed(ward.researcher.put(path, b"", query=secret), "shut")
    assert ward.researcher.put(path, b"", query=plain).status == 201


def test_a_segment_that_was_replaced_is_not_described(ward: Ward, own_rules: None) -> None:
    """The manifest still has the hash and length of the covered object."""
    ward.rule(RULES.replace("container: {prefix: patients}", "metadata: {patient: SECRET}"))
    part, name = unique("open/part"), unique("open/of-part")
    assert ward.admin.put(part, CONTENT, {"X-Object-Meta-Patient": "SECRET"}).status == 201
    manifest = json.dumps([{"path": f"/{part}"}]).encode()
    assert ward.admin.put(name, manifest, query=PUT_MANIFEST).status == 201
    assert_closed(ward.researcher.get(name))
    assert ward.researcher.put(part, b"public").status == 201
    for method in ("HEAD", "GET"):
        answer = ward.researcher.request(method, name)
        assert answer.status in (403, 409), answer  # 409: Swift's own, without facts
        assert derived_etag(ward, name) not in told(answer)


def test_a_covered_caller_does_not_end_the_coverage(ward: Ward, own_rules: None) -> None:
    ward.rule(RULES.replace("container: {prefix: patients}", "metadata: {patient: SECRET}"))
    name = unique("open/covered")
    assert ward.admin.put(name, CONTENT, {"X-Object-Meta-Patient": "SECRET"}).status == 201
    assert_closed(ward.researcher.post(name, {"X-Object-Meta-Patient": "no"}))
    assert ward.researcher.get(name).body == MASKED
    kept = {"X-Object-Meta-Patient": "SECRET", "X-Object-Meta-Color": "red"}
    assert ward.researcher.post(name, kept).status == 202
    assert ward.researcher.get(name).body == MASKED
