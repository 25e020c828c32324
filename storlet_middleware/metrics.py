"""Every metric, once: its StatsD name, kind, unit, labels, meaning and emitter; and its one
emitting function.

Swift prefixes the names with ``log_name`` of the server.  A label is a part of the name in angle
brackets.  A label never holds a name that a tenant chooses (object, storlet): that would be
unbounded. :mod:`storlet_middleware.reference` makes the documentation of :data:`TABLE`.

To add a metric, add one row and, in the same module, the function that emits it.  A unit test
checks that the emitter named in the row calls that function."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol


class Kind(Enum):
    """Swift's StatsD client has counters and timers, and no gauges."""

    COUNTER = "counter"
    TIMER = "timer"


class Stats(Protocol):
    """The part of Swift's logger that emits metrics."""

    def timing(self, name: str, value: float) -> Any:
        """Emit a timer in milliseconds."""

    def update_stats(self, name: str, value: int) -> Any:
        """Add to a counter."""

    def increment(self, name: str) -> Any:
        """Add one to a counter."""


@dataclass(frozen=True)
class Metric:
    """One row; ``emitter`` is the module, below ``storlet_middleware``, that calls the function."""

    name: str
    kind: Kind
    unit: str
    emitter: str
    help: str

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(re.findall(r"<([a-z]+)>", self.name))

    def named(self, **labels: str) -> str:
        """The StatsD name; a ``.`` in a label becomes ``-``, because ``.`` separates the parts."""
        name = self.name
        for label, value in labels.items():
            name = name.replace(f"<{label}>", value.replace(".", "-"))
        return name


#: Every metric, by its name.
TABLE: Final[dict[str, Metric]] = {}


def _metric(name: str, kind: Kind, unit: str, emitter: str, meaning: str) -> Metric:
    row = TABLE[name] = Metric(name, kind, unit, emitter, meaning)
    return row


def _counter(name: str, emitter: str, meaning: str, unit: str = "") -> Metric:
    return _metric(name, Kind.COUNTER, unit, emitter, meaning)


def _timer(name: str, emitter: str, meaning: str) -> Metric:
    return _metric(name, Kind.TIMER, "ms", emitter, meaning)


# --- invocations ----------------------------------------------------------------------------------

# fmt: off
_INVOCATION = _timer(
    "storlet.<verb>.<code>.timing", "proxy",
    "an invocation, from the request to the last byte; code is ok or the error code")
_FIRST_BYTE = _timer(
    "storlet.<verb>.first-byte", "proxy",
    "from the request to the storlet's first byte of output, or its end")
_TRANSFER = _counter(
    "storlet.<verb>.xfer", "proxy", "output", unit="bytes")
_SERVICES = _counter(
    "storlet.services.operations", "proxy", "operations of storlets on the store")
_SERVICES_IN = _counter(
    "storlet.services.xfer.in", "proxy", "bytes that storlets read from the store", unit="bytes")
_SERVICES_OUT = _counter(
    "storlet.services.xfer.out", "proxy", "bytes that storlets wrote there", unit="bytes")
_LOG_LOST = _counter(
    "storlet.log.lost", "proxy", "requested logs that could not be stored as objects")
# fmt: on


def invocation(
    logger: Stats, verb: str, code: str, seconds: float, first_byte_seconds: float, bytes_out: int
) -> None:
    """Report an invocation that has ended."""
    whole, first_byte, transfer = _names_of_invocation(verb, code)
    logger.timing(whole, seconds * 1000)
    logger.timing(first_byte, first_byte_seconds * 1000)
    logger.update_stats(transfer, bytes_out)


@functools.lru_cache(maxsize=512)
def _names_of_invocation(verb: str, code: str) -> tuple[str, str, str]:
    """The names of the metrics that every invocation has."""
    return (
        _INVOCATION.named(verb=verb, code=code),
        _FIRST_BYTE.named(verb=verb),
        _TRANSFER.named(verb=verb),
    )


def services(logger: Stats, operations: int, bytes_in: int, bytes_out: int) -> None:
    """Report an invocation's use of the store."""
    logger.update_stats(_SERVICES.name, operations)
    logger.update_stats(_SERVICES_IN.name, bytes_in)
    logger.update_stats(_SERVICES_OUT.name, bytes_out)


def log_lost(logger: Stats) -> None:
    """Count a requested log that could not be stored."""
    logger.increment(_LOG_LOST.name)


# --- records of runs ------------------------------------------------------------------------------

# fmt: off
_RECORDS_WRITTEN = _counter(
    "storlet.records.written", "records", "records of runs that were written into log containers")
