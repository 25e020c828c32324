"""Operations that would bypass a rule are refused."""

from __future__ import annotations

import copy

import pytest
from swift.common.swob import Request

from storlet_middleware import names
from storlet_middleware.enforcement import requirements
from storlet_middleware.wsgi.operation import parse
from tests.unit.middleware.ruled_proxy import BOB, Ruled, assert_closed, rule
from tests.unit.middleware.support import ACCOUNT, RUN, Node


@pytest.mark.parametrize(
    "headers",
    [
        {"Range": "bytes=0-3"},
        {"If-Match": "x"},
        {"If-None-Match": "*"},
        {"If-Range": "x"},
        {"X-Storlet-Range": "bytes=0-3"},
        {"X-Run-Storlet": "up.py"},
        {"X-Run-Storlet": "up.py", "X-Storlet-Range": "bytes=0-3"},
    ],
)
def test_a_request_for_a_part_of_the_object_is_refused(
    ruled: Ruled, headers: dict[str, str]
) -> None:
    ruled.rule(rule("hide", f"method: GET, user: '{BOB}'", "run: up.py"))
    assert_closed(ruled.get(headers=headers, user=BOB))


PATHS_OF_STORED_FORMS = ["c/o?multipart-manifest=get", "c/o?symlink=get", "c/o?part-number=1"]


@pytest.mark.parametrize("path", PATHS_OF_STORED_FORMS)
def test_a_request_for_the_stored_form_is_refused(ruled: Ruled, path: str) -> None:
    ruled.rule(rule("hide", "method: GET", "run: up.py"))
    assert_closed(ruled.get(path))


def test_a_head_of_a_link_reveals_only_that_its_target_exists(ruled: Ruled) -> None:
    """``s3api`` sends it before a DELETE."""
    ruled.rule(rule("hide", "method: GET", "run: up.py"))
    answer = ruled.proxy.call("HEAD", "c/o?symlink=get")
    assert (answer.status, answer.headers[names.RULE]) == (200, "hide")
    assert {"Etag", "X-Object-Meta-Study"}.isdisjoint(answer.headers)
    assert ruled.proxy.call("HEAD", "c/o?multipart-manifest=get").status == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Destination": "c/x", "Range": "bytes=0-3"},
        {"Destination": "c/x", "If-Match": "x"},
        {"Destination": "c/x", "X-Fresh-Metadata": "true"},
        {"Destination": "c/x", "Destination-Account": "AUTH_other"},
    ],
)
def test_a_copy_of_a_part_or_to_another_account_is_refused(
    ruled: Ruled, headers: dict[str, str]
) -> None:
    ruled.rule(rule("hide", "method: COPY", "run: up.py"))
    assert_closed(ruled.proxy.call("COPY", "c/o", headers))
    assert not ruled.swift.requests("PUT")


def test_a_copy_that_swift_cannot_parse_gets_swifts_refusal(ruled: Ruled) -> None:
    ruled.rule(rule("hide", "method: COPY", "deny: it is closed"))
    for headers in ({}, {"Destination": "nocontainer"}):
        answer = ruled.proxy.call("COPY", "c/o", headers)
        assert (answer.status, answer.headers.get(names.RULE)) == (412, None)


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("c/new", {"X-Object-Manifest": "c/parts"}),
        ("c/new", {"X-Symlink-Target": "c/o"}),
        ("c/new?multipart-manifest=put", {}),
        ("c/new?version-id=1.2", {}),
    ],
)
def test_a_manifest_or_link_is_not_stored_where_a_storlet_must_run(
    ruled: Ruled, path: str, headers: dict[str, str]
) -> None:
    ruled.rule(rule("hide", "method: PUT, container: c", "run: up.py"))
    assert_closed(ruled.proxy.call("PUT", path, headers, body=b"x"))
    assert ruled.proxy.call("PUT", "c/new", body=b"x").status == 201


@pytest.mark.parametrize("action", ["run: up.py", "deny: it is closed"])
def test_a_restored_version_is_judged_by_its_own_facts(ruled: Ruled, action: str) -> None:
    ruled.rule(rule("hide", "method: PUT, metadata: {class: secret}", action))
    assert ruled.proxy.call("PUT", "c/o?version-id=1.2").status == 201
    ruled.swift.containers["c"].objects["o"].headers["X-Object-Meta-Class"] = "secret"
    assert_closed(ruled.proxy.call("PUT", "c/o?version-id=1.2"))


