"""``storlet COMMAND``; ``storlet --help`` lists them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from storlet_middleware.cli import rules, sandboxes
from storlet_middleware.cli.command import INTERRUPTED, NOT_DONE, CliError, complain

COMMANDS: Final = (sandboxes.COMMAND, rules.COMMAND)

_OTHERS: Final = (
    "deploy, invoke, rules put and the other commands of users are in the package storlet-client"
)
EPILOG: Final = """exit codes:
  0    success
  1    success, but a problem was found (a trust class is closed, rules have errors)
  2    invalid command line
  3    failure: no answer, no permission, no valid configuration; standard error has the reason
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the console script; return the exit code.

    Expected errors are printed without a traceback.
    """
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except CliError as error:
        complain(f"storlet: {error}")
        return NOT_DONE
    except KeyboardInterrupt:
        complain("storlet: interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe (`| head`); without this, the interpreter would report it
        # again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


class _Parser(argparse.ArgumentParser):
    """Says where the other commands are."""

    def error(self, message: str) -> NoReturn:
        if "invalid choice" in message:
            message = f"{message}; {_OTHERS}"
        super().error(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="storlet",
        description="Storlets in OpenStack Swift: show the sandboxes of a node, and check rules.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        one = commands.add_parser(
            command.name,
            help=command.help,
            description=command.description,
            epilog=EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.declare(one)
        one.set_defaults(run=command.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
