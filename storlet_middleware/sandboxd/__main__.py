"""``storlet-sandboxd``: read the options, take the node's lock, serve until SIGTERM.

Started by systemd or the all-in-one as root, one per node::

    storlet-sandboxd --conf /etc/swift/storlet.conf
    storlet-sandboxd --conf /etc/swift/storlet.conf --remove-all    # every sandbox of this node and their sockets

SIGTERM and SIGINT end it and leave the sandboxes running: they go on serving, and the next sandboxd adopts them, so an
upgrade interrupts nothing.  ``--remove-all`` is for taking the product off a node.
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
from storlet_middleware.sandboxd.cgroups import Cgroups
from storlet_middleware.sandboxd.control import stranger
from storlet_middleware.sandboxd.docker import Engine
from storlet_middleware.sandboxd.errors import EngineFault, SandboxdFault, StartupFault
from storlet_middleware.sandboxd.gate import Gate
from storlet_middleware.sandboxd.identity import Identities, UidRange
from storlet_middleware.sandboxd.places import Lock, Places
from storlet_middleware.sandboxd.plan import Planner, check_node_id
from storlet_middleware.sandboxd.pool import Pool
from storlet_middleware.sandboxd.sandbox import Node
from storlet_middleware.sandboxd.server import Server
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
        places = _places(config)
        if options.remove_all:
            return remove_all(config, places, Engine(config.sandbox.docker_url))
        return serve(config, places)
    except (configuration.ConfigError, SandboxdFault) as error:
        _tell(error)
        return 1


def serve(config: Config, places: Places) -> int:
    """Hold the node's lock and answer until SIGTERM."""
    lock = Lock(places)
    places.make_run_dir()
    lock.acquire()
    places.make()
    uids = UidRange(config.sandbox.uid_first, config.sandbox.uid_count)
    identities = Identities(places.state_dir, Path(config.sandbox.identity_dir), uids)
    identities.check()
    _raise_open_files()
    asyncio.run(_serve(config, places, identities))
    log.info("sandboxd ended")
    logging.shutdown()
    # A thread may still wait for a hung Docker; it holds nothing that the end of the process does not let go of.
    sys.stderr.flush()
    os._exit(0)


async def _serve(config: Config, places: Places, identities: Identities) -> None:
    engine = Engine(config.sandbox.docker_url)
    node = Node(config, engine, places, Threads(), stranger)
    planner = Planner(config, engine, places, identities)
    pool = Pool(node, planner, Gate(node, planner))
    server = Server(places.listen_for_requests(), pool)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    server.open()
    log.info(
        "sandboxd serves socket=%s node=%s image=%s pid=%d",
        places.request_socket, config.sandbox.node_id, shown(config.sandbox.image), os.getpid(),
    )  # fmt: skip
    running = asyncio.create_task(pool.run())
    reported = asyncio.create_task(_prepare_host(node))
    await asyncio.wait(
        {running, asyncio.create_task(stop.wait())}, return_when=asyncio.FIRST_COMPLETED
    )
    # New callers find no socket and are told so at once, instead of waiting in the backlog of one that ends.
    places.request_socket.unlink(missing_ok=True)
    server.close()
    reported.cancel()
    await pool.close(config.sandbox.stop_deadline_seconds)
    if running.done():
        running.result()
    running.cancel()


async def _prepare_host(node: Node) -> None:
    """Make the control group above all sandboxes; say once which limits this host cannot enforce: they run without them."""
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
            "limits of single storlets not available reason=the engine's control groups are out of sight"
        )
    else:
        parent = hardening.cgroup_parent(node.config.sandbox.node_id, host)
        for fault in await node.threads.call(Cgroups().make_node, parent, node.config.node):
            log.warning("total of all sandboxes not available reason=%s", shown(fault))


def remove_all(config: Config, places: Places, engine: Engine) -> int:
    """Remove every container of this node and the content of ``run_dir``; 1 when Docker could not."""
    places.make_run_dir()
    lock = Lock(places)
    lock.acquire()
    try:
        containers = engine.ours(config.sandbox.node_id)
        for container in containers:
            engine.remove(container.id)
            log.info("sandbox removed container=%s", shown(container.name))
        host = engine.host()
        if host.get(hardening.CGROUPS_IN_SIGHT):
            Cgroups().remove_node(hardening.cgroup_parent(config.sandbox.node_id, host))
    except EngineFault as fault:
        _tell(f"sandboxes of node {config.sandbox.node_id} are not removed: {fault}")
        return 1
    finally:
        places.clear_run_dir()
        lock.release()
    return 0


def _tell(text: object) -> None:
    """Say why it ends to whoever started it, also when the log is elsewhere."""
    sys.stderr.write(f"storlet-sandboxd: {text}\n")


def _raise_open_files() -> None:
    """Room for every client and sandbox at once; the usual 1,024 are for programs that use select."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _places(config: Config) -> Places:
    if os.geteuid() != 0:
        raise StartupFault(
            "run it as root: it makes directories for other users and starts containers"
        )
    check_node_id(config.sandbox.node_id)
    try:
        gid = grp.getgrnam(config.sandbox.group).gr_gid
    except KeyError:
        raise StartupFault(
            f"[sandbox] group = {config.sandbox.group}: no such group; it is the one that Swift's servers run in"
        ) from None
    places = Places(Path(config.sandbox.run_dir), Path(config.sandbox.state_dir), 0, gid)
    places.check()
    return places


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="storlet-sandboxd",
        description="Owns the storlet sandboxes of this node; the only process that talks to Docker.",
        epilog="SIGTERM ends it and leaves the sandboxes running; the next one adopts them.",
    )
    parser.add_argument(
        "--conf",
        default=configuration.DEFAULT_PATH,
        metavar="FILE",
        help="options (default: %(default)s)",
    )
    parser.add_argument(
        "--remove-all",
        action="store_true",
        help="remove every sandbox of this node and all sockets, then exit",
    )
    parser.add_argument(
        "--log-level",
        default="INFO",
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
        help="least important lines to log (default: %(default)s)",
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
