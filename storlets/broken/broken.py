"""Fail on purpose, to show a failure to the client and to the author.

Parameters::

    after   number of bytes to write first       default: 0
"""

from __future__ import annotations

from typing import Any


class Broken:
    """Raise before or after the first bytes of the output."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        """Never return."""
        self.logger.info("about to fail, as requested")
        after = int(params.get("after", "0"))
        if after:
            out_files[0].set_metadata({})
            out_files[0].write(b"x" * after)
        raise RuntimeError("this storlet fails on purpose")
