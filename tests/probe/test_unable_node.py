"""One of the object nodes cannot run storlets, in each way that a node can fail: no request with a
storlet fails.

``STORLETS_UNABLE_REQUESTS=2000`` makes the number of requests in each state 2,000.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.accounts import unique
from tests.support.cluster import Cluster
from tests.support.freezing import freeze, with_children
from tests.support.host import Host
from tests.support.http import Answer
from tests.support.second_node import SERVER, Options, SecondNode
from tests.support.tenant import SOURCE, Tenant

REQUESTS = int(os.environ.get("STORLETS_UNABLE_REQUESTS", "24"))
CLIENTS = 8
OBJECTS = 12
#: A frozen object server is noticed sooner than with Swift's ten seconds, also by the clients that
#: fetch the code of storlets.
PATIENCE: Options = {
    "proxy-server.conf:app:proxy-server": {"node_timeout": 3},
    "internal-client.conf:app:proxy-server": {"node_timeout": 3},
    "storlet.conf:placement": {"heartbeat_seconds": 0.5},
}
#: Its sandboxd is started and serves; the state is made by what follows.
ABLE: Options = {"sandbox": {}}


@dataclass(frozen=True)
class State:
    """A state of the node; ``spoil`` makes it after the start, for the length of a block.

    :param code: the error code that the node reports; empty where it cannot report anything.
    """

    name: str
    options: Options = field(default_factory=lambda: ABLE)
    code: str = ""
    has_sandboxd: bool = True
    spoil: Callable[[SecondNode, Tenant], contextlib.AbstractContextManager[None]] | None = None


@contextlib.contextmanager
def frozen_sandboxd(node: SecondNode, tenant: Tenant) -> Iterator[None]:
    node.freeze_sandboxd()
    yield


@contextlib.contextmanager
def frozen_sandboxes(node: SecondNode, tenant: Tenant) -> Iterator[None]:
    """All processes of the tenant's sandbox on the node are stopped, the supervisor first."""
    tool = tenant.tool()
    host = Host(node.cluster)
    host.node_id = node.name
    for index in range(OBJECTS):
        assert tool.get(f"data/o{index}").status == 200
    sandboxes = host.sandboxes(tenant.account)
    assert sandboxes
    freeze([pid for one in sandboxes for pid in with_children(one.pid)])
    # sandboxd replaces it meanwhile.
    yield


@contextlib.contextmanager
def without_filter(node: SecondNode, tenant: Tenant) -> Iterator[None]:
    with node.without_filter():
        yield


@contextlib.contextmanager
def killed_server(node: SecondNode, tenant: Tenant) -> Iterator[None]:
    node.cluster.stop(SERVER)
    yield


@contextlib.contextmanager
def frozen_server(node: SecondNode, tenant: Tenant) -> Iterator[None]:
    # The proxy forgets the errors of the killed server.
    node.cluster.stop("proxy")
    node.cluster.start("proxy")
    with node.frozen_server():
        yield


STATES = (
    State("sandboxd dead", code="sandbox.unavailable", has_sandboxd=False),
    State("sandboxd frozen", code="sandbox.unavailable", spoil=frozen_sandboxd),
    State(
        "docker dead",
        {"sandbox": {"docker_url": "unix:///var/empty/docker.sock"}},
        "sandbox.unavailable",
    ),
    State("image missing", {"sandbox": {"image": "storlets/none:1"}}, "sandbox.unavailable"),
    State("code missing", {"storlet": {}}, "internal"),
    State("class closed", {"class:admin": {}}, "sandbox.unavailable"),
    State("full", {"admission": {"invocations": 1, "queue": 1}}),
    State("sandbox frozen", {"invocation": {"queue_seconds": 2}}, spoil=frozen_sandboxes),
    State("filter missing", spoil=without_filter),
    # These are last: after ten errors Swift's proxy server sends a node nothing for a minute.
    State("server killed", spoil=killed_server),
    State("server frozen", spoil=frozen_server),
)


@pytest.fixture(scope="module")
def second(cluster: Cluster, nothing_is_left: None) -> Iterator[SecondNode]:
    node = SecondNode(cluster)
    with node.attached(PATIENCE):
        yield node


@pytest.fixture(scope="module")
def owner(tenant: Tenant) -> Tenant:
    """The account of all states, with the objects of their requests."""
    for index in range(OBJECTS):
        assert tenant.client.put(f"data/o{index}", tenant.content).status == 201
    return tenant


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name.replace(" ", "-"))
def test_no_request_fails_while_one_node_cannot_run_storlets(
    second: SecondNode, owner: Tenant, services: Path, state: State
) -> None:
    # Code that the node has not fetched in an earlier state.
    owner.upload("gremlin.py", SOURCE.read_bytes() + f"# {state.name}\n".encode())
    options = dict(state.options)
    if "storlet" in options:
        client = services / "internal-client.conf"
        client.write_text("[pipeline:main]\npipeline = none\n", encoding="utf-8")
        options["storlet"] = {"internal_client_conf_path": client}
    if "class:admin" in options:
        options["class:admin"] = {"accounts": owner.account, "mounts": f"{services}:/host:ro"}
    log = second.cluster.process(SERVER).log
    said_before = log.stat().st_size
    with second.state(options, has_sandboxd=state.has_sandboxd), _spoiled(state, second, owner):
        began = time.monotonic()
        answers, slowest = ask_many(owner)
        seconds = time.monotonic() - began
        said = log.read_bytes()[said_before:].decode(errors="replace")
        if state.code:
            assert "node cannot run a storlet id=" in said
            assert f"code={state.code} " in said
            assert recon(second, SERVER)["storlet_unable"]["code"] == state.code
            assert second.name in recon(second, "proxy")["storlet_nodes_avoided"]
    ran_on = Counter(answer.headers["X-Storlet-Ran-On"] for answer in answers)
    print(f"{state.name}: {len(answers)} in {seconds:.1f} s, slowest {slowest:.1f} s, {ran_on}")
    failed = [one for one in answers if one.status not in (200, 201) or one.is_broken]
    assert failed == []
    assert ran_on["object"], "the other object node runs storlets"
    wrong = [one for one in answers if one.status == 200 and one.body != owner.content]
    assert wrong == []


def _spoiled(
    state: State, node: SecondNode, tenant: Tenant
) -> contextlib.AbstractContextManager[None]:
    return state.spoil(node, tenant) if state.spoil else contextlib.nullcontext()


def recon(node: SecondNode, server: str) -> dict[str, Any]:
    text = (node.cluster.home / "recon" / server / "storlet.recon").read_text(encoding="utf-8")
    facts: dict[str, Any] = json.loads(text)
    return facts


def ask_many(tenant: Tenant) -> tuple[list[Answer], float]:
    """GET, PUT and COPY with a storlet in turn; all answers, and the longest time of one."""
    tool, times = tenant.tool(), []

    def ask(number: int) -> Answer:
        source, target = f"data/o{number % OBJECTS}", f"data/{unique('made')}"
        began = time.monotonic()
        answer = (
            tool.get(source)
            if number % 3 == 0
            else tool.copy(source, target)
            if number % 3 == 1
            else tool.put(target, tenant.content)
        )
        times.append(time.monotonic() - began)
        return answer

    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(ask, range(REQUESTS))), max(times)
