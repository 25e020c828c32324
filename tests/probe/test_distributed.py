"""``std:distributed``: the client disconnects, or an object server is killed, while splits run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.accounts import remove_container, unique
from tests.support.host import Host, new_key
from tests.support.http import raw_connection
from tests.support.tenant import Tenant
from tests.support.waiting import wait_for

COUNT = 60
HEADERS = {"X-Run-Storlet": "std:distributed"}


@pytest.fixture
def many(tenant: Tenant) -> Iterator[str]:
    """A container with small objects."""
    name = unique("many")
    assert tenant.client.put(name).status == 201
    for number in range(COUNT):
        assert tenant.client.put(f"{name}/{number:03}", b"line %d\n" % number).status == 201
    yield name
    remove_container(tenant.client, name)


def test_all_splits_end_when_the_client_disconnects(host: Host, tenant: Tenant, many: str) -> None:
    assert tenant.is_well()
    before, key = host.all_descriptors(), new_key()
    split = {"storlet": tenant.tool().storlet, "parameters": {"do": "hold", "key": key}}
    document = {"objects": {"container": many}, "split": split, "concurrency": 3}
    body = json.dumps(document).encode()
    with raw_connection(tenant.client) as client:
        client.send_head("POST", "", {**HEADERS, "Content-Length": str(len(body))})
        client.send(body)
        wait_for(lambda: len(host.runs_named(key)) >= 3, 20, "three splits")
    wait_for(lambda: not host.runs_named(key), 10, "the end of all splits")
    host.await_descriptors(before)
    assert tenant.is_well()


def test_an_object_server_that_is_killed_gives_no_wrong_line(
    host: Host, tenant: Tenant, many: str, background: ThreadPoolExecutor
) -> None:
    document = {"objects": {"container": many}, "split": "std:nop", "on-failure": "report"}
    body = json.dumps({**document, "concurrency": 2}).encode()

    def distributed() -> list[dict[str, str]]:
        answer = tenant.client.request("POST", "", HEADERS, body=body)
        assert (answer.status, answer.is_broken) == (200, False), answer
        return [json.loads(line) for line in answer.body.splitlines()]

    assert {row["outcome"] for row in distributed()} == {"ok"}
    with host.started_again("object-1"):
        going = background.submit(distributed)
        host.kill_hard("object-1")
        found = going.result(60)
    assert [row["path"] for row in found] == [f"/{many}/{number:03}" for number in range(COUNT)]
    for number, row in enumerate(found):
        if row["outcome"] == "ok":
            assert row["output"] == f"line {number}\n"
        else:
            assert row["code"] == "backend.failed", row
    assert sum(row["outcome"] == "ok" for row in found) >= COUNT - 4
    assert tenant.is_well()
