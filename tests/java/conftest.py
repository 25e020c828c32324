from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlet_client.builder.jars import JAVAC
from tests.java.harness import Worker, has_tools
from tests.support.once import made_once

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "storlet_daemon/java/build.sh"
BUILD_SAMPLES = ROOT / "storlets/build_java.sh"


@pytest.fixture(scope="session")
def java_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of build.sh, in a folder with a space in its name; Maven's unit tests have
    passed.  One build for all workers of pytest."""
    if missing := has_tools():
        pytest.skip(f"{missing} is missing")

    def make(place: Path) -> None:
        subprocess.run([BUILD, "--test", place / "built here"], check=True)

    return made_once(tmp_path_factory, "java", make) / "built here"


@pytest.fixture(scope="session")
def sample_dir(java_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The jars of the Java samples."""

    def make(place: Path) -> None:
        subprocess.run([BUILD_SAMPLES, place, java_dir], check=True)

    return made_once(tmp_path_factory, "java-samples", make)


@pytest.fixture(scope="session")
def probe_jar(java_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The probe without one class that one of its actions needs."""

    def make(folder: Path) -> None:
        source, classes = Path(__file__).parent / "storlets/Probe.java", folder / "classes"
        subprocess.run([*JAVAC, "-cp", f"{java_dir}/*", "-d", classes, source], check=True)
        (classes / "probe/Absent.class").unlink()
        jar = ["jar", "--create", "--file", folder / "probe-1.0.jar", "-C", classes, "."]
        subprocess.run(jar, check=True)

    return made_once(tmp_path_factory, "java-probe", make) / "probe-1.0.jar"


@pytest.fixture
def worker(java_dir: Path, probe_jar: Path) -> Iterator[Worker]:
    """A fresh worker that has loaded the probe."""
    with Worker(java_dir, [probe_jar], "probe.Probe") as started:
        assert started.first == {"type": "ready"}
        yield started
