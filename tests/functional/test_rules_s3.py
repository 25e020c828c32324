"""Rules and the S3 API: it reads the same objects, and mandatory rules hold there too."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.functional.s3 import S3, Signer, element
from tests.functional.wards import CONTENT, ETAG, MASKED, assert_reveals_nothing, furnish, told
from tests.support.cluster import Cluster
from tests.support.http import Answer, Client, log_in
from tests.support.proxies import other_proxy


@dataclass(frozen=True)
class Hospital:
    """An account with separate users: S3 requests use only the user's own account."""

    owner: Client
    researcher: S3
    physician: S3

    def rule(self, text: str) -> None:
        answer = self.owner.put("storlet_rules/rules.yaml", text.encode())
        assert answer.status == 201, answer.text


@pytest.fixture(scope="module")
def hospital(cluster: Cluster) -> Iterator[Hospital]:
    name = uuid.uuid4().hex[:10]
    users = {
        f"user_{name}_owner": "key .admin",
        f"user_{name}_researcher": "key",
        f"user_{name}_physician": "key",
    }
    with other_proxy(cluster, {"filter:tempauth": users}) as proxy:
        owner = log_in(proxy.auth_url, f"{name}:owner", "key")
        furnish(owner, f"{name}:researcher,{name}:physician")
        acl = f"{name}:researcher,{name}:physician"
        assert (
            owner.put(
                "open+segments", b"", {"X-Container-Read": acl, "X-Container-Write": acl}
            ).status
            == 201
        )
        url = f"http://127.0.0.1:{proxy.port}"
        made = Hospital(
            owner, *(S3(url, f"{name}:{who}", "key") for who in ("researcher", "physician"))
        )
        made.rule(rules(name))
        yield made


def rules(name: str, action: str = "run: mask.py") -> str:
    when = f'{{method: GET, container: patients, user: "{name}:researcher"}}'
    return f"version: 1\nrules:\n- name: hide\n  when: {when}\n  mandatory: true\n  {action}\n"


def assert_denied(answer: Answer, rule: str = "hide") -> None:
    """An S3 error in XML, whose message names the rule."""
    assert (answer.status, element(answer, "Code")) == (403, "AccessDenied"), answer
    assert element(answer, "Message").startswith(f"rule {rule}: ")
    assert (answer.error, answer.headers["X-Storlet-Rule"]) == ("access.rule", rule)
    assert_reveals_nothing(answer)


