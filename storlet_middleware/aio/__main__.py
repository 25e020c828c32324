"""Commands of the all-in-one cluster; ``python3 -m storlet_middleware.aio --help`` lists them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from . import box, build, checks, cluster, demo, keeper, matrix, release
from .home import find_home
from .progress import AioError, complain

EPILOG = """environment:
  STORLETS_HOME        directory of the cluster: rings, disks, logs (default: .aio in the checkout)
  STORLETS_PORT        port of the proxy (default 8080; 0 = any free port)
  STORLETS_CONF        directory of the configuration files (default: etc in STORLETS_HOME)
  STORLETS_CACHE       Python environments and Java parts of all clusters
                       (default: /var/cache/storlets-aio)
  STORLETS_ENCRYPTION  1 = encryption at rest; remembered in STORLETS_HOME
  STORLETS_DATABASE_REPLICAS  replicas of the databases of accounts and containers (default 3);
                       chosen when a cluster is made
  STORLETS_OBJECT_REPLICAS  replicas of objects of the default policy (default 3); chosen when a
                       cluster is made
  STORLETS_FILTER      0 = plain Swift without storlets, for comparison
  STORLETS_SELF_TESTS  user = sandboxd tests only this trust class at its start, and the other one
                       before its first load (default: both at its start)
  STORLETS_WORKERS     worker processes of each Swift server (default 0: a single process)
  STORLETS_BASE        source of the sandbox image's base: registry or debootstrap
                       (default: registry, else debootstrap)
  STORLETS_REPEAT_FAILED  0 = `test` and `check` repeat no failed test; 1 = also `test ARGUMENTS`
                       repeats (default: only `test` of all tests, and `check`)
  DOCKER_HOST          Docker engine (default: unix:///var/run/docker.sock; if none answers, one is
                       started)
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 is success.  Expected errors are printed without a traceback."""
    parser = argparse.ArgumentParser(
        prog="python3 -m storlet_middleware.aio",
        description="Run an OpenStack Swift cluster with storlets on this machine.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser(
        "up", help="install, build and start what is missing; a running cluster stays up"
    )
    down = commands.add_parser(
        "down", help="stop the cluster; remove everything on the machine except its data"
    )
    down.add_argument("--purge", action="store_true", help="delete the data, too")
    commands.add_parser("status", help="show the processes; exit code 0 when all run and answer")
    commands.add_parser("demo", help="up, then run the sample storlets and show the results")
    for name, text in (("start", "start one process"), ("stop", "stop one process")):
        commands.add_parser(name, help=text).add_argument(
            "name", help="name shown by `status`, for example object-1"
        )
    check = commands.add_parser(
        "check", help="linters, types, import rules, spelling, coverage of the unit tests"
    )
    check.add_argument("only", nargs="*", metavar="CHECKER", help="run only these checkers")
    check.add_argument("--skip", action="append", default=[], help="leave out this checker")
    test = commands.add_parser("test", help="run all tests, on a cluster of their own")
    test.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments for pytest")
    matrix_ = commands.add_parser(
        "matrix", help="unit and library tests with each supported version of Python and of Swift"
    )
    matrix_.add_argument("pythons", nargs="*", metavar="PYTHON", help="those that are not on PATH")
    commands.add_parser(
        "release", help="set the version, make the release notes, commit and tag"
    ).add_argument("version", help="for example 0.2.0")
    commands.add_parser(
        "box-image",
        help="build the one-box image of Dockerfile, without a registry if necessary",
    )
    commands.add_parser(
        "box", help="up in the foreground, down at SIGTERM: the main process of that image"
    )
    commands.add_parser(
        "build", help="build only the Python environment, the Java and the native parts"
    )
    commands.add_parser("keep")
    options = parser.parse_args(argv)
    try:
        return _run(options)
    except AioError as error:
        complain(f"\nerror: {error}")
        return 1
    except KeyboardInterrupt:
        complain("\ninterrupted; `make down` removes what has been started")
        return 130


def _run(options: argparse.Namespace) -> int:
    """Run the command; return its exit code, 0 for ``None``."""
    handlers: dict[str, Callable[[], object]] = {
        "up": cluster.up,
        "down": lambda: cluster.down(purge=options.purge),
        "status": cluster.status,
        "demo": lambda: demo.show(cluster.up()),
        "start": lambda: cluster.start(options.name),
        "stop": lambda: cluster.stop(options.name),
        "check": lambda: checks.check(options.only, options.skip),
        "test": lambda: checks.test(options.arguments),
        "matrix": lambda: matrix.matrix(options.pythons),
        "release": lambda: release.release(options.version),
        "box": box.live,
        "build": build.build_parts,
        "box-image": box.build_image,
        "keep": _keep,
    }
    result = handlers[options.command]()
    return result if isinstance(result, int) else 0


def _keep() -> None:
    home = find_home()
    if home is None:
        raise AioError(f"no cluster in STORLETS_HOME={os.environ.get('STORLETS_HOME')}")
    keeper.keep(home)


if __name__ == "__main__":
    sys.exit(main())
