"""An S3 signature covers only the signed headers: other headers run no storlet and read no other
object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.functional.s3 import Signer
from tests.functional.test_services import ASKER, outcomes, upload
from tests.support.accounts import delete_large_objects, unique
from tests.support.cluster import Cluster
from tests.support.http import Client
from tests.support.storlets import Tool

SECRET = b"the secret of another object"


@pytest.fixture(scope="module")
def signer(cluster: Cluster) -> Signer:
    user = "test:tester"
    url = cluster.auth_url.rsplit("/auth", 1)[0]
    return Signer(url, user, cluster.description["users"][user])


@pytest.fixture
def bucket(owner: Client) -> Iterator[str]:
    """A container whose name is one of S3's."""
    name = unique("s3").replace("_", "-")
    assert owner.put(name).status == 201
    yield name
    delete_large_objects(owner, name)


@pytest.fixture
def signed_for(owner: Client, bucket: str, content: bytes) -> str:
    """The object for which a signature is made."""
    assert owner.put(f"{bucket}/signed", content).status == 201
    return f"{bucket}/signed"


@pytest.fixture
def secret(owner: Client, container: str) -> str:
    """Another object of the account, in a container for which no signature was made."""
    path = f"{container}/secret"
    assert owner.put(path, SECRET).status == 201
    return path


@pytest.mark.parametrize("way", ["v2_query", "v4_query", "v2_header"])
def test_an_uncovered_header_runs_no_storlet(
    signer: Signer, any_tool: Tool, signed_for: str, secret: str, content: bytes, way: str
) -> None:
    send = getattr(signer, way)
    assert send(signed_for, {}).body == content
    headers = {"X-Run-Storlet": any_tool.storlet, "X-Storlet-Extra-Resources": f"/{secret}"}
    answer = send(signed_for, headers)
    assert 400 <= answer.status < 500, answer
    assert SECRET not in answer.body


@pytest.mark.parametrize("way", ["v2_query", "v4_query", "v2_header"])
def test_an_uncovered_sequence_reads_no_other_object(
    signer: Signer, owner: Client, signed_for: str, secret: str, way: str
) -> None:
    assert upload(owner).status == 201
    asked = json.dumps([["open", f"/{secret}"]])
    steps = json.dumps(["std:nop", {"storlet": ASKER, "parameters": {"ask": asked}}])
    run = {"X-Run-Storlet": "std:sequence", "X-Storlet-Parameter-1": f"steps:{steps}"}
    answer = getattr(signer, way)(signed_for, run)
    assert 400 <= answer.status < 500, answer
    assert SECRET not in answer.body
    [found] = outcomes(signer.v4_header(signed_for, run, {}))
    assert (found[0], found[-1]) == ("ok", SECRET.decode())


@pytest.fixture(params=[[], ["std:nop"]], ids=["only", "second"])
def ruled(
    request: pytest.FixtureRequest, owner: Client, bucket: str, secret: str
) -> Iterator[None]:
    """A GET in the bucket runs a storlet of a rule, which reads another object."""
    assert upload(owner).status == 201
    asked = json.dumps([["stat", f"/{secret}"], ["open", f"/{secret}"]])
    steps = json.dumps([*request.param, {"storlet": ASKER, "parameters": {"ask": asked}}])
    when = f"{{method: GET, container: {bucket}}}"
    text = f"version: 1\nrules:\n- name: index\n  when: {when}\n  run: {steps}\n"
    owner.put("storlet_rules")
    accept = {"X-Storlet-Rules-Accept-Warnings": "true"}
    loaded = owner.put("storlet_rules/rules.yaml", text.encode(), accept)
    assert loaded.status == 201, loaded.text
    yield
    owner.delete("storlet_rules/rules.yaml")


@pytest.mark.usefixtures("ruled")
def test_a_presigned_url_runs_a_rules_storlet_without_services(
    signer: Signer, signed_for: str
) -> None:
    """The signature of a URL covers one object; with the key itself, the caller has services."""
    assert [each[0] for each in outcomes(signer.v4_header(signed_for, {}, {}))] == ["ok"] * 2
    for presigned in (signer.v2_query(signed_for, {}), signer.v4_query(signed_for, {})):
        found = [each[:2] for each in outcomes(presigned)]
        assert found == [["Denied", "services.none"]] * 2


@pytest.mark.parametrize("header", ["X-Storlet-Container-Read", "X-Remove-Storlet-Container-Read"])
def test_an_uncovered_header_changes_no_grant(
    signer: Signer, owner: Client, bucket: str, header: str
) -> None:
    acl = {"x-amz-acl": "private"}
    signed = "x-amz-acl:private\n?acl"
    assert signer.v2_query(bucket, acl, "PUT", signed).status == 200
    grant = {"X-Storlet-Container-Read": "test:kept", "X-Storlet-Name": "own.py"}
    assert owner.post(bucket, grant).status == 204
    before = owner.head(bucket).headers["X-Storlet-Container-Read"]
    changes = {header: "test2:tester2" if "Remove" not in header else "test:kept"}
    answer = signer.v2_query(bucket, acl | changes | {"X-Storlet-Name": "own.py"}, "PUT", signed)
    assert 400 <= answer.status < 500, answer
    assert owner.head(bucket).headers["X-Storlet-Container-Read"] == before


def test_headers_that_the_signature_covers_run_the_storlet(
    signer: Signer, any_tool: Tool, signed_for: str, secret: str, content: bytes
) -> None:
    run = {"X-Run-Storlet": any_tool.storlet, "X-Storlet-Parameter-1": "do:upper"}
    answer = signer.v4_header(signed_for, run, {})
    assert (answer.status, answer.body) == (200, content.upper()), answer
    extra = {"X-Storlet-Extra-Resources": f"/{secret}"}
    refused = signer.v4_header(signed_for, run, extra)
    assert 400 <= refused.status < 500, refused
    assert SECRET not in refused.body
    assert signer.v4_header(signed_for, run | extra, {}).status == 200


def test_an_authorization_header_beside_a_signed_query_covers_nothing(
    signer: Signer, any_tool: Tool, signed_for: str, content: bytes
) -> None:
    forged = {
        "X-Run-Storlet": any_tool.storlet,
        "Authorization": "AWS4-HMAC-SHA256 Credential=x, SignedHeaders=host;x-run-storlet, Signature=0",
    }
    answer = signer.v4_query(signed_for, forged)
    assert 400 <= answer.status < 500, answer
    assert answer.body != content.upper()
