"""Delegated access of Swift's: no kind of it lets its holder name a storlet.

The rows of S3 signatures are in ``test_s3_signatures``, those of plain signed URLs in
``test_signed_urls``.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.functional.test_signed_urls import KEY
from tests.support.accounts import unique
from tests.support.cluster import Cluster
from tests.support.http import Answer, Client
from tests.support.proxies import other_proxy
from tests.support.storlets import Tool


@dataclass(frozen=True)
class DelegatingProxy:
    """A proxy that has every middleware of Swift that delegates access."""

    owner: Client
    anonymous: Client

    def of(self, client: Client) -> Client:
        url = self.anonymous.storage_url.split("/v1/")[0]
        return Client(url + client.version_url.path, client.token, client.user)


@pytest.fixture(scope="module")
def delegating(cluster: Cluster, owner: Client) -> Iterator[DelegatingProxy]:
    conf = Path(cluster.description["conf_dir"])
    text = (conf / "proxy-server.conf").read_text("utf-8")
    (line,) = (line for line in text.splitlines() if line.startswith("pipeline ="))
    pipeline = (
        line.partition("=")[2]
        .replace(" cache ", " cache container_sync domain_remap ")
        .replace(" tempurl ", " tempurl formpost ")
    )
    realms = conf / "container-sync-realms.conf"
    realms.write_text("[REALM]\nkey = realm\n", "ascii")
    realms.chmod(0o644)
    changes = {
        "pipeline:main": {"pipeline": pipeline},
        "filter:container_sync": {"use": "egg:swift#container_sync"},
        "filter:domain_remap": {"use": "egg:swift#domain_remap", "storage_domain": "example.com"},
        "filter:formpost": {"use": "egg:swift#formpost"},
    }
    assert owner.post("", {"X-Account-Meta-Temp-Url-Key": KEY}).status in (201, 204)
    try:
        with other_proxy(cluster, changes) as proxy:
            there = proxy.client(owner)
            yield DelegatingProxy(there, Client(there.storage_url, ""))
    finally:
        realms.unlink()


def run(tool: Tool) -> dict[str, str]:
    return {"X-Run-Storlet": tool.storlet, "X-Storlet-Parameter-1": "do:upper"}


def assert_refused(answer: Answer) -> None:
    assert (answer.status, answer.error) == (401, "access.denied"), answer


def test_a_tempurl_with_a_prefix_and_an_address_runs_no_storlet(
    delegating: DelegatingProxy, any_tool: Tool, plain: str, content: bytes
) -> None:
    expires, path = str(int(time.time()) + 600), delegating.anonymous.version_url.path
    prefix = plain[:-1]
    text = f"ip=127.0.0.1\nGET\n{expires}\nprefix:{path}/{prefix}"
    query = {
        "temp_url_sig": hmac.new(KEY.encode(), text.encode(), hashlib.sha256).hexdigest(),
        "temp_url_expires": expires,
        "temp_url_prefix": prefix.partition("/")[2],
        "temp_url_ip_range": "127.0.0.1",
    }
    assert delegating.anonymous.get(plain, query=query).body == content
    assert_refused(delegating.anonymous.get(plain, run(any_tool), query=query))


def test_a_form_runs_no_storlet(
    delegating: DelegatingProxy, any_tool: Tool, container: str
) -> None:
    path, expires = f"{delegating.anonymous.version_url.path}/{container}/", int(time.time()) + 300
    text = f"{path}\n\n1000\n1\n{expires}"
    fields = {
        "max_file_size": "1000",
        "max_file_count": "1",
        "expires": str(expires),
        "signature": hmac.new(KEY.encode(), text.encode(), hashlib.sha256).hexdigest(),
        # A form cannot send headers, but it may have fields of their names.
        **run(any_tool),
    }
    parts = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
        for key, value in fields.items()
    )
    disposition = 'Content-Disposition: form-data; name="f"; filename="o"'
    body = f"{parts}--x\r\n{disposition}\r\n\r\ntext\r\n--x--\r\n".encode()
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    # formpost drops all headers of its client.
    stored = delegating.anonymous.request("POST", f"{container}/", kind | run(any_tool), body=body)
    assert stored.status == 201, stored
    assert delegating.owner.get(f"{container}/o").body == b"text"


def test_container_sync_runs_no_storlet(
    delegating: DelegatingProxy, any_tool: Tool, container: str, plain: str, content: bytes
) -> None:
    assert delegating.owner.post(container, {"X-Container-Sync-Key": "user"}).status == 204
    text = f"GET\n{delegating.anonymous.version_url.path}/{plain}\n0\nnonce\nuser"
    signature = hmac.new(b"realm", text.encode(), hashlib.sha1).hexdigest()
    sync = {"X-Container-Sync-Auth": f"REALM nonce {signature}", "X-Timestamp": "0"}
    assert delegating.anonymous.get(plain, sync).body == content
    assert_refused(delegating.anonymous.get(plain, sync | run(any_tool)))


def test_a_post_policy_of_s3_stores_nothing(
    delegating: DelegatingProxy, any_tool: Tool, container: str
) -> None:
    policy = json.dumps({"expiration": "2099-01-01T00:00:00Z", "conditions": []})
    fields = {"key": "o", "policy": policy, "AWSAccessKeyId": "test:tester", "signature": "x"}
    parts = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
        for key, value in fields.items()
    )
    disposition = 'Content-Disposition: form-data; name="file"; filename="o"'
    body = f"{parts}--x\r\n{disposition}\r\n\r\ntext\r\n--x--\r\n".encode()
    root = Client(delegating.anonymous.storage_url.split("/v1/")[0], "")
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = root.request("POST", container, kind | run(any_tool), body=body)
    assert 400 <= answer.status < 500, answer
    assert delegating.owner.head(f"{container}/o").status == 404


def test_a_service_token_gives_its_user_no_storlet(
    delegating: DelegatingProxy,
    any_tool: Tool,
    users: dict[str, Client],
    plain: str,
    content: bytes,
) -> None:
    stranger, service = users["test2:tester2"], {"X-Service-Token": users["test5:tester5"].token}
    answer = (
        delegating.of(stranger).on(delegating.owner.account).get(plain, run(any_tool) | service)
    )
    assert answer.status == 403, answer
    anonymous = delegating.anonymous.get(
        plain, run(any_tool) | {"X-Service-Token": delegating.owner.token}
    )
    assert anonymous.status == 401, anonymous
    mine = {"X-Service-Token": stranger.token}
    assert delegating.owner.get(plain, run(any_tool) | mine).body == content.upper()


def test_a_remapped_domain_gives_no_access(
    delegating: DelegatingProxy, any_tool: Tool, plain: str, content: bytes
) -> None:
    container, _, name = plain.partition("/")
    host = {"Host": f"{container}.{delegating.owner.account}.example.com"}
    url = delegating.anonymous.storage_url.split("/v1/")[0]
    read = Client(url, delegating.owner.token).get(name, host | run(any_tool))
    assert (read.status, read.body) == (200, content.upper()), read
    assert Client(url, "").get(name, host | run(any_tool)).status == 401


def test_a_link_to_another_account_needs_access_to_its_target(
    owner: Client, any_tool: Tool, users: dict[str, Client], container: str
) -> None:
    other, place = users["test2:tester2"], unique("linked")
    assert other.put(place).status == 201
    assert other.put(f"{place}/o", b"theirs").status == 201
    link = {"X-Symlink-Target": f"{place}/o", "X-Symlink-Target-Account": other.account}
    try:
        assert owner.put(f"{container}/link", b"", link).status == 201
        refused = any_tool.get(f"{container}/link", "upper")
        assert (refused.status, b"theirs" in refused.body.lower()) == (403, False), refused
        assert other.post(place, {"X-Container-Read": "test:tester"}).status == 204
        assert any_tool.get(f"{container}/link", "upper").body == b"THEIRS"
    finally:
        other.delete(f"{place}/o")
        other.delete(place)
