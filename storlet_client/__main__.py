"""``python3 -m storlet_client``: the command ``storlet``."""

from __future__ import annotations

import sys

from storlet_client.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
