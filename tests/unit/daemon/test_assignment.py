"""The supervisor of a pre-warmed sandbox becomes its tenant's user, and keeps no privilege of
root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from storlet_daemon import assignment

ROOT = Path(__file__).resolve().parents[3]
UID = 2_345_678
CLEAN = {
    "Uid": f"{UID} {UID} {UID} {UID}", "Gid": f"{UID} {UID} {UID} {UID}", "Groups": "", "NoNewPrivs": "1",
    **dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), 16 * "0"),
}  # fmt: skip
BECOME = f"""
import ctypes, os, sys
from storlet_daemon import assignment
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS, which Docker sets
assignment.become({UID}, {UID})
for way_back in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0]), lambda: open("/etc/shadow")):
    try:
        way_back()
    except PermissionError:
        continue
    sys.exit("there is a way back")
print(open("/proc/self/status").read())
"""

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give up root")


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@needs_root
def test_nothing_of_root_is_left_and_there_is_no_way_back() -> None:
    done = run(BECOME)
    assert done.returncode == 0, done.stderr
    status = dict(line.split(":", 1) for line in done.stdout.splitlines() if ":" in line)
    assert {name: value.split() for name, value in status.items() if name in CLEAN} == {
        name: value.split() for name, value in CLEAN.items()
    }


@needs_root
def test_a_second_thread_would_keep_root_and_so_nothing_is_done() -> None:
    waiting = (
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    done = run(waiting + BECOME)
    assert "another thread" in done.stderr


@needs_root
def test_without_no_new_privileges_the_sandbox_is_refused() -> None:
    done = run(f"from storlet_daemon import assignment\nassignment.become({UID}, {UID})")
    assert "NoNewPrivs is 0" in done.stderr


@pytest.mark.parametrize(("uid", "gid"), [(0, UID), (UID, 0), (-1, UID)])
def test_root_and_negative_ids_are_not_tenants(uid: int, gid: int) -> None:
    with pytest.raises(assignment.NotAssigned, match="not a tenant"):
        assignment.become(uid, gid)


def test_a_clean_process_has_no_faults() -> None:
    assert assignment.faults(CLEAN, UID, UID) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Uid", f"{UID} {UID} 0 {UID}"), ("Gid", "0 0 0 0"), ("Groups", "0"), ("CapBnd", 13 * "0" + "1c0"),
        ("CapPrm", ""), ("CapAmb", 15 * "0" + "8"), ("NoNewPrivs", "0"),
    ],
)  # fmt: skip
def test_each_remaining_privilege_is_named(name: str, value: str) -> None:
    (fault,) = assignment.faults({**CLEAN, name: value}, UID, UID)
    assert name in fault


def test_an_empty_status_is_no_proof() -> None:
    assert len(assignment.faults({}, UID, UID)) == 9
