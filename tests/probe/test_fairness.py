"""Admission on a small node with hostile neighbours: order, refusals, and slots released after a
crash.

The tests take slots of the node themselves, through the table that Swift's servers share.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from storlet_middleware.admission import shared_table
from storlet_middleware.admission.controller import Admission, Slot, snapshot, tenant_hash
from storlet_middleware.admission.shared_table import Usage
from storlet_middleware.config import load
from tests.support.accounts import unique
from tests.support.cluster import Cluster
from tests.support.host import Host, new_key
from tests.support.http import RawConnection
from tests.support.storlets import PLACEMENTS
from tests.support.tenant import Tenant
from tests.support.waiting import retry_until

PLACES = 8
#: Longer than forty requests take to arrive at a busy machine.
QUEUE_SECONDS = 5
#: The flood's runs end after the last of its waiting requests was refused.
FLOOD_SECONDS = QUEUE_SECONDS + 4
HEAVY = f"AUTH_{unique('heavy')}"
SMALL_NODE: dict[str, dict[str, object]] = {
    "storlet.conf:admission": {
        "invocations": PLACES,
        "queue": 16,
        "queue_per_tenant": 10,
        "weights": f"{HEAVY}:3",
    },
    "storlet.conf:invocation": {"queue_seconds": QUEUE_SECONDS, "workers_python": 16},
}


@pytest.fixture(scope="module")
def small_node(cluster: Cluster) -> Iterator[None]:
    with cluster.configured(SMALL_NODE):
        yield


def usage(cluster: Cluster, tenant: Tenant) -> Usage:
    return snapshot(cluster.run_dir).get(tenant_hash(tenant.account).hex(), Usage(0, 0))


def is_idle(cluster: Cluster) -> bool:
    return snapshot(cluster.run_dir) == {}


class Holder:
    """Takes slots of a node for accounts that do not exist."""

    def __init__(self, conf: Path) -> None:
        self._admission = Admission(load(str(conf)), Mock())
        self._slots: list[Slot] = []

    def fill(self) -> int:
        """Take all free slots; return their number."""
        before = len(self._slots)
        while slot := self._admission.acquire_at_once(
            self._admission.claim(f"held-{len(self._slots)}", "g", 1)
        ):
            self._slots.append(slot)
        return len(self._slots) - before

    def release(self, count: int = PLACES) -> None:
        for slot in self._slots[:count]:
            slot.release()
        del self._slots[:count]


@pytest.fixture
def holder(cluster: Cluster, small_node: None) -> Iterator[Holder]:
    made = Holder(cluster.storlet_conf)
    yield made
    made.release()
    assert retry_until(lambda: is_idle(cluster)), snapshot(cluster.run_dir)


@pytest.mark.usefixtures("small_node")
def test_a_flood_beyond_a_tenants_share_gets_429_and_does_not_delay_the_neighbour(
    cluster: Cluster, tenant: Tenant, neighbour: Tenant, background: ThreadPoolExecutor
) -> None:
    assert tenant.is_well()
    flood = [
        background.submit(
            tenant.tool().get, tenant.path, "numbered", before=str(FLOOD_SECONDS), lines="1"
        )
        for _ in range(40)
    ]
    assert retry_until(lambda: usage(cluster, tenant) == (PLACES // 2, 10)), snapshot(
        cluster.run_dir
    )
    latencies = []
    while not all(one.done() for one in flood):
        sent = time.monotonic()
        assert neighbour.is_well()
        latencies.append(time.monotonic() - sent)
        time.sleep(0.2)
    answers = [one.result() for one in flood]
    assert Counter(answer.status for answer in answers) == {200: PLACES // 2, 429: 36}
    refused = [answer for answer in answers if answer.status == 429]
    assert {answer.error for answer in refused} == {"tenant.busy"}
    assert all(1 <= int(answer.headers["Retry-After"]) <= 60 for answer in refused)
    assert sum("wait already" in answer.text for answer in refused) == 26
    assert sum(f"within {QUEUE_SECONDS} s" in answer.text for answer in refused) == 10
    assert len(latencies) > 10
    assert max(latencies) < QUEUE_SECONDS, latencies
    assert retry_until(lambda: is_idle(cluster))


@pytest.mark.usefixtures("small_node")
def test_a_weight_is_a_larger_share(
    cluster: Cluster, new_tenant: Callable[[str], Tenant], background: ThreadPoolExecutor
) -> None:
    heavy = new_tenant(HEAVY)
    assert heavy.is_well()
    flood = [
        background.submit(heavy.tool().get, heavy.path, "numbered", before="3", lines="1")
        for _ in range(10)
    ]
    assert retry_until(lambda: usage(cluster, heavy) == (6, 4)), snapshot(cluster.run_dir)
    assert {one.result().status for one in flood} <= {200, 429}
    assert retry_until(lambda: is_idle(cluster))


def test_a_full_node_returns_503_with_retry_after_when_the_wait_ends(
    tenant: Tenant, holder: Holder, background: ThreadPoolExecutor
) -> None:
    """Requests of both placements wait at the same time."""
    for placement in PLACEMENTS:
        assert tenant.is_well(placement)
    assert holder.fill() == PLACES
    began = time.monotonic()
    waiting = [
        background.submit(tenant.tool(placement).get, tenant.path) for placement in PLACEMENTS
    ]
    for one in waiting:
        answer = one.result()
        assert 2.5 < time.monotonic() - began < 30
        assert (answer.status, answer.error) == (503, "node.busy"), answer
        assert 1 <= int(answer.headers["Retry-After"]) <= 60
    assert tenant.client.get(tenant.path).body == tenant.content, (
        "ordinary requests are not held up"
    )


def test_the_queue_of_the_node_is_bounded_for_all_tenants_together(
    cluster: Cluster,
    tenant: Tenant,
    neighbour: Tenant,
    fresh: Tenant,
    holder: Holder,
    background: ThreadPoolExecutor,
) -> None:
    holder.fill()
    waiting = [
        background.submit(one.tool().get, one.path)
        for one, count in ((tenant, 10), (neighbour, 6))
        for _ in range(count)
    ]
    assert retry_until(
        lambda: usage(cluster, tenant).waiting + usage(cluster, neighbour).waiting == 16
    )
    answer = fresh.tool().get(fresh.path)
    assert (answer.status, answer.error) == (503, "node.busy"), answer
    assert "wait already" in answer.text
    holder.release()
    assert {one.result().status for one in waiting} == {200}


def test_a_waiting_request_gets_a_released_slot(
    cluster: Cluster, tenant: Tenant, placement: str, holder: Holder, background: ThreadPoolExecutor
) -> None:
    holder.fill()
    going = background.submit(tenant.tool(placement).get, tenant.path)
    assert retry_until(lambda: usage(cluster, tenant).waiting == 1)
    holder.release(1)
    answer = going.result()
    assert (answer.status, answer.body) == (200, tenant.content)
    assert answer.headers["X-Storlet-Ran-On"] == placement


def test_clients_that_disconnect_release_their_slots(
    cluster: Cluster, tenant: Tenant, placement: str, holder: Holder
) -> None:
    holder.fill()
    connections = [RawConnection(tenant.client) for _ in range(5)]
    for connection in connections:
        connection.send_head(
            "GET", tenant.path, tenant.tool(placement).headers(), {"do": "identity"}
        )
    assert retry_until(lambda: usage(cluster, tenant) == (0, 5)), snapshot(cluster.run_dir)
    for connection in connections:
        connection.close()
    assert retry_until(lambda: usage(cluster, tenant) == (0, 0), 8), snapshot(cluster.run_dir)


@pytest.mark.usefixtures("small_node")
def test_slots_of_a_killed_server_are_released(
    host: Host, cluster: Cluster, tenant: Tenant, background: ThreadPoolExecutor
) -> None:
    assert tenant.is_well()
    with host.started_again("object-1", "object-2"):
        flood = [
            background.submit(tenant.tool().get, tenant.path, "numbered", before="20", lines="1")
            for _ in range(8)
        ]
        assert retry_until(lambda: usage(cluster, tenant).running == PLACES // 2)
        host.kill_hard("object-1")
        host.kill_hard("object-2")
        assert retry_until(lambda: is_idle(cluster), 8), snapshot(cluster.run_dir)
        for one in flood:
            assert one.result().status != 200
    assert retry_until(tenant.is_well)
    assert retry_until(lambda: is_idle(cluster))


# --- overflow -------------------------------------------------------------------------------------


class OtherTable:
    """A configuration with a table of slots of its own: for admission, a node of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="storlets-node-", dir="/var/tmp"))
        self._folder.chmod(0o755)
        self.conf = self._folder / "storlet.conf"
        (self._folder / "sandboxd.sock").symlink_to(cluster.run_dir / "sandboxd.sock")
        gid = (cluster.run_dir / shared_table.FILE_NAME).stat().st_gid
        shared_table.create(self._folder / shared_table.FILE_NAME, gid)

    def follow(self, conf: Path, overflow: str) -> None:
        """Take all other options of ``conf``, which may be that of the case before."""
        text = re.sub(r"(?m)^overflow = .*\n", "", conf.read_text())
        text = re.sub(r"(?m)^run_dir = .*", f"run_dir = {self._folder}", text)
        self.conf.write_text(text.replace("[placement]", f"[placement]\noverflow = {overflow}"))

    def remove(self) -> None:
        shutil.rmtree(self._folder)