@pytest.mark.parametrize("action", ["run: up.py", "deny: it is closed"])
def test_a_post_that_makes_a_link_is_decided_like_a_put(ruled: Ruled, action: str) -> None:
    ruled.rule(rule("hide", "method: PUT, container: c", action))
    assert_closed(ruled.proxy.call("POST", "c/o", {"X-Object-Manifest": "c/parts"}))
    assert ruled.proxy.call("POST", "c/o", {"X-Object-Meta-A": "1"}).status == 204


def test_a_possible_old_version_of_a_covered_object_is_refused(ruled: Ruled) -> None:
    ruled.rule(rule("hide", "method: GET, container: c, object: o", "deny: it is closed"))
    for name in ("001o/1640995200.00000", "001p/1640995200.00000", "001o/now"):
        ruled.swift.put("archive", name, b"a secret")
    assert_closed(ruled.get("archive/001o/1640995200.00000"))
    assert ruled.get("archive/001p/1640995200.00000").status == 200
    assert ruled.get("archive/001o/now").status == 200


@pytest.mark.parametrize("mandatory", [True, False])
def test_swift_is_not_set_up_to_move_objects_away_from_mandatory_rules(
    ruled: Ruled, *, mandatory: bool
) -> None:
    ruled.rule(rule("hide", "method: GET, container: c", "deny: it is closed", mandatory))
    for header in ("X-Versions-Location", "X-History-Location", "X-Container-Sync-To"):
        answer = ruled.proxy.call("POST", "elsewhere", {header: "archive"})
        assert answer.status == (403 if mandatory else 404)
        assert answer.headers.get(names.RULE) == ("hide" if mandatory else None)


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_quota_on_covered_objects_is_refused(ruled: Ruled, method: str) -> None:
    quota = {"X-Container-Meta-Quota-Bytes": "1000"}
    ruled.rule(rule("hide", "method: GET, container: c", "run: up.py"))
    assert_closed(ruled.proxy.call(method, "c", quota))
    assert not ruled.swift.requests(method)
    assert ruled.proxy.call(method, "elsewhere", quota).headers.get(names.RULE) is None
    assert ruled.proxy.call(method, "c", {"X-Container-Meta-Color": "red"}).status < 300


@pytest.mark.parametrize(
    ("condition", "headers", "is_refused"),
    [
        ("metadata: {study: '7'}", {}, True),
        ("metadata: {study: '7'}", {"X-Object-Meta-Study": "other"}, True),
        ("metadata: {study: '7'}", {"X-Object-Meta-Study": "7", "X-Object-Meta-A": "b"}, False),
        ("not: {metadata: {consent: 'yes'}}", {"X-Object-Meta-Consent": "yes"}, True),
        ("not: {metadata: {consent: 'yes'}}", {"X-Object-Meta-Study": "other"}, False),
        ("content-type: text/csv", {"Content-Type": "text/plain"}, True),
        ("content-type: text/csv", {"X-Object-Meta-A": "b"}, False),
        ("container: c", {"Content-Type": "text/plain"}, False),
    ],
)
def test_a_covered_caller_cannot_end_the_coverage_by_a_post(
    ruled: Ruled, condition: str, headers: dict[str, str], is_refused: bool
) -> None:
    ruled.swift.containers["c"].write = BOB
    ruled.rule(rule("hide", f"method: GET, user: '{BOB}', {condition}", "run: up.py"))
    answer = ruled.proxy.call("POST", "c/o", headers, user=BOB)
    if is_refused:
        assert_closed(answer)
        assert "POST c/o" not in ruled.seen()
    else:
        assert "POST c/o" in ruled.seen()
    ruled.proxy.call("POST", "c/o", headers)  # of the owner, whom the rule does not cover
    assert "POST c/o" in ruled.seen()


def test_a_post_where_no_rule_tests_the_object_costs_no_look_up(ruled: Ruled) -> None:
    ruled.swift.containers["c"].write = BOB
    ruled.rule(rule("hide", f"method: GET, user: '{BOB}', container: c", "run: up.py"))
    ruled.proxy.call("POST", "c/o", user=BOB)
    assert ruled.seen().count("HEAD c/o") == 0


def test_a_covered_caller_cannot_exchange_the_rule_by_a_post(ruled: Ruled) -> None:
    ruled.swift.containers["c"].write = BOB
    strict, loose = (
        rule(name, f"method: GET, user: '{BOB}', metadata: {{study: '{study}'}}", "run: up.py")
        for name, study in (("strict", 7), ("loose", 8))
    )
    ruled.rule(strict + loose)
    assert_closed(ruled.proxy.call("POST", "c/o", {"X-Object-Meta-Study": "8"}, user=BOB), "strict")


