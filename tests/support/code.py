"""A command of :mod:`.forking` that runs Python code, with the client's command imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import storlet_client.cli.main  # noqa: F401  (its import takes most of the time of the code)


def main(words: Sequence[str]) -> int:
    """Run the code ``words[0]``; the other words are its arguments."""
    code, *sys.argv[1:] = words
    exec(code, {"__name__": "__main__", "sys": sys})  # noqa: S102
    return 0
