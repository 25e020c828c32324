"""Deal the lines of an object to several outputs, in turn.

The number of outputs is that of the objects in ``X-Storlet-Output``, and one: the first part is the
answer.  Parameters::

    header   "true": the first line is in every part      default: "false"
"""

from __future__ import annotations

import itertools
from typing import Any


class SplitLines:
    """Streams: memory use does not depend on the size of the object, only on its longest line."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        """Write each line into one of the outputs; each has its number as metadata."""
        source = in_files[0]
        for number, output in enumerate(out_files):
            output.set_metadata(
                {"Content-Type": "text/plain", "Part": str(number), "Parts": str(len(out_files))}
            )
        if params.get("header", "false").lower() == "true":
            header = source.readline()
            for output in out_files:
                output.write(header)
        turns = itertools.cycle(out_files)
        for line, output in zip(source, turns, strict=False):
            output.write(line)
