"""The table of languages: a row is all that the supervisor needs to run a language."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from storlet_daemon import __main__ as program
from storlet_daemon import kernel
from storlet_daemon.budget import MIB, Cost
from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.descriptors import Descriptors
from storlet_daemon.runtimes import table
from storlet_daemon.runtimes.language import ImagePaths, Language, PathOption, Runtime, Start
from storlet_daemon.runtimes.table import runtimes
from storlet_daemon.supervisor import Supervisor
from storlet_daemon.worker_group.worker_process import State
from storlet_middleware.catalog import manifests

VERSION = "0f" * 32
PATIENCE_SECONDS = 20


class CobolRuntime:
    """A runtime whose workers report to be ready, and print the path that they were given."""

    def __init__(self, language: Language, paths: ImagePaths) -> None:
        self.cost = language.worker_cost
        self._compiler = paths.get(language.paths["compiler"])

    def missing(self, load: messages.Load) -> str | None:
        return None

    def workers_max(self, load: messages.Load) -> int:
        return load.workers_max

    def become_worker(self, load: messages.Load, start: Start) -> NoReturn:
        os.write(1, f"{self._compiler} {load.main}".encode())
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, start.channel)
        framing.send(channel, messages.Ready())
        signal.pause()
        os._exit(0)


def cobol(language: Language, paths: ImagePaths) -> Runtime:
    return CobolRuntime(language, paths)


COBOL = Language(
    name="cobol",
    title="COBOL",
    versions=("2023",),
    workers_max=2,
    file_name=re.compile(r".*\.cob"),
    file_rule="a COBOL storlet is a .cob file",
    main=re.compile(r"[A-Z-]+"),
    main_rule="the program's name",
    worker_cost=Cost(tasks=1, memory_bytes=4 * MIB),
    worker_share=Cost(tasks=1, memory_bytes=8 * MIB),
    paths={"compiler": PathOption("cobol", "/usr/bin/cobc", "the COBOL compiler")},
    packages=("gnucobol",),
    runtime=cobol,
)


@pytest.fixture
def with_cobol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "LANGUAGES", (*table.LANGUAGES, COBOL))


@pytest.fixture
def supervisor(with_cobol: None, tmp_path: Path) -> Iterator[Supervisor]:
    made = Supervisor(str(tmp_path / "control.sock"), ImagePaths({"cobol": "/opt/cobc"}))
    yield made
    for group in made._groups:
        group.state.kill_all()
        group.state.listening.close()
        for pid in list(group.workers):
            _, status, used = os.wait4(pid, 0)
            group.state.is_leaving = True
            group.exited(pid, status, used)


def load(language: str) -> messages.Load:
    return messages.Load(1, VERSION, VERSION, language, "PAYROLL", "payroll.cob", "payroll.cob")


def test_the_supervisor_runs_the_workers_of_a_language_that_has_a_row(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(tmp_path / "storlet.sock"))
        listening.listen()
        supervisor._load(load("cobol"), Descriptors([os.dup(listening.fileno())]))
    (group,) = supervisor._groups
    (worker,) = group.workers.values()
    end = time.monotonic() + PATIENCE_SECONDS
    while worker.state is State.LOADING and time.monotonic() < end:
        supervisor._poller.wait(0.1)
    assert worker.state is State.IDLE
    assert os.pread(worker.output, 100, 0).rstrip(b"\0") == b"/opt/cobc PAYROLL"
    assert group.status().workers == 1
    assert kernel.process(worker.pid) is not None


def test_a_language_without_a_row_is_refused(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[messages.Message] = []
    monkeypatch.setattr(supervisor._control, "send", answers.append)
    supervisor._load(load("algol"), Descriptors())
    reason = "language algol is not supported here, only cobol, java, native, python"
    assert answers == [messages.Refused(1, reason)]


def test_the_paths_of_a_row_are_options_of_the_supervisor(with_cobol: None) -> None:
    control, paths, _ = program._parsed(["--cobol", "/opt/cobc", "--control", "/c", "--java", "/j"])
    assert control == "/c"
    assert paths.get(COBOL.paths["compiler"]) == "/opt/cobc"
    rows = {row.name: row for row in table.LANGUAGES}
    assert paths.get(rows["java"].paths["java"]) == "/j"
    assert paths.get(rows["python"].paths["interpreters"]) == "/usr/bin"


def test_reading_the_table_imports_no_runtime() -> None:
    code = "import sys, storlet_daemon.runtimes.table; print(*sys.modules)"
    root = Path(table.__file__).parents[2]
    command = [sys.executable, "-B", "-c", code]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "storlet_daemon.runtimes.table" in loaded
    assert "storlet_daemon.worker.run_loop" not in loaded


FILES = ["a.py", "a.pyc", "a-1.0.jar", "a.jar", "a-1", "-.", "py", ".py"]
MAINS = ["a.A", "A", "a.b.A", "com.x.Csv$Inner", "1.A", "a.", "a-b", "a.so:f", "a:1f"]


@pytest.mark.parametrize("row", table.LANGUAGES, ids=lambda row: row.name)
@pytest.mark.parametrize("name", FILES)
def test_the_file_rule_is_that_of_the_upload(row: Language, name: str) -> None:
    faults = upload_faults(row, name, "")
    is_refused = any("Storlet name is incorrect" in fault for fault in faults)
    assert is_refused == (row.file_name.fullmatch(name) is None)
    assert not is_refused or any(row.file_rule in fault for fault in faults)


@pytest.mark.parametrize("row", table.LANGUAGES, ids=lambda row: row.name)
@pytest.mark.parametrize("main", MAINS)
def test_the_main_rule_is_that_of_the_upload(row: Language, main: str) -> None:
    names = {"python": f"{main.partition('.')[0]}.py", "java": "a-1.0.jar", "native": "a.so"}
    name = names[row.name]
    if row.main_is_file and main.partition(":")[0] != name:
        return  # refused, because it names another file
    assert bool(row.main.fullmatch(main)) == (not upload_faults(row, name, main))


def upload_faults(row: Language, name: str, main: str) -> list[str]:
    """The faults that the filter finds, apart from those that no rule of a language makes."""
    meta = {
        "X-Object-Meta-Storlet-Language": row.name,
        "X-Object-Meta-Storlet-Interface-Version": "1.0",
        "X-Object-Meta-Storlet-Object-Metadata": "no",
        "X-Object-Meta-Storlet-Main": main,
    }
    try:
        manifests.read_storlet(name, meta, {row.name: row.versions})
    except manifests.ManifestError as error:
        return [fault for fault in error.faults if "is missing" not in fault]
    return []


def test_the_packages_of_every_row_are_in_the_base_image() -> None:
    root = Path(table.__file__).parents[2]
    packages = (root / "sandbox_images/base/packages").read_text().split()
    assert {name for row in table.LANGUAGES for name in row.packages} <= set(packages)


def test_rows_are_frozen_values_with_names_of_their_own() -> None:
    names = [row.name for row in table.LANGUAGES]
    assert len(set(names)) == len(names)
    options = [option.name for option in table.path_options()]
    assert len(set(options)) == len(options)
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.LANGUAGES[0].name = "other"  # type: ignore[misc]


def test_the_languages() -> None:
    assert sorted(runtimes(ImagePaths())) == ["java", "native", "python"]
