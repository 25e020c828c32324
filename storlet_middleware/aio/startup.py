"""Start of a cluster: its directories, its rings, its processes in their order."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from . import packages, processes, programs, rings
from .description import describe
from .home import Home
from .mounts import mount_all
from .parts import Parts
from .progress import run

START_SECONDS: Final = 60.0


def make_directories(home: Home) -> None:
    """Make the directories of a cluster with their owners, and its mounts.  Idempotent."""
    for name in ("disks", "recon", "state", "logs"):
        (home.real / name).mkdir(exist_ok=True)
    for disk in rings.DISKS:
        (home.real / "disks" / disk).mkdir(exist_ok=True)
    for server in ("object-1", "object-2", "proxy"):
        (home.real / "recon" / server).mkdir(exist_ok=True)
    folders = [*(home.real / "disks").iterdir(), *(home.real / "recon").iterdir()]
    for path in [home.real / "disks", home.real / "recon", *folders]:
        shutil.chown(path, packages.USER, packages.USER)
        path.chmod(0o700)
    mount_all(home)
    home.run.mkdir(parents=True, exist_ok=True)
    for path in (home.short.parent, home.short, home.run, home.real / "state"):
        path.chmod(0o755)


def build_rings(home: Home, environment: Path, replicas: rings.Replicas = rings.DEFAULT) -> None:
    """Build the rings that differ from those of the last plan.

    This happens in the cluster's environment because it needs Swift, whose import alone takes half
    a second.
    """
    plan, text = home.real / "rings.json", json.dumps(rings.plan(home, replicas))
    built = [home.real_conf / f"{file}.ring.gz" for file in rings.FILES]
    is_current = plan.exists() and plan.read_text(encoding="utf-8") == text
    if is_current and all(ring.exists() for ring in built):
        return
    # Only a plan that was carried out keeps its name.
    new = plan.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    python = environment / "bin/python3"
    env = os.environ | programs.SWIFT_ENV
    run([python, "-m", "storlet_middleware.aio.rings", new], home.logs / "setup.log", env)
    new.replace(plan)


def has_sandboxd(environment: Path) -> bool:
    """Whether the installed checkout contains sandboxd."""
    module = "storlet_middleware.sandboxd.__main__"
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"
    command = [str(environment / "bin/python3"), "-c", code]
    return not subprocess.run(command, capture_output=True, check=False, cwd="/").returncode


def start_all(home: Home, entries: list[programs.Entry], parts: Parts) -> None:
    """Start missing and outdated processes; return when all answer."""
    _stop_outdated(home, entries)
    programs.save(home, entries)
    shutil.rmtree(home.real / "stopped", ignore_errors=True)
    running = processes.leaders(home.node_id)
    new = [entry for entry in entries if entry.name not in running]
    for entry in new:
        if entry.name != programs.KEEPER:
            processes.start(home.node_id, entry.program())
    # All of them: an up that was killed may have started some that do not answer yet.
    for entry in entries:
        if entry.name != programs.KEEPER:
            wait_for(home, entry)
    # The keeper reads in cluster.json whether the engine was started by us.
    programs.save_cluster(home, describe(home, entries, parts, check=False))
    for entry in new:
        if entry.name == programs.KEEPER:
            processes.start(home.node_id, entry.program())
            wait_for(home, entry)


def wait_for(home: Home, entry: programs.Entry) -> None:
    """Return when a started process answers."""
    processes.wait_until(
        lambda: programs.answers(home, entry), home.node_id, entry.program(), START_SECONDS
    )


def _stop_outdated(home: Home, entries: list[programs.Entry]) -> None:
    """Stop processes that were started from another command, configuration or code."""
    current = {entry.name: entry for entry in entries}
    outdated = []
    for process in processes.running(home.node_id):
        entry = current.get(process.name)
        is_current = entry is not None and programs.is_current(process.pid, entry)
        if process.name != "setup" and process.leader and not is_current:
            outdated.append(process.name)
    # The keeper first: it would restart the old sandboxd.
    if programs.KEEPER in outdated:
        processes.stop(home.node_id, programs.KEEPER)
        outdated.remove(programs.KEEPER)
    if outdated:
        processes.stop(home.node_id, *outdated)
    # Children of a leader that was killed keep its port.
    left = processes.leaders(home.node_id)
    if gone := [name for name in current if name not in left]:
        processes.stop(home.node_id, *gone)
