from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.java.harness import Worker, has_tools

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "storlet_daemon/java/build.sh"
BUILD_SAMPLES = ROOT / "storlets/build_java.sh"


@pytest.fixture(scope="session")
def java_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of build.sh, in a folder with a space in its name; Maven's unit tests have
    passed."""
    if missing := has_tools():
        pytest.skip(f"{missing} is missing")
    folder = tmp_path_factory.mktemp("java") / "built here"
    subprocess.run([BUILD, "--test", folder], check=True)
    return folder


@pytest.fixture(scope="session")
def sample_dir(java_dir: Path) -> Path:
    """The jars of the Java samples."""
    subprocess.run([BUILD_SAMPLES, java_dir / "samples"], check=True)
    return java_dir / "samples"


@pytest.fixture(scope="session")
def probe_jar(java_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The probe without one class that one of its actions needs."""
    folder = tmp_path_factory.mktemp("probe")
    source = Path(__file__).parent / "storlets/Probe.java"
    classes = folder / "classes"
    subprocess.run(["javac", "-cp", f"{java_dir}/*", "-d", classes, source], check=True)
    (classes / "probe/Absent.class").unlink()
    subprocess.run(
        ["jar", "--create", "--file", folder / "probe-1.0.jar", "-C", classes, "."], check=True
    )
    return folder / "probe-1.0.jar"


@pytest.fixture
def worker(java_dir: Path, probe_jar: Path) -> Iterator[Worker]:
    """A fresh worker that has loaded the probe."""
    with Worker(java_dir, [probe_jar], "probe.Probe") as started:
        assert started.first == {"type": "ready"}
        yield started
