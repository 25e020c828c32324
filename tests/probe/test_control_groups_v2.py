"""Control groups of version 2, on a kernel that has nothing else: User-Mode Linux, which runs as a program beside this one.

A machine's controllers are in either version, so a host with version 1 cannot show how version 2 behaves.  The second kernel
starts in seconds, sees this machine's files read-only, and ends with its work.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import CHECKOUT

PACKAGE = "user-mode-linux"
CACHE = Path("/var/cache/storlets-aio/user-mode-linux")
INIT = """#!/bin/sh
mount -t proc proc /proc && mount -t sysfs sys /sys && mount -t tmpfs tmpfs /tmp && mount -t cgroup2 none /sys/fs/cgroup
export PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHONPATH={checkout} HOME=/tmp
{python} -B {checkout}/tests/probe/second_kernel.py
echo o > /proc/sysrq-trigger
sleep 10
"""


def kernel() -> Path:
    """The second kernel, fetched (and not installed) where it is not there."""
    installed = shutil.which("linux.uml")
    found = Path(installed) if installed else CACHE / "usr/bin/linux.uml"
    if found.exists():
        return found
    if shutil.which("apt-get") is None or platform.machine() != "x86_64":
        pytest.skip(f"{PACKAGE} is missing")
    CACHE.mkdir(parents=True, exist_ok=True)
    fetch = ["apt-get", "download", PACKAGE]
    done = subprocess.run(fetch, cwd=CACHE, capture_output=True, text=True, check=False)
    if (
        done.returncode
    ):  # a machine on which nothing had to be installed has no lists of packages, or old ones
        subprocess.run(["apt-get", "update"], capture_output=True, check=False)
        done = subprocess.run(fetch, cwd=CACHE, capture_output=True, text=True, check=False)
    packages = sorted(CACHE.glob("*.deb"))
    if done.returncode or not packages:
        pytest.skip(f"{PACKAGE} is missing and cannot be fetched: {done.stderr.strip()[-200:]}")
    subprocess.run(["dpkg-deb", "-x", packages[0], CACHE], check=True)
    packages[0].unlink()
    return found


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the second kernel said."""
    program = kernel()
    folder = tmp_path_factory.mktemp("kernel")
    init = folder / "init"
    words = {"checkout": str(CHECKOUT), "python": str(Path(sys.executable).resolve())}
    init.write_text(INIT.format_map({name: shlex.quote(word) for name, word in words.items()}))
    init.chmod(0o755)
    command = [
        str(program), "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}", "mem=512M",
        "con0=fd:0,fd:1", "con=null", "ssl=null", f"uml_dir={folder}", "quiet",
    ]  # fmt: skip
    shim = folder / "ptrace.so"
    source = Path(__file__).with_name("second_kernel_ptrace.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "LD_PRELOAD": str(shim)},
        timeout=120,
        check=False,
    )
    text = done.stdout.decode("utf-8", "replace")
    results = [line for line in text.splitlines() if line.startswith("RESULT ")]
    assert results, text[-4000:]
    found: dict[str, Any] = json.loads(results[0].removeprefix("RESULT "))
    return found


def test_the_node_has_its_totals(seen: dict[str, Any]) -> None:
    assert seen["faults"] == []
    assert int(seen["node memory.max"]) == pytest.approx(seen["host memory"] * 0.75, rel=0.001)
    assert (seen["node pids.max"], seen["node cpu.weight"], seen["node cpu.max"]) == (
        "4096",
        "25",
        "150000 100000",
    )
    assert seen["node memory.swap.max"] in ("0", "absent")


def test_workers_are_placed_with_the_limits_of_their_storlet(seen: dict[str, Any]) -> None:
    assert seen["placed"] == [f"storlet-{'ab' * 16}", f"storlet-{'cd' * 16}"]
    assert seen["placed again"] == f"storlet-{'cd' * 16}"
    assert (seen["memory.max"], seen["pids.max"], seen["cpu.max"]) == (
        str(64 << 20),
        "20",
        "50000 100000",
    )
    assert seen["memory.swap.max"] in ("0", "absent")
    assert seen["strangers"] == ["", ""]


def test_the_sandboxs_own_processes_are_in_a_leaf(seen: dict[str, Any]) -> None:
    assert seen["left in the container's own"] == ""
    assert seen["supervisor"].endswith("/container/init")


def test_one_storlets_memory_ends_that_storlet_and_no_other(seen: dict[str, Any]) -> None:
    assert seen["worker beyond its memory"] == "-9"
    assert seen["kills"] == "1"


def test_what_is_used_no_more_is_removed_and_what_works_stays(seen: dict[str, Any]) -> None:
    assert seen["groups after"] == ["init", f"storlet-{'cd' * 16}"]
    assert seen["node after"] is False
