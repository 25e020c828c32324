"""Processes are killed while a storlet uses the store: no object is short, and no run is left."""

from __future__ import annotations

import os
import signal
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from tests.support.accounts import unique
from tests.support.host import Host, Process, check_numbered, new_key, stream_links
from tests.support.http import Answer
from tests.support.storlets import Tool, declaration
from tests.support.tenant import SOURCE, Tenant
from tests.support.waiting import wait_for

ASKER = "asker.py"
SERVERS = ("object-1", "object-2")
#: More than the buffers of all connections hold.
LARGE = 32 << 20


def asker_of(tenant: Tenant) -> Tool:
    """The misbehaving storlet under a name with services."""
    if tenant.client.head(f"storlet/{ASKER}").status != 200:
        declared = declaration("python", "asker.Gremlin", Services="read, call")
        answer = tenant.client.put(f"storlet/{ASKER}", SOURCE.read_bytes(), declared)
        assert answer.status == 201, answer
    return tenant.tool(storlet=ASKER)


@dataclass
class Call:
    """A run that waits for the run of the storlet that it has called."""

    host: Host
    tenant: Tenant
    background: ThreadPoolExecutor
    key: str = field(default_factory=new_key)
    inner: str = field(default_factory=new_key)
    answer: Future[Answer] = field(init=False)

    def begin(self) -> Process:
        """The worker of the called storlet, once it runs."""
        path, tool = self.tenant.path, asker_of(self.tenant)
        self.answer = self.background.submit(
            tool.get, path, "call", key=self.key, inner=self.inner, of=f"/{path}"
        )
        return self.host.run_named(self.inner, 30)

    def await_end(self) -> None:
        """Wait until neither runs; a worker that is idle keeps its name."""
        wait_for(lambda: not self._streams(), 10, "the end of both runs")

    def _streams(self) -> list[str]:
        workers = self.host.runs_named(self.key) + self.host.runs_named(self.inner)
        return [link for worker in workers for link in stream_links(worker.pid)]


@pytest.fixture
def calling(host: Host, tenant: Tenant, background: ThreadPoolExecutor) -> Call:
    return Call(host, tenant, background)


def test_a_caller_that_is_killed_ends_the_called_storlet(calling: Call) -> None:
    calling.begin()
    os.kill(calling.host.run_named(calling.key).pid, signal.SIGKILL)
    answer = calling.answer.result(30)
    assert (answer.status, answer.error) == (422, "storlet.failed"), answer
    calling.await_end()
    assert calling.tenant.is_well()


def test_a_called_storlet_that_is_killed_fails_the_call_only(calling: Call) -> None:
    os.kill(calling.begin().pid, signal.SIGKILL)
    answer = calling.answer.result(30)
    assert (answer.status, answer.body) == (200, b"storlet.failed"), answer
    calling.await_end()
    assert calling.tenant.is_well()


def test_a_sandbox_that_is_killed_ends_the_call(
    host: Host, fresh: Tenant, background: ThreadPoolExecutor
) -> None:
    calling = Call(host, fresh, background)
    calling.begin()
    host.docker("kill", host.sandbox(fresh.account).container)
    answer = calling.answer.result(60)
    assert (answer.status, answer.error) == (503, "sandbox.unavailable"), answer
    calling.await_end()
    wait_for(fresh.is_well, 120, "a new sandbox")


def test_a_call_runs_again_when_its_object_server_is_killed(calling: Call) -> None:
    host = calling.host
    with host.started_again(*SERVERS):
        host.kill_hard(host.server_of(calling.begin()))
        answer = calling.answer.result(60)
    # Only the first run of this key waits.
    assert (answer.status, answer.is_broken, check_numbered(answer.body)) == (200, False, 1), answer
    calling.await_end()
    wait_for(calling.tenant.is_well, 20, "a run to work again")


def test_the_end_of_the_proxy_ends_both_runs_of_a_call(calling: Call) -> None:
    with calling.host.started_again("proxy"):
        calling.begin()
        calling.host.kill_hard("proxy")
        with pytest.raises(ConnectionResetError):
            calling.answer.result(30)
        calling.await_end()
    assert calling.tenant.is_well()


def test_an_open_object_whose_servers_are_killed_is_an_error_and_never_short(
    host: Host, tenant: Tenant, background: ThreadPoolExecutor
) -> None:
    path, tool = f"data/{unique('large')}", asker_of(tenant)
    assert tenant.client.put(path, b"x" * LARGE).status == 201

    def size_of(opened: str, pause: str) -> Answer:
        return tool.get(tenant.path, "open_slowly", of=f"/{path}", opened=opened, pause=pause)

    whole = size_of(new_key(), "0")
    assert (whole.status, whole.body) == (200, str(LARGE).encode()), whole
    with host.started_again(*SERVERS):
        going = background.submit(size_of, opened := new_key(), "1")
        host.run_named(opened)
        for server in SERVERS:
            host.kill_hard(server)
        answer = going.result(60)
    assert (answer.status, answer.body) == (200, b"backend.failed"), answer
    wait_for(tenant.is_well, 20, "a run to work again")
    tenant.client.delete(path)
