"""``up``, ``down``, ``status``, ``start`` and ``stop`` of a cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from . import configs, engine, image, java, packages, processes, programs, rings, venv
from .client import log_in
from .docker_api import LABEL
from .engine import Engine
from .home import (
    CHECKOUT,
    Home,
    check_xattrs,
    find_home,
    is_still,
    lock_holder,
    locked,
    mount_all,
    open_home,
    remembered,
    replace_taken_ports,
    unmount_all,
)
from .progress import AioError, Progress, run, say

STEPS: Final = 8
START_SECONDS: Final = 60.0
ENGINE_SECONDS: Final = 45.0
KILLED_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Parts:
    """What has been installed or built for a cluster."""

    venv: Path
    engine: Engine
    java: Path | None
    image: str


def set_up(home: Home, progress: Progress, *extra: packages.Need) -> Parts:
    """Install and build whatever is not there yet: five steps."""
    log = home.logs / "setup.log"
    if os.environ.get("STORLETS_BOX"):
        engine.need_hosts()
    with progress.step("system packages"):
        needs = [packages.PYTHON, packages.MEMCACHED, packages.CURL, *extra]
        needs += [packages.MOUNT] if home.mounts else []
        needs += [packages.JDK, packages.MAVEN, packages.GCC] if java.needs_tools() else []
        needs += [packages.DOCKERD] if not engine.find() else []
        packages.install(needs, log)
        need_root()
        processes.need_sight()
        packages.make_user(log)
    with progress.step("Python environment"):
        environment = venv.code(log)
    with progress.step("Docker engine"):
        docker = engine.ensure(log)
    with progress.step("Java parts"):
        java_parts = java.parts(log)
    with progress.step("sandbox image"):
        if image.wants_debootstrap(docker.api):
            packages.install([packages.DEBOOTSTRAP], log)
        image.build_base(docker.api, log)
        name = image.build(docker.api, java_parts)
    return Parts(environment, docker, java_parts, name)


def up(env: Mapping[str, str] = os.environ) -> Home:
    """Install, build, configure and start, each only as far as it is not done; then write ``cluster.json``."""
    home = open_home(env)
    with locked(home), engine.in_use():
        os.environ[processes.MARK] = f"{home.node_id}/setup"
        check_xattrs(home.real)
        progress = Progress(STEPS)
        parts = set_up(home, progress)
        with progress.step("configuration and rings"):
            home = replace_taken_ports(home, busy=_own_ports(home))
            env = {**env, "STORLETS_ENCRYPTION": remembered(home, "STORLETS_ENCRYPTION", env)}
            choices = configs.choices_from(env, parts.image, parts.engine.api.host)
            accepted = configs.acceptable(parts.engine.api.info(), configs.own_capabilities())
            choices = dataclasses.replace(choices, accept_failures=accepted)
            _lay_out(home)
            configs.write_all(home, choices)
            _build_rings(home, parts.venv)
        with progress.step("processes"):
            entries = programs.table(
                home, parts.venv, with_sandboxd=choices.filter and _has_sandboxd(parts.venv)
            )
            _start_all(home, entries, parts)
        with progress.step("first request"):
            cluster = _describe(home, entries, parts)
            programs.save_cluster(home, cluster)
        say(
            f"up after {progress.seconds:.0f} s: {cluster['auth_url']}, described in {home.cluster_json}"
        )
    return home


def down(env: Mapping[str, str] = os.environ, *, purge: bool = False) -> None:
    """Stop the cluster and remove all that it left on the machine; its data stays unless ``purge``."""
    home = find_home(env)
    if home is None:
        say("there is no cluster here")
        return
    need_root()
    _interrupt_up(home)
    with locked(home):
        clean_up(home)
    if purge:
        _release_uids(home)
        shutil.rmtree(home.real)
        shutil.rmtree(home.real_conf, ignore_errors=True)
    say("down")


def _release_uids(home: Home) -> None:
    """Let other clusters have the uids that sandboxd claimed for this one: nothing is left that belongs to them."""
    for claim in configs.identities().glob("[0-9]*"):
        if json.loads(claim.read_text("utf-8"))["state_dir"] == str(home.state):
            claim.unlink()


def clean_up(home: Home) -> None:
    """Processes, containers, mounts, sockets; and the engine, when it is ours and nobody else's any more."""
    for name in (programs.KEEPER, "setup", "proxy", programs.SANDBOXD, ""):
        processes.stop(home.node_id, name)
    _remove_containers(home)
    _remove_group(home.node_id)
    # What a sandboxd that was killed had just asked the engine for may have come meanwhile.
    _remove_containers(home)
    unmount_all(home)
    image.remove_scratch()
    if is_still(home):
        home.cluster_json.unlink(missing_ok=True)
        shutil.rmtree(home.real / "stopped", ignore_errors=True)
    others = {process.owner for process in processes.everything()} - {home.node_id, engine.OWNER}
    if not others:
        engine.stop_unused()


