"""The console script ``storlet`` of this package.

The package of users, ``storlet-client``, has a script of the same name; pip keeps the one that was
installed last.  Both run the same command if both packages are here: that of ``storlet-client``,
which passes ``sandboxes`` and the offline checks of rules to :func:`.__main__.main`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Final

_CLIENT: Final = "storlet-client"
#: The exit code and the text of an interrupt, as of both commands.
_INTERRUPTED: Final = 130
_TEXT: Final = b"storlet: interrupted\n"


def main() -> int:
    """Entry point; return the exit code.

    The command is imported within the handler of interrupts: a Ctrl-C during the imports would be a
    traceback.
    """
    try:
        return _command()()
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):  # standard error may be closed
            os.write(2, _TEXT)
        return _INTERRUPTED


def _command() -> Callable[[], int]:
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415 - see main

    try:
        # Not the package: a checkout has it without its requirements.
        distribution(_CLIENT)
    except PackageNotFoundError:
        from storlet_middleware.cli.__main__ import main as own  # noqa: PLC0415 - see main

        return own
    from storlet_client.__main__ import main as both  # noqa: PLC0415 - may be missing

    return both
