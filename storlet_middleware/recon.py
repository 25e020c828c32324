"""Facts of a server for monitoring: ``storlet.recon`` in the directory of Swift's recon cache.

The file has one line of JSON, like the files that Swift's own daemons keep there.  Swift's recon
middleware serves a fixed set of files, so agents read this one from the disk.  All processes of a
server share it; each key has the value that was written last.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from swift.common.recon import DEFAULT_RECON_CACHE_PATH
from swift.common.utils import dump_recon_cache

FILE_NAME: Final = "storlet.recon"
DEFAULT_DIRECTORY: Final = DEFAULT_RECON_CACHE_PATH


class ReconCache:
    """The file of one server.

    :param directory: ``recon_cache_path``; where it does not exist, nothing is written.
    """

    def __init__(self, directory: str, logger: Any) -> None:
        self._directory = directory
        self._logger = logger

    def write(self, facts: Mapping[str, Any]) -> None:
        """Replace the values of the keys in ``facts``; an empty dictionary removes its key."""
        if os.access(self._directory, os.W_OK):
            path = Path(self._directory, FILE_NAME)
            # Swift merges dictionaries with those in the file; the old entries must go.
            cleared: dict[str, Any] = {
                key: {} for key, value in facts.items() if isinstance(value, dict)
            }
            for values in (cleared, facts) if cleared else (facts,):
                dump_recon_cache(dict(values), os.fspath(path), self._logger)
