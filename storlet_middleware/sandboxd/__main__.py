"""``storlet-sandboxd``: read the options, take the node's lock, serve until SIGTERM.

Started as root by systemd or the all-in-one, one per node::

    storlet-sandboxd --conf /etc/swift/storlet.conf
    storlet-sandboxd --conf /etc/swift/storlet.conf --remove-all    # all sandboxes and sockets

SIGTERM and SIGINT end it and leave the sandboxes running: they keep serving, and the next sandboxd
adopts them, so an upgrade interrupts nothing.  ``--remove-all`` is for uninstalling.
"""

from __future__ import annotations

import argparse
import asyncio
import grp
import importlib.metadata
import logging
import logging.handlers
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from storlet_middleware import config as configuration
from storlet_middleware.config import Config
from storlet_middleware.sandboxd import hardening
from storlet_middleware.sandboxd.cgroups.hierarchy import Hierarchy
from storlet_middleware.sandboxd.cgroups.node import NodeCgroup
from storlet_middleware.sandboxd.control import peer_fault
from storlet_middleware.sandboxd.directories.code_dirs import BOOT_ID
from storlet_middleware.sandboxd.directories.lock import NodeLock
from storlet_middleware.sandboxd.directories.paths import NodePaths
from storlet_middleware.sandboxd.docker import Engine
from storlet_middleware.sandboxd.errors import EngineFault, SandboxdFault, StartupFault
from storlet_middleware.sandboxd.identity import Identities, UidRange
from storlet_middleware.sandboxd.node import Node
from storlet_middleware.sandboxd.plan import Planner, check_node_id
from storlet_middleware.sandboxd.pool.pool import Pool
from storlet_middleware.sandboxd.self_test.gate import Gate
from storlet_middleware.sandboxd.server import Server
from storlet_middleware.sandboxd.statsd import NoStats, StatsdClient
from storlet_middleware.sandboxd.threads import Threads
from storlet_middleware.sandboxd.wording import shown

log = logging.getLogger("storlet.sandboxd")

