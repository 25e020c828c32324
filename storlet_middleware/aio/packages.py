"""System packages: a table of what is needed, how to detect it, and the Debian package."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .processes import MARK
from .progress import AioError, run
from .venv import base_python

USER: Final = "swift"
LIST_DAYS: Final = 1


@dataclass(frozen=True)
class Need:
    """A requirement of the machine: ``present`` detects it, ``packages`` provide it."""

    what: str
    packages: tuple[str, ...]
    present: Callable[[], bool]
    why: str


def _has(command: str) -> Callable[[], bool]:
    return lambda: (
        shutil.which(command, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is not None
    )


def _has_ensurepip() -> bool:
    try:
        python = base_python()
    except AioError:
        return False
    return not subprocess.run(
        [str(python), "-c", "import ensurepip, venv"], capture_output=True, check=False
    ).returncode


def _has_jdk() -> bool:
    if not _has("javac")():
        return False
    words = subprocess.run(
        ["javac", "-version"], capture_output=True, text=True, check=False
    ).stdout.split()
    return len(words) > 1 and words[1].split(".")[0].isdigit() and int(words[1].split(".")[0]) >= 17


PYTHON: Final = Need(
    "a Python >= 3.11 with venv",
    ("python3", "python3-venv"),
    _has_ensurepip,
    "runs everything",
)
JDK: Final = Need(
    "a JDK >= 17",
    ("openjdk-17-jdk-headless",),
    _has_jdk,
    "builds the Java worker and the authors' API",
)
MAVEN: Final = Need("mvn", ("maven",), _has("mvn"), "builds the Java worker and the authors' API")
GCC: Final = Need(
    "a C compiler",
    ("gcc", "libc6-dev"),
    lambda: _has("gcc")() and Path("/usr/include/stdlib.h").exists(),
    "builds the native worker, and the Java worker's small JNI library",
)
JANSSON: Final = Need(
    "the library jansson",
    ("libjansson-dev",),
    lambda: Path("/usr/include/jansson.h").exists(),
    "reads and writes JSON in the native worker",
)
#: Compilers of native samples and projects, which only tests build.
TOOLCHAINS: Final = (
    Need("g++", ("g++",), _has("g++"), "builds the native sample in C++"),
    Need("cargo", ("cargo",), _has("cargo"), "builds native storlets in Rust"),
    Need("go", ("golang-go",), _has("go"), "builds the native sample in Go"),
)
JQ: Final = Need("jq", ("jq",), _has("jq"), "the native sample of an existing program")
MEMCACHED: Final = Need("memcached", ("memcached",), _has("memcached"), "Swift's cache")
DEBOOTSTRAP: Final = Need(
    "debootstrap",
    ("debootstrap", "debian-archive-keyring"),
    _has("debootstrap"),
    "builds the base of the sandbox image",
)
DOCKERD: Final = Need("a Docker engine", ("docker.io",), _has("dockerd"), "runs the sandboxes")
MOUNT: Final = Need("mount", ("mount",), _has("mount"), "mounts the cluster at a short path")
CURL: Final = Need(
    "curl",
    ("curl", "ca-certificates"),
    _has("curl"),
    "used by the commands that the demo prints",
)

TMUX: Final = Need("tmux", ("tmux",), _has("tmux"), "types the tutorial's commands in a terminal")


def missing(needs: Sequence[Need]) -> list[Need]:
    return [need for need in needs if not need.present()]


def install(needs: Sequence[Need], log: Path) -> None:
    """Install what is missing; where that is impossible, raise an error with the command."""
    lacking = missing(needs)
    if not lacking:
        return
    names = sorted({name for need in lacking for name in need.packages})
    if os.geteuid() or not _has("apt-get")():
        raise AioError(explain(lacking, names))
    # Without our mark: a concurrent `down` must not kill dpkg, nor a service that a package starts.
    env = {key: value for key, value in os.environ.items() if key != MARK} | {
        "DEBIAN_FRONTEND": "noninteractive"
    }
    apt = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"]
    # An interrupted installation leaves packages unconfigured, and apt then refuses to work.
    run(["dpkg", "--configure", "-a"], log, env=env)
    if not _lists_are_fresh():
        _update(apt, log, env)
    try:
        run([*apt, "install", "--no-install-recommends", *names], log, env=env)
    except AioError:
        _update(apt, log, env)
        run([*apt, "install", "--no-install-recommends", *names], log, env=env)
    still = missing(lacking)
    if still:
        raise AioError(
            explain(still, names)
            + f"\n(the installation succeeded, but they are still missing; see {log})"
        )


def explain(lacking: Sequence[Need], names: Sequence[str]) -> str:
    """The error text for users who are not root or not on Debian."""
    lines = [f"  {need.what:28} {need.why}" for need in lacking]
    return (
        "missing on this machine:\n"
        + "\n".join(lines)
        + "\nOn Debian or Ubuntu, as root: apt-get install "
        + (" ".join(names))
    )


def make_user(log: Path) -> None:
    """Make the unprivileged user of Swift's processes."""
    try:
        pwd.getpwnam(USER)
    except KeyError:
        run(
            [
                "useradd",
                "--system",
                "--user-group",
                "--no-create-home",
                "--home-dir",
                "/nonexistent",
                "--shell",
                "/usr/sbin/nologin",
                USER,
            ],
            log,
        )


def _update(apt: Sequence[str], log: Path, env: dict[str, str]) -> None:
    """Update the package lists; unreachable third-party lists are ignored."""
    with suppress(AioError):
        run([*apt, "update"], log, env=env)


def _lists_are_fresh() -> bool:
    lists = list(Path("/var/lib/apt/lists").glob("*_Packages*"))
    return any(path.stat().st_mtime > time.time() - LIST_DAYS * 86400 for path in lists) or (
        bool(lists) and Path("/var/lib/apt/lists").stat().st_mtime > time.time() - LIST_DAYS * 86400
    )
