"""A node with fewer sandboxes than tenants: which sandbox is evicted, and that the maximum is never
exceeded."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.host import Host, check_numbered, new_key
from tests.support.tenant import Tenant
from tests.support.waiting import retry_until, wait_for

PLACES = 3
#: A sandbox that was used this recently is not evicted (``sandboxd.sandbox.RECENT_SECONDS``).
RECENT_SECONDS = 2.0


@pytest.fixture(scope="module", autouse=True)
def small_node(cluster: Cluster, host: Host) -> Iterator[None]:
    """A node with few sandboxes, after those of other tests and of the self-test have ended."""
    for sandbox in host.sandboxes():
        host.remove(sandbox)
    with (
        host.new_log("sandboxd") as log,
        cluster.configured({"storlet.conf:sandbox": {"max_per_node": PLACES}}),
    ):
        # Read the log of the last start: an earlier one may have been stopped in its middle.
        wait_for(
            lambda: "self-test class=user" in log().rpartition("sandboxd serves")[2] and not running(host),
            60, "the end of the self-test",
        )  # fmt: skip
        yield


def running(host: Host) -> list[str]:
    """Docker containers with a process, as the kernel counts, including those that are starting or
    ending."""
    found = []
    for pattern in (f"storlets-{host.node_id}/*/", f"memory/storlets-{host.node_id}/*/"):
        for group in Path("/sys/fs/cgroup").glob(pattern):
            with contextlib.suppress(OSError):
                if any(
                    path.read_text(encoding="ascii").strip() for path in group.rglob("cgroup.procs")
                ):
                    found.append(group.name)
    return found


@contextlib.contextmanager
def most(host: Host) -> Iterator[list[int]]:
    """The numbers of running sandboxes during the block; each of them runs for far longer than the
    time between two looks."""
    counts: list[int] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.01):
            counts.append(len(running(host)))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield counts
    finally:
        ended.set()
        watcher.join()


def of(host: Host) -> set[str]:
    return {sandbox.account for sandbox in host.sandboxes()}


def test_idle_sandboxes_are_evicted_early_and_busy_ones_stay(
    host: Host, new_tenant: Callable[[], Tenant], background: ThreadPoolExecutor
) -> None:
    worker, first, second, newcomer, *others = (new_tenant() for _ in range(2 * PLACES))
    key = new_key()
    with most(host) as counts:
        working = background.submit(worker.tool().get, worker.path, "hold", lines="1", key=key)
        assert first.is_well()
        time.sleep(RECENT_SECONDS)
        assert second.is_well()
        assert retry_until(lambda: of(host) == {worker.account, second.account}), (
            "one goes for the next"
        )
        assert first.is_well()
        time.sleep(RECENT_SECONDS)
        assert of(host) == {worker.account, first.account, second.account}, (
            "they fit in: none has to go"
        )
        assert newcomer.is_well()
        assert retry_until(lambda: of(host) == {worker.account, newcomer.account}), (
            "one went for it, one for the next"
        )
        for tenant in others:
            time.sleep(RECENT_SECONDS)
            assert tenant.is_well()
        assert worker.account in of(host)
        assert worker.tool().get(worker.path, "touch", go=key).status == 200
        answer = working.result()
    assert (answer.status, answer.is_broken) == (200, False), answer
    assert check_numbered(answer.body) == 2
    assert max(counts) == PLACES