_RECORDS_LOST = _counter(
    "storlet.records.lost", "records",
    "records of runs that were not written: their queue was full, or Swift refused")
# fmt: on


def records_written(logger: Stats, count: int) -> None:
    """Count records that Swift has stored."""
    logger.update_stats(_RECORDS_WRITTEN.name, count)


def records_lost(logger: Stats, count: int) -> None:
    """Count records that are not stored."""
    logger.update_stats(_RECORDS_LOST.name, count)


# --- object nodes that cannot run storlets --------------------------------------------------------

# fmt: off
_NODE_UNABLE = _counter(
    "storlet.node.unable", "object_server",
    "runs that this object node could not start, for a reason of its own; they ran elsewhere")
_NODE_UNABLE_CODE = _counter(
    "storlet.node.unable.<code>", "object_server", "the same by error code")
_NODE_AVOIDED = _counter(
    "storlet.node.avoided", "proxy",
    "circuits that this proxy opened: an object node is passed over for unable_seconds")
# fmt: on


def node_unable(logger: Stats, code: str) -> None:
    """Count a run that this node could not start, with the error ``code``."""
    logger.increment(_NODE_UNABLE.name)
    logger.increment(_NODE_UNABLE_CODE.named(code=code))


def node_avoided(logger: Stats) -> None:
    """Count an object node that is passed over from now on."""
    logger.increment(_NODE_AVOIDED.name)


# --- admission ------------------------------------------------------------------------------------

# fmt: off
_ADMITTED = _counter(
    "storlet.admission.admitted", "admission",
    "invocations that got a slot of the node, at once or after waiting")
_QUEUED = _counter(
    "storlet.admission.queued", "admission", "invocations that had to wait for a slot")
_WAITED = _counter(
    "storlet.admission.waited", "admission", "invocations that got a slot after waiting")
_QUEUE_TIME = _timer(
    "storlet.admission.queue.timing", "admission",
    "time in the queue, of invocations that got a slot after waiting")
_REFUSED = _counter(
    "storlet.admission.refused", "admission",
    "invocations that got no slot: a queue was full, or the wait too long")
_REFUSED_CODE = _counter(
    "storlet.admission.refused.<code>", "admission",
    "the same by error code: tenant-busy or node-busy")
# fmt: on


def admission_admitted(logger: Stats) -> None:
    """Count an invocation that got a slot."""
    logger.increment(_ADMITTED.name)


def admission_queued(logger: Stats) -> None:
    """Count an invocation that has to wait."""
    logger.increment(_QUEUED.name)


def admission_waited(logger: Stats, seconds: float) -> None:
    """Count an invocation that got a slot after ``seconds`` in the queue."""
    logger.increment(_WAITED.name)
    logger.timing(_QUEUE_TIME.name, seconds * 1000)


def admission_refused(logger: Stats, code: str) -> None:
    """Count an invocation that was refused with the error ``code``."""
    logger.increment(_REFUSED.name)
    logger.increment(_REFUSED_CODE.named(code=code))


# --- the code cache -------------------------------------------------------------------------------

# fmt: off
_CACHE_HIT = _counter(
    "storlet.cache.hits", "engine", "cold starts whose code was on the node")
_CACHE_MISS = _counter(
    "storlet.cache.misses", "engine", "cold starts whose code had to be fetched")
_CACHE_FETCH = _timer(
    "storlet.cache.fetch.timing", "engine",
    "fetch of a storlet's code with its dependencies, also one that failed")
_CACHE_EVICTION = _counter(
    "storlet.cache.evictions", "sandboxd",
    "copies of code removed from the node because it had code_cache_bytes; from storlet-sandboxd")
# fmt: on


def cache_hit(logger: Stats) -> None:
    """Count code that was found on the node."""
    logger.increment(_CACHE_HIT.name)


def cache_miss(logger: Stats) -> None:
    """Count code that has to be fetched."""
    logger.increment(_CACHE_MISS.name)


def cache_fetched(logger: Stats, seconds: float) -> None:
    """Report a fetch that has ended."""
    logger.timing(_CACHE_FETCH.name, seconds * 1000)


def cache_evicted(stats: Stats, count: int) -> None:
    """Count copies of code that were removed from the node."""
    stats.update_stats(_CACHE_EVICTION.name, count)


# --- rules ----------------------------------------------------------------------------------------

# fmt: off
_RULES_ALLOW = _counter(
    "storlet.rules.allow", "enforcement", "operations on accounts with rules that no rule refused")
_RULES_DENY = _counter(
    "storlet.rules.deny", "enforcement",
    "operations that a rule refused, at once or at a later read, such as that of a segment")