def status(env: Mapping[str, str] = os.environ) -> int:
    """A table of the processes; 0 when all of them run and answer."""
    home = find_home(env)
    entries = programs.load(home) if home else []
    if home is None or not entries or not programs.load_cluster(home):
        say("down")
        return 1
    healthy = True
    say(f"home       {home.real}")
    say(f"auth_url   {programs.load_cluster(home).get('auth_url', '-')}")
    say(f"{'name':12} {'pid':>8}  {'where':44} state")
    for entry in entries:
        pid = processes.leader(home.node_id, entry.name)
        fine = pid is not None and programs.answers(home, entry)
        healthy = healthy and fine
        where = f"127.0.0.1:{entry.port}" if entry.port else entry.socket or "-"
        say(
            f"{entry.name:12} {pid or '-':>8}  {where:44} {'up' if fine else 'DOWN' if pid is None else 'SILENT'}"
        )
    docker = engine.find()
    if docker:
        where = docker.api.path
        say(
            f"{'dockerd':12} {docker.pid or '-':>8}  {where:44} up{'' if docker.pid else ' (not started by us)'}"
        )
        boxes = docker.api.containers(f"{LABEL}={home.node_id}")
        say(f"sandboxes  {len(boxes)}")
    else:
        healthy = False
        say(f"{'dockerd':12} {'-':>8}  {'-':44} DOWN")
    return 0 if healthy else 1


def start(name: str, env: Mapping[str, str] = os.environ) -> None:
    """Start one process of the cluster again."""
    home, entry = _named(name, env)
    with locked(home):
        try:
            if entry is None:
                engine.ensure(home.logs / "setup.log")
                programs.set_pid(home, name, engine.our_pid())
            else:
                pid = processes.leader(home.node_id, name) or processes.start(
                    home.node_id, entry.program()
                )
                _wait(home, entry)
                programs.set_pid(home, name, pid)
        finally:
            # Not before: the keeper would start one as well. From now on it looks after it.
            programs.stopped_by_hand(home, name).unlink(missing_ok=True)


def stop(name: str, env: Mapping[str, str] = os.environ) -> None:
    """Stop one process of the cluster; the keeper leaves it down."""
    home, entry = _named(name, env)
    with locked(home):
        flag = programs.stopped_by_hand(home, name)
        flag.parent.mkdir(exist_ok=True)
        flag.touch()
        if entry is None:
            engine.halt()
        else:
            processes.stop(home.node_id, name)
        programs.set_pid(home, name, None)


def need_root() -> None:
    if os.geteuid():
        raise AioError(
            "this needs root: Swift runs as a user of its own, sandboxes as users of theirs, and the cluster gets a "
            "short path by a mount. Run it with sudo, or as root."
        )


def _named(name: str, env: Mapping[str, str]) -> tuple[Home, programs.Entry | None]:
    """The entry of a process; ``None`` for the engine, which has none."""
    need_root()
    home = find_home(env)
    entries = {entry.name: entry for entry in programs.load(home)} if home else {}
    known = [*entries, programs.DOCKERD]
    if home is None or not entries:
        raise AioError("there is no cluster here")
    if name not in known:
        raise AioError(f"no process {name!r}; there are {', '.join(known)}")
    return home, entries.get(name)


def _lay_out(home: Home) -> None:
    """Directories, their owners and the short names."""
    for name in ("disks", "recon", "state", "logs"):
        (home.real / name).mkdir(exist_ok=True)
    for disk in rings.DISKS:
        (home.real / "disks" / disk).mkdir(exist_ok=True)
    for path in [home.real / "disks", home.real / "recon", *(home.real / "disks").iterdir()]:
        shutil.chown(path, packages.USER, packages.USER)
        path.chmod(0o700)
    mount_all(home)
    home.run.mkdir(parents=True, exist_ok=True)
    for path in (home.short.parent, home.short, home.run, home.real / "state"):
        path.chmod(0o755)


def _build_rings(home: Home, environment: Path) -> None:
    plan = home.real / "rings.json"
    plan.write_text(json.dumps(rings.plan(home)), encoding="utf-8")
    run(
        [environment / "bin/python3", "-m", "storlet_middleware.aio.rings", plan],
        home.logs / "setup.log",
    )


def _has_sandboxd(environment: Path) -> bool:
    """Whether this checkout has the daemon already."""
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('storlet_middleware.sandboxd.__main__') is None)"
    command = [str(environment / "bin/python3"), "-c", code]
    return not subprocess.run(command, capture_output=True, check=False, cwd="/").returncode


def _own_ports(home: Home) -> set[str]:
    """Names of the servers that run now: their ports are taken, by us."""
    return {process.name for process in processes.running(home.node_id)}


def _start_all(home: Home, entries: list[programs.Entry], parts: Parts) -> None:
    """Start what does not run and what was started from something else; wait until all of it answers."""
    _stop_outdated(home, entries)
    programs.save(home, entries)
    shutil.rmtree(home.real / "stopped", ignore_errors=True)
    fresh = [entry for entry in entries if processes.leader(home.node_id, entry.name) is None]
    for entry in fresh:
        if entry.name != programs.KEEPER:
            processes.start(home.node_id, entry.program())
    for entry in fresh:
        if entry.name != programs.KEEPER:
            _wait(home, entry)
    # The keeper reads cluster.json to learn whether the engine is ours to watch.
    programs.save_cluster(home, _describe(home, entries, parts, check=False))
    for entry in fresh:
        if entry.name == programs.KEEPER:
            processes.start(home.node_id, entry.program())
            _wait(home, entry)


