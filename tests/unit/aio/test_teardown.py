"""The end of a cluster: it removes its own traces and no others, also after errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from storlet_middleware.aio import programs, teardown
from storlet_middleware.aio.home import Home, locked
from storlet_middleware.aio.processes import Process
from storlet_middleware.aio.progress import AioError
from tests.support.cluster import wait_for


class Machine:
    """A machine that records the steps of ``clean_up``."""

    def __init__(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        self.processes = [Process(1, home.node_id, "proxy", leader=True)]
        self.containers = ["one", "two"]
        self.faults = 0
        self.slept: list[float] = []
        api = SimpleNamespace(containers=self._containers, remove=self._remove)
        replaced: dict[tuple[Any, str], Any] = {
            (teardown.processes, "stop"): lambda _owner, name: self.steps.append(f"stop {name}"),
            (teardown.processes, "running"): lambda *_: [],
            (teardown.processes, "everything"): lambda: self.processes,
            (teardown.engine, "find"): lambda: SimpleNamespace(api=api),
            (teardown.engine, "stop_unused"): lambda: self.steps.append("stop the engine"),
            (teardown.image, "remove_scratch"): lambda: None,
            (teardown, "_remove_cgroup"): lambda _node: self.steps.append("control groups"),
            (teardown, "unmount_all"): lambda _home: self.steps.append("unmount"),
            (teardown.time, "sleep"): self.slept.append,
        }
        for (module, name), value in replaced.items():
            monkeypatch.setattr(module, name, value)

    def _containers(self, _label: str) -> list[str]:
        if self.faults:
            self.faults -= 1
            raise AioError("the connection was lost")
        return list(self.containers)

    def _remove(self, container: str) -> None:
        self.steps.append(f"remove {container}")
        self.containers.remove(container)


@pytest.fixture
def machine(place: Home, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(place, monkeypatch)


def test_processes_end_before_their_containers_and_mounts(machine: Machine, place: Home) -> None:
    programs.save_cluster(place, {"processes": []})
    teardown.clean_up(place)
    first, *_ = machine.steps
    assert first == f"stop {programs.KEEPER}", "the keeper would restart the others"
    order = ["stop ", "remove one", "remove two", "control groups", "unmount", "stop the engine"]
    assert [step for step in machine.steps if step in order] == order
    assert not place.cluster_json.exists()


def test_a_container_that_appears_late_is_removed(
    machine: Machine, place: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teardown, "_remove_cgroup", lambda _node: machine.containers.append("late"))
    teardown.clean_up(place)
    assert machine.containers == []


def test_the_engine_stays_for_another_cluster(machine: Machine, place: Home) -> None:
    machine.processes.append(Process(2, "another", "proxy", leader=True))
    teardown.clean_up(place)
    assert "stop the engine" not in machine.steps


def test_a_lost_connection_to_the_engine_is_tried_again(machine: Machine, place: Home) -> None:
    machine.faults = 2
    teardown.clean_up(place)
    assert len(machine.slept) == 2
    assert machine.containers == []


def test_an_engine_that_stays_broken_is_an_error(
    machine: Machine, place: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.faults = 99
    monkeypatch.setattr(teardown, "ENGINE_SECONDS", -1.0)
    with pytest.raises(AioError, match="connection was lost"):
        teardown.clean_up(place)


def test_a_purge_deletes_the_home_and_releases_the_uids_of_this_cluster_only(
    place: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = tmp_path / "identities"
    claims.mkdir()
    for uid, state in ((1000001, place.state), (1000002, "/other/state")):
        (claims / str(uid)).write_text(json.dumps({"state_dir": str(state)}))
    (claims / "lock").touch()
    # A claim that another cluster removes after the folder was listed.
    (claims / "1000000").symlink_to(claims / "gone")
    monkeypatch.setattr(teardown.configs, "identities", lambda: claims)
    teardown.purge(place)
    assert not place.real.exists()
    assert sorted(path.name for path in claims.iterdir()) == ["1000000", "1000002", "lock"]


def test_a_running_command_of_the_cluster_is_ended(
    place: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teardown.processes, "stop", lambda _owner, _name: None)
    code = (
        "import sys, time; from storlet_middleware.aio import home\n"
        "with home.locked(home.find_home({'STORLETS_HOME': sys.argv[1]})): time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(place.real)]) as command:
        wait_for(lambda: teardown.lock_holder(place) == command.pid, 10, "its lock")
        teardown.interrupt(place)
        assert command.wait(10) == -15
    teardown.interrupt(place)


def test_down_does_not_end_itself(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _signum: sent.append(pid))
    with locked(place):
        teardown.interrupt(place)
    assert sent == []
