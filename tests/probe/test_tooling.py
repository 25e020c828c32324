"""``up`` and ``down`` under difficult conditions.

A deep home with a space in its path below an inaccessible directory, kills at any time, a stale
lock.

The tests use clusters beside the session's. The promises of ``down`` are checked from
outside, without the tooling.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from storlet_middleware.aio.configs import identities
from tests.support.cluster import CHECKOUT, Cluster, bring_up
from tests.support.host import is_alive, read_process
from tests.support.own_cluster import CLEANER, remove_orphans
from tests.support.waiting import wait_for


@dataclass(frozen=True)
class Traces:
    """The resources of a cluster on the machine."""

    processes: int
    containers: int
    mounts: int
    sockets: int
    groups: int

    @classmethod
    def of(cls, node_id: str, docker_host: str) -> Traces:
        mark = f"STORLETS_AIO={node_id}/".encode()
        processes = sum(
            mark in environ_of(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()
        )
        listed = subprocess.run(
            ["docker", "ps", "-aq", "--filter", f"label=org.storlets={node_id}"],
            env={**os.environ, "DOCKER_HOST": docker_host}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        run = Path("/run/storlets-aio") / node_id
        sockets = sum(path.is_socket() for path in run.rglob("*")) if run.exists() else 0
        mounts = Path("/proc/self/mountinfo").read_text().count(node_id)
        groups = sum(
            1
            for pattern in ("", "*/")
            for _ in Path("/sys/fs/cgroup").glob(f"{pattern}storlets-{node_id}")
        )
        return cls(processes, len(listed.stdout.split()), mounts, sockets + run.exists(), groups)


NOTHING = Traces(0, 0, 0, 0, 0)


def environ_of(entry: Path) -> bytes:
    try:
        return (entry / "environ").read_bytes()
    except OSError:
        return b""


@dataclass(frozen=True)
class Other:
    """A second cluster, driven by the command line."""

    home: Path
    docker_host: str

    @property
    def environment(self) -> dict[str, str]:
        own = {"STORLETS_HOME": str(self.home), "STORLETS_PORT": "0", "STORLETS_SELF_TESTS": "user"}
        return {**os.environ, **own}

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._words(*words),
            cwd=CHECKOUT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._words(*words),
            cwd=CHECKOUT,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def await_begin(self) -> None:
        """Wait until ``up`` has named the cluster; before that it creates nothing outside its
        home."""
        wait_for((self.home / "settings.json").exists, 60, "the up to begin")

    def kill_an_up(self, seconds: float) -> None:
        """Begin an ``up`` and kill it ``seconds`` after it named the cluster, on slow machines
        too."""
        up = self.begin("up")
        self.await_begin()
        time.sleep(seconds)
        up.send_signal(signal.SIGKILL)
        up.wait()

    def traces(self) -> Traces:
        node_id = json.loads((self.home / "settings.json").read_text())["node_id"]
        return Traces.of(node_id, self.docker_host)

    def pids(self) -> dict[str, int]:
        processes = json.loads((self.home / "cluster.json").read_text())["processes"]
        return {item["name"]: item["pid"] for item in processes}

    @staticmethod
    def _words(*words: str) -> list[str]:
        return [sys.executable, "-m", "storlet_middleware.aio", *words]


@contextlib.contextmanager
def new_cluster(docker_host: str) -> Iterator[Other]:
    """A home without a cluster, in a deep path with a space; its cluster is down at the end."""
    closed = Path(tempfile.mkdtemp(prefix="closed-", dir="/var/tmp"))  # 0700
    home = closed / "a path with spaces" / ("and-it-is-deep-" * 5) / "home"
    made = Other(home, docker_host)
    yield made
    if (home / "settings.json").exists() and made.traces() != NOTHING:
        made.command("down")
    shutil.rmtree(closed, ignore_errors=True)


@pytest.fixture
def other(cluster: Cluster) -> Iterator[Other]:
    """A cluster of this test, not up."""
    with new_cluster(cluster.docker_host) as made:
        yield made


@pytest.fixture(scope="module")
def shared(cluster: Cluster) -> Iterator[Other]:
    """A cluster of several tests; it comes up although its first ``up`` was killed."""
    with new_cluster(cluster.docker_host) as made:
        made.kill_an_up(1.2)
        yield made


@pytest.fixture
def running(shared: Other) -> Other:
    """The shared cluster, up."""
    done = shared.command("up")
    assert done.returncode == 0, done.stdout + done.stderr
    return shared


def test_up_succeeds_after_a_killed_up_and_leaves_a_running_cluster_as_it_is(
    running: Other,
) -> None:
    pids = running.pids()
    again = running.command("up")
    assert again.returncode == 0, again.stdout + again.stderr
    assert running.pids() == pids
    assert running.command("status").returncode == 0


def test_one_process_can_be_stopped_and_started(running: Other) -> None:
    assert running.command("stop", "object-2").returncode == 0
    assert running.pids()["object-2"] is None
    assert running.command("status").returncode == 1
    assert running.command("start", "object-2").returncode == 0
    assert running.command("status").returncode == 0
    assert running.command("stop", "sandboxd").returncode == 0
    time.sleep(1.5)
    assert running.pids()["sandboxd"] is None, "the keeper leaves down what was stopped by hand"
    unknown = running.command("stop", "object-9")
    assert unknown.returncode == 1
    assert "object-1" in unknown.stderr


def test_down_removes_everything_of_a_running_cluster_and_can_be_repeated(running: Other) -> None:
    for _ in range(2):
        done = running.command("down")
        assert done.returncode == 0, done.stdout + done.stderr
        assert running.traces() == NOTHING
    assert running.command("status").returncode == 1


def claims(home: Path) -> list[Path]:
    """The files that reserve uids for accounts of the cluster in ``home``."""
    state = f'"{home}/state"'
    found = []
    for one in identities().glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError):  # removed by another cluster meanwhile
            if state in one.read_text(encoding="utf-8"):
                found.append(one)
    return found


def test_down_succeeds_after_an_up_that_was_killed_at_once(other: Other) -> None:
    up = other.begin("up")
    up.send_signal(signal.SIGKILL)
    up.wait()
    done = other.command("down")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (other.home / "cluster.json").exists()


@pytest.mark.parametrize("seconds", [0, 0.5, 1.2, 2.0])
def test_down_removes_everything_after_a_killed_up(other: Other, seconds: float) -> None:
    other.kill_an_up(seconds)
    done = other.command("down")
    assert done.returncode == 0, done.stdout + done.stderr
    assert other.traces() == NOTHING


def test_down_ends_an_up_in_progress(other: Other) -> None:
    up = other.begin("up")
    other.await_begin()
    time.sleep(0.3)
    done = other.command("down")
    assert done.returncode == 0, done.stdout + done.stderr
    assert up.wait(10) != 0
    assert other.traces() == NOTHING


def test_down_succeeds_when_all_processes_were_killed(other: Other) -> None:
    bring_up(other.home, STORLETS_SELF_TESTS="user")
    for name, pid in other.pids().items():
        if name != "dockerd":
            os.kill(pid, signal.SIGKILL)
    assert other.command("down").returncode == 0
    assert other.traces() == NOTHING


def test_the_keeper_stops_a_cluster_whose_home_was_deleted(other: Other) -> None:
    bring_up(other.home, STORLETS_SELF_TESTS="user")
    node_id = json.loads((other.home / "settings.json").read_text())["node_id"]

    def is_gone() -> bool:
        # Its daemons continue to write there until they end.
        shutil.rmtree(other.home, ignore_errors=True)
        return not other.home.exists()

    wait_for(is_gone, 30, "the home to be deleted")
    deadline = time.monotonic() + 90
    while (
        left := Traces.of(node_id, other.docker_host)
    ) != NOTHING and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == NOTHING
    wait_for(lambda: claims(other.home) == [], 10, "its uids to be released")


#: Its servers are forks, as in the sessions of pytest.
SESSION = """
import signal
from tests.conftest import CHOICES
from tests.support.cluster import fork_servers
from tests.support.own_cluster import own_cluster
fork_servers()
with own_cluster("killed-", **CHOICES) as cluster:
    print(cluster.home, flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("has_cleaner", [True, False])
def test_a_killed_session_leaves_no_cluster(cluster: Cluster, has_cleaner: bool) -> None:
    command = [sys.executable, "-c", SESSION]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as session:
        assert session.stdout
        home = Path(session.stdout.readline().strip())
        node_id = json.loads((home / "settings.json").read_text())["node_id"]
        cleaner = int((home / CLEANER).read_text())
        assert Traces.of(node_id, cluster.docker_host).processes
        process = read_process(cleaner)
        assert process is not None
        if not has_cleaner:
            os.kill(cleaner, signal.SIGKILL)
            # A killed process can still be seen for a moment.
            wait_for(lambda: not is_alive(process), 10, "the cleaner to end")
        session.kill()
    if not has_cleaner:
        assert home.exists()
        remove_orphans()
    wait_for(lambda: not home.exists(), 60, "the home to be deleted")
    assert Traces.of(node_id, cluster.docker_host) == NOTHING
    assert claims(home) == []
