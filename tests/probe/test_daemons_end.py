"""sandboxd and the Docker engine are killed: runs continue, and new requests recover without an
operator."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.host import Host, check_numbered, new_key
from tests.support.http import Answer
from tests.support.tenant import Tenant
from tests.support.waiting import wait_for

#: All clusters of the machine share the Docker engine; a sandboxd is that of one cluster.
DAEMONS = ("sandboxd", pytest.param("dockerd", marks=pytest.mark.alone))
#: A request without a sandbox needs the daemons in the same way at both placements, so each daemon
#: is killed at one, which is another one while a sandbox starts.
before_use = pytest.mark.parametrize(
    ("daemon", "placement"),
    [("sandboxd", "object"), pytest.param("dockerd", "proxy", marks=pytest.mark.alone)],
    indirect=["daemon"],
)
in_a_start = pytest.mark.parametrize(
    ("daemon", "placement"),
    [("sandboxd", "proxy"), pytest.param("dockerd", "object", marks=pytest.mark.alone)],
    indirect=["daemon"],
)


@pytest.fixture(params=DAEMONS)
def daemon(request: pytest.FixtureRequest, host: Host) -> Iterator[str]:
    """A daemon of the cluster; it runs again afterwards."""
    name = str(request.param)
    if name == "dockerd" and not host.has_own_engine():
        # The host's own engine belongs to its operator, who also restarts it.
        name = "sandboxd"
    yield name
    wait_for(
        lambda: host.engine_pid() if name == "dockerd" else host.cluster.is_running(name),
        60,
        f"{name} to be back",
    )


def first_success(call: Callable[[], Answer], seconds: float = 60) -> Answer:
    """Retry until success; until then each answer must be a 503 with Retry-After."""
    deadline = time.monotonic() + seconds
    while True:
        answer = call()
        if answer.status == 200:
            return answer
        assert answer.status == 503, answer
        assert answer.error in ("sandbox.unavailable", "node.busy"), answer
        assert int(answer.headers["Retry-After"]) > 0
        assert time.monotonic() < deadline, f"not within {seconds} s: {answer}"
        time.sleep(0.1)


@before_use
def test_requests_recover_if_a_daemon_is_killed_before_the_first_use(
    host: Host, fresh: Tenant, placement: str, daemon: str
) -> None:
    pid = host.kill_daemon(daemon)
    assert first_success(lambda: fresh.tool(placement).get(fresh.path)).body == fresh.content
    host.wait_back(daemon, pid)
    assert len(host.sandboxes(fresh.account)) == 1


@in_a_start
def test_requests_recover_if_a_daemon_is_killed_while_a_sandbox_starts(
    host: Host, fresh: Tenant, placement: str, daemon: str, background: ThreadPoolExecutor
) -> None:
    going = background.submit(fresh.tool(placement).get, fresh.path)
    time.sleep(0.1)  # in the middle of the start, which takes a few times as long
    pid = host.kill_daemon(daemon)
    answer = going.result(60)
    assert answer.status in (200, 503), answer
    assert answer.status == 200 or int(answer.headers["Retry-After"]) > 0
    assert first_success(lambda: fresh.tool(placement).get(fresh.path)).body == fresh.content
    host.wait_back(daemon, pid)
    wait_for(lambda: len(host.sandboxes(fresh.account)) == 1, 10, "one sandbox only")


def make_known(host: Host, tenant: Tenant, placement: str) -> None:
    """Run a storlet through each server process: for a new storlet the process queries sandboxd for
    workers."""
    servers = ("object-1", "object-2") if placement == "object" else ("proxy",)
    with contextlib.ExitStack() as stack:
        logs = [stack.enter_context(host.new_log(server)) for server in servers]
        wait_for(
            lambda: (
                tenant.is_well(placement)
                and all(f"{tenant.account}/{tenant.path}" in log() for log in logs)
            ),
            30,
            f"the storlet to have run through {servers}",
        )


def test_runs_continue_and_warm_sandboxes_stay_warm(
    host: Host, tenant: Tenant, placement: str, daemon: str, background: ThreadPoolExecutor
) -> None:
    make_known(host, tenant, placement)
    before = host.sandbox(tenant.account)
    keys = [new_key(), new_key()]
    silent = background.submit(tenant.tool(placement).get, tenant.path, "hold", key=keys[0])
    streaming = background.submit(
        tenant.tool(placement).get, tenant.path, "hold", key=keys[1], lines="1000"
    )
    for key in keys:
        host.run_named(key)
    pid = host.kill_daemon(daemon)
    assert tenant.is_well(placement), "a warm run needs neither of them"
    host.wait_back(daemon, pid)
    if daemon == "sandboxd":
        wait_for(lambda: str(tenant.account) in _status(host), 20, "the sandbox to be adopted")
    assert tenant.is_well(placement)
    assert not silent.done()
    assert not streaming.done()
    for key in keys:
        assert tenant.tool(placement).get(tenant.path, "touch", go=key).status == 200
    for one, lines in ((silent, 1), (streaming, 1001)):
        answer = one.result(30)
        assert (answer.status, answer.is_broken, check_numbered(answer.body)) == (200, False, lines)
    assert host.sandbox(tenant.account) == before
    assert [tenant.count(key) for key in keys] == [1, 1]


def _status(host: Host) -> str:
    """sandboxd's state, as the operator's command reports it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(10)
        try:
            connection.connect(str(host.cluster.run_dir / "sandboxd.sock"))
            connection.send(json.dumps({"v": 1, "type": "status"}).encode())
            return connection.recv(1 << 20).decode()
        except OSError:
            return ""


def test_a_new_storlet_loads_into_the_adopted_sandbox(
    host: Host, tenant: Tenant, placement: str
) -> None:
    assert tenant.is_well(placement)
    before = host.sandbox(tenant.account)
    pid = host.kill_daemon("sandboxd")
    name = tenant.upload("other.py", b"class Other:\n def __init__(self, logger): pass\n"
                        b" def __call__(self, ins, outs, params): outs[0].write(b'other')\n", "Other")  # fmt: skip
    answer = first_success(lambda: tenant.tool(placement, name).get(tenant.path))
    assert answer.body == b"other"
    host.wait_back("sandboxd", pid)
    assert host.sandbox(tenant.account) == before


def test_a_sandbox_that_ends_while_sandboxd_is_down_is_replaced(
    host: Host, tenant: Tenant, placement: str
) -> None:
    assert tenant.is_well(placement)
    host.cluster.stop("sandboxd")
    try:
        host.docker("kill", host.sandbox(tenant.account).container)
        answer = tenant.tool(placement).get(tenant.path)
        assert (answer.status, answer.error) == (503, "sandbox.unavailable"), answer
    finally:
        host.cluster.start("sandboxd")
    assert first_success(lambda: tenant.tool(placement).get(tenant.path)).body == tenant.content
