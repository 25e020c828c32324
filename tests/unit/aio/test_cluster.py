"""The commands of a cluster, with the processes replaced by a table of pids."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from storlet_middleware.aio import cluster, programs
from storlet_middleware.aio.home import Home
from storlet_middleware.aio.programs import Entry
from storlet_middleware.aio.progress import AioError


class Machine:
    """The processes of the cluster by name; ``None``: not running."""

    def __init__(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pids: dict[str, int | None] = {"proxy": 11, "sandboxd": 12}
        self.silent: set[str] = set()
        self.flags_at_start: list[bool] = []
        self.home = home
        self.env = {"STORLETS_HOME": str(home.real)}
        programs.save(home, [Entry(name, ["run"], "log", port=8080) for name in self.pids])
        described = [{"name": name, "pid": pid} for name, pid in self.pids.items()]
        programs.save_cluster(home, {"auth_url": "http://x/auth", "processes": described})
        monkeypatch.setattr(cluster, "need_root", lambda: None)
        monkeypatch.setattr(cluster, "wait_for", lambda _home, _entry: None)
        monkeypatch.setattr(cluster.processes, "leader", lambda _owner, name: self.pids[name])
        monkeypatch.setattr(cluster.processes, "start", self._start)
        monkeypatch.setattr(cluster.processes, "stop", self._stop)
        monkeypatch.setattr(programs, "answers", lambda _home, entry: entry.name not in self.silent)
        api = SimpleNamespace(path="/docker.sock", containers=lambda _label: ["one", "two"])
        self.engine: object = SimpleNamespace(api=api, pid=99)
        monkeypatch.setattr(cluster.engine, "find", lambda: self.engine)
        monkeypatch.setattr(cluster.engine, "halt", lambda: setattr(self, "engine", None))

    def _start(self, _owner: str, program: programs.Program) -> int:
        self.flags_at_start.append(programs.stopped_by_hand(self.home, program.name).exists())
        self.pids[program.name] = 77
        return 77

    def _stop(self, _owner: str, name: str) -> None:
        self.pids[name] = None

    def described(self, name: str) -> object:
        processes = programs.load_cluster(self.home)["processes"]
        return next(one["pid"] for one in processes if one["name"] == name)


@pytest.fixture
def machine(place: Home, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(place, monkeypatch)


def test_commands_of_a_cluster_that_was_never_made(
    place: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    env = {"STORLETS_HOME": str(place.real.with_name("none"))}
    cluster.down(env)
    assert cluster.status(env) == 1
    assert capsys.readouterr().out == "there is no cluster here\ndown\n"
    assert not place.real.with_name("none").exists()


def test_the_status_of_a_healthy_cluster_is_0(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cluster.status(machine.env) == 0
    out = capsys.readouterr().out
    assert "http://x/auth" in out
    assert "sandboxes  2" in out


@pytest.mark.parametrize("fault", ["DOWN", "SILENT", "engine"])
def test_the_status_names_the_process_at_fault(
    machine: Machine, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    if fault == "engine":
        machine.engine = None
    elif fault == "DOWN":
        machine.pids["sandboxd"] = None
        machine.silent = {"sandboxd"}
    else:
        machine.silent = {"sandboxd"}
    assert cluster.status(machine.env) == 1
    lines = {line.split()[0]: line.split()[-1] for line in capsys.readouterr().out.splitlines()}
    expected = ("dockerd", "DOWN") if fault == "engine" else ("sandboxd", fault)
    assert lines[expected[0]] == expected[1]
    assert lines["proxy"] == "up"


def test_a_stopped_process_is_marked_for_the_keeper_until_it_is_started(machine: Machine) -> None:
    flag = programs.stopped_by_hand(machine.home, "proxy")
    cluster.stop("proxy", machine.env)
    assert machine.pids["proxy"] is None
    assert flag.exists()
    assert machine.described("proxy") is None
    cluster.start("proxy", machine.env)
    assert machine.flags_at_start == [True], "else the keeper starts a second one"
    assert not flag.exists()
    assert machine.described("proxy") == 77


def test_a_running_process_is_not_started_again(machine: Machine) -> None:
    cluster.start("proxy", machine.env)
    assert machine.flags_at_start == []
    assert machine.described("proxy") == 11


def test_the_engine_is_stopped_by_its_name(machine: Machine) -> None:
    cluster.stop(programs.DOCKERD, machine.env)
    assert machine.engine is None
    assert programs.stopped_by_hand(machine.home, programs.DOCKERD).exists()


def test_an_unknown_name_is_refused_with_the_known_ones(machine: Machine) -> None:
    with pytest.raises(AioError, match=r"no process 'proxi'; .* proxy, sandboxd, dockerd"):
        cluster.stop("proxi", machine.env)
