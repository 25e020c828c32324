"""The seam between an invocation and the services that it may use while it runs.

The engine donates one end of a socket pair to the worker and knows nothing of the requests on it;
:mod:`storlet_middleware.services` serves the other end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from storlet_middleware.engine.output_stream import ReadPace


@dataclass(frozen=True)
class ServiceUsage:
    """A run's use of the store: operations, and bytes that it read and wrote."""

    operations: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def fields(self) -> dict[str, int]:
        """The numbers by the names that answers and logs use."""
        return {
            "service-operations": self.operations,
            "service-in": self.bytes_in,
            "service-out": self.bytes_out,
        }

    def plus(self, other: ServiceUsage) -> ServiceUsage:
        """The sum of two runs."""
        return ServiceUsage(
            self.operations + other.operations,
            self.bytes_in + other.bytes_in,
            self.bytes_out + other.bytes_out,
        )


class Services(Protocol):
    """The services of one run, from :meth:`begin` until :meth:`close`."""

    @property
    def operations(self) -> Sequence[str]:
        """The operations that the storlet declares."""

    @property
    def usage(self) -> ServiceUsage:
        """The use of the store so far."""

    def begin(
        self, fail: Callable[[BaseException], None], count: Callable[[int], None], pace: ReadPace
    ) -> int:
        """Serve requests; the worker's end of the socket pair, which the caller owns.

        :param fail: ends the run with an error; called at most once.
        :param count: called with the bytes of created objects; raises above a limit.
        :param pace: of all readers of the run.
        """

    def were_active_since(self, moment: float) -> bool:
        """Whether the storlet waits for the store, or has waited since ``moment``."""

    def finish(self) -> None:
        """The storlet has succeeded; raises if an object that it creates is not complete."""

    def close(self) -> None:
        """Release everything; may be called twice."""
