"""An S3 signature covers only the signed headers: other headers run no storlet and read no other
object.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from urllib.parse import quote

import pytest

from tests.support.accounts import remove_container, unique
from tests.support.cluster import Cluster
from tests.support.http import Answer, Client
from tests.support.storlets import Tool

SECRET = b"the secret of another object"
REGION = "us-east-1"


class Signer:
    """Signs S3 requests of one user of tempauth, in each of S3's ways."""

    def __init__(self, cluster: Cluster) -> None:
        self._user, self._key = "test:tester", cluster.description["users"]["test:tester"]
        self._client = Client(cluster.auth_url.rsplit("/auth", 1)[0], "")
        self.host = f"{self._client.version_url.host}:{self._client.version_url.port}"

    def v2_query(
        self, path: str, headers: Mapping[str, str], method: str = "GET", signed: str = ""
    ) -> Answer:
        """A presigned URL of version 2; ``headers`` are added by its user.

        :param signed: lines of the ``x-amz-*`` headers, then the sub-resource.
        """
        expires = str(int(time.time()) + 600)
        amz, _, resource = signed.rpartition("\n")
        text = f"{method}\n\n\n{expires}\n{amz and amz + chr(10)}/{quote(path)}{resource}"
        digest = hmac.digest(self._key.encode(), text.encode(), "sha1")
        query = {
            "AWSAccessKeyId": self._user,
            "Expires": expires,
            "Signature": base64.b64encode(digest).decode(),
        }
        own = {resource.removeprefix("?"): ""} if resource else {}
        return self._client.request(method, path, headers, query=own | query)

    def v4_query(self, path: str, headers: Mapping[str, str]) -> Answer:
        """A presigned URL of version 4."""
        now = datetime.now(tz=UTC)
        query = {
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": f"{self._user}/{self._scope(now)}",
            "X-Amz-Date": f"{now:%Y%m%dT%H%M%SZ}", "X-Amz-Expires": "600", "X-Amz-SignedHeaders": "host",
        }  # fmt: skip
        text = "&".join(
            f"{quote(key, safe='-_.~')}={quote(value, safe='-_.~')}"
            for key, value in sorted(query.items())
        )
        signature = self._v4(now, path, text, {"host": self.host}, "UNSIGNED-PAYLOAD")
        return self._client.get(path, headers, query=f"{text}&X-Amz-Signature={signature}")

    def v4_header(
        self, path: str, signed: Mapping[str, str], unsigned: Mapping[str, str]
    ) -> Answer:
        """An ``Authorization`` header of version 4 that covers ``signed``."""
        now, empty = datetime.now(tz=UTC), hashlib.sha256(b"").hexdigest()
        own = {"x-amz-date": f"{now:%Y%m%dT%H%M%SZ}", "x-amz-content-sha256": empty}
        covered = {"host": self.host} | own | {key.lower(): value for key, value in signed.items()}
        signature = self._v4(now, path, "", covered, empty)
        authorization = (
            f"AWS4-HMAC-SHA256 Credential={self._user}/{self._scope(now)}, "
            f"SignedHeaders={';'.join(sorted(covered))}, Signature={signature}"
        )
        return self._client.get(path, {**own, **signed, **unsigned, "Authorization": authorization})

    def v2_header(self, path: str, headers: Mapping[str, str]) -> Answer:
        """An ``Authorization`` header of version 2, which covers ``x-amz-*`` headers only."""
        date = datetime.now(tz=UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        digest = hmac.digest(
            self._key.encode(), f"GET\n\n\n{date}\n/{quote(path)}".encode(), "sha1"
        )
        authorization = f"AWS {self._user}:{base64.b64encode(digest).decode()}"
        return self._client.get(path, {"Date": date, **headers, "Authorization": authorization})

    @staticmethod
    def _scope(now: datetime) -> str:
        return f"{now:%Y%m%d}/{REGION}/s3/aws4_request"

    def _v4(
        self, now: datetime, path: str, query: str, headers: Mapping[str, str], payload: str
    ) -> str:
        lines = "".join(f"{key}:{value}\n" for key, value in sorted(headers.items()))
        canonical = f"GET\n/{quote(path)}\n{query}\n{lines}\n{';'.join(sorted(headers))}\n{payload}"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{now:%Y%m%dT%H%M%SZ}\n{self._scope(now)}\n{digest}"
        key = b"AWS4" + self._key.encode()
        for part in self._scope(now).split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


@pytest.fixture(scope="module")
def signer(cluster: Cluster) -> Signer:
    return Signer(cluster)


@pytest.fixture
def bucket(owner: Client) -> Iterator[str]:
    """A container whose name is one of S3's."""
    name = unique("s3").replace("_", "-")
    assert owner.put(name).status == 201
    yield name
    remove_container(owner, name)


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
