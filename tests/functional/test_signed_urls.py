"""TempURL: a signature covers one object and one method, and gives no permission to run
storlets."""

from __future__ import annotations

import hashlib
import hmac
import json
import time

import pytest

from tests.support.accounts import unique
from tests.support.http import Client
from tests.support.storlets import Tool

KEY = "a key of the account"


@pytest.fixture(scope="module")
def signing(owner: Client) -> Client:
    """The owner's account with a key, and a client without a token."""
    assert owner.post("", {"X-Account-Meta-Temp-Url-Key": KEY}).status in (201, 204)
    return Client(owner.storage_url, "")


def signature(client: Client, method: str, path: str) -> dict[str, str]:
    expires = str(int(time.time()) + 600)
    text = f"{method}\n{expires}\n{client.version_url.path}/{path}"
    digest = hmac.new(KEY.encode(), text.encode(), hashlib.sha256).hexdigest()
    return {"temp_url_sig": digest, "temp_url_expires": expires}


def test_a_signed_url_reads_the_object(signing: Client, plain: str, content: bytes) -> None:
    assert signing.get(plain, query=signature(signing, "GET", plain)).body == content


@pytest.mark.parametrize("is_sequence", [False, True])
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_signed_url_runs_no_storlet(
    any_tool: Tool, signing: Client, plain: str, content: bytes, method: str, *, is_sequence: bool
) -> None:
    key = unique("signed")
    storlet, parameters = any_tool.storlet, {"do": "upper", "count": key}
    if is_sequence:
        steps = [{"storlet": storlet, "parameters": parameters}]
        storlet, parameters = "std:sequence", {"steps": json.dumps(steps)}
    query = signature(signing, method, plain) | parameters
    answer = signing.request(method, plain, {"X-Run-Storlet": storlet}, query=query, body=b"")
    assert (answer.status, answer.error) == (401, "access.denied")
    assert any_tool.count(plain, key) == 0
    assert any_tool.client.get(plain).body == content


def test_a_signed_url_uploads_no_unchecked_storlet(signing: Client, owner: Client) -> None:
    path = f"storlet/{unique('signed')}.py"
    answer = signing.put(path, b"x", query=signature(signing, "PUT", path))
    assert answer.status == 400
    assert owner.head(path).status == 404


def test_a_signed_url_shows_no_rules(signing: Client, plain: str) -> None:
    query = signature(signing, "GET", plain)
    answer = signing.get(plain, {"X-Storlet-Explain": "true"}, query=query)
    assert (answer.status, answer.error) == (401, "access.denied")
