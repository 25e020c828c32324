"""How Java workers are started: the launcher, command line, heaps, and number."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storlet_daemon.protocol.messages import Resources
from storlet_daemon.runtimes.java.runtime import WORKER_CLASS, JavaRuntime
from storlet_daemon.runtimes.language import CHANNEL, LISTENING, ImagePaths, Start
from storlet_daemon.runtimes.table import LANGUAGES
from tests.unit.daemon.loads import limited, load_of

ROWS = {row.name: row for row in LANGUAGES}


def java(launcher: Path | None = None) -> JavaRuntime:
    chosen = {} if launcher is None else {"java": str(launcher)}
    return JavaRuntime(ROWS["java"], ImagePaths(chosen))


def test_java_needs_its_launcher(tmp_path: Path) -> None:
    assert java(tmp_path / "java").missing(load_of()) == "java is not in this sandbox"
    (tmp_path / "java").touch(0o755)
    assert java(tmp_path / "java").missing(load_of()) is None


def test_the_command_line_of_the_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/homes/own")
    command = java().command(
        load_of(
            dependencies=("b.jar", "c.sh", "d:e.jar", "*.jar"),
            limits=Resources(memory_bytes=1 << 28),
        )
    )
    folder = "/var/lib/storlets/" + "0f" * 32
    assert command[0] == "/usr/bin/java"
    assert "-Xmx100663296" in command
    assert "-Djava.library.path=/usr/local/lib/storlets/java" in command
    assert "-Djava.io.tmpdir=/homes/own" in command
    class_path = command[command.index("-cp") + 1]
    assert (
        class_path
        == f"/usr/local/lib/storlets/java/*:{folder}/a-1.jar:{folder}/b.jar:{folder}/*.jar"
    )
    assert command[-7:] == [WORKER_CLASS, "3", "4", "a.B", folder, "7", "600"]


MIB = 1 << 20


@pytest.mark.parametrize(
    ("memory_mib", "workers", "heap_mib"),
    [
        (48, 1, 24),
        (64, 1, 32),
        (128, 1, 96),
        (255, 1, 223),
        (256, 2, 96),
        (512, 4, 96),
        (1024, 4, 224),
    ],
)
def test_the_heaps_of_all_jvms_fit_into_the_storlets_memory_limit(
    memory_mib: int, workers: int, heap_mib: int
) -> None:
    runtime = java()
    given = limited(memory_bytes=memory_mib * MIB)
    assert runtime.workers_max(given) == workers
    assert f"-Xmx{heap_mib * MIB}" in runtime.command(given)
    assert workers * heap_mib <= memory_mib


@pytest.mark.parametrize(
    ("memory_mib", "has_both"), [(0, True), (64, False), (127, False), (128, True), (512, True)]
)
def test_a_jvm_with_a_small_share_of_memory_has_one_compiler(
    memory_mib: int, has_both: bool
) -> None:
    command = java().command(limited(memory_bytes=memory_mib * MIB))
    assert ("-XX:TieredStopAtLevel=1" not in command) == has_both
    assert ("-XX:CICompilerCount=2" in command) == has_both
    assert ("-XX:ReservedCodeCacheSize=48m" in command) == has_both


def test_a_heap_is_never_too_small_to_start() -> None:
    assert "-Xmx16777216" in java().command(limited(memory_bytes=1))
    assert not any(word.startswith("-Xmx") for word in java().command(load_of()))


def test_a_storlets_limits_bound_the_number_of_its_jvms() -> None:
    assert java().workers_max(limited(processes=70)) == 2
    assert java().workers_max(limited(processes=1)) == 1


def test_the_jvm_inherits_its_sockets_and_no_class_path(monkeypatch: pytest.MonkeyPatch) -> None:
    inheritable: dict[int, bool] = {}
    executed: list[tuple[str, list[str], dict[str, str]]] = []
    monkeypatch.setattr(os, "set_inheritable", inheritable.__setitem__)
    monkeypatch.setattr(os, "execve", lambda *arguments: executed.append(arguments))
    monkeypatch.setattr(os, "environ", {"CLASSPATH": "/evil", "LC_ALL": "de_DE", "A": "b"})
    given = load_of()
    java().become_worker(given, Start("g-1"))
    ((path, command, environment),) = executed
    assert (path, command) == ("/usr/bin/java", java().command(given))
    assert environment == {"LC_ALL": "de_DE", "A": "b"}
    assert inheritable == {LISTENING: True, CHANNEL: True}
