"""Commands of the all-in-one cluster; ``python3 -m storlet_middleware.aio --help`` lists them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from . import box, checks, cluster, demo, keeper
from .home import find_home
from .progress import AioError, complain

EPILOG = """environment:
  STORLETS_HOME        state of the cluster: rings, disks, logs (default: .aio in the checkout)
  STORLETS_PORT        the proxy's port (default 8080; 0 = any free one)
  STORLETS_CONF        directory of the configuration files (default: etc in the home)
  STORLETS_CACHE       what clusters share: Python environments, Java parts (default: /var/cache/storlets-aio)
  STORLETS_ENCRYPTION  1 = encryption at rest (keymaster and encryption in the pipelines); the home remembers it
  STORLETS_FILTER      0 = plain Swift without storlets, to compare with
  STORLETS_WORKERS     worker processes of each Swift server (default 0: one process without a parent)
  STORLETS_BASE        how the sandbox image's base is made: registry or debootstrap (default: whatever works)
  DOCKER_HOST          an engine other than unix:///var/run/docker.sock; where none answers, one is started
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 is success.  Errors that a person can mend come as a text, not as a traceback."""
    parser = argparse.ArgumentParser(
        prog="python3 -m storlet_middleware.aio",
        description="An OpenStack Swift with storlets on this machine.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser(
        "up", help="install what is missing, build, start; leaves a running cluster as it is"
    )
    down = commands.add_parser(
        "down", help="stop the cluster and remove all that it left on the machine but its data"
    )
    down.add_argument("--purge", action="store_true", help="delete its data, too")
    commands.add_parser("status", help="what runs; ends with 0 when all of it does")
    commands.add_parser("demo", help="up, then run the sample storlets and show what happened")
    for name, text in (("start", "start one process again"), ("stop", "stop one process")):
        commands.add_parser(name, help=text).add_argument(
            "name", help="as in `status`, for example object-1"
        )
    commands.add_parser("check", help="linters, types, import rules, spelling")
    test = commands.add_parser("test", help="every test, on a cluster of its own")
    test.add_argument("arguments", nargs=argparse.REMAINDER, help="for pytest")
    commands.add_parser(
        "box-image",
        help="build the one-box image of Dockerfile, also where no registry can be reached",
    )
    commands.add_parser(
        "box", help="up, in the foreground; down at SIGTERM: the main process of that image"
    )
    commands.add_parser("build", help="only the Python environment and the Java parts")
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
    """The exit code; a command that returns nothing has succeeded."""
    handlers: dict[str, Callable[[], object]] = {
        "up": cluster.up,
        "down": lambda: cluster.down(purge=options.purge),
        "status": cluster.status,
        "demo": lambda: demo.show(cluster.up()),
        "start": lambda: cluster.start(options.name),
        "stop": lambda: cluster.stop(options.name),
        "check": checks.check,
        "test": lambda: checks.test(options.arguments),
        "box": box.live,
        "build": box.build_parts,
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
