"""Processes are killed while several outputs are open: all of them are stored, or none; and slow
outputs get no node into trouble.

Swift waits for three seconds only here, so that the tests need not wait for a minute.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.accounts import unique
from tests.support.cluster import Cluster
from tests.support.host import Host, new_key
from tests.support.http import Answer
from tests.support.storlets import declaration
from tests.support.tenant import SOURCE, Tenant
from tests.support.waiting import wait_for

METHODS = ("GET", "PUT", "COPY")
MAKER = "maker.py"
#: Before the PUTs begin, and while they are open.
SIZES = ("0", str(2 << 20))
SECONDS = "3"
IMPATIENT: dict[str, dict[str, object]] = {
    "proxy-server.conf:DEFAULT": {"client_timeout": SECONDS},
    "proxy-server.conf:app:proxy-server": {"error_suppression_limit": 1000},
    "object-server-1.conf:app:object-server": {"client_timeout": SECONDS},
    "object-server-2.conf:app:object-server": {"client_timeout": SECONDS},
}


@pytest.fixture(scope="module", autouse=True)
def _impatient(cluster: Cluster, nothing_is_left: None) -> Iterator[None]:
    with cluster.configured(IMPATIENT):
        yield


class Outputs:
    """A request with two further outputs, whose storlet creates an object, too."""

    def __init__(self, tenant: Tenant, method: str) -> None:
        self._tenant = tenant
        self._method = method
        self._targets = [f"data/{unique('out')}" for _ in range(2)]
        self._created = f"data/{unique('made')}"
        self._main = f"data/{unique('main')}"
        if tenant.client.head(f"storlet/{MAKER}").status != 200:
            declared = declaration("python", "maker.Gremlin", Services="write")
            answer = tenant.client.put(f"storlet/{MAKER}", SOURCE.read_bytes(), declared)
            assert answer.status == 201, answer

    def send(self, do: str = "spread", **parameters: str) -> Answer:
        tool, path = self._tenant.tool(storlet=MAKER), self._tenant.path
        parameters["creates"] = f"/{self._created}"
        headers = {"X-Storlet-Output": ", ".join("/" + target for target in self._targets)}
        if self._method == "GET":
            return tool.get(path, do, headers, **parameters)
        if self._method == "PUT":
            return tool.put(self._main, b"input", do, headers, **parameters)
        return tool.copy(path, self._main, do, headers, **parameters)

    def lengths(self) -> list[int | None]:
        """The lengths of the stored objects; ``None`` for one that is not stored."""
        targets = [*self._targets, self._created]
        targets += [] if self._method == "GET" else [self._main]
        answers = [self._tenant.client.head(target) for target in targets]
        return [
            int(answer.headers["Content-Length"]) if answer.status == 200 else None
            for answer in answers
        ]


def is_whole(answer: Answer) -> bool:
    return answer.status // 100 == 2 and not answer.is_broken


@pytest.mark.parametrize(
    ("method", "size"), [("GET", SIZES[0]), *((method, SIZES[1]) for method in METHODS)]
)
def test_nothing_is_stored_when_the_worker_is_killed(
    host: Host, tenant: Tenant, background: ThreadPoolExecutor, method: str, size: str
) -> None:
    key, outputs = new_key(), Outputs(tenant, method)
    going = background.submit(outputs.send, key=key, bytes=size)
    worker = host.run_named(key, going=going)
    wait_for(lambda: "nanosleep" in Path(f"/proc/{worker.pid}/wchan").read_text(), 20, "the hold")
    os.kill(worker.pid, signal.SIGKILL)
    answer = going.result(30)
    assert not is_whole(answer)
    assert answer.is_broken or (answer.status, answer.error) == (422, "storlet.failed")
    assert set(outputs.lengths()) == {None}
    assert tenant.is_well()


@pytest.mark.parametrize("size", SIZES)
def test_nothing_is_stored_when_the_sandbox_is_killed(
    host: Host, tenant: Tenant, background: ThreadPoolExecutor, size: str
) -> None:
    key, outputs = new_key(), Outputs(tenant, "COPY")
    going = background.submit(outputs.send, key=key, bytes=size)
    host.run_named(key, going=going)
    for sandbox in host.sandboxes(tenant.account):
        host.docker("kill", sandbox.container)
    assert not is_whole(going.result(60))
    assert set(outputs.lengths()) == {None}
    wait_for(tenant.is_well, 120, "a new sandbox")


@pytest.mark.parametrize("size", SIZES)
def test_nothing_is_stored_when_the_proxy_is_killed(
    host: Host, tenant: Tenant, background: ThreadPoolExecutor, size: str
) -> None:
    key, outputs = new_key(), Outputs(tenant, "COPY")
    with host.started_again("proxy"):
        going = background.submit(outputs.send, key=key, bytes=size)
        host.run_named(key, going=going)
        host.kill_hard("proxy")
        with pytest.raises(ConnectionResetError):
            going.result(30)
        wait_for(lambda: not host.runs_named(key), 5, "the run's end")
    assert tenant.is_well()
    assert set(outputs.lengths()) == {None}


@pytest.mark.parametrize("size", SIZES)
def test_all_or_nothing_is_stored_when_an_object_server_is_killed(
    host: Host, tenant: Tenant, background: ThreadPoolExecutor, size: str
) -> None:
    key, outputs = new_key(), Outputs(tenant, "COPY")
    with host.started_again("object-1"):
        going = background.submit(outputs.send, key=key, bytes=size)
        host.run_named(key, going=going)
        host.kill_hard("object-1")
        assert tenant.tool("proxy").get(tenant.path, "touch", go=key).status == 200
        answer = going.result(60)
    wait_for(tenant.is_well, 20, "a run to work again")
    lengths = outputs.lengths()
    if is_whole(answer):
        assert None not in lengths
    elif answer.error == "outputs.partial":
        assert lengths.count(None) == len(re.findall(r"[(]5", answer.text))
    else:
        assert set(lengths) == {None}


@pytest.mark.parametrize("method", ["GET", "COPY"])
def test_outputs_that_come_slowly_are_stored_and_no_node_is_blamed(
    cluster: Cluster, tenant: Tenant, method: str
) -> None:
    log = Path(next(p["log"] for p in cluster.description["processes"] if p["name"] == "proxy"))
    begin = log.stat().st_size
    outputs = Outputs(tenant, method)
    # Both are longer than Swift waits for a read, and for a piece of 64 KiB.
    answer = outputs.send(bytes=SIZES[1], drops="9")
    assert is_whole(answer), answer
    assert set(outputs.lengths()) == {(2 << 20) + 9}
    said = log.read_bytes()[begin:].decode("utf-8", "replace")
    assert "ERROR with Object server" not in said
    assert "Trying to write to" not in said
