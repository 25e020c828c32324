"""The log line and the numbers of each run, for the operator.

They cost some 75 calls of functions, which no client needs to wait for, not even with its next
request on the same connection.  So those of successes wait up to a tenth of a second, and are
written together, which takes a fraction of the time.  A failure is written at once, after those
that wait.  A process that is killed loses the lines of its last tenth of a second; records wait
longer (:mod:`storlet_middleware.records.writer`).
"""

from __future__ import annotations

import atexit
import functools
import operator
from typing import Any, Final
from urllib.parse import quote

from storlet_middleware import metrics
from storlet_middleware.concurrency import call_later, sleep, spawn
from storlet_middleware.engine.services import ServiceUsage
from storlet_middleware.records.record import OK, Record

_DELAY_SECONDS: Final = 0.1
#: After this number, a fifth of a millisecond, other requests have their turn.
_MOST: Final = 4
#: The log line has the same few names again and again.
_quoted: Final = functools.lru_cache(maxsize=1024)(quote)
_name_of: Final = operator.attrgetter("name")


class Reports:
    """One per process."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._waiting: list[Record] = []
        self._is_due = False
        # A server that is reloaded ends after its last request.
        atexit.register(self.flush)

    def add(self, record: Record) -> None:
        """Report a run that has ended."""
        self._waiting.append(record)
        if record.code != OK:
            self.flush()
        elif not self._is_due:
            self._is_due = True
            call_later(_DELAY_SECONDS, self._begin)

    def flush(self) -> None:
        """Write all reports that wait."""
        waiting, self._waiting = self._waiting, []
        for record in waiting:
            report(record, self._logger)

    def _begin(self) -> None:
        """Runs in eventlet's hub, where a log may not be written."""
        spawn(self._write_in_parts)

    def _write_in_parts(self) -> None:
        self._is_due = False
        while self._waiting:
            some, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
            for record in some:
                report(record, self._logger)
            sleep()


def report(record: Record, logger: Any) -> None:
    """Write ``record`` to the operator's log, and report its numbers to StatsD."""
    first_byte = record.first_byte_seconds
    metrics.invocation(
        logger,
        record.method,
        record.code,
        record.total_seconds,
        record.total_seconds if first_byte is None else first_byte,
        record.bytes_out or 0,
    )
    services = None
    if record.service_operations is not None:
        read, written = record.service_bytes_in or 0, record.service_bytes_out or 0
        services = ServiceUsage(record.service_operations, read, written)
        metrics.services(logger, services.operations, read, written)
    logger.info(
        "invocation done id=%s account=%s storlet=%s method=%s placement=%s why=%s code=%s"
        " ms=%.1f waited_ms=%.1f %s",
        record.id,
        _quoted(record.account),
        ",".join(map(_quoted, map(_name_of, record.storlets))),
        record.method,
        record.placement,
        record.why,
        record.code,
        record.total_seconds * 1000,
        (record.queue_seconds or 0.0) * 1000,
        " ".join(_fields(record, services)),
    )


def _fields(record: Record, services: ServiceUsage | None) -> list[str]:
    """The usage of a run, and the fields that only some runs have."""
    fields = [f"in={record.bytes_in or 0}", f"out={record.bytes_out or 0}"]
    if record.cpu_seconds is not None:
        fields.append(f"cpu={record.cpu_seconds:.6f}")
        fields.append(f"peak-memory={record.peak_memory_bytes or 0}")
    if record.outputs:
        fields.append(f"outputs={len(record.outputs)}")
    if services is not None:
        fields += [f"{name}={value}" for name, value in services.fields().items()]
    if record.rule:
        fields.append(f"rule={record.rule}")
        if record.undoes_rule:
            fields.append("undone=1")
        if record.failed_step:
            fields.append(f"failed_step={record.failed_step}")
    if record.parent:
        fields.append(f"parent={record.parent}")
    return fields
