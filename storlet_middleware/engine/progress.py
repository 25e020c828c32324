"""The deadlines of an invocation, and the time that counts for them.

A deadline counts time in which the storlet neither gives output nor takes input while input is
available: a client that uploads or reads slowly does not use up its storlet's time.  The total
deadline counts all time after a worker has begun the invocation: the waits for a slot of the node
and for a worker have the queue deadline.

A *stage* begins with each progress of the storlet: an event, output, or input that it takes.
"""

from __future__ import annotations

import math

from storlet_middleware import errors
from storlet_middleware.concurrency import monotonic
from storlet_middleware.engine.inputs import Inputs
from storlet_middleware.engine.services import Services
from storlet_middleware.engine.start_times import StartTimes
from storlet_middleware.engine.task import Deadlines
from storlet_middleware.errors import StorletError, TenantBusy, Unprocessable


class Progress:
    """The clock of one invocation."""

    __slots__ = (
        "_deadlines",
        "_inputs",
        "_latest_end",
        "_stage_began",
        "began",
        "has_started",
        "queue_seconds",
        "services",
        "start_times",
        "waited",
    )

    def __init__(self, deadlines: Deadlines, inputs: Inputs) -> None:
        self._deadlines = deadlines
        self._inputs = inputs
        #: Requests to the store count like input.
        self.services: Services | None = None
        self.began = self._stage_began = monotonic()
        #: The total deadline; before the start, the end of a wait and a run that both last longest:
        #: a worker that answers without having begun is limited, too.
        self._latest_end = self.began + deadlines.queue + deadlines.total
        #: A worker has the invocation.
        self.has_started = False
        #: Seconds in the queue of the node.
        self.waited = 0.0
        #: Time to wait for a worker; a tenth of the deadline remains after a long wait for a slot.
        self.queue_seconds = deadlines.queue
        self.start_times = StartTimes()

    def replace_deadlines(self, deadlines: Deadlines) -> None:
        """The storlet was replaced before the start: use the deadlines of its new version."""
        before, self._deadlines = self._deadlines, deadlines
        self._latest_end += deadlines.queue + deadlines.total - before.queue - before.total
        self._set_queue_seconds()

    def add_waiting(self, seconds: float) -> None:
        """Time in the queue of the node counts for the queue deadline only."""
        self.waited += seconds
        self.began += seconds
        self._latest_end += seconds
        self._set_queue_seconds()

    def _set_queue_seconds(self) -> None:
        queue = self._deadlines.queue
        self.queue_seconds = max(queue - self.waited, queue / 10)

    def start(self) -> None:
        """A worker has begun the invocation; from now on the storlet's deadlines count."""
        self.has_started = True
        now = monotonic()
        # The stage began with the hand-over.
        self.start_times.worker = now - self._stage_began
        self.began = self._stage_began = now
        self._latest_end = now + self._deadlines.total

    def begin_stage(self) -> None:
        """The storlet has made progress, or the invocation is being handed to a worker."""
        self._stage_began = monotonic()

    def sample(self) -> bool:
        """Whether the storlet has read from a file since the last sample; begins a stage if so.

        A sample costs microseconds, so reads of output take none; waits for output do.
        """
        if not self._inputs.were_read():
            return False
        self.begin_stage()
        return True

    def require_time(self) -> None:
        """Raise after the total deadline, also for a storlet that never lets its reader wait."""
        if self._stage_began > self._latest_end:
            raise self._exceeded_total()

    def deadline(self, bytes_out: int) -> float:
        """When a wait has to end; :meth:`exceeded` is the error then."""
        return min(self._latest_end, self._stage_began + self._seconds(bytes_out))

    def exceeded(self, bytes_out: int) -> StorletError:
        """The error when the deadline has passed."""
        deadlines = self._deadlines
        if not self.has_started:
            return self.exceeded_queue()
        if self._latest_end < self._stage_began + self._seconds(bytes_out):
            return self._exceeded_total()
        if not bytes_out:
            text = f"the storlet gave no output within {deadlines.first_byte:g} s"
            return Unprocessable(text, code=errors.TIMEOUT_FIRST_BYTE)
        text = f"the storlet stalled for {deadlines.idle:g} s"
        return Unprocessable(text, code=errors.TIMEOUT_IDLE)

    @property
    def is_over(self) -> bool:
        """Whether the total deadline has passed."""
        return monotonic() >= self.began + self._deadlines.total

    def has_progressed(self) -> bool:
        """Whether the storlet took input since the stage began, or waits for a source or the store.

        Begins a new stage if so.
        """
        if not self.has_started or self.is_over:
            return False
        if self.sample():
            return True
        began, services = self._stage_began, self.services
        is_served = services is not None and services.were_active_since(began)
        if not is_served and not self._inputs.were_fed_since(began):
            return False
        self.begin_stage()
        return True

    def exceeded_queue(self) -> TenantBusy:
        queue = self._deadlines.queue
        # How long the invocations ahead will take is unknown here, but it was longer than this.
        retry_after = min(max(math.ceil(queue), 1), 60)
        text = f"no worker was free for this storlet within {queue:g} s"
        return TenantBusy(text, retry_after=retry_after)

    def _seconds(self, bytes_out: int) -> float:
        if not self.has_started:
            return self.queue_seconds
        return self._deadlines.idle if bytes_out else self._deadlines.first_byte

    def _exceeded_total(self) -> StorletError:
        text = f"the storlet ran for {self._deadlines.total:g} s"
        return Unprocessable(text, code=errors.TIMEOUT_TOTAL)
