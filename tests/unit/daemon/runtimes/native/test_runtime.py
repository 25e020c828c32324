"""How native workers are started: the worker, its command line, and number."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storlet_daemon.runtimes.language import CHANNEL, LISTENING, ImagePaths, Start
from storlet_daemon.runtimes.native.runtime import NativeRuntime, environment_of
from storlet_daemon.runtimes.table import LANGUAGES
from tests.unit.daemon.loads import limited, load_of

ROWS = {row.name: row for row in LANGUAGES}


def native(worker: Path | None = None) -> NativeRuntime:
    chosen = {} if worker is None else {"native-worker": str(worker)}
    return NativeRuntime(ROWS["native"], ImagePaths(chosen))


def test_native_needs_its_worker(tmp_path: Path) -> None:
    worker = tmp_path / "storlet-worker"
    assert native(worker).missing(load_of()) == "the native worker is not in this sandbox"
    worker.touch(0o755)
    assert native(worker).missing(load_of()) is None


def test_the_command_line_of_the_worker() -> None:
    load = load_of(main="sum.so:run", arguments=("-9", "two words", ""))
    worker = "/usr/local/lib/storlets/native/storlet-worker"
    folder = "/var/lib/storlets/" + "0f" * 32
    arguments = ["-9", "two words", ""]
    assert native().command(load) == [
        worker, "3", "4", "sum.so:run", folder, "7", "600", "", *arguments
    ]  # fmt: skip
    placed = native().command(load, Start("group-1", 1023))
    assert placed == [worker, "3", "1023", "sum.so:run", folder, "7", "600", "group-1", *arguments]


def test_a_storlets_limits_bound_the_number_of_its_workers() -> None:
    assert native().workers_max(load_of()) == 4
    assert native().workers_max(limited(memory_bytes=16 << 20)) == 2
    assert native().workers_max(limited(processes=3)) == 1


def test_the_sockets_are_inherited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done: list[object] = []
    monkeypatch.setattr(os, "set_inheritable", lambda fd, wanted: done.append((fd, wanted)))
    monkeypatch.setattr(os, "execve", lambda path, words, _: done.append((path, words[0])))
    worker = tmp_path / "storlet-worker"
    native(worker).become_worker(load_of(), Start())
    assert done == [(LISTENING, True), (CHANNEL, True), (str(worker), str(worker))]


def test_programs_load_one_category_of_the_sandboxs_locale() -> None:
    given = {"LANG": "C.UTF-8", "HOME": "/tmp"}
    assert environment_of(given) == {"LC_CTYPE": "C.UTF-8", "HOME": "/tmp"}
    # The C library prefers it to both.
    assert environment_of({**given, "LC_ALL": "C"})["LC_ALL"] == "C"


def test_another_locale_stays() -> None:
    assert environment_of({"LANG": "de_DE.UTF-8"}) == {"LANG": "de_DE.UTF-8"}
