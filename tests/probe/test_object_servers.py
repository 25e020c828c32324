"""An object server is killed (SIGKILL) during a run: no spliced or short result; no error before
the first byte."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.functional.commit_doubles import answered
from tests.support.accounts import unique
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.host import Host, Process, check_numbered, new_key, stream_links
from tests.support.proxies import OtherProxy, other_proxy
from tests.support.storlets import Tool
from tests.support.tenant import Tenant
from tests.support.waiting import wait_for

OLD = b"the old object, byte for byte"
SERVERS = ("object-1", "object-2")
MANY_LINES = 40000
#: A proxy avoids a disk for a minute after ten errors; the kills of these tests cause about as
#: many.
FORGIVING: dict[str, dict[str, object]] = {
    "proxy-server.conf:app:proxy-server": {"error_suppression_limit": 1000}
}


@pytest.fixture(scope="module", autouse=True)
def _forgiving(cluster: Cluster, nothing_is_left: None) -> Iterator[None]:
    with cluster.configured(FORGIVING):
        yield


def kill_its_server(host: Host, worker: Process) -> str:
    """Kill the object server that runs it; return the server's name."""
    name = host.server_of(worker)
    assert name in SERVERS
    host.kill_hard(name)
    return name


@pytest.mark.parametrize("seconds", [0, 1])
def test_an_object_server_killed_before_the_first_byte_causes_no_error(
    host: Host, tenant: Tenant, background: ThreadPoolExecutor, seconds: int
) -> None:
    """Before the answer's headers, which are sent after 0.25 s, and after them."""
    key = new_key()
    with host.started_again(*SERVERS):
        going = background.submit(tenant.tool().get, tenant.path, "hold", key=key, once="1")
        worker = host.run_named(key, going=going)
        time.sleep(seconds)
        kill_its_server(host, worker)
        answer = going.result(30)
        assert (answer.status, answer.is_broken) == (200, False), answer
        assert answer.headers["X-Storlet-Ran-On"] == "object"
        assert check_numbered(answer.body) == 1
        assert tenant.count(key) == 2
        wait_for(lambda: not _holds_stream(host, key), 5, "the first run's end")
    assert tenant.is_well()


def _holds_stream(host: Host, key: str) -> bool:
    return any(stream_links(run.pid) for run in host.runs_named(key))


@pytest.mark.parametrize("lines", [10, MANY_LINES])
def test_an_object_server_killed_in_the_body_breaks_the_response(
    host: Host, tenant: Tenant, background: ThreadPoolExecutor, lines: int
) -> None:
    key = new_key()
    with host.started_again(*SERVERS):
        connection, response = tenant.client.open(
            "GET",
            tenant.path,
            tenant.tool().headers(),
            query={"do": "hold", "key": key, "once": "1", "lines": str(lines)},
        )
        try:
            assert response.status == 200
            start = response.read(28)
            kill_its_server(host, host.run_named(key))
            body, is_broken = start, False
            try:
                while piece := response.read(65536):
                    body += piece
            except Exception as error:  # noqa: BLE001 - whatever the client's library makes of it
                is_broken = True
                body += getattr(error, "partial", b"")
        finally:
            connection.close()
        assert is_broken
        assert check_numbered(body) <= lines
        assert tenant.count(key) == 1, "run again although bytes had gone out"
    assert tenant.is_well()


def test_an_object_server_killed_during_long_output_never_gives_a_wrong_body(
    host: Host, tenant: Tenant, background: ThreadPoolExecutor
) -> None:
    """The body has filled every buffer to the client when its server is killed."""
    key = new_key()
    with host.started_again(*SERVERS):
        going = background.submit(
            tenant.tool().get,
            tenant.path,
            "numbered",
            key=key,
            lines="400000",
            trickle="1000",
            every="0.01",
        )
        worker = host.run_named(key, going=going)
        name = host.server_of(worker)
        wait_for(lambda: not host.runs_named(key) or _has_written(worker), 40, "output")
        host.kill_hard(name)
        answer = going.result(60)
        assert answer.is_broken or answer.status == 503 or check_numbered(answer.body) == 401001
    assert tenant.is_well()


def _has_written(worker: Process) -> bool:
    return (
        int(
            Path(f"/proc/{worker.pid}/io")
            .read_text(encoding="ascii")
            .split("wchar: ")[1]
            .split()[0]
        )
        > 4_000_000
    )


