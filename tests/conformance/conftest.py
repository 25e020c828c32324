"""The languages, and a sandbox on this host for each test that wants one."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.daemon_harness import REPOSITORY, Code, HostSandbox, Storlet

CODE = Path(__file__).parent / "code"
JAVA_BUILD = REPOSITORY / "storlet_daemon" / "java" / "build.sh"


@pytest.fixture(scope="session")
def java_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our jars and our native library, built from this checkout."""
    for tool in ("java", "javac", "mvn", "gcc"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not there: the Java worker cannot be built")
    # Kept between runs: the build does nothing when nothing has changed.
    place = Path(os.environ.get("STORLETS_JAVA_BUILD") or Path(tempfile.gettempdir()) / f"storlets-java-{os.getuid()}")
    place.mkdir(mode=0o700, exist_ok=True)
    built = subprocess.run([str(JAVA_BUILD), str(place)], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return place


@pytest.fixture(scope="session")
def java_code(java_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``code/java`` as jars, one per class."""
    folder = tmp_path_factory.mktemp("java")
    for source in sorted((CODE / "java").glob("*.java")):
        classes = folder / source.stem
        classes.mkdir()
        subprocess.run(["javac", "-cp", f"{java_dir}/*", "-d", str(classes), str(source)], check=True)
        subprocess.run(
            ["jar", "cf", str(folder / f"{source.stem.lower()}-1.0.jar"), "-C", str(classes), "."], check=True
        )
    return folder


@pytest.fixture(params=["python", "java"])
def language(request: pytest.FixtureRequest) -> str:
    """Every language there is: a test that uses this runs once for each."""
    return str(request.param)


@pytest.fixture
def code(language: str, request: pytest.FixtureRequest) -> Callable[[str], Code]:
    """``code/python/<name>.py`` or ``code/java/<Name>.java``; the class is the capitalised name."""

    def of(name: str) -> Code:
        if language == "python":
            return Code(CODE / "python", f"{name}.{name.capitalize()}", f"{name}.py")
        return Code(request.getfixturevalue("java_code"), name.capitalize(), f"{name}-1.0.jar", "java")

    return of


@pytest.fixture(scope="module")
def shared_sandboxes() -> Iterator[dict[str, tuple[HostSandbox, Storlet]]]:
    """Sandboxes by language with ``probe`` loaded, for the transcripts: none may harm the next."""
    started: dict[str, tuple[HostSandbox, Storlet]] = {}
    yield started
    for sandbox, _ in started.values():
        sandbox.__exit__()
        shutil.rmtree(sandbox.folder)


@pytest.fixture
def sandbox(language: str, request: pytest.FixtureRequest) -> Iterator[HostSandbox]:
    """A sandbox for one test."""
    with new_sandbox(language, request) as started:
        yield started
    shutil.rmtree(started.folder)


@pytest.fixture
def probe(sandbox: HostSandbox, code: Callable[[str], Code]) -> Storlet:
    """The storlet that does what it is told, in a sandbox of its own, with at most two workers."""
    return sandbox.load(code("probe"), workers_max=2)


def new_sandbox(language: str, request: pytest.FixtureRequest) -> HostSandbox:
    """A sandbox that has what the language needs; not started."""
    arguments: tuple[str, ...] = ()
    if language == "java":
        java = shutil.which("java")
        assert java is not None
        arguments = ("--java", java, "--java-home-dir", str(request.getfixturevalue("java_dir")))
    # Not pytest's own folder: the path of a Unix socket has 107 bytes.
    return HostSandbox(Path(tempfile.mkdtemp(prefix="st-")), arguments)
