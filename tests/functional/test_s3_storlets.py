"""Storlets through the S3 API: what they return, and errors that S3 clients understand."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator

import pytest

from tests.functional.s3 import S3V4, element
from tests.support.accounts import delete_large_objects, unique
from tests.support.cluster import Cluster
from tests.support.http import Answer, Client
from tests.support.proxies import other_proxy
from tests.support.storlets import Tool

USER = "test:tester"
DELETE = b"<Delete><Object><Key>o</Key></Object></Delete>"


@pytest.fixture(scope="module")
def s3(cluster: Cluster) -> S3V4:
    url = cluster.auth_url.rsplit("/auth", 1)[0]
    return S3V4(url, USER, cluster.description["users"][USER])


@pytest.fixture
def bucket(owner: Client) -> Iterator[str]:
    """A container whose name is one of S3's, with one object."""
    name = unique("s3").replace("_", "-")
    assert owner.put(name).status == 201
    assert owner.put(f"{name}/o", b"some text").status == 201
    yield name
    delete_large_objects(owner, name)
    if owner.head(f"{name}+segments").status == 204:
        delete_large_objects(owner, f"{name}+segments")


def run(tool: Tool, do: str, **more: str) -> dict[str, str]:
    headers = {"X-Run-Storlet": tool.storlet, "X-Storlet-Parameter-1": f"do:{do}"}
    return headers | {
        f"X-Storlet-Parameter-{number}": f"{key}:{value}"
        for number, (key, value) in enumerate(more.items(), 2)
    }


def assert_s3_error(answer: Answer, status: int, code: str, error: str) -> None:
    assert (answer.status, element(answer, "Code")) == (status, code), answer
    assert element(answer, "Message"), answer
    assert answer.headers["X-Storlet-Error"] == error, answer


def test_get_object_and_put_object_run_a_storlet(
    s3: S3V4, owner: Client, any_tool: Tool, bucket: str
) -> None:
    read = s3.request("GET", f"{bucket}/o", run(any_tool, "upper"))
    assert (read.status, read.body) == (200, b"SOME TEXT"), read
    written = s3.request("PUT", f"{bucket}/new", run(any_tool, "upper"), body=b"text")
    assert written.status == 200, written
    assert owner.get(f"{bucket}/new").body == b"TEXT"


def test_successful_answers_have_the_headers_of_this_package(
    s3: S3V4, owner: Client, any_tool: Tool, bucket: str
) -> None:
    upper, ranged = run(any_tool, "upper"), {"X-Storlet-Range": "bytes=0-3"}
    answers = [
        s3.request("GET", f"{bucket}/o", upper),
        s3.request("GET", f"{bucket}/o", upper | ranged),
        s3.request("PUT", f"{bucket}/new", upper, body=b"text"),
    ]
    assert [answer.status for answer in answers] == [200] * 3, answers
    for answer in answers:
        assert answer.headers["X-Storlet-Invocation"].startswith(answer.headers["X-Trans-Id"])
        assert answer.headers["X-Storlet-Ran-On"], answer
    assert answers[1].headers["Storlet-Input-Range"] == "bytes 0-3/9", answers[1]
    assert "in=4;" in answers[2].headers["X-Storlet-Usage"], answers[2]
    plain = [s3.request("GET", f"{bucket}/o"), owner.get(f"{bucket}/o")]
    assert not [key for answer in plain for key in answer.headers if "storlet" in key.lower()]


def test_a_missing_extra_resource_is_not_the_missing_object(
    s3: S3V4, any_tool: Tool, bucket: str
) -> None:
    headers = run(any_tool, "upper") | {"X-Storlet-Extra-Resources": f"/{bucket}/absent"}
    answer = s3.request("GET", f"{bucket}/o", headers)
    assert_s3_error(answer, 404, "InputNotFound", "input.not_found")
    assert f"/{bucket}/absent" in element(answer, "Message")


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_the_failure_of_a_storlet_is_not_repeated_by_sdks(
    s3: S3V4, owner: Client, any_tool: Tool, bucket: str, method: str
) -> None:
    """SDKs repeat every 5xx."""
    path = f"{bucket}/o" if method == "GET" else f"{bucket}/new"
    answer = s3.request(method, path, run(any_tool, "fail"), body=b"x" * (method == "PUT"))
    assert_s3_error(answer, 422, "StorletFailed", "storlet.failed")
    assert answer.headers["X-Storlet-Invocation"]
    assert owner.head(f"{bucket}/new").status == 404


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_missing_storlet_is_not_a_missing_object(s3: S3V4, bucket: str, method: str) -> None:
    answer = s3.request(method, f"{bucket}/o", {"X-Run-Storlet": "absent.py"})
    assert_s3_error(answer, 404, "StorletNotFound", "storlet.not_found")
    assert "absent.py" in element(answer, "Message")


def test_a_missing_object_is_no_such_key(s3: S3V4, any_tool: Tool, bucket: str) -> None:
    answer = s3.request("GET", f"{bucket}/absent", run(any_tool, "upper"))
    assert (answer.status, element(answer, "Code")) == (404, "NoSuchKey"), answer
    assert answer.headers["X-Storlet-Error"] == "input.not_found", answer


def test_faults_of_the_request_are_named(s3: S3V4, any_tool: Tool, bucket: str) -> None:
    headers = run(any_tool, "upper") | {"X-Storlet-Rnage": "bytes=0-1"}
    answer = s3.request("GET", f"{bucket}/o", headers)
    assert_s3_error(answer, 400, "InvalidRequest", "bad_request")
    assert "X-Storlet-Rnage" in element(answer, "Message")


