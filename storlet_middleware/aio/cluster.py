"""The commands ``up``, ``down``, ``status``, ``start`` and ``stop`` of a cluster."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Final

from storlet_middleware import trial_host

from . import configs, engine, processes, programs, teardown
from .description import describe
from .docker_api import LABEL
from .home import Home, check_xattrs, find_home, locked, open_home, remembered, replace_taken_ports
from .parts import need_root, set_up
from .progress import AioError, Progress, say
from .startup import build_rings, has_sandboxd, make_directories, start_all, wait_for

STEPS: Final = 9
#: Choices that belong to the data of a cluster, so its home remembers them.
OF_THE_DATA: Final = (
    "STORLETS_ENCRYPTION",
    "STORLETS_DATABASE_REPLICAS",
    "STORLETS_OBJECT_REPLICAS",
)


def up(env: Mapping[str, str] = os.environ) -> Home:
    """Install, build, configure and start what is missing; then write ``cluster.json``."""
    home = open_home(env)
    with locked(home), engine.in_use():
        os.environ[processes.MARK] = f"{home.node_id}/setup"
        check_xattrs(home.real)
        progress = Progress(STEPS)
        parts = set_up(home, progress)
        with progress.step("configuration and rings"):
            # Ports of running servers are in use by this cluster itself.
            running = {process.name for process in processes.running(home.node_id)}
            home = replace_taken_ports(home, busy=running)
            env = {**env, **{name: remembered(home, name, env) for name in OF_THE_DATA}}
            choices = configs.choices_from(env, parts.image, parts.engine.api.host)
            host, capabilities = parts.engine.api.info(), trial_host.own_capabilities()
            accepted = trial_host.acceptable(host, capabilities)
            choices = dataclasses.replace(choices, accept_failures=accepted)
            make_directories(home)
            configs.write_all(home, choices)
            build_rings(home, parts.venv, choices.replicas)
        with progress.step("processes"):
            with_sandboxd = choices.filter and has_sandboxd(parts.venv)
            entries = programs.table(
                home, parts.venv, with_sandboxd=with_sandboxd, tested=choices.self_tests
            )
            start_all(home, entries, parts)
        with progress.step("first request"):
            cluster = describe(home, entries, parts)
            programs.save_cluster(home, cluster)
        seconds, url = progress.seconds, cluster["auth_url"]
        say(f"up after {seconds:.0f} s: {url}, described in {home.cluster_json}")
    return home


def down(env: Mapping[str, str] = os.environ, *, purge: bool = False) -> None:
    """Stop the cluster and remove everything on the machine except its data, unless ``purge``."""
    home = find_home(env)
    if home is None:
        say("there is no cluster here")
        return
    need_root()
    teardown.interrupt(home)
    with locked(home):
        teardown.clean_up(home)
    if purge:
        teardown.purge(home)
    say("down")


def status(env: Mapping[str, str] = os.environ) -> int:
    """Print a table of the processes; return 0 when all of them run and answer."""
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
        answers = pid is not None and programs.answers(home, entry)
        healthy = healthy and answers
        where = f"127.0.0.1:{entry.port}" if entry.port else entry.socket or "-"
        state = "up" if answers else "DOWN" if pid is None else "SILENT"
        say(f"{entry.name:12} {pid or '-':>8}  {where:44} {state}")
    return 0 if _engine_status(home) and healthy else 1


def _engine_status(home: Home) -> bool:
    """Print the engine's line and the number of sandboxes; return whether the engine answers."""
    docker = engine.find()
    if docker is None:
        say(f"{'dockerd':12} {'-':>8}  {'-':44} DOWN")
        return False
    state = "up" if docker.pid else "up (not started by us)"
    say(f"{'dockerd':12} {docker.pid or '-':>8}  {docker.api.path:44} {state}")
    say(f"sandboxes  {len(docker.api.containers(f'{LABEL}={home.node_id}'))}")
    return True


def start(name: str, env: Mapping[str, str] = os.environ) -> None:
    """Start one process of the cluster."""
    home, entry = _named(name, env)
    with locked(home):
        try:
            if entry is None:
                engine.ensure(home.logs / "setup.log")
                programs.set_pid(home, name, engine.our_pid())
            else:
                running = processes.leader(home.node_id, name)
                pid = running or processes.start(home.node_id, entry.program())
                wait_for(home, entry)
                programs.set_pid(home, name, pid)
        finally:
            # Only now: the keeper restarts the process from here on, and would start a second one.
            programs.stopped_by_hand(home, name).unlink(missing_ok=True)


def stop(name: str, env: Mapping[str, str] = os.environ) -> None:
    """Stop one process of the cluster; the keeper does not restart it."""
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


def _named(name: str, env: Mapping[str, str]) -> tuple[Home, programs.Entry | None]:
    """The cluster and the entry of a process; ``None`` for the engine, which has no entry."""
    need_root()
    home = find_home(env)
    entries = {entry.name: entry for entry in programs.load(home)} if home else {}
    if home is None or not entries:
        raise AioError("there is no cluster here")
    known = [*entries, programs.DOCKERD]
    if name not in known:
        raise AioError(f"no process {name!r}; the processes are {', '.join(known)}")
    return home, entries.get(name)