DISTRIBUTION: Final = "swift-storlets"
SYSLOG_SOCKET: Final = "/dev/log"
OPEN_FILES: Final = 8192


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the console script; returns the exit code."""
    options = _parser().parse_args(arguments)
    _set_up_logging(options.log_level, to_syslog=options.syslog)
    try:
        config = configuration.load(options.conf)
        paths = _paths(config)
        if options.remove_all:
            return remove_all(config, paths, Engine(config.sandbox.docker_url))
        return serve(config, paths, options.test or configuration.CLASSES)
    except (configuration.ConfigError, SandboxdFault) as error:
        _complain(error)
        return 1


def serve(config: Config, paths: NodePaths, tested: Sequence[str]) -> int:
    """Hold the node's lock and answer until SIGTERM.

    :param tested: the trust classes that are tested at once, and not at their first load.
    """
    lock = NodeLock(paths.lock_file)
    paths.make_run_dir()
    lock.acquire()
    paths.make()
    _forget_unsynced_code(paths)
    uids = UidRange(config.sandbox.uid_first, config.sandbox.uid_count)
    identities = Identities(paths.state_dir, Path(config.sandbox.identity_dir), uids)
    identities.check()
    _raise_open_files()
    asyncio.run(_serve(config, paths, identities, tested))
    log.info("sandboxd ended")
    logging.shutdown()
    # A thread may still wait for a hung Docker; the end of the process releases all that it holds.
    sys.stderr.flush()
    os._exit(0)


def _forget_unsynced_code(paths: NodePaths) -> None:
    removed = paths.code.forget_unsynced(BOOT_ID.read_text("ascii").strip())
    if removed:
        log.info("code that was not on the disk is fetched again copies=%d", removed)


async def _serve(
    config: Config, paths: NodePaths, identities: Identities, tested: Sequence[str]
) -> None:
    engine = Engine(config.sandbox.docker_url)
    node = Node(config, engine, paths, Threads(), peer_fault, stats=_stats(config))
    planner = Planner(config, engine, paths, identities)
    pool = Pool(node, planner, Gate(node, planner, tested))
    server = Server(paths.listen_for_requests(), pool)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    server.open()
    log.info(
        "sandboxd serves socket=%s node=%s image=%s pid=%d",
        paths.request_socket,
        config.sandbox.node_id,
        shown(config.sandbox.image),
        os.getpid(),
    )
    running = asyncio.create_task(pool.run())
    reported = asyncio.create_task(_prepare_host(node))
    await asyncio.wait(
        {running, asyncio.create_task(stop.wait())}, return_when=asyncio.FIRST_COMPLETED
    )
    # New callers fail at once, instead of waiting in the backlog of a process that ends.
    paths.request_socket.unlink(missing_ok=True)
    server.close()
    reported.cancel()
    await pool.close(config.sandbox.stop_deadline_seconds)
    if running.done():
        running.result()
    running.cancel()


async def _prepare_host(node: Node) -> None:
    """Make the control group above all sandboxes; log the limits that this host cannot enforce."""
    while True:
        try:
            host = await node.threads.call(node.engine.host)
            break
        except EngineFault:
            await asyncio.sleep(5)
    for row in hardening.missing(host):
        log.warning(
            "limit not available argument=%s needs=%s against=%s",
            row.path,
            row.needs,
            shown(row.against),
        )
    if not host.get(hardening.CGROUPS_IN_SIGHT):
        log.warning(
            "limits of single storlets not available reason=the engine's control groups are out "
            "of sight"
        )
    else:
        parent = hardening.cgroup_parent(node.config.sandbox.node_id, host)
        cgroup = NodeCgroup(parent, node.host_cgroups)
        for fault in await node.threads.call(cgroup.make, node.config.node):
            log.warning("total of all sandboxes not available reason=%s", shown(fault))


def remove_all(config: Config, paths: NodePaths, engine: Engine) -> int:
    """Remove every container of this node and the content of ``run_dir``; return 1 on failure."""
    paths.make_run_dir()
    lock = NodeLock(paths.lock_file)
    lock.acquire()
    try:
        containers = engine.ours(config.sandbox.node_id)
        for container in containers:
            engine.remove(container.id)
            log.info("sandbox removed container=%s", shown(container.name))
        host = engine.host()
        if host.get(hardening.CGROUPS_IN_SIGHT):
            parent = hardening.cgroup_parent(config.sandbox.node_id, host)
            NodeCgroup(parent, Hierarchy()).remove()
    except EngineFault as fault:
        _complain(f"sandboxes of node {config.sandbox.node_id} are not removed: {fault}")
        return 1
    finally:
        paths.clear_run_dir()
        lock.release()
    return 0


def _complain(text: object) -> None:
    """Write the reason of the end to standard error, even when the log is elsewhere."""
    sys.stderr.write(f"storlet-sandboxd: {text}\n")


def _raise_open_files() -> None:
    """Allow descriptors for all clients and sandboxes; the usual limit of 1,024 is too low."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _paths(config: Config) -> NodePaths:
    if os.geteuid() != 0:
        raise StartupFault(
            "run it as root: it makes directories for other users and starts containers"
        )
    check_node_id(config.sandbox.node_id)
    try:
        gid = grp.getgrnam(config.sandbox.group).gr_gid
    except KeyError:
        raise StartupFault(
            f"[sandbox] group = {config.sandbox.group}: no such group; want the group that "
            "Swift's servers run in"
        ) from None
    paths = NodePaths(Path(config.sandbox.run_dir), Path(config.sandbox.state_dir), 0, gid)
    paths.check()
    return paths


def _stats(config: Config) -> NoStats:
    options = config.sandbox
    if not options.log_statsd_host:
        return NoStats()
    try:
        return StatsdClient(
            options.log_statsd_host, options.log_statsd_port, options.log_statsd_metric_prefix
        )
    except OSError as error:
        raise StartupFault(
            f"[sandbox] log_statsd_host = {options.log_statsd_host}: {error.strerror or error}"
            " (under systemd, see RestrictAddressFamilies in storlet-sandboxd.service)"
        ) from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="storlet-sandboxd",
        description="Starts, keeps and removes the storlet sandboxes of this node.",
        epilog="Run one per node, as root.  SIGTERM ends it and leaves the sandboxes running; "
        "the next storlet-sandboxd adopts them.",
    )
    parser.add_argument(
        "--conf",
        default=configuration.DEFAULT_PATH,
        metavar="FILE",
        help="configuration file (default: %(default)s)",
    )
    parser.add_argument(
        "--remove-all",
        action="store_true",
        help="remove all sandboxes and sockets of this node, then exit",
    )
    parser.add_argument(
        "--test",
        action="append",
        choices=configuration.CLASSES,
        metavar="CLASS",
        help="run the self-test of this trust class at the start, and that of others before their"
        " first storlet is loaded (default: of all classes at the start)",
    )
    parser.add_argument(
        "--log-level",
        default="INFO",
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
        help="minimum level of logged lines (default: %(default)s)",
    )
    parser.add_argument(
        "--syslog", action="store_true", help=f"log to {SYSLOG_SOCKET} instead of standard error"
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {_version()}")
    return parser


def _version() -> str:
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _set_up_logging(level: str, *, to_syslog: bool) -> None:
    if to_syslog:
        handler: logging.Handler = logging.handlers.SysLogHandler(SYSLOG_SOCKET)
        handler.setFormatter(logging.Formatter("storlet-sandboxd[%(process)d]: %(message)s"))
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("urllib3").setLevel(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
