"""Processes for the rules of tenants: limits of CPU time and memory, and priority."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from storlet_middleware import child, child_limits
from storlet_middleware.concurrency import WaitExpired

pytestmark = pytest.mark.usefixtures("real_processes")
_BODIES = {
    "busy": "while True: pass",
    "greedy": "try:\n    bytearray(2 << 30)\nexcept MemoryError:\n    sys.exit(child_limits.NO_MEMORY)",
    "idle": "import signal; signal.pause()",
    "polite": "import os; print(os.nice(0), sys.stdin.read())",
}


@pytest.fixture(autouse=True)
def no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine gives a process less CPU time than its limit for long."""
    monkeypatch.setattr(child, "_DEADLINE_FACTOR", 200)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module for each body."""
    for name, body in _BODIES.items():
        head = "import sys\nfrom storlet_middleware import child_limits\n"
        head += "child_limits.confine(int(sys.argv[1])); child_limits.give_way()"
        (tmp_path / f"{name}.py").write_text(f"{head}\n{body}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "status"), [("busy", -signal.SIGXCPU), ("greedy", child_limits.NO_MEMORY)]
)
@pytest.mark.usefixtures("folder")
def test_a_process_ends_at_its_limits(name: str, status: int) -> None:
    assert child.run(name, b"", 1) == (status, b"")
    assert status in child.TOO_MUCH


@pytest.mark.usefixtures("folder")
def test_a_process_gives_way_and_reads_its_input() -> None:
    status, output = child.run("polite", b"text", 1)
    assert (status, output) == (0, f"{min(19, os.nice(0) + 10)} text\n".encode())


@pytest.mark.usefixtures("folder")
def test_a_process_that_waits_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """It uses no CPU time, so only the deadline can end it."""
    monkeypatch.setattr(child, "_DEADLINE_FACTOR", 0.5)
    with pytest.raises(WaitExpired):
        child.run("idle", b"", 1)


def test_an_open_file_and_arguments_reach_the_process(folder: Path) -> None:
    (folder / "polite.py").write_text("import sys; print(sys.argv[1:], sys.stdin.read())")
    with (folder / "given").open("w+b") as given:
        given.write(b"text")
        assert child.run("polite", given, 1, "a", "b") == (0, b"['1', 'a', 'b'] text\n")