def test_s3_get_object_gives_the_result_of_the_rule(hospital: Hospital) -> None:
    answer = hospital.researcher.request("GET", "patients/a.csv")
    assert (answer.status, answer.is_broken, answer.body) == (200, False, MASKED), answer
    assert "SECRET" not in told(answer)
    assert ETAG not in told(answer)
    assert answer.headers["x-amz-meta-study"] is None
    plain = hospital.physician.request("GET", "patients/a.csv")
    assert (plain.status, plain.body, plain.headers["x-amz-meta-study"]) == (200, CONTENT, "7")


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Range", "bytes=0-9"),
        ("If-Match", f'"{ETAG}"'),
        ("If-None-Match", f'"{ETAG}"'),
        ("If-Modified-Since", "Thu, 01 Jan 1970 00:00:00 GMT"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_s3_ranges_and_conditions_do_not_bypass_a_rule(
    hospital: Hospital, method: str, header: str, value: str
) -> None:
    answer = hospital.researcher.request(method, "patients/a.csv", {header: value})
    if method == "GET":
        assert_denied(answer)
    else:
        assert answer.status == 403, answer
        assert_reveals_nothing(answer)


@pytest.mark.parametrize("way", ["v2_query", "v4_query"])
def test_a_url_that_a_covered_user_signs_for_itself_does_not_bypass_a_rule(
    hospital: Hospital, way: str
) -> None:
    """A user of S3 has a key of its own, other than the account's key of a TempURL."""
    for user, body in ((hospital.researcher, MASKED), (hospital.physician, CONTENT)):
        send = getattr(Signer(user.url, user.user, user.key), way)
        answer = send("patients/a.csv", {})
        assert (answer.status, answer.body) == (200, body), answer
    signer = Signer(hospital.researcher.url, hospital.researcher.user, hospital.researcher.key)
    assert_reveals_nothing(signer.v2_query("patients/a.csv", {}, "HEAD"))
    assert getattr(signer, way)("patients/a.csv", {"Range": "bytes=0-3"}).status == 403
    listing = getattr(signer, way)("patients", {})
    assert (listing.status, element(listing, "Contents/Size")) == (200, "0"), listing


def test_s3_part_number_does_not_bypass_a_rule(hospital: Hospital) -> None:
    assert_denied(hospital.researcher.request("GET", "patients/a.csv", query="partNumber=1"))


def test_s3_head_object_hides_metadata(hospital: Hospital) -> None:
    answer = hospital.researcher.request("HEAD", "patients/a.csv")
    assert answer.status == 200, answer
    assert_reveals_nothing(answer)
    assert answer.headers["x-amz-meta-study"] is None
    assert answer.headers["Content-Length"] in (None, "0")
    assert hospital.physician.request("HEAD", "patients/a.csv").headers["ETag"] == f'"{ETAG}"'


@pytest.mark.parametrize("directive", ["COPY", "REPLACE"])
def test_s3_copy_object_does_not_bypass_a_rule(hospital: Hospital, directive: str) -> None:
    headers = {"x-amz-copy-source": "/patients/a.csv", "x-amz-metadata-directive": directive}
    answer = hospital.researcher.request("PUT", "open/copy", headers)
    assert_reveals_nothing(answer)
    stored = hospital.owner.get("open/copy")
    if directive == "REPLACE":
        assert_denied(answer)
        assert stored.status == 404
    else:
        assert answer.status == 200, answer
        assert (stored.status, stored.body, stored.meta("Study")) == (200, MASKED, None)
        assert hospital.owner.delete("open/copy").status == 204


def test_s3_copy_conditions_do_not_reveal_the_etag(hospital: Hospital) -> None:
    for name in ("if-match", "if-none-match"):
        headers = {"x-amz-copy-source": "/patients/a.csv", f"x-amz-copy-source-{name}": ETAG}
        assert_denied(hospital.researcher.request("PUT", "open/copy", headers))
    assert hospital.owner.head("open/copy").status == 404


@pytest.fixture
def upload(hospital: Hospital) -> Iterator[str]:
    """Id of a multipart upload of ``open/large``."""
    begun = hospital.researcher.request("POST", "open/large", query="uploads")
    assert begun.status == 200, begun
    yield element(begun, "UploadId")
    for entry in hospital.owner.listing("open+segments"):
        hospital.owner.delete(f"open+segments/{entry['name']}")


def test_s3_upload_part_copy_does_not_bypass_a_rule(hospital: Hospital, upload: str) -> None:
    query = f"partNumber=1&uploadId={upload}"
    headers = {"x-amz-copy-source": "/patients/a.csv"}
    ranged = headers | {"x-amz-copy-source-range": "bytes=0-9"}
    refused = hospital.researcher.request("PUT", "open/large", ranged, query)
    assert refused.status in (400, 403), refused
    assert_reveals_nothing(refused)
    copied = hospital.researcher.request("PUT", "open/large", headers, query)
    assert copied.status == 200, copied
    assert_reveals_nothing(copied)
    etag = element(copied, "ETag")
    part = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
    body = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()
    whole = hospital.researcher.request(
        "POST", "open/large", {"Content-Type": "text/xml"}, f"uploadId={upload}", body
    )
    assert whole.status == 200, whole
    assert hospital.researcher.request("GET", "open/large").body == MASKED
    assert hospital.owner.delete("open/large").status == 204


def test_s3_select_object_content_gives_no_data(hospital: Hospital) -> None:
    """A signature of version 2 does not cover it; the response must contain no data."""
    body = b"<SelectObjectContentRequest><Expression>SELECT * FROM S3Object</Expression></SelectObjectContentRequest>"
    for user in (hospital.researcher, hospital.physician):
        answer = user.request(
            "POST", "patients/a.csv", {"Content-Type": "text/xml"}, "select&select-type=2", body
        )
        assert answer.status >= 400, answer
        assert_reveals_nothing(answer)


@pytest.mark.parametrize("query", ["", "list-type=2", "list-type=2&fetch-owner=true", "versions"])
def test_s3_list_objects_hides_sizes_and_etags(hospital: Hospital, query: str) -> None:
    answer = hospital.researcher.request("GET", "patients", query=query)
    assert answer.status == 200, answer
    entry = "Version" if query == "versions" else "Contents"
    assert element(answer, f"{entry}/Key") == "a.csv"
    assert (element(answer, f"{entry}/ETag"), element(answer, f"{entry}/Size")) == ('""', "0")
    assert_reveals_nothing(answer)
    assert ETAG in told(hospital.physician.request("GET", "patients", query=query))


def test_a_large_object_with_a_covered_segment(hospital: Hospital) -> None:
    manifest = json.dumps([{"path": "/patients/a.csv"}]).encode()
    assert (
        hospital.owner.put("open/manifest", manifest, query={"multipart-manifest": "put"}).status
        == 201
    )
    assert hospital.physician.request("GET", "open/manifest").body == CONTENT
    assert_denied(hospital.researcher.request("GET", "open/manifest"))
    head = hospital.researcher.request("HEAD", "open/manifest")
    assert head.status == 403, head
    assert_reveals_nothing(head)
    assert hospital.owner.delete("open/manifest").status == 204


def test_deny_has_its_message(hospital: Hospital) -> None:
    name = hospital.researcher.user.partition(":")[0]
    hospital.rule(rules(name, "deny: ask the ward"))
    try:
        answer = hospital.researcher.request("GET", "patients/a.csv")
        assert_denied(answer)
        assert "ask the ward" in element(answer, "Message")
        assert_denied(
            hospital.researcher.request(
                "PUT", "open/copy", {"x-amz-copy-source": "/patients/a.csv"}
            )
        )
        assert_denied(hospital.researcher.request("GET", "patients"))
        assert hospital.researcher.request("HEAD", "patients/a.csv").status == 403
    finally:
        hospital.rule(rules(name))