def test_a_covered_caller_cannot_change_a_parameter_of_the_rule_by_a_post(ruled: Ruled) -> None:
    ruled.swift.containers["c"].write = BOB
    run = "run: {storlet: up.py, parameters: {word: '{metadata.study}'}}"
    hide = rule("hide", f"method: GET, user: '{BOB}', container: c", run)
    ruled.rule(hide + "  pass: {metadata: [study]}\n")
    assert_closed(ruled.proxy.call("POST", "c/o", {"X-Object-Meta-Study": "8"}, user=BOB))
    ruled.seen()
    ruled.proxy.call("POST", "c/o", {"X-Object-Meta-Study": "7"}, user=BOB)
    assert "POST c/o" in ruled.seen()
    ruled.rule(hide)
    for guess in ("7", "8"):  # a success would confirm it
        assert_closed(ruled.proxy.call("POST", "c/o", {"X-Object-Meta-Study": guess}, user=BOB))


@pytest.mark.parametrize("is_expiring", [False, True])
def test_a_copy_brings_no_expiry_where_a_rule_denies_delete(
    ruled: Ruled, is_expiring: bool
) -> None:
    ruled.rule(rule("keep", "method: DELETE, container: kept", "deny: it is kept", False))
    if is_expiring:
        ruled.swift.containers["c"].objects["o"].headers["X-Delete-At"] = "4000000000"
    for method, path, headers in (
        ("COPY", "c/o", {"Destination": "kept/x"}),
        ("PUT", "kept/x", {"X-Copy-From": "c/o", "Content-Length": "0"}),
    ):
        ruled.seen()
        answer = ruled.proxy.call(method, path, headers)
        if is_expiring:
            assert_closed(answer, "keep")
        assert (f"{method} {path}" in ruled.seen()) is not is_expiring
    ruled.seen()
    ruled.proxy.call("COPY", "c/o", {"Destination": "other/x"})
    assert ruled.seen() == ["COPY c/o"]


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("PUT", "c/x", {"X-Delete-At": "4000000000"}),
        ("POST", "c/o", {"X-Delete-At": "4000000000"}),
        ("COPY", "c/o", {"X-Delete-At": "4000000000", "Destination": "c/x"}),
        ("COPY", "c/expiring", {"Destination": "c/x"}),
    ],
)
def test_an_expiry_is_refused_for_what_the_request_makes_a_kept_object(
    ruled: Ruled, method: str, path: str, headers: dict[str, str]
) -> None:
    ruled.rule(rule("keep", 'method: DELETE, metadata: {keep: "1"}', "deny: it is kept", False))
    objects = ruled.swift.containers["c"].objects
    objects["expiring"] = copy.deepcopy(objects["o"])
    objects["expiring"].headers["X-Delete-At"] = "4000000000"
    label = {"X-Object-Meta-Keep": "1"}
    assert_closed(ruled.proxy.call(method, path, headers | label), "keep")
    assert ruled.proxy.call(method, path, headers).status // 100 == 2


def test_a_link_itself_is_not_copied_where_a_rule_requires_bytes(ruled: Ruled) -> None:
    ruled.rule(rule("scrub", "method: PUT, container: d", "run: up.py"))
    answer = ruled.proxy.call("COPY", "c/o?symlink=get", {"Destination": "d/x"})
    assert_closed(answer, "scrub")


@pytest.mark.parametrize("version", ["", "&version-id=1640995200.00000"])
def test_a_covered_object_is_not_deleted_with_its_segments(ruled: Ruled, version: str) -> None:
    """The answer would show whether it is a large object."""
    ruled.rule(rule("hide", "method: GET, container: c, object: o", "run: up.py"))
    answer = ruled.proxy.call("DELETE", f"c/o?multipart-manifest=delete{version}")
    assert_closed(answer)
    assert not ruled.swift.requests("DELETE")
    if not version:
        assert ruled.proxy.call("DELETE", "c/other?multipart-manifest=delete").status == 204
    assert ruled.proxy.call("DELETE", "c/o").status == 204


@pytest.mark.parametrize("query", ["", "?version-id=1640995200.00000"])
def test_the_expiry_of_a_covered_object_is_not_guessed_by_its_deletion(
    ruled: Ruled, query: str
) -> None:
    ruled.rule(rule("hide", "method: GET, container: c, object: o", "run: up.py"))
    guess = {"X-If-Delete-At": "1640995200"}
    assert_closed(ruled.proxy.call("DELETE", f"c/o{query}", guess))
    assert not ruled.swift.requests("DELETE")
    if not query:
        assert ruled.proxy.call("DELETE", "c/other", guess).status == 204
        assert ruled.proxy.call("DELETE", "c/o").status == 204


OUTPUT = {**RUN, "X-Storlet-Output": "/c/out"}


