"""The bytes of all outputs of an invocation, and the check of their metadata."""

from __future__ import annotations

from collections.abc import Mapping

from storlet_daemon.author import output_metadata
from storlet_middleware import errors
from storlet_middleware.engine.failure import Failure
from storlet_middleware.engine.progress import Progress
from storlet_middleware.errors import Unprocessable


class OutputCount:
    """The bytes of all outputs of one invocation, and of the objects that it creates."""

    __slots__ = ("_created", "_failure", "_progress", "limit", "total")

    def __init__(self, progress: Progress, failure: Failure) -> None:
        #: Of all bytes; 0 is none.
        self.limit = 0
        self._progress = progress
        self._failure = failure
        #: Of the outputs.
        self.total = 0
        self._created = 0

    def add(self, size: int) -> None:
        """Count ``size`` bytes of an output, and check them against limit and total deadline."""
        self.total += size
        self._check()

    def add_created(self, size: int) -> None:
        """The same for an object that the storlet creates."""
        self._created += size
        self._check()

    def _check(self) -> None:
        if self._failure.error is not None:
            raise self._failure.error
        if self.limit and self.total + self._created > self.limit:
            text = f"the storlet wrote more than the {self.limit} bytes allowed"
            raise Unprocessable(text, code=errors.LIMIT_OUTPUT)
        self._progress.begin_stage()
        self._progress.require_time()

    def begin_stage(self) -> None:
        """The receiver of an output has taken bytes: the storlet can write on."""
        self._progress.begin_stage()


def checked_metadata(metadata: Mapping[str, str], max_bytes: int) -> dict[str, str]:
    """Metadata of the output.

    Raises if it is invalid.  A sandbox is not trusted to have checked it.
    """
    checked = dict(metadata)
    size = 0
    for key, value in checked.items():
        size += len(key.encode()) + len(value.encode())
    if size > max_bytes:
        text = f"the storlet's metadata is longer than {max_bytes} bytes"
        raise Unprocessable(text, code=errors.LIMIT_METADATA)
    fault = output_metadata.fault_of(checked)
    if fault:
        raise Unprocessable(fault)
    return checked
