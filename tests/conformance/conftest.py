"""The languages, and a sandbox on this host for each test that uses one; the profiles of the number
of examples."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from storlet_client.builder.jars import JAVAC
from storlet_daemon.protocol import messages
from storlet_middleware.aio import cache, java, native
from tests.conformance.daemon_harness import Code, HostSandbox, Storlet, until
from tests.conformance.supervisors import Supervisors, supervisors
from tests.support.property_tests import pytest_configure  # noqa: F401  (a hook)

CODE = Path(__file__).parent / "code"
PROBE = CODE / "native" / "probe.c"


@pytest.fixture(scope="session")
def forked_supervisors() -> Iterator[Supervisors]:
    """Starts the supervisors of the tests."""
    with supervisors() as made:
        yield made


@pytest.fixture(scope="session")
def java_dir() -> Path:
    """Our jars and our native library, built from this checkout."""
    for tool in ("java", "javac", "mvn", "gcc"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not there: the Java worker cannot be built")
    # In the cache, from which clusters have them, too: a folder that other users may read.
    place = java.parts(cache.cache_root() / "conformance.log")
    assert place is not None
    return place


@pytest.fixture(scope="session")
def java_code(java_dir: Path) -> Path:
    """``code/java`` as jars, one per class; compiled once a machine."""
    sources = sorted((CODE / "java").glob("*.java"))

    def make(folder: Path) -> None:
        classes = folder / "classes"
        # One compilation, and no start of Java for a jar, which is a zip file.
        subprocess.run([*JAVAC, "-cp", f"{java_dir}/*", "-d", classes, *sources], check=True)
        for source in sources:
            with zipfile.ZipFile(folder / f"{source.stem.lower()}-1.0.jar", "w") as jar:
                for name in (f"{source.stem}.class", f"{source.stem}$*.class"):
                    for path in sorted(classes.glob(name)):
                        jar.write(path, path.name)

    return cache.made("conformance-java", _key_of(java_dir, sources), make)


def _key_of(includes: Path, sources: list[Path]) -> str:
    """The cache key of what is built from ``sources`` with a cached folder."""
    parts = [part for path in sources for part in (path.name, path.read_bytes())]
    return cache.digest([includes.name, *parts])


@pytest.fixture(scope="session")
def native_dir() -> Path:
    """The native worker and storlet.h, built from this checkout."""
    if shutil.which("gcc") is None or not Path("/usr/include/jansson.h").exists():
        pytest.skip("gcc or libjansson-dev is not there: the native worker cannot be built")
    place = native.parts(cache.cache_root() / "conformance.log")
    assert place is not None
    return place


@pytest.fixture(scope="session")
def native_code(native_dir: Path) -> Iterator[Path]:
    """``code/native`` as shared objects, and ``probe`` as a program, too; compiled once a machine.
    Tests add files."""
    sources = sorted((CODE / "native").glob("*.c"))

    def make(folder: Path) -> None:
        for source in sources:
            options = (
                ["-shared", "-fPIC"] if source.stem != "program" else [str(PROBE), "-ljansson"]
            )
            suffix = ".so" if source.stem != "program" else ""
            include = f"-I{native_dir}"
            target = str(folder / f"{source.stem}{suffix}")
            _run(["gcc", "-O1", "-pthread", include, "-o", target, str(source), *options])

    built = cache.made("conformance-native", _key_of(native_dir, sources), make)
    with public_folder("st-native-") as folder:
        shutil.copytree(built, folder, ignore=shutil.ignore_patterns(".*"), dirs_exist_ok=True)
        yield folder


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@contextlib.contextmanager
def public_folder(prefix: str) -> Iterator[Path]:
    """Not pytest's own folder, which no other user may read."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(params=["python", "java", "native"])
def language(request: pytest.FixtureRequest) -> str:
    """Every language: a test that uses this runs once for each."""
    return str(request.param)


@pytest.fixture
def code(language: str, request: pytest.FixtureRequest) -> Callable[[str], Code]:
    """``code/python/<name>.py``, ``code/java/<Name>.java``, whose class is the capitalised name, or
    ``code/native/<name>.c``, whose function has the name."""

    def of(name: str) -> Code:
        if language == "python":
            return Code(CODE / "python", f"{name}.{name.capitalize()}", f"{name}.py")
        if language == "native":
            folder = request.getfixturevalue("native_code")
            return Code(folder, f"{name}.so:{name}", f"{name}.so", "native")
        return Code(
            request.getfixturevalue("java_code"), name.capitalize(), f"{name}-1.0.jar", "java"
        )

    return of


