"""Domains of workers, in real processes of one user."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storlet_daemon import landlock

#: The outcomes on this kernel of reading another domain's process, and of reaching it otherwise.
INSPECTION = "PermissionError" if landlock.interface() >= 2 else "ok"
REACH = "PermissionError" if landlock.interface() >= 6 else "ok"

UID = 65534
PROGRAM = "import sys; print('up', flush=True); sys.stdin.read()"


def drop_privileges() -> None:
    """Become a user without capabilities, which would open files in /proc; as a sandbox's is."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(UID)
        os.setuid(UID)


def start_of_worker() -> None:
    drop_privileges()
    landlock.separate(landlock.interface())


def in_domain(
    action: Callable[[], object],
    version: int | None = None,
    *,
    is_root: bool = False,
    private: tuple[str, str] = ("", ""),
) -> str:
    """The outcome of ``action`` in a process with a domain of its own: ``ok``, or an error."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if not is_root:
                drop_privileges()
            landlock.separate(landlock.interface() if version is None else version, *private)
            action()
            os.write(theirs, b"ok")
        except OSError as error:
            os.write(theirs, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as report:
        found = report.read()
    os.waitpid(pid, 0)
    return found


@pytest.fixture
def program() -> Iterator[int]:
    """A program that a worker of another domain has executed; its process."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"SECRET": "value"},
        preexec_fn=start_of_worker,  # noqa: PLW1509  as the fork of a worker
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        yield process.pid
        process.stdin.close()


@pytest.mark.parametrize(
    ("attempt", "expected"),
    [
        (lambda pid: Path(f"/proc/{pid}/environ").read_bytes(), INSPECTION),
        (lambda pid: Path(f"/proc/{pid}/maps").read_bytes(), INSPECTION),
        (lambda pid: os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY)), INSPECTION),
        (lambda pid: Path(f"/proc/{pid}/fd/0").readlink(), INSPECTION),
        (lambda pid: Path(f"/proc/{pid}/cwd").readlink(), INSPECTION),
        (lambda pid: os.kill(pid, signal.SIGCONT), REACH),
    ],
    ids=["environment", "maps", "memory", "descriptors", "directory", "signal"],
)
def test_programs_of_another_worker_are_out_of_reach(
    program: int, attempt: Callable[[int], object], expected: str
) -> None:
    assert in_domain(lambda: attempt(program)) == expected
    # Without a domain the same user may do all of that.
    assert in_domain(lambda: attempt(program), version=0) == "ok"


def test_own_programs_stay_in_reach() -> None:
    def inspect() -> None:
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdout.readline()
            Path(f"/proc/{child.pid}/environ").read_bytes()
            child.kill()

    assert in_domain(inspect) == "ok"


def test_abstract_sockets_of_others_refuse_connections() -> None:
    name = f"\0storlets-{os.getpid()}"

    def connect() -> None:
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as client:
            client.connect(name)

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        assert in_domain(connect) == REACH
        assert in_domain(connect, version=min(2, landlock.interface())) == "ok", "without scopes"


def test_files_stay_usable(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    def work() -> None:
        (tmp_path / "a/file").write_text("text")
        (tmp_path / "a/file").rename(tmp_path / "b/file")
        os.link(tmp_path / "b/file", tmp_path / "a/link")
        assert (tmp_path / "a/link").read_text() == "text"

    assert in_domain(work, is_root=True) == "ok"
    (tmp_path / "a/link").unlink()
    assert in_domain(work, min(2, landlock.interface()), is_root=True) == "ok"


@pytest.fixture
def homes(tmp_path: Path) -> Path:
    """A folder with two folders in it, each with a program."""
    folder = tmp_path / "homes"
    for name in ("own", "other"):
        (folder / name).mkdir(parents=True)
        (folder / name / "program").write_text("#!/bin/sh\n")
        (folder / name / "program").chmod(0o700)
    return folder


@pytest.mark.parametrize("version", sorted({2, landlock.interface()}))
def test_other_folders_of_the_private_one_are_out_of_reach(homes: Path, version: int) -> None:
    own, other = homes / "own", homes / "other"
    # The caller's own: the kernel allows root alone to link files of others.
    source = homes.parent / "source"
    source.touch()
    attempts: list[Callable[[Path], object]] = [
        lambda home: (home / "program").read_text(),
        lambda home: (home / "program").write_text("#!/bin/sh\n"),
        lambda home: subprocess.run([home / "program"], check=True),
        lambda home: (home / "new").touch(),
        lambda home: (home / "folder").mkdir(),
        lambda home: (home / "program").rename(home / "moved"),
        lambda home: (home / "moved").rename(home / "program"),
        lambda home: os.link(source, home / "link"),
        lambda home: (home / "symbolic").symlink_to("/"),
    ]
    private = (str(homes), str(own))
    for number, attempt in enumerate(attempts):

        def outcome(home: Path, attempt: Callable[[Path], object] = attempt) -> str:
            return in_domain(lambda: attempt(home), version, is_root=True, private=private)

        assert outcome(own) in ("ok", "OSError"), number
        assert outcome(other) in ("PermissionError", "FileNotFoundError"), number
    assert sorted(path.name for path in other.iterdir()) == ["program"]
    assert in_domain((homes / "x").touch, version, is_root=True, private=private) == (
        "PermissionError"
    )


def test_folders_that_are_removed_meanwhile_are_left_out(
    homes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other processes make and remove folders, such as those in ``/tmp``."""
    (tmp_path / "replaced").symlink_to("/")
    removed = [str(tmp_path / name) for name in ("gone", "replaced")]
    beside = landlock._beside
    monkeypatch.setattr(landlock, "_beside", lambda private: [*removed, *beside(private)])
    private = (str(homes), str(homes / "own"))
    assert in_domain((homes / "own/file").touch, is_root=True, private=private) == "ok"
    assert in_domain((homes / "x").touch, is_root=True, private=private) == "PermissionError"


def test_files_beside_the_private_folder_stay_usable(homes: Path, tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()

    def work() -> None:
        (homes / "own/file").write_text("text")
        (homes / "own/file").rename(beside / "file")
        subprocess.run(["true"], check=True)
        memory = os.memfd_create("memory")
        Path(f"/proc/self/fd/{memory}").write_text("text")
        list(Path("/").iterdir())

    private = (str(homes), str(homes / "own"))
    assert in_domain(work, is_root=True, private=private) == "ok"
    assert (beside / "file").read_text() == "text"


def test_a_kernel_without_landlock_is_version_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "_SYSCALL", lambda *_: -1)
    assert landlock.interface() == 0
    landlock.separate(0)
    landlock.separate(1)
    with pytest.raises(OSError):  # noqa: PT011  the number is of an earlier call
        landlock.separate(2)