@pytest.mark.parametrize(
    ("when", "action", "is_mandatory"),
    [
        ("method: PUT", "deny: it is closed", True),
        ("method: PUT, container: c", "deny: it is closed", False),
        ("method: PUT, object: out", "run: up.py", True),
        # The content type and the metadata of the output are not known before it is made.
        ("method: PUT, content-type: text/csv", "deny: it is closed", False),
        ("method: PUT, metadata: {class: secret}", "run: up.py", True),
        ("method: PUT, size: {at-most: 10}", "run: up.py", True),
    ],
)
@pytest.mark.parametrize("method", ["GET", "COPY"])
def test_a_further_output_that_a_rule_may_be_about_is_refused(
    ruled: Ruled, method: str, when: str, action: str, *, is_mandatory: bool
) -> None:
    ruled.rule(
        # So that the rule is not about the target of the copy.
        rule("first", "object: copy", "allow: true", mandatory=False)
        + rule("hide", when, action, mandatory=is_mandatory)
    )
    answer = ruled.proxy.call(method, "c/o", {**OUTPUT, "Destination": "c/copy"})
    assert_closed(answer)
    assert b"output /c/out" in answer.data
    assert "out" not in ruled.swift.containers["c"].objects


@pytest.mark.parametrize(
    ("when", "action", "is_mandatory"),
    [
        ("method: PUT, container: other", "deny: it is closed", True),
        ("method: GET, object: out", "run: up.py", True),
        ("method: PUT, container: c", "run: up.py", False),
        (f"method: PUT, user: {BOB}", "deny: it is closed", True),
    ],
)
def test_a_further_output_that_no_rule_is_about_is_stored(
    ruled: Ruled, when: str, action: str, *, is_mandatory: bool
) -> None:
    ruled.rule(rule("hide", when, action, mandatory=is_mandatory))
    answer = ruled.proxy.call("GET", "c/o", OUTPUT)
    # The double's worker writes no further output.
    assert answer.error in ("", "storlet.failed"), answer.data
    assert answer.status != 403


def test_a_caller_who_may_not_write_the_output_learns_of_no_rule(ruled: Ruled) -> None:
    ruled.rule(rule("hide", "method: PUT", "deny: it is closed"))
    ruled.swift.containers["c"].read = BOB
    answer = ruled.proxy.call("GET", "c/o", OUTPUT, user=BOB)
    assert (answer.status, answer.headers.get(names.RULE)) == (403, None)


def test_only_the_clients_own_storlet_has_further_outputs(ruled: Ruled) -> None:
    ruled.rule(rule("hide", "method: GET, object: o", "run: up.py"))
    answer = ruled.get(headers={"X-Storlet-Output": "/c/out"})
    assert answer.status == 400
    assert b"means nothing without X-Run-Storlet" in answer.data


@pytest.mark.parametrize(
    "header", ["X-Versions-Location", "X-History-Location", "X-Container-Sync-To"]
)
def test_headers_that_let_swift_move_objects_are_found(header: str) -> None:
    def found(method: str, value: str) -> str | None:
        operation = parse(
            Request.blank("/v1/AUTH_a/c", method=method, headers={header: value}).environ
        )
        assert operation is not None
        return requirements.moving_header(operation)

    assert found("POST", "there") == header
    assert found("PUT", "there") == header
    assert found("POST", "") is None
    assert found("GET", "there") is None


@pytest.mark.parametrize(
    ("when", "action", "is_mandatory"),
    [
        ("method: PUT, object: out", "deny: it is closed", False),
        ("method: PUT, content-type: text/csv", "deny: it is closed", True),
        ("method: PUT, object: out", "run: up.py", True),
    ],
)
def test_a_result_of_many_objects_that_a_rule_may_be_about_is_refused(
    ruled: Ruled, node: Node, when: str, action: str, *, is_mandatory: bool
) -> None:
    ruled.rule(rule("hide", when, action, mandatory=is_mandatory))
    headers = {"X-Run-Storlet": "std:distributed"}
    document = b'{"objects": ["/c/o"], "split": "std:nop", "output": "/c/out"}'
    path = f"/v1/{ACCOUNT}"
    assert_closed(ruled.proxy.call("POST", path, headers, body=document))
    assert node.workers.runs == []
    ruled.swift.containers["c"].read = BOB
    answer = ruled.proxy.call("POST", path, headers, body=document, user=BOB)
    assert (answer.status, answer.headers.get(names.RULE)) == (403, None)
    if "object" in when:
        other = document.replace(b"/c/out", b"/c/other")
        assert ruled.proxy.call("POST", path, headers, body=other).status == 201
