"""How the workers of each language are started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from storlet_daemon.protocol.messages import Load, Resources
from storlet_daemon.runtimes.java.runtime import WORKER_CLASS, JavaRuntime
from storlet_daemon.runtimes.language import ImagePaths
from storlet_daemon.runtimes.python.runtime import PythonRuntime
from storlet_daemon.runtimes.table import LANGUAGES, runtimes

OWN = f"3.{sys.version_info.minor}"


def load(
    language_version: str | None = None,
    dependencies: tuple[str, ...] = (),
    memory_bytes: int = 0,
    processes: int = 0,
) -> Load:
    return Load(
        1,
        "0f" * 32,
        "0f" * 32,
        "any",
        "a.B",
        "a-1.jar",
        "a-1.jar",
        language_version,
        dependencies,
        runs_per_worker=7,
        workers_max=4,
        limits=Resources(memory_bytes=memory_bytes, processes=processes),
    )


ROWS = {row.name: row for row in LANGUAGES}


def python(directory: Path | None = None) -> PythonRuntime:
    chosen = {} if directory is None else {"python-dir": str(directory)}
    return PythonRuntime(ROWS["python"], ImagePaths(chosen))


def java(launcher: Path | None = None) -> JavaRuntime:
    chosen = {} if launcher is None else {"java": str(launcher)}
    return JavaRuntime(ROWS["java"], ImagePaths(chosen))


def test_the_languages() -> None:
    assert sorted(runtimes(ImagePaths())) == ["java", "python"]


@pytest.mark.parametrize("version", [None, "3", OWN])
def test_the_supervisors_own_python_needs_no_interpreter(
    version: str | None, tmp_path: Path
) -> None:
    assert python(tmp_path).missing(load(version)) is None


@pytest.mark.parametrize("version", ["3.2", "2.7", "3.x", "../../bin/sh", "3.9999", ""])
def test_the_error_for_a_missing_python_lists_the_installed_ones(
    version: str, tmp_path: Path
) -> None:
    for name in ("python3.7", "python3", "python3.99-config", "sh"):
        (tmp_path / name).touch(0o755)
    reason = python(tmp_path).missing(load(version))
    assert reason == f"python {version} is not in this sandbox; there are: 3.7, {OWN}"


def test_another_installed_python_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "python3.99").touch(0o755)
    assert python(tmp_path).missing(load("3.99")) is None


def test_java_needs_its_launcher(tmp_path: Path) -> None:
    assert java(tmp_path / "java").missing(load()) == "java is not in this sandbox"
    (tmp_path / "java").touch(0o755)
    assert java(tmp_path / "java").missing(load()) is None


def test_the_command_line_of_the_jvm() -> None:
    command = java().command(
        load(dependencies=("b.jar", "c.sh", "d:e.jar", "*.jar"), memory_bytes=1 << 28)
    )
    folder = "/var/lib/storlets/" + "0f" * 32
    assert command[0] == "/usr/bin/java"
    assert "-Xmx100663296" in command
    assert "-Djava.library.path=/usr/local/lib/storlets/java" in command
    class_path = command[command.index("-cp") + 1]
    assert (
        class_path
        == f"/usr/local/lib/storlets/java/*:{folder}/a-1.jar:{folder}/b.jar:{folder}/*.jar"
    )
    assert command[-6:] == [WORKER_CLASS, "3", "4", "a.B", folder, "7"]


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
    given = load(memory_bytes=memory_mib * MIB)
    assert runtime.workers_max(given) == workers
    assert f"-Xmx{heap_mib * MIB}" in runtime.command(given)
    assert workers * heap_mib <= memory_mib


def test_a_heap_is_never_too_small_to_start() -> None:
    assert "-Xmx16777216" in java().command(load(memory_bytes=1))
    assert not any(word.startswith("-Xmx") for word in java().command(load()))


def test_a_storlets_limits_bound_the_number_of_its_workers() -> None:
    assert python().workers_max(load()) == 4
    assert python().workers_max(load(memory_bytes=100 * MIB)) == 3
    assert python().workers_max(load(memory_bytes=1)) == 1
    assert python().workers_max(load(processes=9)) == 2
    assert java().workers_max(load(processes=70)) == 2
    assert java().workers_max(load(processes=1)) == 1
