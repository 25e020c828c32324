"""``storlet COMMAND``; ``storlet --help`` lists them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

from storlet_middleware.cli import rules, sandboxes
from storlet_middleware.cli.command import INTERRUPTED, NOT_DONE, CliError, complain

COMMANDS: Final = (sandboxes.COMMAND, rules.COMMAND)

EPILOG: Final = """exit codes:
  0    done, and all is well
  1    done, and something is not as it should be (a trust class is closed, rules have errors)
  2    words that are not understood
  3    not done: no answer, no permission, no usable configuration; the reason is on standard error
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the console script; returns the exit code.  An error comes as a text, not as a traceback."""
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
        # Whoever reads has seen enough (`| head`); the interpreter shall not say so once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="storlet",
        description="Storlets in OpenStack Swift: what a node runs, and what rules say.",
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