def _wait(home: Home, entry: programs.Entry) -> None:
    processes.wait_until(
        lambda: programs.answers(home, entry), home.node_id, entry.program(), START_SECONDS
    )


def _stop_outdated(home: Home, entries: list[programs.Entry]) -> None:
    current = {entry.name: entry for entry in entries}
    # The keeper first: it would bring the old sandboxd back.
    for process in sorted(
        processes.running(home.node_id), key=lambda process: process.name != programs.KEEPER
    ):
        entry = current.get(process.name)
        if (
            process.name != "setup"
            and process.leader
            and not (entry and programs.is_current(process.pid, entry))
        ):
            processes.stop(home.node_id, process.name)
    # What is left of a process whose leader was killed keeps its port.
    for name in current:
        if processes.leader(home.node_id, name) is None:
            processes.stop(home.node_id, name)


def _describe(
    home: Home, entries: list[programs.Entry], parts: Parts, *, check: bool = True
) -> dict[str, Any]:
    base = f"http://127.0.0.1:{home.ports['proxy']}"
    jar = parts.java / java.API_JAR if parts.java else None
    return {
        "auth_url": f"{base}/auth/v1.0",
        "users": {user: key for user, (key, _) in configs.USERS.items()},
        "storage_urls": {user: _storage_url(base, user, check=check) for user in configs.USERS},
        "processes": programs.seen(
            home, entries, engine.our_pid(), engine.LOG, parts.engine.api.host
        ),
        "policies": list(configs.POLICIES),
        "disks": [
            {"path": str(home.disks / disk), "name": disk, "object_server": f"object-{node}"}
            for disk, node in rings.DISKS.items()
        ],
        "rings": {file: str(home.conf / f"{file}.ring.gz") for file in rings.FILES},
        "sandbox_image": parts.image,
        "java_api_jar": str(jar) if jar else None,
        "java_dir": str(parts.java) if parts.java else None,
        "venv": str(parts.venv),
        "home": str(home.real),
        "conf_dir": str(home.conf),
        "storlet_conf": str(home.conf / "storlet.conf"),
        "run_dir": str(home.run),
        "state_dir": str(home.state),
        "node_id": home.node_id,
        "docker_host": parts.engine.api.host,
        "checkout": str(CHECKOUT),
    }


def _storage_url(base: str, user: str, *, check: bool) -> str:
    """What tempauth will say; with ``check`` it is asked, so that a cluster that is ``up`` has answered a real request."""
    wanted = f"{base}/v1/AUTH_{user.partition(':')[0]}"
    if check:
        return log_in(f"{base}/auth/v1.0", user, configs.USERS[user][0]).storage_url
    return wanted


def _remove_containers(home: Home) -> None:
    """Our sandboxes; when our engine has died while they live, it is started once more for that."""
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
            # An engine that is being restarted breaks off in the middle.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            return


def _remove_group(node_id: str) -> None:
    """The control group that sandboxd makes above its sandboxes (``sandboxd/cgroups.py``), and what ended ones left in it."""
    tops = [
        *Path("/sys/fs/cgroup").glob(f"storlets-{node_id}"),
        *Path("/sys/fs/cgroup").glob(f"*/storlets-{node_id}"),
    ]
    for procs in [procs for top in tops for procs in top.rglob("cgroup.procs")]:
        # An engine that dies while it starts a container leaves the process that was to become it, which waits for ever.
        with contextlib.suppress(OSError):
            for pid in procs.read_text(encoding="ascii").split():
                os.kill(int(pid), signal.SIGKILL)
    give_up = time.monotonic() + KILLED_SECONDS
    while True:
        for top in tops:
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
        # A killed process is in its group until somebody has asked for it.
        if not any(top.exists() for top in tops) or time.monotonic() > give_up:
            break
        time.sleep(0.02)
    if Path("/run/systemd/system").is_dir():
        escaped = "".join(c if c.isalnum() or c in "_." else f"\\x{ord(c):02x}" for c in node_id)
        subprocess.run(
            ["systemctl", "stop", f"storlets-{escaped}.slice"], capture_output=True, check=False
        )


def _interrupt_up(home: Home) -> None:
    """An ``up`` that is under way is ended first: whoever says ``down`` does not want to wait for it."""
    pid = lock_holder(home)
    if pid is None or pid == os.getpid():
        return
    say(f"ending the command that is under way (pid {pid})")
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    deadline = time.monotonic() + 10
    while lock_holder(home) == pid and time.monotonic() < deadline:
        processes.stop(home.node_id, "setup")
        time.sleep(0.1)
    if lock_holder(home) == pid:
        os.kill(pid, signal.SIGKILL)
