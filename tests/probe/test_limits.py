"""Storlets that exceed limits, hang or lie: a documented error, an unaffected neighbour, a next run
that works.

Limits of the kernel and lies are tried once at either placement, not at both: the sandbox is the
same.  ``tests/attack`` tries more of them, at the object node.

The module runs with small limits.  Only misbehaving runs have short deadlines: on a machine that
stalls for some seconds, other runs must not fail.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import quote

import pytest

from tests.support.accounts import unique
from tests.support.cluster import Cluster
from tests.support.host import Host, new_key
from tests.support.storlets import Toolbox
from tests.support.tenant import Tenant
from tests.support.waiting import wait_for

OLD = b"the old object, byte for byte"
OUTPUT_BYTES = 8 << 20
METADATA_BYTES = 4096
LOG_BYTES = 64 << 10
LIMITS = {
    "storlet.conf:limits": {
        "memory_bytes": "128M", "pids": 64, "scratch_bytes": "4M", "open_files": 128,
        "output_bytes": OUTPUT_BYTES, "log_bytes": LOG_BYTES,
    },
}  # fmt: skip
BEGINS_SOON = {"X-Storlet-Limit-Timeout-First-Byte": "1s"}
GOES_ON = {"X-Storlet-Limit-Timeout-Idle": "1s"}
ENDS_SOON = BEGINS_SOON | GOES_ON | {"X-Storlet-Limit-Timeout-Total": "4s"}


@pytest.fixture(scope="module", autouse=True)
def _small(cluster: Cluster, tenant: Tenant, nothing_is_left: None) -> Iterator[None]:
    with cluster.configured(LIMITS):
        tenant.warm_up()
        yield


@contextmanager
def undisturbed(neighbour: Tenant) -> Iterator[None]:
    """A neighbour's requests succeed during the whole block."""
    stop = threading.Event()

    def ask() -> int:
        count = 0
        while not stop.wait(0.1 if count else 0):
            assert neighbour.is_well()
            count += 1
        return count

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        try:
            yield
        finally:
            stop.set()
        assert asking.result(30) > 0


# --- deadlines ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("do", "placement"),
    [("hold", "object"), ("hold", "proxy"), ("busy", "object"), ("stubborn_fork_bomb", "proxy")],
)
def test_a_missing_first_byte_exceeds_the_first_byte_deadline(
    host: Host, tenant: Tenant, neighbour: Tenant, placement: str, do: str
) -> None:
    key = new_key()
    tenant.warm_up(placement)
    with undisturbed(neighbour):
        answer = tenant.tool(placement).get(tenant.path, do, BEGINS_SOON, key=key)
    assert (answer.status, answer.error) == (422, "storlet.timeout.first_byte"), answer
    wait_for(lambda: not host.runs_named(key), 10, "its processes to end")
    wait_for(lambda: tenant.is_well(placement), 15, "the next run to work")


def test_a_stall_in_the_body_exceeds_the_idle_deadline(
    host: Host, tenant: Tenant, placement: str
) -> None:
    key = new_key()
    answer = tenant.tool(placement).get(
        tenant.path, "end", GOES_ON, how="stall", lines="40000", key=key
    )
    assert (answer.status, answer.is_broken) == (200, True)
    wait_for(lambda: not host.runs_named(key), 5, "its process to end")
    assert tenant.count(key) == 1


@pytest.mark.parametrize("how", ["stall", "stop"])
def test_a_stall_during_a_put_stores_nothing(host: Host, tenant: Tenant, how: str) -> None:
    path, key = f"data/{unique('stall')}", new_key()
    assert tenant.client.put(path, OLD).status == 201
    answer = tenant.tool().put(path, b"new", "end", GOES_ON, how=how, lines="100", key=key)
    assert (answer.status, answer.error) == (422, "storlet.timeout.idle"), answer
    answer = tenant.tool().copy(tenant.path, path, "end", GOES_ON, how=how, lines="100")
    assert (answer.status, answer.error) == (422, "storlet.timeout.idle"), answer
    assert tenant.client.get(path).body == OLD
    wait_for(lambda: not host.runs_named(key), 5, "its process to end")


def test_a_long_run_exceeds_the_total_deadline(
    tenant: Tenant, placement: str, background: ThreadPoolExecutor
) -> None:
    soon = {"X-Storlet-Limit-Timeout-Total": "2s"}
    slow = {"lines": "1", "trickle": "100", "every": "0.5"}
    tool, path = tenant.tool(placement), f"data/{unique('long')}"
    getting = background.submit(tool.get, tenant.path, "numbered", soon, **slow)
    answer = tool.copy(tenant.path, path, "numbered", soon, **slow)
    assert (answer.status, answer.error) == (422, "storlet.timeout.total"), answer
    assert tenant.client.get(path).status == 404
    answer = getting.result()
    assert (answer.status, answer.is_broken) == (200, True)


# --- output, metadata, log ------------------------------------------------------------------------