@pytest.fixture(params=["proxy", "replica"])
def overflowing(
    request: pytest.FixtureRequest, cluster: Cluster, small_node: None
) -> Iterator[tuple[str, Holder]]:
    """Object nodes without a free slot (``replica``: one of the two nodes) and without a queue.

    The options stay until the next case, or until those of :func:`small_node` end: the tests that
    use this are the last ones.
    """
    other = OtherTable(cluster)
    servers = (1, 2) if request.param == "proxy" else (1,)
    elsewhere: dict[str, dict[str, object]] = {
        f"object-server-{number}.conf:filter:storlets": {"storlet_conf_path": str(other.conf)}
        for number in servers
    }
    options: dict[str, dict[str, object]] = {
        "storlet.conf:placement": {"overflow": request.param}
    } | SMALL_NODE
    other.follow(cluster.storlet_conf, request.param)
    try:
        cluster.configure(options | elsewhere)
        holder = Holder(other.conf)
        assert holder.fill() == PLACES
        yield request.param, holder
        holder.release()
    finally:
        other.remove()


def test_a_request_refused_by_a_full_node_runs_elsewhere_once(
    host: Host,
    cluster: Cluster,
    fresh: Tenant,
    overflowing: tuple[str, Holder],
    background: ThreadPoolExecutor,
) -> None:
    overflow, holder = overflowing
    ran_on = "proxy" if overflow == "proxy" else "object"
    why = "overflow" if overflow == "proxy" else "default"
    keys = [new_key() for _ in range(6)]
    with host.new_log("proxy") as log:
        for key in keys:
            began = time.monotonic()
            answer = fresh.tool().get(fresh.path, key=key)
            assert (answer.status, answer.body) == (200, fresh.content), answer
            assert answer.headers["X-Storlet-Ran-On"] == ran_on
            assert key == keys[0] or time.monotonic() - began < 6, "it has waited for the full node"
            part = fresh.tool().get(fresh.path, headers={"X-Storlet-Range": "bytes=4-8"})
            assert (part.body, part.headers["X-Storlet-Ran-On"]) == (fresh.content[4:9], ran_on)
        assert [fresh.count(key) for key in keys] == [1] * 6
        # The proxy writes the lines of fast runs a moment later.
        retry_until(lambda: log().count("invocation done") >= 2 * len(keys))
        assert "ERROR" not in log(), "a full node is no failed one"
        assert {*re.findall(r"invocation done .* why=(\S+)", log())} == {why}
    missing = fresh.tool().get("data/none")
    assert (missing.status, missing.error) == (404, "input.not_found")

    # Now no node has a free slot: the request waits on a node with a queue, and runs when a slot is
    # released.
    here = Holder(cluster.storlet_conf)
    assert here.fill() == PLACES
    going = background.submit(fresh.tool().get, fresh.path, key=keys[0])
    assert not retry_until(going.done, 0.5)
    holder.release() if overflow == "replica" else None
    here.release()
    answer = going.result()
    assert (answer.status, answer.body, answer.headers["X-Storlet-Ran-On"]) == (
        200,
        fresh.content,
        ran_on,
    )
    assert fresh.count(keys[0]) == 2
