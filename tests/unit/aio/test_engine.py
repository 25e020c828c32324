"""The Docker engine of a machine: which one is used, and when ours may be stopped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from storlet_middleware.aio import engine, processes
from storlet_middleware.aio.processes import Process
from storlet_middleware.aio.progress import AioError


class Machine:
    """A machine without Docker; ``answering`` has the addresses of engines."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answering: set[str] = set()
        self.steps: list[str] = []
        self.containers: list[str] = []
        self.processes: list[Process] = []
        for name in ("USERS", "LOCK", "PID_FILE", "EXEC_ROOT", "DATA_ROOT", "LOG"):
            monkeypatch.setattr(engine, name, tmp_path / name.lower())
        monkeypatch.setattr(engine, "DEFAULT_HOST", f"unix://{tmp_path}/docker.sock")
        monkeypatch.setattr(engine, "DockerApi", self._api)
        monkeypatch.setattr(engine, "halt", lambda: self.steps.append("halt"))
        monkeypatch.setattr(processes, "running", lambda _owner, _name="": self.processes)
        monkeypatch.setattr(processes, "stop", lambda _owner, _name: self.steps.append("stop"))
        monkeypatch.delenv("DOCKER_HOST", raising=False)

    def _api(self, host: str) -> SimpleNamespace:
        return SimpleNamespace(
            host=host,
            answers=lambda: host in self.answering,
            running_containers=lambda: self.containers,
            info=lambda: {"ServerVersion": "20.10", "Driver": "overlay2"},
        )


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    made = Machine(tmp_path, monkeypatch)
    made.processes = [Process(os.getpid(), engine.OWNER, engine.NAME, leader=True)]
    return made


def test_the_engine_of_the_environment_comes_first_and_the_default_second(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine.find() is None
    machine.answering = {engine.DEFAULT_HOST}
    monkeypatch.setenv("DOCKER_HOST", "unix:///other.sock")
    for host in (engine.DEFAULT_HOST, "unix:///other.sock"):
        machine.answering.add(host)
        found = engine.find()
        assert found is not None
        assert found.api.host == host


def test_our_engine_is_dockerd_and_not_another_process_with_its_mark(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.processes = [Process(pid, engine.OWNER, engine.NAME, leader=False) for pid in (7, 8)]
    monkeypatch.setattr(engine, "_command", {7: "containerd", 8: "dockerd"}.__getitem__)
    assert engine.our_pid() == 8
    machine.processes.pop()
    assert engine.our_pid() is None


def test_our_engine_is_known_by_its_pid(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    leaders = {7, 8}
    monkeypatch.setattr(engine.processes, "is_leader", lambda _owner, _name, pid: pid in leaders)
    monkeypatch.setattr(engine, "_command", {7: "containerd", 8: "dockerd"}.__getitem__)
    machine.processes = []
    machine.answering = {engine.DEFAULT_HOST}
    assert engine.our_pid(8) == 8
    assert (found := engine.find(8))
    assert found.pid == 8
    assert engine.our_pid(7) is None
    leaders.clear()
    assert engine.our_pid(8) is None


def test_the_one_box_container_names_the_options_that_it_lacks(machine: Machine) -> None:
    with pytest.raises(AioError, match=r"-v /var/run/docker\.sock"):
        engine.need_hosts()
    machine.answering = {engine.DEFAULT_HOST}
    engine.need_hosts()


def test_an_unused_engine_of_ours_is_stopped(machine: Machine) -> None:
    engine.stop_unused()
    assert machine.steps == ["halt", "stop"]


def test_our_engine_stays_while_a_cluster_uses_it(machine: Machine) -> None:
    with engine.in_use(), engine.in_use():
        engine.stop_unused()
    assert machine.steps == []


def test_our_engine_stays_while_a_container_runs_in_it(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.answering, machine.containers = {engine.DEFAULT_HOST}, ["someone's"]
    engine.stop_unused()
    assert machine.steps == []
    assert "stays up" in capsys.readouterr().out


def test_an_engine_that_is_not_ours_is_never_stopped(machine: Machine) -> None:
    machine.answering, machine.processes = {engine.DEFAULT_HOST}, []
    engine.stop_unused()
    assert machine.steps == []


@pytest.mark.parametrize(
    ("text", "is_removed"),
    [
        pytest.param(str(os.getpid()), True, id="another program"),
        pytest.param(str(1 << 30), True, id="no process"),
        pytest.param("not a number", False, id="garbage"),
        pytest.param(None, False, id="no file"),
    ],
)
@pytest.mark.usefixtures("machine")
def test_a_pid_file_of_containerd_is_removed_when_it_names(
    text: str | None, *, is_removed: bool
) -> None:
    file = engine.EXEC_ROOT / "containerd/containerd.pid"
    file.parent.mkdir(parents=True)
    if text is not None:
        file.write_text(text)
    engine._remove_stale_pid_file()
    assert file.exists() is (text is not None and not is_removed)


def test_the_description_is_one_line(machine: Machine) -> None:
    assert engine.describe() == "none"
    machine.answering = {engine.DEFAULT_HOST}
    assert engine.describe() == "20.10, overlay2, cgroup v1"
