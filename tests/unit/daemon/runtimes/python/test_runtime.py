"""How Python workers are started: interpreters, command line, and number."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from storlet_daemon import __main__ as program
from storlet_daemon import kernel
from storlet_daemon.runtimes.language import CHANNEL, LISTENING, ImagePaths, Start
from storlet_daemon.runtimes.python.runtime import PythonRuntime
from storlet_daemon.runtimes.table import LANGUAGES
from storlet_daemon.worker import run_loop
from storlet_daemon.worker.config import WorkerConfig
from tests.unit.daemon.loads import limited, load_of

OWN = f"3.{sys.version_info.minor}"


ROWS = {row.name: row for row in LANGUAGES}


def python(directory: Path | None = None) -> PythonRuntime:
    chosen = {} if directory is None else {"python-dir": str(directory)}
    return PythonRuntime(ROWS["python"], ImagePaths(chosen))


@pytest.mark.parametrize("version", [None, "3", OWN])
def test_the_supervisors_own_python_needs_no_interpreter(
    version: str | None, tmp_path: Path
) -> None:
    assert python(tmp_path).missing(load_of(language_version=version)) is None


@pytest.mark.parametrize("version", ["3.2", "2.7", "3.x", "../../bin/sh", "3.9999", ""])
def test_the_error_for_a_missing_python_lists_the_installed_ones(
    version: str, tmp_path: Path
) -> None:
    for name in ("python3.7", "python3", "python3.99-config", "sh"):
        (tmp_path / name).touch(0o755)
    reason = python(tmp_path).missing(load_of(language_version=version))
    assert reason == f"python {version} is not in this sandbox; there are: 3.7, {OWN}"


def test_another_installed_python_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "python3.99").touch(0o755)
    assert python(tmp_path).missing(load_of(language_version="3.99")) is None


def test_a_storlets_limits_bound_the_number_of_its_workers() -> None:
    assert python().workers_max(load_of()) == 4
    assert python().workers_max(limited(memory_bytes=100 << 20)) == 3
    assert python().workers_max(limited(memory_bytes=1)) == 1
    assert python().workers_max(limited(processes=9)) == 2


class Executed(Exception):
    """The process would be another program now."""


def test_both_ways_to_start_a_worker_give_it_the_same_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker of another version gets its configuration as words of a command line."""
    given = load_of(main="a.B", file="a.py", runs_per_worker=9, worker_seconds=2.5)
    served: list[WorkerConfig] = []
    words: list[str] = []

    def serve(config: WorkerConfig) -> NoReturn:
        served.append(config)
        raise Executed

    def execute(_interpreter: str, command: list[str]) -> NoReturn:
        words.extend(command)
        raise Executed

    monkeypatch.setattr(run_loop, "serve", serve)
    monkeypatch.setattr(os, "execv", execute)
    monkeypatch.setattr(os, "set_inheritable", lambda _fd, _value: None)
    monkeypatch.setattr(kernel, "hide_memory", lambda: None)
    with pytest.raises(Executed):
        python().become_worker(given, Start("g-1"))
    with pytest.raises(Executed):
        python().become_worker(dataclasses.replace(given, language_version="3.99"), Start("g-1"))
    assert words[:3] == ["/usr/bin/python3.99", "-I", "-B"]
    with pytest.raises(Executed):
        program.main(words[4:])
    assert served[0] == served[1]
    assert (served[0].main, served[0].file, served[0].runs_per_worker) == ("a.B", "a.py", 9)
    assert (served[0].listening, served[0].channel) == (LISTENING, CHANNEL)
    assert (served[0].control_group, served[0].worker_seconds) == ("g-1", 2.5)


def test_a_worker_of_another_version_inherits_its_two_sockets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inheritable: dict[int, bool] = {}
    monkeypatch.setattr(os, "set_inheritable", inheritable.__setitem__)
    monkeypatch.setattr(os, "execv", lambda _interpreter, _command: None)
    python().become_worker(load_of(language_version="3.99"), Start())
    assert inheritable == {LISTENING: True, CHANNEL: True}
