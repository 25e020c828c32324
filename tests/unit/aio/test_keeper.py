"""When the keeper starts something again, and how it bounds a log."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from storlet_middleware.aio import home as homes
from storlet_middleware.aio import keeper, programs
from storlet_middleware.aio.home import Home
from storlet_middleware.aio.keeper import (
    BACKOFF_SECONDS,
    CLEAN_UP_AGAIN_SECONDS,
    ENGINE_SILENT_SECONDS,
    STEADY_SECONDS,
    EngineHealth,
    Watched,
)
from storlet_middleware.aio.progress import AioError


class Flaky:
    """A process that is alive or not, and counts its starts."""

    def __init__(self) -> None:
        self.is_alive = False
        self.starts = 0

    def start(self) -> int:
        self.starts += 1
        return 1000 + self.starts


@pytest.fixture
def flaky() -> Flaky:
    return Flaky()


@pytest.fixture
def process(flaky: Flaky) -> Watched:
    return Watched("sandboxd", alive=lambda: flaky.is_alive, revive=flaky.start)


def test_the_first_restart_is_immediate(process: Watched, flaky: Flaky) -> None:
    assert process.restart_if_down(now=100.0) == 1001
    flaky.is_alive = True
    assert process.restart_if_down(now=100.3) is None


def test_repeated_restarts_back_off(process: Watched, flaky: Flaky) -> None:
    moments = [tick / 4 for tick in range(400, 400 + 4 * 120) if process.restart_if_down(tick / 4)]
    waits = [later - earlier for earlier, later in itertools.pairwise(moments)]
    assert waits == sorted(waits)
    assert waits[-1] == BACKOFF_SECONDS[-1]
    assert flaky.starts == len(moments) <= len(BACKOFF_SECONDS) + 120 / BACKOFF_SECONDS[-1]


def test_a_steady_process_resets_the_back_off(process: Watched, flaky: Flaky) -> None:
    for now in (100.0, 101.0, 103.0):
        process.restart_if_down(now)
    flaky.is_alive = True
    assert process.restart_if_down(103.0 + STEADY_SECONDS + 1) is None
    assert process.failures == 0


def test_a_log_is_copied_and_emptied_when_it_is_too_long(tmp_path: Path) -> None:
    log = tmp_path / "proxy.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"x" * 100)
        keeper.bound_log(log, limit=1000)
        assert log.stat().st_size == 100
        keeper.bound_log(log, limit=50)
        writer.write(b"after")
    assert log.read_bytes() == b"after"
    assert (tmp_path / "proxy.log.1").read_bytes() == b"x" * 100


class ObservedEngine:
    """An engine as the keeper sees it, with a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.pid, self.answers, self.ended = 1000.0, 7, True, 0
        monkeypatch.setattr(keeper.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(keeper.engine, "our_pid", lambda _known: self.pid)
        monkeypatch.setattr(keeper.engine, "find", lambda _known: self.answers or None)
        monkeypatch.setattr(keeper.engine, "halt", self._halt)
        self.health = EngineHealth()

    def _halt(self) -> None:
        self.ended += 1

    def look_for(self, seconds: float) -> list[bool]:
        looks = []
        for _ in range(int(seconds)):
            self.now += 1
            looks.append(self.health.is_healthy())
        return looks


def test_an_engine_that_lives_and_is_silent_for_long_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = ObservedEngine(monkeypatch)
    assert all(engine.look_for(100))
    engine.answers = False
    assert all(engine.look_for(ENGINE_SILENT_SECONDS - 10))
    assert engine.ended == 0
    assert not all(engine.look_for(20))
    assert engine.ended > 0


def test_a_new_engine_has_all_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ObservedEngine(monkeypatch)
    engine.answers = False
    engine.look_for(ENGINE_SILENT_SECONDS - 5)
    engine.pid = 8
    assert all(engine.look_for(ENGINE_SILENT_SECONDS - 5))
    assert engine.ended == 0


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr(homes, "RUN_ROOT", tmp_path / "run")
    monkeypatch.setattr(keeper.engine, "USERS", tmp_path / "users")
    made = homes.open_home({"STORLETS_HOME": str(tmp_path / "home"), "STORLETS_PORT": "0"})
    made.run.mkdir(parents=True)
    return made


def test_the_pid_of_an_engine_that_another_keeper_restarted_is_noted(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The noted pid is looked at first."""
    monkeypatch.setattr(keeper.engine, "our_pid", {7: 7, 8: 9}.__getitem__)
    for noted, found in ((7, 7), (8, 9)):
        engine = {"name": programs.DOCKERD, "pid": noted}
        programs.save_cluster(home, {"processes": [{"name": "proxy", "pid": 1}, engine]})
        keeper._note_engine(home)
        pids = [process["pid"] for process in programs.load_cluster(home)["processes"]]
        assert pids == [1, found]
    programs.save_cluster(home, {"processes": []})
    keeper._note_engine(home)


def test_a_keeper_answers_only_once_it_is_monitoring(home: Home) -> None:
    entry = programs.Entry(programs.KEEPER, [], "")
    assert not programs.answers(home, entry)
    with programs.watching(home):
        assert programs.answers(home, entry)
        assert programs.answers(home, entry), "who looks takes nothing away"
    assert not programs.answers(home, entry)


class Ended:
    """The keeper's access to the machine: the home disappears during a round, and the Docker engine
    blocks the cleaning."""

    def __init__(self, home: Home, monkeypatch: pytest.MonkeyPatch, hindered: int) -> None:
        self.home, self.hindered = home, hindered
        self.tries, self.slept = 0, list[float]()
        monkeypatch.setattr(keeper, "_note_engine", self._lose_home)
        monkeypatch.setattr(keeper.teardown, "clean_up", self._clean_up)
        monkeypatch.setattr(keeper.time, "sleep", self.slept.append)

    def _lose_home(self, home: Home) -> None:
        shutil.rmtree(home.real)
        programs.set_pid(home, programs.DOCKERD, 7)

    def _clean_up(self, home: Home) -> None:
        assert home == self.home
        self.tries += 1
        if self.tries <= self.hindered:
            raise AioError("the engine does not answer")


@pytest.mark.parametrize("hindered", [0, 1, len(CLEAN_UP_AGAIN_SECONDS)])
def test_the_cluster_of_a_deleted_home_is_cleaned_up_despite_errors(
    home: Home, monkeypatch: pytest.MonkeyPatch, hindered: int
) -> None:
    ended = Ended(home, monkeypatch, hindered)
    keeper.keep(home)
    assert ended.tries == hindered + 1
    assert ended.slept[1:] == list(CLEAN_UP_AGAIN_SECONDS[:hindered])
    assert not home.real.exists()


def test_a_cleaning_that_always_fails_is_reported(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = Ended(home, monkeypatch, 99)
    with pytest.raises(AioError, match="does not answer"):
        keeper.keep(home)
    assert ended.tries == len(CLEAN_UP_AGAIN_SECONDS) + 1
