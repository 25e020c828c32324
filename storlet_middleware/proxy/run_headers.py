"""The headers of an answer that describe the run: its id, times, placement, rule and usage."""

from __future__ import annotations

from storlet_middleware import names
from storlet_middleware.proxy.disclosure import Disclosure
from storlet_middleware.proxy.execution.execution import Execution
from storlet_middleware.proxy.plan import Plan
from storlet_middleware.proxy.requested_steps import RequestedStep
from storlet_middleware.proxy.times import Times


class RunHeaders:
    """The headers of one run.

    :param plan: a rule's requirements of the run; ``None`` if the client requested the run.
    """

    def __init__(
        self,
        run_id: str,
        plan: Plan | None,
        times: Times,
        execution: Execution[RequestedStep],
        disclosure: Disclosure,
    ) -> None:
        self._id = run_id
        self._plan = plan
        self._times = times
        self._execution = execution
        self._disclosure = disclosure
        #: The run has ended, or uses nothing more that is counted.
        self.is_usage_final = False

    def now(self) -> dict[str, str]:
        """The headers as far as they are known now."""
        result = self._execution.result
        headers = {names.INVOCATION: self._id, "Server-Timing": self._timing()}
        if self._plan is not None and self._plan.rule:
            headers[names.RULE] = self._plan.rule
        if result is not None and result.has_run and self._disclosure.shows_placement:
            headers[names.RAN_ON] = result.ran_on
        if result is not None and self.is_usage_final and self._disclosure.shows_usage:
            headers[names.USAGE] = result.usage.as_header()
        return headers

    def _timing(self) -> str:
        """The stages until the first byte, in milliseconds."""
        result, times = self._execution.result, self._times
        sandbox = result.sandbox_seconds if result else 0.0
        waited = self._execution.waited_seconds
        authorized = times.authorized or times.began
        first = (times.first_byte or authorized) - authorized - waited - sandbox
        return (
            f"auth;dur={(authorized - times.began) * 1000:.2f},"
            f" queue;dur={waited * 1000:.2f},"
            f" sandbox;dur={sandbox * 1000:.2f},"
            f" first-byte;dur={max(0.0, first) * 1000:.2f}"
        )
