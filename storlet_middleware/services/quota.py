"""Counts the operations and bytes of the services of one run, and bounds them."""

from __future__ import annotations

from storlet_middleware.engine.services import ServiceUsage
from storlet_middleware.engine.task import ServiceLimits
from storlet_middleware.services.requests import limit_refusal


class Quota:
    """See the module.

    :param limits: of the run.
    """

    def __init__(self, limits: ServiceLimits) -> None:
        self._limits = limits
        self._operations = self._bytes_in = self._bytes_out = 0

    @property
    def usage(self) -> ServiceUsage:
        return ServiceUsage(self._operations, self._bytes_in, self._bytes_out)

    def add_operation(self) -> None:
        """Count a request, also one that is refused; :meth:`require_operations` raises."""
        self._operations += 1

    def require_operations(self) -> None:
        """Raise above the limit of operations."""
        most = self._limits.operations
        if self._operations > most:
            raise limit_refusal(f"more than {most} operations (Service-Operations)")

    def add_read(self, size: int) -> None:
        """Count bytes that the storlet reads; raises above the limit."""
        self._bytes_in += size
        self._require_bytes()

    def add_written(self, size: int) -> None:
        """Count bytes that the storlet writes; raises above the limit."""
        self._bytes_out += size
        self._require_bytes()

    def _require_bytes(self) -> None:
        most = self._limits.bytes
        if most and self._bytes_in + self._bytes_out > most:
            raise limit_refusal(f"more than {most} bytes (Service-Bytes)")