def test_endless_output_exceeds_the_output_limit(
    host: Host, tenant: Tenant, placement: str
) -> None:
    key = new_key()
    answer = tenant.tool(placement).get(tenant.path, "flood", key=key)
    assert (answer.status, answer.is_broken) == (200, True)
    assert len(answer.body) <= OUTPUT_BYTES
    path = f"data/{unique('flood')}"
    answer = tenant.tool(placement).copy(tenant.path, path, "flood")
    assert (answer.status, answer.error) == (422, "storlet.limit.output"), answer
    assert tenant.client.get(path).status == 404
    assert tenant.tool().put(path, b"x", "flood").error == "storlet.limit.output"
    assert tenant.client.get(path).status == 404
    wait_for(lambda: not host.runs_named(key), 5, "its process to end")
    answer = tenant.tool(placement).get(tenant.path, "flood", bytes=str(OUTPUT_BYTES))
    assert (answer.status, answer.is_broken, len(answer.body)) == (200, False, OUTPUT_BYTES)


def declared(metadata: dict[str, str]) -> dict[str, str]:
    """The header that has the storlet set this metadata."""
    return {"X-Storlet-Parameter-1": quote(f"metadata:{json.dumps(metadata)}")}


def test_metadata_beyond_its_limit(tenant: Tenant, placement: str) -> None:
    for metadata in ({"a": "x" * METADATA_BYTES}, {f"k{number}": "x" * 50 for number in range(70)}):
        answer = tenant.tool(placement).get(tenant.path, "metadata", declared(metadata))
        assert (answer.status, answer.error) == (422, "storlet.limit.metadata"), answer


@pytest.mark.parametrize(
    "metadata",
    [
        {"a": "b\r\nX-Forged: yes"}, {"a\r\nX-Forged": "yes"}, {"a": "b\n\nbody"}, {"a\x00": "b"}, {"a": "\x00"},
        {"": "b"}, {"a: b\r\nX-Forged": "yes"}, {"a": "\x7f"}, {"a": "\u2028", "X-Forged": "no"}, {"a:X-Forged": "yes"},
    ],
)  # fmt: skip
def test_metadata_cannot_forge_a_header(
    tenant: Tenant, placement: str, metadata: dict[str, str]
) -> None:
    answer = tenant.tool(placement).get(tenant.path, "metadata", declared(metadata))
    assert "X-Forged" not in answer.headers
    assert answer.status in (200, 422), answer
    assert not answer.is_broken
    path = f"data/{unique('forged')}"
    stored = tenant.tool(placement).copy(tenant.path, path, "metadata", declared(metadata))
    assert stored.status // 100 in (2, 4), stored
    if stored.status == 201:
        assert "X-Forged" not in tenant.client.get(path).headers


def test_a_false_content_length_has_no_effect(tenant: Tenant, placement: str) -> None:
    metadata = {"Content-Length": str(1 << 40), "content-type": "text/claimed"}
    answer = tenant.tool(placement).get(tenant.path, "metadata", declared(metadata))
    assert (answer.status, answer.is_broken, answer.body) == (200, False, b"metadata was set")
    assert answer.headers.get("Content-Length", str(len(answer.body))) == str(len(answer.body))
    assert answer.headers["Content-Type"] == "text/claimed"


def test_a_flood_of_metadata_below_the_interface_is_an_error(
    tenant: Tenant, placement: str
) -> None:
    answer = tenant.tool(placement).get(tenant.path, "metadata_flood", ENDS_SOON)
    assert answer.status in (422, 503), answer
    assert tenant.is_well(placement)


def test_a_log_flood_is_truncated(tenant: Tenant, placement: str) -> None:
    answer = tenant.tool(placement).get(
        tenant.path, "log_flood", {"X-Storlet-Generate-Log": "True"}, lines="5000"
    )
    assert (answer.status, answer.body) == (200, b"logged")
    log = tenant.client.get(f"storletlog/gremlin.py/{answer.headers['X-Storlet-Invocation']}.log")
    assert log.status == 200
    assert len(log.body) <= LOG_BYTES + 100
    assert b"log truncated" in log.body
    assert b"0 xxx" in log.body


# --- memory, processes, files ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("do", "placement"), [("memory", "object"), ("memory", "proxy"), ("shared_memory", "object")]
)
def test_a_memory_bomb_exceeds_the_memory_limit(
    tenant: Tenant, neighbour: Tenant, placement: str, do: str
) -> None:
    tenant.warm_up(placement)
    with undisturbed(neighbour):
        answer = tenant.tool(placement).get(tenant.path, do)
    assert (answer.status, answer.error) == (422, "storlet.limit.memory"), answer
    wait_for(lambda: tenant.is_well(placement), 10, "the next run to work")


def test_a_child_that_was_killed_for_memory_exceeds_the_memory_limit(
    tenant: Tenant, placement: str
) -> None:
    answer = tenant.tool(placement).get(tenant.path, "memory_of_child")
    assert (answer.status, answer.error) == (422, "storlet.limit.memory"), answer


