"""Token, retries and errors of one request."""

from __future__ import annotations

import pytest

from storlet_client import ConfigurationError, Refused, Storlets
from storlet_client.exchange import Call
from storlet_client.login import Account
from storlet_client.session import prepared
from tests.unit.client.server import Reply, Server

HEAD = ("HEAD", "/c")


def refused(storlets: Storlets) -> Refused:
    with pytest.raises(Refused) as caught:
        storlets.grants("c")
    return caught.value


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_failure_of_the_server_is_repeated(
    server: Server, storlets: Storlets, status: int
) -> None:
    server.on(*HEAD, Reply(status), Reply(status), Reply(204))
    assert storlets.grants("c") == []
    assert server.calls() == ["HEAD /c"] * 3


def test_attempts_are_bounded(server: Server, storlets: Storlets) -> None:
    server.on(*HEAD, Reply(503))
    assert refused(storlets).status == 503
    assert len(server.calls()) == 4


@pytest.mark.parametrize("status", [400, 403, 404, 409, 412, 416, 422])
def test_other_refusals_are_not_repeated(server: Server, storlets: Storlets, status: int) -> None:
    server.on(*HEAD, Reply(status), Reply(204))
    assert refused(storlets).status == status
    assert len(server.calls()) == 1


def test_a_failure_of_the_storlet_is_not_repeated_with_any_status(
    server: Server, storlets: Storlets
) -> None:
    server.on(*HEAD, Reply(503, {"X-Storlet-Error": "storlet.failed"}), Reply(204))
    assert refused(storlets).code == "storlet.failed"
    assert len(server.calls()) == 1


def test_a_long_pause_is_the_callers_decision(server: Server, storlets: Storlets) -> None:
    server.on(*HEAD, Reply(503, {"Retry-After": "3600"}), Reply(204))
    assert refused(storlets).retry_after == 3600
    assert len(server.calls()) == 1


def test_a_refused_token_is_renewed_once(server: Server, storlets: Storlets) -> None:
    server.on(*HEAD, Reply(401), Reply(204), Reply(401))
    assert storlets.grants("c") == []
    assert refused(storlets).status == 401
    logins = [one for one in server.received if one.path == "/auth/v1.0"]
    assert len(logins) == 3


def test_a_body_that_cannot_be_sent_again_is_sent_once(server: Server, storlets: Storlets) -> None:
    server.on("PUT", "/c/o", Reply(503), Reply(201))
    with pytest.raises(Refused):
        storlets.put("s.py", "c/o", iter([b"a", b"b"]))
    assert [one.body for one in server.received if one.method == "PUT"] == [b"ab"]


@pytest.mark.parametrize("path", [("",), ("c", ""), ("", "o")])
def test_an_empty_name_is_no_request_for_the_container_or_the_account(
    path: tuple[str, ...],
) -> None:
    account = Account("http://host/v1/A", "t")
    assert prepared(Call("DELETE", ("c",)), account).url == "http://host/v1/A/c"
    with pytest.raises(ConfigurationError, match="name of the container or of the object is empty"):
        prepared(Call("DELETE", path), account)
