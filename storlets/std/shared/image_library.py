"""libvips, by its Python package pyvips, and its settings.

The settings are variables of the environment, which the library reads when it is loaded.
"""

from __future__ import annotations

import logging
import os
from types import TracebackType
from typing import Any

from image_request import ImageError
from packages import reason

# Threads exist from the load on: a worker that has more of them after a run is replaced.
os.environ["VIPS_MAX_THREADS"] = "8"
# One thread computes: a second one would double the memory of a run.
os.environ["VIPS_CONCURRENCY"] = "1"

try:
    import pyvips
except ImportError:
    # The image without the package answers each run with the reason, not with a failed import.
    pyvips = None
else:
    # Nothing of a run is kept for the next one.
    pyvips.cache_set_max(0)

_MOST_MESSAGE = 300
#: Warnings about pixels of JPEG data.
_DAMAGE = ("Corrupt JPEG data", "Premature end of JPEG")


class DamageLog(logging.Handler):
    """The first warning about pixels of JPEG data within a TIFF, of which the library has no error.

    It listens within a ``with`` statement.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._found = ""
        self._logger = logging.getLogger("pyvips")

    def __enter__(self) -> DamageLog:
        self._logger.addHandler(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if not self._found and any(each in text for each in _DAMAGE):
            self._found = text.removeprefix("VIPS: ")

    def require_none(self) -> None:
        """
        :raises ImageError: there was a warning.
        """
        if self._found:
            raise ImageError(f"the object is damaged: {_in_one_line(self._found)}")


def library() -> Any:
    """The module ``pyvips``.

    :raises ImageError: the image has none.
    """
    if pyvips is None:
        raise ImageError(reason("a change of a picture", "pyvips"))
    return pyvips


def explained(error: Any, kind: str) -> ImageError:
    """An error of the library in one line."""
    lines = dict.fromkeys(line.strip() for line in str(error.detail or "").splitlines())
    text = "; ".join(line for line in lines if line)[:_MOST_MESSAGE] or "its header is cut"
    shown = _in_one_line(text)
    return ImageError(f"the object is damaged, or no {kind} that can be read: {shown}")


def _in_one_line(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)
