"""Slow storlets and slow clients under Swift's own timeouts: each runs once and succeeds.

Swift's timeouts and the heartbeat are a third or a quarter of their defaults, so that the tests
need not wait for a minute.  All requests wait at the same time: one fixture starts them, and each
test checks one.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.accounts import unique
from tests.support.cluster import Cluster
from tests.support.host import check_numbered, new_key
from tests.support.http import Answer, raw_connection
from tests.support.storlets import PLACEMENTS, Tool
from tests.support.tenant import Tenant

NODE_SECONDS = 3
CLIENT_SECONDS = 12
#: Defaults: 10 s between servers, 60 s for a client, a heartbeat each 3 s.
TIMEOUTS: dict[str, dict[str, object]] = {
    "proxy-server.conf:DEFAULT": {"client_timeout": CLIENT_SECONDS},
    "proxy-server.conf:app:proxy-server": {"node_timeout": NODE_SECONDS},
    "internal-client.conf:app:proxy-server": {"node_timeout": NODE_SECONDS},
    "object-server-1.conf:app:object-server": {"client_timeout": CLIENT_SECONDS},
    "object-server-2.conf:app:object-server": {"client_timeout": CLIENT_SECONDS},
    "storlet.conf:placement": {"heartbeat_seconds": 1},
}
#: Longer than all of Swift's timeouts, and longer than twice that between servers.
SILENT_SECONDS = 15
PAUSE_SECONDS = 8
#: Pieces of a slow client, one each half a second: longer than a server waits for another.
PIECES = 16
PIECE_SECONDS = 0.5
UPLOAD = bytes(range(256)) * 16


@dataclass
class Waiting:
    """The requests in progress, and the keys of their run counters."""

    keys: dict[str, str] = field(default_factory=dict)
    futures: dict[str, Future[Any]] = field(default_factory=dict)

    def answer(self, name: str) -> Any:
        return self.futures[name].result(SILENT_SECONDS + 60)


@pytest.fixture(scope="module")
def _impatient(cluster: Cluster, nothing_is_left: None) -> Iterator[None]:
    with cluster.configured(TIMEOUTS):
        yield


@pytest.fixture(scope="module")
def waiting(_impatient: None, tenant: Tenant, java: Callable[[str], Tool]) -> Iterator[Waiting]:
    found = Waiting()
    with ThreadPoolExecutor(32) as pool:

        def begin(
            name: str, function: Callable[..., Any], *arguments: Any, **parameters: str
        ) -> None:
            found.keys[name] = new_key()
            found.futures[name] = pool.submit(
                function, *arguments, **parameters, key=found.keys[name]
            )

        for place in PLACEMENTS:
            tool = tenant.tool(place)
            begin(f"silent-{place}", tool.get, tenant.path, "numbered", before=str(SILENT_SECONDS))
            begin(
                f"pause-{place}",
                tool.get,
                tenant.path,
                "numbered",
                lines="100",
                pause=str(PAUSE_SECONDS),
            )
            begin(f"trickle-{place}", tool.get, tenant.path, "numbered", trickle="7", every="1.2")
            begin(
                f"copy-{place}",
                tool.copy,
                tenant.path,
                f"data/{unique('slow')}",
                "numbered",
                before=str(PAUSE_SECONDS),
            )
            found.futures[f"reader-{place}"] = pool.submit(read_slowly, tenant, place)
            found.keys[f"java-{place}"] = new_key()
            found.futures[f"java-{place}"] = pool.submit(
                java(place).get,
                tenant.path,
                "slow",
                before=str(SILENT_SECONDS),
                count=found.keys[f"java-{place}"],
            )
        begin(
            "put",
            tenant.tool().put,
            f"data/{unique('slow')}",
            b"x" * 1000,
            "numbered",
            before=str(PAUSE_SECONDS),
        )
        begin(
            "big put",
            tenant.tool().put,
            f"data/{unique('slow')}",
            b"x" * 20_000_000,
            "numbered",
            before=str(PAUSE_SECONDS),
        )
        found.futures["upload"] = pool.submit(upload_slowly, tenant)
        yield found


def read_slowly(tenant: Tenant, placement: str) -> tuple[int, str]:
    """Read 1 KiB at a time for some seconds, then the rest; return size and MD5."""
    tool, size = tenant.tool(placement), 20_000_000
    connection, response = tenant.client.open(
        "GET", tenant.path, tool.headers(), query={"do": "flood", "bytes": str(size)}
    )
    with connection.sock or connection:  # type: ignore[union-attr]
        assert response.status == 200
        digest, got = hashlib.md5(usedforsecurity=False), 0
        for number in range(1_000_000):
            piece = response.read(1024 if number < PIECES else 1 << 20)
            if not piece:
                break
            got += len(piece)
            digest.update(piece)
            time.sleep(PIECE_SECONDS if number < PIECES else 0)
    return got, digest.hexdigest()


def upload_slowly(tenant: Tenant) -> tuple[int, bytes]:
    """Upload a body in pieces."""
    path = f"data/{unique('upload')}"
    with raw_connection(tenant.client) as client:
        client.send_head(
            "PUT", path, {**tenant.tool().headers(), "Content-Length": str(len(UPLOAD))}
        )
        for start in range(0, len(UPLOAD), len(UPLOAD) // PIECES):
            client.send(UPLOAD[start : start + len(UPLOAD) // PIECES])
            time.sleep(PIECE_SECONDS)
        status, _ = client.read_head()
    return status, tenant.client.get(path).body


@pytest.mark.parametrize("name", ["upload"])
def test_a_client_that_uploads_slowly_is_served(waiting: Waiting, name: str) -> None:
    assert waiting.answer(name) == (201, UPLOAD)


def test_a_client_that_reads_slowly_gets_everything(waiting: Waiting, placement: str) -> None:
    whole = (bytes(range(256)) * 1024 * 77)[:20_000_000]
    size, digest = waiting.answer(f"reader-{placement}")
    assert size == len(whole)
    assert digest == hashlib.md5(whole, usedforsecurity=False).hexdigest()


def check(tenant: Tenant, waiting: Waiting, name: str, lines: int) -> None:
    answer: Answer = waiting.answer(name)
    assert (answer.status, answer.is_broken) == (200, False), answer
    assert check_numbered(answer.body) == lines
    assert tenant.count(waiting.keys[name]) == 1


def test_a_storlet_that_trickles_runs_once(
    tenant: Tenant, waiting: Waiting, placement: str
) -> None:
    check(tenant, waiting, f"trickle-{placement}", 8)


def test_a_storlet_that_is_silent_in_the_middle_runs_once(
    tenant: Tenant, waiting: Waiting, placement: str
) -> None:
    check(tenant, waiting, f"pause-{placement}", 101)


@pytest.mark.parametrize("name", ["put", "big put", "copy-object", "copy-proxy"])
def test_a_slow_put_is_stored(tenant: Tenant, waiting: Waiting, name: str) -> None:
    answer: Answer = waiting.answer(name)
    assert answer.status == 201, answer
    assert tenant.count(waiting.keys[name]) == 1


def test_a_storlet_that_is_silent_beyond_swifts_timeouts_runs_once(
    tenant: Tenant, waiting: Waiting, placement: str
) -> None:
    check(tenant, waiting, f"silent-{placement}", 1)


def test_java_that_is_silent_beyond_swifts_timeouts_runs_once(
    tenant: Tenant, waiting: Waiting, java: Callable[[str], Tool], placement: str
) -> None:
    answer: Answer = waiting.answer(f"java-{placement}")
    assert (answer.status, answer.is_broken, answer.body) == (200, False, b"1:0\n"), answer
    assert java(placement).count(tenant.path, waiting.keys[f"java-{placement}"]) == 1
