"""Fixtures of the probes: accounts, the misbehaving storlet, and a check for leaks after each
module.

Probes break sandboxes, and sandboxd delays the restart of a sandbox that ends again and again.
So a test that breaks a sandbox uses a separate account.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.attack import escape
from tests.attack.arena import Arena, arena_on
from tests.attack.neighbour import FOR_ERRORS, Neighbour, load_of
from tests.support.cluster import Cluster
from tests.support.host import Host, busy
from tests.support.http import Client
from tests.support.storlets import Tool, Toolbox
from tests.support.tenant import Tenant, make_tenant
from tests.support.waiting import wait_for

#: The number of descriptors of a freshly started server.
BEGINNING = Counter({"pipe": 4})


@pytest.fixture(scope="session")
def host(cluster: Cluster) -> Host:
    return Host(cluster)


@pytest.fixture(scope="session")
def new_tenant(admin: Client) -> Callable[[], Tenant]:
    """Creates accounts with storlets enabled, the misbehaving storlet and an object."""

    return lambda account="": make_tenant(admin, account)


@pytest.fixture(scope="module")
def tenant(new_tenant: Callable[[], Tenant]) -> Tenant:
    """The module's account."""
    return new_tenant()


@pytest.fixture
def fresh(new_tenant: Callable[[], Tenant]) -> Tenant:
    """A separate account, for a test that ends its sandbox."""
    return new_tenant()


@pytest.fixture
def neighbour(tenant_of_neighbour: Tenant) -> Tenant:
    """Another account, whose requests must always succeed."""
    tenant_of_neighbour.warm_up()
    return tenant_of_neighbour


@pytest.fixture(scope="session")
def tenant_of_neighbour(new_tenant: Callable[[], Tenant]) -> Tenant:
    return new_tenant()


@pytest.fixture(scope="module")
def java(tenant: Tenant, toolbox: Toolbox) -> Callable[[str], Tool]:
    """The Java multitool of the functional tests at a given place."""
    name = toolbox.upload(tenant.client, "java", "multitool")
    return lambda placement="object": Tool(tenant.client, name, placement)


@pytest.fixture
def background() -> Iterator[ThreadPoolExecutor]:
    """Threads for waiting clients; all of them end with the test."""
    with ThreadPoolExecutor(64) as pool:
        yield pool


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left(host: Host) -> Iterator[None]:
    """After each module: no run, temporary file, socket, mount, container or descriptor more than
    before."""
    mounts, descriptors, half_code = host.mounts(), host.all_descriptors(), host.temporary_code()
    pids = {name: host.cluster.process(name).pid for name in descriptors}
    yield
    # (A freshly started sandboxd is still running its self-test.)
    await_none(lambda: busy(host), "at work in the sandboxes")
    await_none(host.dead_containers, "ended containers")
    await_none(host.run_sockets, "sockets")
    # sandboxd finds the leftovers of a killed Docker engine in a sweep, which is repeated until the
    # engine answers and nothing is left.
    await_none(host.stray_groups, "control groups without a container", 90)
    await_none(
        lambda: sorted({*host.temporary_code()} - {*half_code}), "temporary files beside the code"
    )
    await_none(lambda: sorted({*host.mounts()} - {*mounts}), "mounts")
    # A restarted server begins with fewer descriptors, and is not warmed up.
    same = {
        name: before
        for name, before in descriptors.items()
        if host.cluster.process(name).pid == pids[name]
    }
    host.await_descriptors(
        {name: before if name in same else BEGINNING for name, before in descriptors.items()}
    )
    for name in ("proxy", "object-1", "object-2", "container-1", "account-1", "sandboxd"):
        assert host.cluster.is_running(name), name


@pytest.fixture(scope="module")
def arena(cluster: Cluster, nothing_is_left: None) -> Iterator[Arena]:
    """The cluster with small limits and hostile storlets."""
    with arena_on(cluster, is_short=True) as made:
        yield made
        # After all attacks Swift's auditor finds every object intact.
        assert escape.audit(made.attacker("python")) == []


@pytest.fixture(scope="module")
def load(arena: Arena, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neighbour]:
    """The requests of a neighbour during all attacks of the module."""
    user = arena.users["test2:tester2"]
    file: Path = tmp_path_factory.mktemp("neighbour") / "samples"
    with load_of(user.storage_url, user.token, file, FOR_ERRORS) as neighbour:
        yield neighbour


def await_none(left: Callable[[], list[str]], what: str, seconds: float = 30) -> None:
    """Wait until no leftover of a kind remains; the failure names the leftovers."""
    try:
        wait_for(lambda: not left(), seconds, what)
    except AssertionError:
        raise AssertionError(f"{what} are left after {seconds} s: {left()}") from None
