"""Several storlets on one request: each reads the output of the previous one.

The result of a pipeline is the last storlet's output.  It succeeds only if **every** storlet
succeeds:

* A storlet that fails breaks the input of the next one, which is cancelled before it could take the
  break for the end of its input (:mod:`storlet_middleware.engine.feed`), and so on.  The reader of
  the last storlet gets the error of the storlet that failed.
* Input that a storlet does not read is drained, so that the previous storlet runs to its end and
  reports its outcome.
* Two storlets do not share one stream.  The reader would take the end of a killed storlet for the
  end of the data, and the output could not be counted against its limit.  A storlet that stalls
  could not be distinguished from one that waits for the other.
* Closing the last result closes its inputs; these close the results that they read, up to the
  source.

The result has the metadata of all storlets; a later storlet's value replaces an earlier one's.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

from storlet_middleware.engine.services import ServiceUsage
from storlet_middleware.engine.start_times import StartTimes
from storlet_middleware.errors import INPUT_INCOMPLETE, StorletError
from storlet_middleware.proxy.execution.result import Result, Usage


def merged(earlier: Mapping[str, str], later: Mapping[str, str]) -> dict[str, str]:
    """The union, with ``later``'s values for common keys.

    Keys become header names, so their case is ignored.
    """
    replaced = {key.lower() for key in later}
    return {key: value for key, value in earlier.items() if key.lower() not in replaced} | dict(
        later
    )


class Upstream:
    """A result as the input of the next storlet."""

    def __init__(self, pipeline: Pipeline, index: int, result: Result) -> None:
        self._pipeline = pipeline
        self._index = index
        self._result = result

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._result.chunks()
        except StorletError:
            self._pipeline.record_failure(self._index)
            raise

    def abandon(self) -> None:
        """Nothing to do: there is no other reader of the result."""

    def close(self) -> None:
        """Cancel the storlet if it has not ended."""
        self._result.close()


class Pipeline:
    """A :class:`~.result.Result` of several storlets, one after the other.

    :param first: a result whose :meth:`first` has returned.
    """

    def __init__(self, first: Result) -> None:
        self.results = [first]
        #: The index of the result that failed first.
        self.failed: int | None = None

    def upstream(self) -> Upstream:
        """The next storlet's input.  It owns the last result: closing it closes the result."""
        return Upstream(self, len(self.results) - 1, self._last)

    def add(self, result: Result) -> None:
        """Append ``result``, which reads :meth:`upstream`."""
        self.results.append(result)

    def record_failure(self, index: int) -> None:
        """Note that a result failed; only the first call counts, as it causes the others."""
        if self.failed is None:
            self.failed = index

    @property
    def _last(self) -> Result:
        return self.results[-1]

    @property
    def ran_on(self) -> str:
        """Where each storlet ran, separated by commas."""
        return ",".join(result.ran_on for result in self.results)

    @property
    def node(self) -> str:
        """The node of each storlet, separated by commas."""
        return ",".join(result.node for result in self.results)

    @property
    def span(self) -> tuple[int, int, int] | None:
        return self.results[0].span

    @property
    def sandbox_seconds(self) -> float:
        return sum(result.sandbox_seconds for result in self.results)

    @property
    def start_times(self) -> StartTimes:
        return StartTimes.sum_of(result.start_times for result in self.results)

    @property
    def waited_seconds(self) -> float:
        return sum(result.waited_seconds for result in self.results)

    @property
    def log(self) -> bytes:
        """The logs of all storlets, in their order."""
        return b"".join(result.log for result in self.results)

    @property
    def metadata(self) -> dict[str, str]:
        metadata: dict[str, str] = {}
        for result in self.results:
            metadata = merged(metadata, result.metadata)
        return metadata

    @property
    def has_run(self) -> bool:
        return any(result.has_run for result in self.results)

    @property
    def usage(self) -> Usage:
        """The sum of all storlets, with the first's input and the last's output."""
        usages = [result.usage for result in self.results]
        reports = [usage.sandbox for usage in usages if usage.sandbox]
        fields = ("cpu_seconds", "peak_memory_bytes") if reports else ()
        total = {name: sum(report.get(name) or 0 for report in reports) for name in fields}
        asked = [usage.services for usage in usages if usage.services is not None]
        services = functools.reduce(ServiceUsage.plus, asked) if asked else None
        return Usage(total, usages[0].bytes_in, usages[-1].bytes_out, services)

    def first(self) -> None:
        """Wait for the last storlet's first bytes or its end.

        If the last storlet has ended, this raises the failure of any storlet, so that the failure
        becomes an error status.
        """
        try:
            self._last.first()
            self._last.has_ended()
        except StorletError:
            self.record_failure(len(self.results) - 1)
            raise

    def has_ended(self) -> bool:
        return self._last.has_ended()

    def end_within(self, seconds: float, most_bytes: int) -> bool:
        try:
            return self._last.end_within(seconds, most_bytes)
        except StorletError:
            self.record_failure(len(self.results) - 1)
            raise

    @property
    def length(self) -> int:
        return self._last.length

    def chunks(self) -> Iterator[bytes]:
        try:
            yield from self._last.chunks()
        except StorletError:
            self.record_failure(len(self.results) - 1)
            raise

    def stalled(self, reason: str) -> StorletError:
        """The error of the storlet that has stalled, not of those that wait for its output."""
        error = self._last.stalled(reason)
        for result in reversed(self.results[:-1]):
            if error.code != INPUT_INCOMPLETE:
                break
            error = result.stalled(reason)
        return error

    def close(self) -> None:
        for result in reversed(self.results):
            result.close()
