"""The libraries of a Python storlet: pip resolves them for the sandbox, not for this machine.

The first build of a project writes ``storlet.requirements.lock``, with the exact version and the
SHA-256 of each wheel.  Later builds install exactly these, so they give the same bytes; delete the
file to resolve again.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from storlet_client.builder.project import ProjectError
from storlet_client.bundle import archive

LOCK = "storlet.requirements.lock"
_HEAD = "# Made by storlet build; delete this file to resolve the requirements again.\n"


@dataclass(frozen=True)
class Sandbox:
    """The Python that the sandbox has: Debian 12 with glibc 2.36."""

    version: str = "3.11"
    machine: str = "x86_64"

    def arguments(self) -> list[str]:
        """The arguments of pip that select wheels for it."""
        tag = "cp" + self.version.replace(".", "")
        glibc = [f"manylinux_2_{minor}" for minor in (36, 35, 34, 31, 28, 27, 24, 17)]
        platforms = [f"{each}_{self.machine}" for each in (*glibc, "manylinux2014")]
        return [
            "--only-binary=:all:", "--implementation=cp", f"--python-version={self.version}",
            *(f"--abi={abi}" for abi in (tag, "abi3", "none")),
            *(f"--platform={platform}" for platform in platforms),
        ]  # fmt: skip


#: Content and mode by path.
Files = dict[str, tuple[bytes, int]]
#: The libraries of the last lock of this process: ``deploy --watch`` builds at each save.
_installed: dict[tuple[tuple[str, ...], Sandbox], Files] = {}


def install(
    folder: Path, requirements: Sequence[str], sandbox: Sandbox
) -> tuple[Files, tuple[str, ...]]:
    """The files of all libraries below ``lib/``, and the lines of the lock.

    :param folder: the project, which has the lock.
    :raises ProjectError: pip failed, with its reason.
    """
    if not requirements:
        return {}, ()
    lock = folder / LOCK
    if not lock.exists():
        lock.write_text(_HEAD + "\n".join(_resolve(requirements, sandbox)) + "\n", encoding="utf-8")
    text = lock.read_text(encoding="utf-8")
    lines = tuple(line for line in text.splitlines() if line and line[:1] != "#")
    key = (lines, sandbox)
    if key not in _installed:
        _installed.clear()
        _installed[key] = _install(lock, sandbox)
    return dict(_installed[key]), lines


def _install(lock: Path, sandbox: Sandbox) -> Files:
    with tempfile.TemporaryDirectory() as place:
        target = Path(place) / archive.LIBRARY
        options = ["--target", str(target), "--no-deps", "--require-hashes", "--no-compile"]
        # The lock was resolved for the sandbox's Python; an older pip compares with its own here.
        options.append("--ignore-requires-python")
        _pip(["install", *options, *sandbox.arguments(), "-r", str(lock)])
        return _files(target)


def _resolve(requirements: Sequence[str], sandbox: Sandbox) -> list[str]:
    """A line for each wheel: name, version and hash."""
    with tempfile.TemporaryDirectory() as place:
        _pip(["download", "--dest", place, *sandbox.arguments(), "--", *requirements])
        lines = []
        for wheel in Path(place).glob("*.whl"):
            name, version = wheel.name.split("-")[:2]
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
            lines.append(f"{name.replace('_', '-').lower()}=={version} --hash=sha256:{digest}")
        return sorted(lines)


def _pip(arguments: Sequence[str]) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip() or f"exit status {done.returncode}"
        raise ProjectError([f"requirements: pip: {line}" for line in said.splitlines()])


def _files(target: Path) -> Files:
    files = {}
    for path in sorted(target.rglob("*")):
        inner = path.relative_to(target)
        # Scripts name the interpreter of this machine, and a sandbox does not run them.
        if not path.is_file() or inner.parts[0] == "bin" or "__pycache__" in inner.parts:
            continue
        data = path.read_bytes()
        if path.name == "RECORD":
            # Without the scripts, whose hashes depend on this machine.
            lines = data.splitlines(keepends=True)
            data = b"".join(sorted(line for line in lines if not line.startswith(b"../")))
        mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
        files[f"{archive.LIBRARY}/{inner.as_posix()}"] = (data, mode)
    return files
