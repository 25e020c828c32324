"""The reports of an object server that cannot run storlets: log, metrics, recon.

A failure counts if nothing of the storlet had run and the cause can be the node (``is_of_node`` of
the error).  The request does not fail: another replica or the proxy runs the storlet.  So these
lines are how an operator notices.  A full node (``node.busy``) is no failure; admission counts it.
"""

from __future__ import annotations

import time
from typing import Any, Final

from storlet_middleware import metrics
from storlet_middleware.concurrency import monotonic
from storlet_middleware.errors import NodeBusy, StorletError, row_of
from storlet_middleware.recon import ReconCache

#: Interval of the log lines and of the recon entries while failures continue.
REPORT_SECONDS: Final = 60.0


class Health:
    """One per server process."""

    def __init__(self, logger: Any, recon: ReconCache) -> None:
        self._logger = logger
        self._recon = recon
        #: Failures since the last success.
        self._failures = 0
        self._next_report = 0.0

    def record_failure(self, invocation_id: str, error: StorletError) -> None:
        """Count a run that failed with ``error`` before the storlet began."""
        if error.code == NodeBusy.code or not row_of(error.code).is_of_node:
            return
        metrics.node_unable(self._logger, error.code)
        self._failures += 1
        if monotonic() < self._next_report:
            return
        self._next_report = monotonic() + REPORT_SECONDS
        self._logger.warning(
            "node cannot run a storlet id=%s code=%s failures=%d why=%s",
            invocation_id,
            error.code,
            self._failures,
            error,
        )
        self._recon.write(
            {"storlet_unable": {"code": error.code, "why": str(error), "at": time.time()}}
        )

    def record_success(self) -> None:
        """Note that a storlet has begun to run."""
        if not self._failures:
            return
        self._logger.info("node runs storlets again failures=%d", self._failures)
        self._failures, self._next_report = 0, 0.0
        self._recon.write({"storlet_unable": {}})
