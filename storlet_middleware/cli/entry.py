"""The console script ``storlet`` of this package.

The package of users, ``storlet-client``, has a script of the same name; pip keeps the one that was
installed last.  Both run the same command if both packages are here: that of ``storlet-client``,
which passes ``sandboxes`` and the offline checks of rules to :func:`.__main__.main`.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from typing import Final

from storlet_middleware.cli import __main__ as own

_CLIENT: Final = "storlet-client"


def main() -> int:
    """Entry point; return the exit code."""
    try:
        # Not the package: a checkout has it without its requirements.
        distribution(_CLIENT)
    except PackageNotFoundError:
        return own.main()
    from storlet_client.cli.main import main as both  # noqa: PLC0415 - may be missing

    return both()
