"""The entry point of the command ``storlet``, and of ``python3 -m storlet_client``.

The command is imported within the handler of interrupts: the imports take most of the start, and a
Ctrl-C during them would be a traceback.
"""

from __future__ import annotations

import os
import sys

#: The exit code and the text of an interrupt, as of the command itself.
_INTERRUPTED, _TEXT = 130, b"storlet: interrupted\n"


def main() -> int:
    """Run the command line of the process and return its exit code."""
    try:
        from storlet_client.cli.main import main as run  # noqa: PLC0415 - see the module

        return run()
    except KeyboardInterrupt:
        try:  # noqa: SIM105 - contextlib is another import
            os.write(2, _TEXT)
        except OSError:
            pass  # standard error is closed
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
