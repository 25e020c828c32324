"""sandboxd is killed while it donates, starts and stops pre-warmed sandboxes: two tenants never
share one.

The module uses its own cluster, because other tests must not lose their sandboxes.  Twenty
processes that request a sandbox at once start one.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from storlet_daemon.protocol import framing, messages
from storlet_middleware.keys import tenant_key
from storlet_middleware.sandboxd.plan import SELF_TEST_ACCOUNT
from tests.probe.test_daemons_end import first_success
from tests.support.accounts import unique, users_of
from tests.support.cluster import Cluster
from tests.support.host import Host, Sandbox, new_key
from tests.support.http import Client
from tests.support.tenant import Tenant, make_tenant
from tests.support.waiting import wait_for

PREWARMED = 2
IDLE_SECONDS = 2
OPTIONS = {"storlet.conf:sandbox": {"prewarmed": PREWARMED, "idle_stop_seconds": IDLE_SECONDS}}
#: Seconds from the requests to the kill: from before the first donation to after the last sandbox
#: runs.
MOMENTS = (0.01, 0.06, 0.2)
CODE = "/var/lib/storlets"


@pytest.fixture(scope="module")
def there(other_cluster: Cluster) -> Iterator[Host]:
    with other_cluster.configured(OPTIONS):
        yield Host(other_cluster)


@pytest.fixture
def admin_there(there: Host) -> Client:
    return users_of(there.cluster.description)["admin:admin"]


def uid_of(sandbox: Sandbox) -> int:
    status = Path(f"/proc/{sandbox.pid}/status").read_text(encoding="utf-8")
    return int(status.partition("Uid:")[2].split()[0])


def code_of(sandbox: Sandbox) -> list[str]:
    """The tenants (by key) whose code the sandbox sees: everything ever mounted there but the empty
    directory."""
    lines = Path(f"/proc/{sandbox.pid}/mountinfo").read_text(encoding="utf-8").splitlines()
    roots = [Path(line.split()[3]) for line in lines if line.split()[4] == CODE]
    return [root.name for root in roots if root.parent.name == "code"]


def check_owners(there: Host) -> None:
    """Each sandbox is pre-warmed (root, no code) or belongs to one tenant (that tenant's uid and
    code)."""
    book = json.loads((there.cluster.state_dir / "identities.json").read_text(encoding="utf-8"))
    owners = {entry["uid"]: tenant_key(entry["account"]) for entry in book["identities"]}
    assert len(owners) == len(book["identities"])
    for sandbox in there.sandboxes():
        try:
            uid, code = uid_of(sandbox), code_of(sandbox)
        except OSError:
            # sandboxd ends its self-test's sandboxes and idle ones.
            wait_for(lambda gone=sandbox: gone not in there.sandboxes(), 10, "its end")  # type: ignore[misc]
            continue
        # Code is mounted before the uid is set; only the self-test's sandbox may be seen in
        # between.
        assert code in ([[owners[uid]]] if uid else [[], [tenant_key(SELF_TEST_ACCOUNT)]]), sandbox


def is_settled(there: Host) -> bool:
    """Return True if only pre-warmed sandboxes exist: no other directory, note, socket or
    container."""
    folders = [
        {path.name for path in (there.cluster.run_dir / folder).iterdir()} for folder in "csa"
    ]
    # A look each 50 ms, and each start of the command "docker" takes as long.
    if any(len(found) != PREWARMED for found in folders):
        return False
    keys = set(there.docker("ps", "-a", "--filter", f"label=org.storlets={there.node_id}", "--format",
                            '{{.Label "org.storlets.key"}}').split())  # fmt: skip
    is_left = (
        there.dead_containers() or there.run_sockets()
    )  # including a pre-warmed sandbox that is starting
    return len(keys) == PREWARMED and all(found == keys for found in folders) and not is_left


@pytest.mark.parametrize("moment", MOMENTS)
def test_sandboxd_is_killed_while_new_accounts_come(
    there: Host, admin_there: Client, moment: float
) -> None:
    """One account more than pre-warmed sandboxes: one sandbox is started on demand meanwhile."""
    tenants = [make_tenant(admin_there) for _ in range(PREWARMED + 1)]
    wait_for(lambda: there.cluster.is_running("sandboxd"), 30, "sandboxd")
    pid = there.cluster.process("sandboxd").pid
    with ThreadPoolExecutor(len(tenants)) as threads:
        going = [threads.submit(tenant.tool().get, tenant.path) for tenant in tenants]
        time.sleep(moment)
        there.kill_hard("sandboxd")
        for one in going:
            answer = one.result()
            assert answer.status in (200, 503), answer
            assert answer.status == 503 or answer.body == tenants[0].content
    assert pid is not None
    there.wait_back("sandboxd", pid)
    for tenant in tenants:
        assert (
            first_success(lambda tenant=tenant: tenant.tool().get(tenant.path)).body
            == tenant.content
        )  # type: ignore[misc]
    check_owners(there)


def test_sandboxd_is_killed_while_it_stops_idle_sandboxes_and_nothing_is_left(
    there: Host, admin_there: Client
) -> None:
    for moment in (IDLE_SECONDS - 0.2, IDLE_SECONDS + 0.6):
        tenants = [make_tenant(admin_there) for _ in range(2)]
        for tenant in tenants:
            assert (
                first_success(lambda tenant=tenant: tenant.tool().get(tenant.path)).body
                == tenant.content
            )  # type: ignore[misc]
        time.sleep(moment)  # they have been idle for as long as sandboxes may be
        there.wait_back("sandboxd", there.kill_hard("sandboxd"))
    wait_for(lambda: is_settled(there), 90, "all sandboxes but the spares to be gone")
    check_owners(there)


def test_an_invocation_continues_across_upgrades_and_crashes_of_sandboxd(
    there: Host, admin_there: Client
) -> None:
    """In a formerly pre-warmed sandbox: the first change makes it outdated, and each later sandboxd
    adopts it again."""
    tenant, key = make_tenant(admin_there), new_key()
    # A sandboxd that has just started tests itself first, which takes long on a busy machine.
    tenant.warm_up()
    with ThreadPoolExecutor(1) as threads:
        going = threads.submit(tenant.tool().get, tenant.path, "hold", key=key)
        run = there.run_named(key, going=going)
        conf = there.cluster.storlet_conf
        before = conf.read_text()
        try:
            # Only sandboxd gets the new options: a server that is restarted would end its own
            # invocations.
            for pids in (300, 301):
                conf.write_text(before.replace("[limits]", f"[limits]\npids = {pids}"))
                there.wait_back("sandboxd", there.cluster.kill("sandboxd", signal.SIGTERM))
                assert first_success(lambda: tenant.tool().get(tenant.path)).body == tenant.content
            there.wait_back("sandboxd", there.kill_hard("sandboxd"))
            assert first_success(lambda: tenant.tool().get(tenant.path)).body == tenant.content
            assert not going.done()
        finally:
            conf.write_text(before)
            # Through /proc/<pid>/root: no worker is free for it, and Docker does not know the
            # sandbox's tenant.
            Path(f"/proc/{run.pid}/root/tmp/go-{key}").touch()
        answer = going.result()
    there.wait_back("sandboxd", there.cluster.kill("sandboxd", signal.SIGTERM))
    assert (answer.status, answer.is_broken, len(answer.body.splitlines())) == (200, False, 1), (
        answer
    )
    check_owners(there)


# --- twenty at once -------------------------------------------------------------------------------


def request_worker_group(run_dir: str, account: str, code: str) -> str:
    """Request a worker group like a Swift process that has the code; return the socket's path."""
    storlet = messages.Storlet(
        "gremlin.py", "e" * 64, code, "python", "gremlin.Gremlin", "gremlin.py"
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(60)
        connection.connect(f"{run_dir}/sandboxd.sock")
        answers = []
        for request in (
            messages.Prepare(account, storlet.name),
            messages.Acquire(account, storlet),
        ):
            framing.send(connection, request)
            received = framing.receive(connection)
            assert received is not None
            answers.append(received.message(messages.NODE_ANSWERS))
    assert isinstance(answers[1], messages.Acquired), answers
    return answers[1].socket


def test_twenty_concurrent_requests_start_one_sandbox(host: Host, fresh: Tenant) -> None:
    assert fresh.is_well()
    first = host.sandbox(fresh.account)
    (code,) = [path.name for path in host.code_dir(fresh.account).iterdir() if len(path.name) == 64]
    host.docker("kill", first.container)
    wait_for(lambda: not host.sandboxes(fresh.account), 20, "the sandbox to be gone")
    # Forks of a process that has imported this module: twenty imports would take seconds.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with host.new_log("sandboxd") as log, context.Pool(20) as processes:
        arguments = (str(host.cluster.run_dir), fresh.account, code)
        paths = processes.starmap(request_worker_group, 20 * [arguments], chunksize=1)
        assert len(set(paths)) == 1
        assert log().count("sandbox started") == 1
        assert log().count("storlet loaded") == 1
    assert host.sandbox(fresh.account) != first


def test_accounts_whose_names_share_60_characters_share_nothing(host: Host, admin: Client) -> None:
    stem = f"AUTH_{unique('s')}".ljust(60, "x")
    one, other = (make_tenant(admin, stem + end) for end in ("1", "2"))
    for tenant in (one, other):
        assert tenant.is_well()
    sandboxes = [host.sandbox(tenant.account) for tenant in (one, other)]
    assert len({uid_of(sandbox) for sandbox in sandboxes}) == 2
    assert [code_of(sandbox) for sandbox in sandboxes] == [
        [tenant_key(one.account)],
        [tenant_key(other.account)],
    ]
