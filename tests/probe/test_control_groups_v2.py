"""Control groups of version 2, on a kernel without version 1: User-Mode Linux, run as a program.

Each controller of a machine is in one version only, so a host with version 1 cannot show how
version 2 behaves.  The second kernel starts in seconds, has this machine's files read-only, and
ends with its script.
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
#: Mounts nothing over a directory that may contain the checkout, such as /tmp.
INIT = """#!/bin/sh
mount -t proc proc /proc && mount -t sysfs sys /sys && mount -t cgroup2 none /sys/fs/cgroup
export PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHONPATH={checkout} HOME=/
{python} -B {checkout}/tests/probe/second_kernel.py
echo o > /proc/sysrq-trigger
sleep 10
"""


def kernel() -> Path:
    """The second kernel's program: the installed one, else downloaded without installing."""
    installed = shutil.which("linux.uml")
    found = Path(installed) if installed else CACHE / "usr/bin/linux.uml"
    if found.exists():
        return found
    if shutil.which("apt-get") is None or platform.machine() != "x86_64":
        pytest.skip(f"{PACKAGE} is missing")
    CACHE.mkdir(parents=True, exist_ok=True)
    fetch = ["apt-get", "download", PACKAGE]
    done = subprocess.run(fetch, cwd=CACHE, capture_output=True, text=True, check=False)
    if done.returncode:  # the package lists may be missing or old
        subprocess.run(["apt-get", "update"], capture_output=True, check=False)
        done = subprocess.run(fetch, cwd=CACHE, capture_output=True, text=True, check=False)
    packages = sorted(CACHE.glob("*.deb"))
    if done.returncode or not packages:
        pytest.skip(f"{PACKAGE} is missing and cannot be fetched: {done.stderr.strip()[-200:]}")
    subprocess.run(["dpkg-deb", "-x", packages[0], CACHE], check=True)
    packages[0].unlink()
    return found


def preload(folder: Path) -> dict[str, str]:
    """The environment that makes the second kernel work on processors with AMX; needs gcc."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return {}
    library = folder / "xstate.so"
    source = Path(__file__).with_name("second_kernel_xstate.c")
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"]
    subprocess.run(command, check=True)
    return {"LD_PRELOAD": str(library)}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of ``second_kernel.py``."""
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
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **preload(folder)},
        timeout=120,
        check=False,
    )
    text = done.stdout.decode("utf-8", "replace")
    results = [line for line in text.splitlines() if line.startswith("RESULT ")]
    assert results, text[-4000:]
    found: dict[str, Any] = json.loads(results[0].removeprefix("RESULT "))
    return found


def test_the_node_group_has_its_totals(seen: dict[str, Any]) -> None:
    assert seen["faults"] == []
    assert int(seen["node memory.max"]) == pytest.approx(seen["host memory"] * 0.75, rel=0.001)
    assert (seen["node pids.max"], seen["node cpu.weight"], seen["node cpu.max"]) == (
        "4096",
        "25",
        "150000 100000",
    )
    assert seen["node memory.swap.max"] in ("0", "absent")


def test_workers_are_moved_with_the_limits_of_their_storlet(seen: dict[str, Any]) -> None:
    assert seen["moved"] == [f"storlet-{'ab' * 16}", f"storlet-{'cd' * 16}"]
    assert seen["moved again"] == f"storlet-{'cd' * 16}"
    assert (seen["memory.max"], seen["pids.max"], seen["cpu.max"]) == (
        str(64 << 20),
        "20",
        "50000 100000",
    )
    assert seen["memory.swap.max"] in ("0", "absent")
    assert seen["strangers"] == ["", ""]


def test_the_sandboxs_own_processes_are_in_a_leaf(seen: dict[str, Any]) -> None:
    assert seen["processes of the container's group"] == ""
    assert seen["supervisor"].endswith("/container/init")


def test_a_storlet_beyond_its_memory_is_killed_and_no_other(seen: dict[str, Any]) -> None:
    assert seen["worker beyond its memory"] == "-9"
    assert seen["kills"] == "1"


def test_unused_groups_are_removed_and_used_ones_stay(seen: dict[str, Any]) -> None:
    assert seen["groups after"] == ["init", f"storlet-{'cd' * 16}"]
    assert seen["node after"] is False
