"""End of a cluster: everything that it left on the machine except its data.

Every step is idempotent and needs none of the earlier ones, so it can be repeated after a crash.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

from . import configs, engine, image, processes, programs
from .docker_api import LABEL
from .home import Home, exists, lock_holder
from .mounts import unmount_all
from .progress import AioError, say

ENGINE_SECONDS: Final = 45.0
KILLED_SECONDS: Final = 10.0
INTERRUPT_SECONDS: Final = 10.0


def clean_up(home: Home) -> None:
    """Remove processes, containers, mounts and sockets; and our engine, when it is unused."""
    for name in (programs.KEEPER, "setup", "proxy", programs.SANDBOXD, ""):
        processes.stop(home.node_id, name)
    _remove_containers(home)
    _remove_cgroup(home.node_id)
    # Again: a container may have appeared that a killed sandboxd had just requested.
    _remove_containers(home)
    unmount_all(home)
    image.remove_scratch()
    if exists(home):
        home.cluster_json.unlink(missing_ok=True)
        shutil.rmtree(home.real / "stopped", ignore_errors=True)
    others = {process.owner for process in processes.everything()} - {home.node_id, engine.OWNER}
    if not others:
        engine.stop_unused()


def purge(home: Home) -> None:
    """Delete the data of a cluster that is down, and release its uids for other clusters."""
    release_uids(home)
    shutil.rmtree(home.real)
    shutil.rmtree(home.real_conf, ignore_errors=True)


def release_uids(home: Home) -> None:
    """Let other clusters use the uids of a cluster whose data is deleted."""
    for claim in configs.identities().glob("[0-9]*"):
        # Another cluster may be deleted at the same time, with its claims.
        with contextlib.suppress(FileNotFoundError):
            if json.loads(claim.read_text("utf-8"))["state_dir"] == str(home.state):
                claim.unlink()


def interrupt(home: Home) -> None:
    """End a running command of the cluster, such as ``up``, so that ``down`` need not wait."""
    pid = lock_holder(home)
    if pid is None or pid == os.getpid():
        return
    say(f"stopping the running command (pid {pid})")
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    deadline = time.monotonic() + INTERRUPT_SECONDS
    while lock_holder(home) == pid and time.monotonic() < deadline:
        processes.stop(home.node_id, "setup")
        time.sleep(0.1)
    if lock_holder(home) == pid:
        os.kill(pid, signal.SIGKILL)


def _remove_containers(home: Home) -> None:
    """Remove the sandboxes; when our engine has died while they run, start it again first."""
    deadline = time.monotonic() + ENGINE_SECONDS
    while True:
        try:
            docker = engine.find()
            if docker is None and processes.running(engine.OWNER, engine.NAME):
                docker = engine.ensure(home.logs / "setup.log")
            if docker:
                for container in docker.api.containers(f"{LABEL}={home.node_id}"):
                    docker.api.remove(container)
        except AioError:
            # A restart of the engine breaks the connection.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            return


def _remove_cgroup(node_id: str) -> None:
    """Remove sandboxd's control group (``sandboxd/cgroups``) with what ended sandboxes left."""
    root = Path("/sys/fs/cgroup")
    tops = [*root.glob(f"storlets-{node_id}"), *root.glob(f"*/storlets-{node_id}")]
    for procs in [procs for top in tops for procs in top.rglob("cgroup.procs")]:
        # An engine that dies while it starts a container leaves the process that was to become
        # it, which would wait forever.
        with contextlib.suppress(OSError):
            for pid in procs.read_text(encoding="ascii").split():
                os.kill(int(pid), signal.SIGKILL)
    give_up = time.monotonic() + KILLED_SECONDS
    while True:
        for top in tops:
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
        # A killed process stays in its group until its parent has reaped it.
        if not any(top.exists() for top in tops) or time.monotonic() > give_up:
            break
        time.sleep(0.02)
    if Path("/run/systemd/system").is_dir():
        escaped = "".join(c if c.isalnum() or c in "_." else f"\\x{ord(c):02x}" for c in node_id)
        command = ["systemctl", "stop", f"storlets-{escaped}.slice"]
        subprocess.run(command, capture_output=True, check=False)
