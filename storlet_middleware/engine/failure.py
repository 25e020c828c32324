"""The first failure of a task of an invocation.

An input or a further output has a task of its own.  If it fails, nothing of the run is valid: the
storlet is cancelled, and the reader of the result raises the failure.
"""

from __future__ import annotations

from collections.abc import Callable


class Failure:
    """See the module.

    :param cancel: cancels the storlet.
    """

    __slots__ = ("_cancel", "error")

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        #: The first one.  Readers look here at each event and each piece of output.
        self.error: BaseException | None = None

    def record(self, error: BaseException) -> None:
        """Keep ``error`` if it is the first one, and cancel the storlet."""
        if self.error is None:
            self.error = error
        self._cancel()

    def raise_error(self) -> None:
        """Raise the first failure, if there is one."""
        if self.error is not None:
            raise self.error
