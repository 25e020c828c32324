"""Clients that disconnect, stop half-way or lie about lengths: the run ends, nothing is stored,
nothing leaks."""

from __future__ import annotations

import time

import pytest

from tests.support.accounts import unique
from tests.support.host import Host, Process, is_alive, new_key, stream_links
from tests.support.http import RawConnection, raw_connection
from tests.support.tenant import Tenant
from tests.support.waiting import wait_for

OLD = b"the old object, byte for byte"
#: Half a second on an idle machine; a run whose client is not watched lasts until its deadline, 120
#: s.
SECONDS_TO_DIE = 8.0


def await_end(worker: Process, since: float) -> None:
    """The worker is dead, or has released the run because its storlet saw the end of the input and
    returned."""

    def is_over() -> bool:
        return not is_alive(worker) or not stream_links(worker.pid)

    wait_for(is_over, 10, "the run's end")
    took = time.monotonic() - since
    assert took <= SECONDS_TO_DIE, f"the storlet ran on for {took:.2f} s after its client had gone"


def leave(client: RawConnection, how: str) -> float:
    began = time.monotonic()
    client.close() if how == "closes" else client.reset()
    return began


@pytest.mark.parametrize("how", ["closes", "resets"])
@pytest.mark.parametrize("lines", ["0", "100", "busy", "endless"])
def test_a_run_ends_when_its_client_disconnects_during_a_get(
    host: Host, tenant: Tenant, placement: str, lines: str, how: str
) -> None:
    assert tenant.is_well(placement)
    before = host.all_descriptors()
    key = new_key()
    query = {
        "0": {"do": "hold", "key": key},
        "100": {"do": "hold", "key": key, "lines": "100"},
        "busy": {"do": "busy", "key": key},
        "endless": {"do": "flood", "key": key},
    }[lines]
    with raw_connection(tenant.client) as client:
        client.send_head("GET", tenant.path, tenant.tool(placement).headers(), query)
        worker = host.run_named(key)
        if lines in ("100", "endless"):
            assert client.read_head()[0] == 200
            assert client.unread or client.sock.recv(1000)
        await_end(worker, leave(client, how))
    host.await_descriptors(before)
    assert tenant.is_well(placement)


@pytest.mark.parametrize("how", ["closes", "resets"])
def test_nothing_is_stored_when_a_client_disconnects_during_its_body(
    host: Host, tenant: Tenant, how: str
) -> None:
    path, key = f"data/{unique('put')}", new_key()
    assert tenant.client.put(path, OLD).status == 201
    before = host.all_descriptors()
    with raw_connection(tenant.client) as client:
        client.send_head(
            "PUT", path, {**tenant.tool().headers(), "Content-Length": "1000000"}, {"key": key}
        )
        client.send(b"x" * 500_000)
        worker = host.run_named(key)
        await_end(worker, leave(client, how))
    host.await_descriptors(before)
    assert tenant.client.get(path).body == OLD


@pytest.mark.parametrize("how", ["closes", "resets"])
@pytest.mark.parametrize("lines", ["0", "100"])
def test_nothing_is_stored_when_a_client_disconnects_while_its_put_is_computed(
    host: Host, tenant: Tenant, lines: str, how: str
) -> None:
    path, key = f"data/{unique('put')}", new_key()
    assert tenant.client.put(path, OLD).status == 201
    before = host.all_descriptors()
    with raw_connection(tenant.client) as client:
        client.send_head(
            "PUT",
            path,
            {**tenant.tool().headers(), "Content-Length": "5"},
            {"do": "hold", "key": key, "lines": lines},
        )
        client.send(b"12345")
        worker = host.run_named(key)
        time.sleep(0.3)
        await_end(worker, leave(client, how))
    host.await_descriptors(before)
    assert tenant.client.get(path).body == OLD


def test_nothing_is_stored_when_a_client_disconnects_during_a_copy(
    host: Host, tenant: Tenant, placement: str
) -> None:
    path, key = f"data/{unique('copy')}", new_key()
    assert tenant.client.put(path, OLD).status == 201
    before = host.all_descriptors()
    with raw_connection(tenant.client) as client:
        headers = {**tenant.tool(placement).headers(), "Destination": path}
        client.send_head("COPY", tenant.path, headers, {"do": "hold", "key": key})
        worker = host.run_named(key)
        await_end(worker, leave(client, "closes"))
    host.await_descriptors(before)
    assert tenant.client.get(path).body == OLD


# --- half bodies ----------------------------------------------------------------------------------


@pytest.mark.parametrize("claimed", [1000, 1 << 40])
@pytest.mark.parametrize("do", ["identity", "ignore"])
def test_a_body_that_ends_before_its_length_stores_nothing(
    tenant: Tenant, do: str, claimed: int
) -> None:
    path = f"data/{unique('put')}"
    assert tenant.client.put(path, OLD).status == 201
    with raw_connection(tenant.client) as client:
        client.send_head(
            "PUT", path, {**tenant.tool().headers(), "Content-Length": str(claimed)}, {"do": do}
        )
        client.send(b"x" * 500)
        client.end_sending()
        rest, _ = client.read_to_end()
    # The request fails whether or not the client still reads the response.
    assert not rest.startswith(b"HTTP/1.1 2"), rest
    assert tenant.client.get(path).body == OLD


def test_a_chunked_body_without_its_end_stores_nothing(tenant: Tenant) -> None:
    path = f"data/{unique('put')}"
    assert tenant.client.put(path, OLD).status == 201
    with raw_connection(tenant.client) as client:
        client.send_head("PUT", path, {**tenant.tool().headers(), "Transfer-Encoding": "chunked"})
        client.send(b"1F4\r\n" + b"x" * 500 + b"\r\n")
        client.end_sending()
        rest, _ = client.read_to_end()
    assert not rest.startswith(b"HTTP/1.1 2"), rest
    assert tenant.client.get(path).body == OLD


@pytest.mark.parametrize("do", ["identity", "ignore"])
def test_a_wrong_etag_stores_nothing(tenant: Tenant, do: str) -> None:
    path = f"data/{unique('put')}"
    assert tenant.client.put(path, OLD).status == 201
    answer = tenant.tool().put(path, b"new", do, {"ETag": "0" * 32})
    assert answer.status == 422, answer
    assert tenant.client.get(path).body == OLD


# --- storlets that ignore their input -------------------------------------------------------------


def test_a_storlet_that_never_reads_a_big_put_succeeds(tenant: Tenant) -> None:
    path = f"data/{unique('put')}"
    answer = tenant.tool().put(path, b"x" * (16 << 20), "ignore")
    assert answer.status == 201, answer
    assert tenant.client.get(path).body == b"ignored"


def test_a_get_succeeds_if_the_storlet_writes_much_without_reading(
    tenant: Tenant, placement: str
) -> None:
    size = 16 << 20
    answer = tenant.client.get(
        tenant.path,
        tenant.tool(placement).headers(),
        query={"do": "flood", "bytes": str(size)},
        keep=False,
    )
    assert (answer.status, answer.is_broken, answer.size) == (200, False, size)


def test_a_put_succeeds_if_the_storlet_writes_much_without_reading(tenant: Tenant) -> None:
    path, size = f"data/{unique('put')}", 16 << 20
    assert tenant.tool().put(path, b"x" * 1000, "flood", bytes=str(size)).status == 201
    stored = tenant.client.head(path)
    assert int(stored.headers["Content-Length"]) == size
    assert tenant.client.delete(path).status == 204