def test_a_body_with_another_hash_is_refused_as_without_a_storlet(
    s3: S3V4, owner: Client, any_tool: Tool, bucket: str
) -> None:
    wrong = hashlib.sha256(b"other").hexdigest()
    answers = [
        s3.request("PUT", f"{bucket}/new", headers, body=b"text", sha256=wrong)
        for headers in ({}, run(any_tool, "upper"))
    ]
    assert [(answer.status, element(answer, "Code")) for answer in answers] == [
        (400, "XAmzContentSHA256Mismatch")
    ] * 2, answers
    assert owner.head(f"{bucket}/new").status == 404


@pytest.mark.parametrize(
    ("method", "query"),
    [("HEAD", ""), ("DELETE", ""), ("GET", "acl="), ("PUT", ""), ("POST", "delete=")],
)
def test_other_operations_run_no_storlet(
    s3: S3V4, owner: Client, any_tool: Tool, bucket: str, method: str, query: str
) -> None:
    """PUT is CopyObject here, POST is DeleteObjects."""
    headers = {"x-amz-copy-source": f"/{bucket}/o"} if method == "PUT" else {}
    path = {"PUT": f"{bucket}/copy", "POST": bucket}.get(method, f"{bucket}/o")
    if method == "POST":
        digest = hashlib.md5(DELETE, usedforsecurity=False).digest()
        headers["Content-MD5"] = base64.b64encode(digest).decode()
    body = DELETE if method == "POST" else b""
    answer = s3.request(method, path, run(any_tool, "upper") | headers, query, body)
    if method == "HEAD":
        assert (answer.status, answer.error) == (405, "method.not_allowed"), answer
    else:
        assert_s3_error(answer, 405, "MethodNotAllowed", "method.not_allowed")
    assert owner.get(f"{bucket}/o").body == b"some text"
    assert owner.head(f"{bucket}/copy").status == 404


def test_a_multipart_upload_with_a_storlet_is_refused(
    s3: S3V4, owner: Client, any_tool: Tool, bucket: str
) -> None:
    refused = s3.request("POST", f"{bucket}/large", run(any_tool, "upper"), "uploads=")
    assert_s3_error(refused, 501, "NotImplemented", "method.not_allowed")
    assert "GetObject" in element(refused, "Message")
    assert owner.head(f"{bucket}+segments").status == 404

    begun = s3.request("POST", f"{bucket}/large", query="uploads=")
    upload = element(begun, "UploadId")
    part, whole = f"partNumber=1&uploadId={upload}", f"uploadId={upload}"
    refused = s3.request("PUT", f"{bucket}/large", run(any_tool, "upper"), part, b"text")
    assert_s3_error(refused, 501, "NotImplemented", "method.not_allowed")
    etag = s3.request("PUT", f"{bucket}/large", query=part, body=b"text").headers["ETag"]
    body = (
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>"
        f"<ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
    ).encode()
    refused = s3.request("POST", f"{bucket}/large", run(any_tool, "upper"), whole, body)
    assert_s3_error(refused, 501, "NotImplemented", "method.not_allowed")
    assert owner.head(f"{bucket}/large").status == 404
    assert s3.request("POST", f"{bucket}/large", query=whole, body=body).status == 200
    assert s3.request("GET", f"{bucket}/large", run(any_tool, "upper")).body == b"TEXT"


# --- s3_acl = yes ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def acl_proxy(cluster: Cluster) -> Iterator[str]:
    """The URL of a proxy with ``s3_acl = yes`` and another user of the account."""
    changes = {
        "filter:s3api": {"s3_acl": "yes", "allow_no_owner": "yes"},
        "filter:tempauth": {"user_test_clerk": "key"},
    }
    with other_proxy(cluster, changes) as proxy:
        yield proxy.auth_url.rsplit("/auth", 1)[0]


def test_with_s3_acl_no_storlet_can_be_requested(
    cluster: Cluster, acl_proxy: str, any_tool: Tool, bucket: str
) -> None:
    client = S3V4(acl_proxy, USER, cluster.description["users"][USER])
    assert client.request("GET", f"{bucket}/o").body == b"some text"
    answer = client.request("GET", f"{bucket}/o", run(any_tool, "upper"))
    assert_s3_error(answer, 403, "AccessDenied", "access.denied")
    assert "s3_acl" in element(answer, "Message")


def test_with_s3_acl_a_reader_gets_the_output_of_a_rule(
    cluster: Cluster, acl_proxy: str, owner: Client, any_tool: Tool
) -> None:
    admin = S3V4(acl_proxy, USER, cluster.description["users"][USER])
    clerk = S3V4(acl_proxy, "test:clerk", "key")
    name = unique("acl").replace("_", "-")
    assert admin.request("PUT", name).status == 200
    try:
        grant = {"x-amz-grant-read": 'id="test:clerk"'}
        assert admin.request("PUT", f"{name}/open", grant, body=b"some text").status == 200
        assert admin.request("PUT", f"{name}/closed", body=b"some text").status == 200
        rule = (
            f"version: 1\nrules:\n- name: hide\n  when: {{method: GET, container: {name}}}\n"
            f"  mandatory: true\n  run: {{storlet: {any_tool.storlet}, parameters: {{do: upper}}}}\n"
        )
        owner.put("storlet_rules")
        loaded = owner.put("storlet_rules/rules.yaml", rule.encode())
        assert loaded.status == 201, loaded.text
        assert clerk.request("GET", f"{name}/open").body == b"SOME TEXT"
        assert clerk.request("GET", f"{name}/closed").status == 403
        head = clerk.request("HEAD", f"{name}/open")
        assert head.status == 200, head
        assert "s3api" not in str(head.headers).lower()
    finally:
        owner.delete("storlet_rules/rules.yaml")
        delete_large_objects(owner, name)