_RULES_ERROR = _counter(
    "storlet.rules.errors", "enforcement",
    "operations that failed because rules or the facts they need were not available")
_RULE_DECIDED = _counter(
    "storlet.rules.decided.<action>", "enforcement",
    "operations that a rule decided, by its action: run, deny or allow; the log has them by rule")
_RULE_AUDITED = _counter(
    "storlet.rules.audited.<action>", "enforcement",
    "operations that an audited rule would have decided, by its action")
_RULES_LOAD = _timer(
    "storlet.rules.load.timing", "ruleset", "reading and compiling the rules of an account")
# fmt: on


def rules_allowed(logger: Stats) -> None:
    """Count an operation that the rules allowed."""
    logger.increment(_RULES_ALLOW.name)


def rules_denied(logger: Stats) -> None:
    """Count an operation that a rule refused."""
    logger.increment(_RULES_DENY.name)


def rule_decided(logger: Stats, action: str) -> None:
    """Count an operation that a rule decided."""
    logger.increment(_RULE_DECIDED.named(action=action))


def rule_audited(logger: Stats, action: str) -> None:
    """Count an operation that an audited rule would have decided."""
    logger.increment(_RULE_AUDITED.named(action=action))


def rules_failed(logger: Stats) -> None:
    """Count an operation that was refused because no decision was possible."""
    logger.increment(_RULES_ERROR.name)


def rules_loaded(logger: Stats, seconds: float) -> None:
    """Report rules that were read and compiled."""
    logger.timing(_RULES_LOAD.name, seconds * 1000)


# --- sandboxes: the server's name is "storlet-sandboxd" -------------------------------------------

# fmt: off
_SANDBOX_START = _counter(
    "storlet.sandbox.starts", "sandboxd", "sandboxes of tenants that were started")
_SANDBOX_START_TIME = _timer(
    "storlet.sandbox.start.timing", "sandboxd",
    "from the need for a sandbox to its readiness, including the wait for a free slot")
_SANDBOX_ASSIGNMENT = _counter(
    "storlet.sandbox.assignments", "sandboxd",
    "starts that took a pre-warmed sandbox; compare with starts to choose [sandbox] prewarmed")
_SANDBOX_RESTART = _counter(
    "storlet.sandbox.restarts", "sandboxd",
    "starts that replace a sandbox which was lost or failed, within about two minutes")
_SANDBOX_FAILURE = _counter(
    "storlet.sandbox.failures", "sandboxd", "starts and adoptions that failed")
_SANDBOX_IDLE_STOP = _counter(
    "storlet.sandbox.idle_stops", "sandboxd", "sandboxes stopped after idle_stop_seconds")
_SANDBOX_LOST = _counter(
    "storlet.sandbox.lost", "sandboxd", "running sandboxes that ended by themselves")
_SANDBOX_EVICTION = _counter(
    "storlet.sandbox.evictions", "sandboxd",
    "idle sandboxes stopped because the node had max_per_node")
_SELF_TEST_FAILURE = _counter(
    "storlet.sandbox.self_test_failures", "sandboxd",
    "self-tests that closed a trust class on the node")
# fmt: on


def sandbox_started(stats: Stats, seconds: float) -> None:
    """Report a tenant's sandbox that is ready ``seconds`` after it was needed."""
    stats.increment(_SANDBOX_START.name)
    stats.timing(_SANDBOX_START_TIME.name, seconds * 1000)


def sandbox_assigned(stats: Stats) -> None:
    """Count a start that took a pre-warmed sandbox."""
    stats.increment(_SANDBOX_ASSIGNMENT.name)


def sandbox_restarted(stats: Stats) -> None:
    """Count a start that replaces a sandbox which was lost or failed."""
    stats.increment(_SANDBOX_RESTART.name)


def sandbox_failed(stats: Stats) -> None:
    """Count a start or adoption that failed."""
    stats.increment(_SANDBOX_FAILURE.name)


def sandbox_idle_stopped(stats: Stats) -> None:
    """Count a sandbox that was stopped after ``idle_stop_seconds``."""
    stats.increment(_SANDBOX_IDLE_STOP.name)


def sandbox_lost(stats: Stats) -> None:
    """Count a sandbox that ended by itself."""
    stats.increment(_SANDBOX_LOST.name)


def sandbox_evicted(stats: Stats) -> None:
    """Count an idle sandbox that was stopped to make room."""
    stats.increment(_SANDBOX_EVICTION.name)


def self_test_failed(stats: Stats) -> None:
    """Count a self-test that closed its trust class."""
    stats.increment(_SELF_TEST_FAILURE.name)