@pytest.fixture(scope="module")
def shared_sandboxes() -> Iterator[dict[str, tuple[HostSandbox, Storlet]]]:
    """Sandboxes by language with ``probe`` loaded, for the transcripts: none may affect the
    next."""
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
    """The storlet ``probe`` in a separate sandbox, with at most two workers."""
    return sandbox.load(code("probe"), workers_max=2)


@pytest.fixture
def single(sandbox: HostSandbox, code: Callable[[str], Code]) -> Storlet:
    """The same with one worker, for tests that identify the process: a busy machine may start
    another."""
    return sandbox.load(code("probe"), workers_max=1)


@pytest.fixture
def user_sandbox(language: str, request: pytest.FixtureRequest) -> Iterator[HostSandbox]:
    """A sandbox whose processes run as another user than filter and node daemon, like real ones."""
    if os.getuid() != 0:
        pytest.skip("only root can start processes of another user")
    with new_sandbox(language, request, user=TENANT) as started:
        yield started
    shutil.rmtree(started.folder)


TENANT = 1_987_654


class ControlGroups:
    """Places workers like sandboxd: in a control group on this host, with separate limits."""

    def __init__(self) -> None:
        self.directory = f"storlets-test-{os.getpid()}-{id(self):x}"
        self._is_unified = (CONTROL_GROUPS / "cgroup.controllers").exists()
        self._trees = (
            [CONTROL_GROUPS]
            if self._is_unified
            else [CONTROL_GROUPS / "memory", CONTROL_GROUPS / "pids"]
        )

    def __enter__(self) -> Self:
        for tree in self._trees:
            (tree / self.directory).mkdir()
        return self

    def __exit__(self, *exc_info: object) -> None:
        for tree in self._trees:
            until(lambda tree=tree: not (tree / self.directory / "cgroup.procs").read_text(), 10)
            (tree / self.directory).rmdir()

    def place(self, place: messages.Place) -> str:
        """The node daemon's handling of ``place``; the harness' sandbox has no pid namespace."""
        limits = place.limits
        if limits.memory_bytes:
            files = (
                ("memory.max", "memory.swap.max")
                if self._is_unified
                else ("memory.limit_in_bytes",)
            )
            for name in files:
                self._write(name, "0" if "swap" in name else str(limits.memory_bytes))
        if limits.processes:
            self._write("pids.max", str(limits.processes))
        self._write("cgroup.procs", str(place.pid))
        return self.directory

    def members(self) -> set[int]:
        """The processes in it."""
        return set(map(int, (self._trees[0] / self.directory / "cgroup.procs").read_text().split()))

    def _write(self, name: str, text: str) -> None:
        for tree in self._trees:
            path = tree / self.directory / name
            if path.exists():
                path.write_text(text)


CONTROL_GROUPS = Path("/sys/fs/cgroup")


@pytest.fixture
def control_groups() -> Iterator[ControlGroups]:
    """A control group for one worker group; its processes must have ended before it is removed."""
    groups = ControlGroups()
    try:
        groups.__enter__()
    except OSError as error:
        pytest.skip(f"no control groups can be made here: {error}")
    yield groups
    groups.__exit__()


def new_sandbox(
    language: str,
    request: pytest.FixtureRequest,
    user: int | None = None,
    further: tuple[str, ...] = (),
) -> HostSandbox:
    """A sandbox that has what the language needs; not started."""
    arguments = further
    if language == "java":
        java = shutil.which("java")
        assert java is not None
        arguments = (
            *further,
            "--java",
            java,
            "--java-home-dir",
            str(request.getfixturevalue("java_dir")),
        )
    if language == "native":
        worker = request.getfixturevalue("native_dir") / "storlet-worker"
        arguments = (*further, "--native-worker", str(worker))
    # Not pytest's own folder: the path of a Unix socket has 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="st-"))
    return HostSandbox(folder, arguments, user, request.getfixturevalue("forked_supervisors"))