def test_memory_bombs_at_once_all_exceed_the_memory_limit(tenant: Tenant) -> None:
    """The kernel may kill several workers before the supervisor has reaped the first."""
    with ThreadPoolExecutor(4) as pool:
        bombs = [pool.submit(tenant.tool().get, tenant.path, "memory") for _ in range(12)]
        seen = {(bomb.result().status, bomb.result().error) for bomb in bombs}
    assert seen == {(422, "storlet.limit.memory")}
    wait_for(tenant.is_well, 15, "the next run to work")


@pytest.mark.parametrize(("do", "placement"), [("fork_bomb", "object"), ("thread_bomb", "proxy")])
def test_a_fork_bomb_exceeds_the_process_limit(
    host: Host, fresh: Tenant, neighbour: Tenant, placement: str, do: str
) -> None:
    key = new_key()
    fresh.warm_up(placement)
    with undisturbed(neighbour):
        answer = fresh.tool(placement).get(fresh.path, do, ENDS_SOON, key=key)
    assert answer.status == 422, answer
    assert answer.error in (
        "storlet.failed",
        "storlet.limit.processes",
        "storlet.timeout.first_byte",
    )
    wait_for(lambda: not host.runs_named(key), 10, "its processes to end")
    wait_for(lambda: fresh.is_well(placement), 15, "the next run to work")


def test_a_forked_copy_that_returns_does_not_hide_the_failure_of_the_original(
    tenant: Tenant, placement: str
) -> None:
    path = f"data/{unique('forked')}"
    answer = tenant.tool(placement).copy(tenant.path, path, "forked_return")
    assert (answer.status, answer.error) == (422, "storlet.failed"), answer
    assert tenant.client.get(path).status == 404
    answer = tenant.tool(placement).get(tenant.path, "forked_return")
    assert answer.is_broken or answer.status == 422, answer


def test_a_full_scratch_is_an_error_of_the_storlet_only(tenant: Tenant, placement: str) -> None:
    answer = tenant.tool(placement).get(tenant.path, "scratch")
    assert answer.status == 200, answer
    error, size = map(int, answer.body.split())
    assert error == 28
    assert size <= 4 << 20
    assert tenant.is_well(placement)


def test_shared_memory_has_few_inodes_and_is_emptied_while_nothing_runs(tenant: Tenant) -> None:
    tool = tenant.tool()

    def counts() -> list[int]:
        answer = tool.get(tenant.path, "fill_shm")
        assert answer.status == 200, answer
        return [int(word) for word in answer.body.split()]

    found, made, error = counts()
    assert (found, error) == (0, 28)
    assert made < 1024
    wait_for(lambda: counts()[0] == 0, 30, "the shared memory to be emptied")
    assert tenant.is_well()


def test_a_full_descriptor_table_is_an_error_of_the_storlet(tenant: Tenant, placement: str) -> None:
    answer = tenant.tool(placement).get(tenant.path, "descriptors")
    assert (answer.status, answer.error) == (422, "storlet.failed"), answer
    assert tenant.is_well(placement)


def test_a_java_storlet_that_exceeds_every_limit_does_not_affect_python(
    tenant: Tenant, toolbox: Toolbox
) -> None:
    name = toolbox.upload(tenant.client, "java", "multitool")
    tool = tenant.tool("object", name)
    wait_for(lambda: tool.get(tenant.path).body == tenant.content, 60, "its first run")
    answer = tool.get(tenant.path, "flood", bytes=str(OUTPUT_BYTES * 2))
    assert answer.is_broken
    assert tenant.is_well()


# --- lies -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def liar(new_tenant: Callable[[], Tenant]) -> Tenant:
    """The account of all lies."""
    return new_tenant()


@pytest.mark.parametrize(
    ("do", "placement"),
    [
        ("forge_done", "object"),
        *((do, "proxy") for do in ("forge_done", "forge_end", "forge_reports", "squat", "hoard")),
    ],
)
def test_false_messages_of_one_run_never_become_the_success_of_another(
    liar: Tenant, placement: str, do: str, background: ThreadPoolExecutor
) -> None:
    """A storlet may report anything about its own run, but nothing about a run of another
    storlet."""
    honest = liar.upload("honest.py", b"class Honest:\n def __init__(self, logger): pass\n"
                          b" def __call__(self, ins, outs, params): outs[0].write(ins[0].read())\n", "Honest")  # fmt: skip
    liar.warm_up(placement)
    lying = [
        background.submit(liar.tool(placement).get, liar.path, do, ENDS_SOON) for _ in range(3)
    ]
    for _ in range(10):
        answer = liar.tool(placement, honest).get(liar.path)
        assert (answer.status, answer.is_broken, answer.body) == (200, False, liar.content)
    for one in lying:
        assert one.result(30).status in (200, 422, 503)
    # Later runs of the same storlet succeed with right output or fail with an error.
    for _ in range(10):
        answer = liar.tool(placement).get(liar.path)
        if answer.status == 200 and not answer.is_broken:
            assert answer.body == liar.content
    wait_for(lambda: liar.is_well(placement), 15, "an honest run of the liar to work")
