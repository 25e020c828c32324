"""Slow storlets and slow clients under Swift's own timeouts (10 s between servers): each runs once
and succeeds.

All requests wait at the same time: one fixture starts them, and each test checks one.
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
from tests.support.host import check_numbered, new_key
from tests.support.http import Answer, raw_connection
from tests.support.storlets import PLACEMENTS, Tool
from tests.support.tenant import Tenant

SILENT_SECONDS = 60
PAUSE_SECONDS = 25
UPLOAD = bytes(range(256)) * 16


@dataclass
class Waiting:
    """The requests in progress, and the keys of their run counters."""

    keys: dict[str, str] = field(default_factory=dict)
    futures: dict[str, Future[Any]] = field(default_factory=dict)

    def answer(self, name: str) -> Any:
        return self.futures[name].result(SILENT_SECONDS + 60)


@pytest.fixture(scope="module")
def waiting(tenant: Tenant, java: Callable[[str], Tool]) -> Iterator[Waiting]:
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
            begin(f"trickle-{place}", tool.get, tenant.path, "numbered", trickle="7", every="3.5")
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
    """Read 1 KiB a second for some seconds, then the rest; return size and MD5."""
    tool, size = tenant.tool(placement), 20_000_000
    connection, response = tenant.client.open(
        "GET", tenant.path, tool.headers(), query={"do": "flood", "bytes": str(size)}
    )
    with connection.sock or connection:  # type: ignore[union-attr]
        assert response.status == 200
        digest, got = hashlib.md5(usedforsecurity=False), 0
        for number in range(1_000_000):
            piece = response.read(1024 if number < 15 else 1 << 20)
            if not piece:
                break
            got += len(piece)
            digest.update(piece)
            time.sleep(1 if number < 15 else 0)
    return got, digest.hexdigest()


def upload_slowly(tenant: Tenant) -> tuple[int, bytes]:
    """Upload a body in 16 pieces, a second apart."""
    path = f"data/{unique('upload')}"
    with raw_connection(tenant.client) as client:
        client.send_head(
            "PUT", path, {**tenant.tool().headers(), "Content-Length": str(len(UPLOAD))}
        )
        for start in range(0, len(UPLOAD), 256):
            client.send(UPLOAD[start : start + 256])
            time.sleep(1)
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


def test_a_storlet_that_computes_for_a_minute_before_its_first_byte_runs_once(
    tenant: Tenant, waiting: Waiting, placement: str
) -> None:
    check(tenant, waiting, f"silent-{placement}", 1)


def test_java_that_computes_for_a_minute_runs_once(
    tenant: Tenant, waiting: Waiting, java: Callable[[str], Tool], placement: str
) -> None:
    answer: Answer = waiting.answer(f"java-{placement}")
    assert (answer.status, answer.is_broken, answer.body) == (200, False, b"1:0\n"), answer
    assert java(placement).count(tenant.path, waiting.keys[f"java-{placement}"]) == 1
