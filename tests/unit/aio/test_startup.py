"""The start of a cluster: its directories, and the order of its processes."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any, cast

import pytest

from storlet_middleware.aio import packages, programs, rings, startup
from storlet_middleware.aio.home import Home
from storlet_middleware.aio.processes import Process
from storlet_middleware.aio.programs import KEEPER, Entry
from storlet_middleware.aio.progress import AioError


@pytest.fixture
def owners(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The owner of each directory by name; the files themselves stay the test's."""
    found: dict[str, str] = {}
    monkeypatch.setattr(
        startup.shutil, "chown", lambda path, user, _group: found.update({path.name: user})
    )
    monkeypatch.setattr(startup, "mount_all", lambda _home: None)
    return found


def test_swift_owns_its_disks_and_no_other_user_can_read_them(
    place: Home, owners: dict[str, str]
) -> None:
    for _ in range(2):
        startup.make_directories(place)
    servers = ["object-1", "object-2", "proxy"]
    assert owners == dict.fromkeys(["disks", "recon", *rings.DISKS, *servers], packages.USER)
    for name in ("disks", "recon", *(f"disks/{disk}" for disk in rings.DISKS)):
        assert stat.S_IMODE((place.real / name).stat().st_mode) == 0o700
    for path in (place.run, place.short, place.real / "state"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o755


def test_the_rings_are_built_by_the_python_of_the_cluster(
    place: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[Any]] = []
    monkeypatch.setattr(startup, "run", lambda command, _log, _env: commands.append(command))
    startup.build_rings(place, Path("/venv"))
    ((python, *words, plan),) = commands
    assert (str(python), words) == ("/venv/bin/python3", ["-m", "storlet_middleware.aio.rings"])
    assert Path(plan).name == "rings.new"
    assert json.loads((place.real / "rings.json").read_text()) == rings.plan(place)


def test_rings_are_built_again_only_for_another_plan_or_if_one_is_missing(
    place: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []

    def build(command: list[Any], _log: Path, _env: object) -> None:
        built.append(Path(command[-1]).read_text())
        for file in rings.FILES:
            (place.real_conf / f"{file}.ring.gz").touch()

    place.real_conf.mkdir(exist_ok=True)
    monkeypatch.setattr(startup, "run", build)
    for _ in range(2):
        startup.build_rings(place, Path("/venv"))
    assert len(built) == 1
    (place.real_conf / "object.ring.gz").unlink()
    startup.build_rings(place, Path("/venv"))
    startup.build_rings(place, Path("/venv"), rings.Replicas(databases=1))
    assert built == [built[0], built[0], json.dumps(rings.plan(place, rings.Replicas(databases=1)))]
    assert built[0] != built[2]


def test_a_plan_that_failed_is_tried_again(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AioError("no disk space")

    (place.real_conf).mkdir(exist_ok=True)
    for file in rings.FILES:
        (place.real_conf / f"{file}.ring.gz").touch()
    monkeypatch.setattr(startup, "run", fail)
    for _ in range(2):
        with pytest.raises(AioError):
            startup.build_rings(place, Path("/venv"))


@pytest.mark.parametrize("code", [0, 1])
def test_sandboxd_is_looked_for_in_the_environment_of_the_cluster(
    tmp_path: Path, code: int
) -> None:
    python = tmp_path / "bin/python3"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\nexit {code}\n")
    python.chmod(0o755)
    assert startup.has_sandboxd(tmp_path) is (code == 0)


class Machine:
    """The processes of the cluster; records what is stopped, started and saved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.running: dict[str, int] = {}
        self.outdated: set[str] = set()
        self.steps: list[str] = []
        replaced: dict[tuple[Any, str], Any] = {
            (startup.processes, "running"): self._running,
            (startup.processes, "start"): self._start,
            (startup.processes, "stop"): self._stop,
            (startup.processes, "wait_until"): self._wait,
            (programs, "is_current"): lambda _pid, entry: entry.name not in self.outdated,
            (startup, "describe"): lambda *_, **__: {},
            (programs, "save_cluster"): lambda *_: self.steps.append("save"),
        }
        for (module, name), value in replaced.items():
            monkeypatch.setattr(module, name, value)

    def _running(self, owner: str) -> list[Process]:
        return [Process(pid, owner, name, leader=True) for name, pid in self.running.items()]

    def _start(self, _owner: str, program: programs.Program) -> int:
        self.steps.append(f"start {program.name}")
        self.running[program.name] = 1000
        return 1000

    def _stop(self, _owner: str, *names: str) -> None:
        stopped = [name for name in names if self.running.pop(name, None)]
        if stopped:
            self.steps.append(f"stop {', '.join(stopped)}")

    def _wait(self, _check: Any, _owner: str, program: programs.Program, _seconds: float) -> None:
        self.steps.append(f"await {program.name}")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


ENTRIES = [Entry(name, ["run"], "log") for name in ("object-1", "proxy", KEEPER)]


def start_all(place: Home) -> None:
    startup.start_all(place, ENTRIES, cast("Any", None))


def test_servers_start_together_and_the_keeper_starts_last(machine: Machine, place: Home) -> None:
    (place.real / "stopped").mkdir()
    (place.real / "stopped" / "proxy").touch()
    start_all(place)
    assert machine.steps == [
        "start object-1", "start proxy", "await object-1", "await proxy",
        "save", f"start {KEEPER}", f"await {KEEPER}",
    ]  # fmt: skip
    assert programs.load(place) == ENTRIES
    assert not (place.real / "stopped").exists(), "up starts everything again"


def test_a_current_process_keeps_running(machine: Machine, place: Home) -> None:
    machine.running = {"object-1": 1, "proxy": 2, KEEPER: 3}
    start_all(place)
    # An up that was killed may have started it just now.
    assert machine.steps == ["await object-1", "await proxy", "save"]


def test_outdated_processes_are_replaced_and_the_keeper_is_stopped_first(
    machine: Machine, place: Home
) -> None:
    machine.running = {"proxy": 1, "object-1": 2, KEEPER: 3, "setup": 4}
    machine.outdated = {"proxy", KEEPER}
    start_all(place)
    assert machine.steps[:3] == [f"stop {KEEPER}", "stop proxy", "start proxy"]
    assert machine.running["setup"] == 4
    assert machine.running["object-1"] == 2


def test_outdated_processes_are_stopped_together(machine: Machine, place: Home) -> None:
    machine.running = {"proxy": 1, "object-1": 2, KEEPER: 3}
    machine.outdated = {"proxy", "object-1"}
    start_all(place)
    assert machine.steps[0] == "stop proxy, object-1"


def test_a_process_that_the_table_no_longer_has_is_stopped(machine: Machine, place: Home) -> None:
    machine.running = {"old-server": 1}
    start_all(place)
    assert machine.steps[0] == "stop old-server"