@pytest.mark.parametrize("lines", [10, MANY_LINES])
def test_a_copy_whose_object_server_is_killed_stores_all_or_nothing(
    host: Host, tenant: Tenant, background: ThreadPoolExecutor, lines: int
) -> None:
    path, key = f"data/{unique('copy')}", new_key()
    assert tenant.client.put(path, OLD).status == 201
    with host.started_again(*SERVERS):
        going = background.submit(
            tenant.tool().copy, tenant.path, path, "hold", key=key, once="1", lines=str(lines)
        )
        worker = host.run_named(key, going=going)
        wait_for(lambda: _has_sent(worker), 10, "its first lines")
        kill_its_server(host, worker)
        answer = going.result(60)
    # The killed server may have missed the write: only the newest copy counts.
    stored = tenant.client.get(path, {"X-Newest": "true"}).body
    if answer.status == 201:
        assert check_numbered(stored) == lines + 1
    else:
        assert (answer.status, answer.error) == (503, "backend.failed"), answer
        assert stored == OLD
    assert tenant.is_well()


def _has_sent(worker: Process) -> bool:
    return "nanosleep" in Path(f"/proc/{worker.pid}/wchan").read_text(encoding="ascii")


@pytest.mark.parametrize("victim", SERVERS)
def test_requests_succeed_with_one_object_server_down(
    host: Host, tenant: Tenant, placement: str, victim: str
) -> None:
    with host.started_again(victim):
        host.kill_hard(victim)
        for _ in range(4):
            assert tenant.is_well(placement)
    assert tenant.is_well(placement)


def test_requests_fail_with_all_object_servers_down(
    host: Host, tenant: Tenant, placement: str
) -> None:
    assert tenant.is_well(placement)
    with host.started_again(*SERVERS):
        for name in SERVERS:
            host.kill_hard(name)
        answer = tenant.tool(placement).get(tenant.path)
        assert answer.status == 503, answer
        assert tenant.client.get(tenant.path).status == 503
    wait_for(lambda: tenant.is_well(placement), 20, "a run to work again")


def test_a_proxy_that_is_killed_leaves_nothing_that_runs(
    host: Host, tenant: Tenant, placement: str, background: ThreadPoolExecutor
) -> None:
    key = new_key()
    with host.started_again("proxy"):
        going = background.submit(tenant.tool(placement).get, tenant.path, "hold", key=key)
        host.run_named(key, going=going)
        host.kill_hard("proxy")
        with pytest.raises(ConnectionResetError):
            going.result(30)
        wait_for(lambda: not host.runs_named(key), 5, "the run's end")
    assert tenant.is_well(placement)


# --- several outputs ------------------------------------------------------------------------------


@pytest.fixture
def late(cluster: Cluster, tmp_path: Path) -> Iterator[tuple[OtherProxy, Path]]:
    """A proxy in which the commit of an object named ``late`` waits for a file."""
    shutil.copy(CHECKOUT / "tests/functional/commit_doubles.py", tmp_path)
    conf = Path(cluster.description["conf_dir"], "proxy-server.conf").read_text("utf-8")
    line = next(line for line in conf.splitlines() if line.startswith("pipeline ="))
    changes = {
        "pipeline:main": {
            "pipeline": line.partition("=")[2].replace(" proxy-server", " late proxy-server")
        },
        "filter:late": {
            "paste.filter_factory": "commit_doubles:factory",
            "go": str(tmp_path / "go"),
        },
        "app:proxy-server": {"error_suppression_limit": "1000"},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        with other_proxy(cluster, changes) as proxy:
            yield proxy, tmp_path / "go"


def test_object_servers_that_are_killed_between_two_commits(
    host: Host,
    tenant: Tenant,
    late: tuple[OtherProxy, Path],
    background: ThreadPoolExecutor,
) -> None:
    """The answer names the output that is stored and the one that is not."""
    proxy, go = late
    tool = Tool(proxy.client(tenant.client), "gremlin.py")
    first, second = (f"data/{unique(name)}" for name in ("first", "late"))
    headers = {"X-Storlet-Output": f"/{first}, /{second}"}
    size = 100_000
    with host.started_again(*SERVERS):
        going = background.submit(
            tool.get, tenant.path, "spread", headers, bytes=str(size), drops="0"
        )
        # Not its first replica, which can be read before the proxy server has an answer.
        wait_for(answered(go).exists, 20, "the first commit")
        assert not going.done()
        for server in SERVERS:
            host.kill_hard(server)
        go.touch()
        answer = going.result(60)
    assert (answer.status, answer.error) == (503, "outputs.partial"), answer
    assert f"not stored: /{second} (503" in answer.text
    assert f"; stored: /{first}" in answer.text
    wait_for(tenant.is_well, 30, "a run to work again")
    assert tenant.client.head(first).headers["Content-Length"] == str(size)
    assert tenant.client.head(second).status == 404
