"""Several storlets on one request: each reads the output of the one before.

The result of a pipeline is the last storlet's output, and it is whole only when **every** storlet has ended well:

* A storlet that fails breaks the input of the next one, which is cancelled before it could take that for the end
  (:mod:`storlet_middleware.engine.feed`), and so on to the last, whose reader gets the error of the one that failed.
* What a storlet does not want of its input is read nevertheless, so that the one before it runs to its end and says how it did.
* Between storlets that run on this node the bytes go from pipe to pipe within the kernel.  They are not one pipe that both
  hold: its reader would see the end of a storlet that was killed as the end of the data, what is limited could not be counted,
  and whether a storlet stalls or waits for its neighbour could not be told.
* To close the last result closes its inputs, and these close the results that they read, up to the source.

What the result is said to be is what all of the storlets said, the later ones before the earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from storlet_middleware.engine.feed import PipeSource
from storlet_middleware.errors import StorletError
from storlet_middleware.proxy.result import LocalResult, Result, Usage


def merged(earlier: Mapping[str, str], later: Mapping[str, str]) -> dict[str, str]:
    """Both, where ``later`` wins; keys become names of headers, so they are compared without regard to case."""
    new = {key.lower() for key in later}
    return {key: value for key, value in earlier.items() if key.lower() not in new} | dict(later)


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
            self._pipeline.blame(self._index)
            raise

    def abandon(self) -> None:
        """Nobody else reads the result."""

    def close(self) -> None:
        """The storlet is cancelled unless it has ended."""
        self._result.close()


class PipedUpstream(Upstream, PipeSource):
    """The same where the storlet runs on this node: its output is a pipe, which the kernel pours into the next one's input."""

    def __init__(self, pipeline: Pipeline, index: int, result: LocalResult) -> None:
        super().__init__(pipeline, index, result)
        self._invocation = result.invocation

    def pour(self, pipe: int) -> int | None:
        try:
            return self._invocation.pour(pipe)
        except StorletError:
            self._pipeline.blame(self._index)
            raise


class Pipeline:
    """A :class:`~storlet_middleware.proxy.result.Result` that is made of others.

    :param first: a result of which :meth:`first` has returned.
    """

    def __init__(self, first: Result) -> None:
        self.results = [first]
        #: Which of them failed first, counted from 0.
        self.failed: int | None = None

    def upstream(self) -> Upstream:
        """What the next storlet reads; the one who closes it owns the last result from here on."""
        last, index = self._last, len(self.results) - 1
        return PipedUpstream(self, index, last) if isinstance(last, LocalResult) else Upstream(self, index, last)

    def add(self, result: Result) -> None:
        """Let ``result``, which reads :meth:`upstream`, be the last one."""
        self.results.append(result)

    def blame(self, index: int) -> None:
        """A result failed; what follows in others is of its doing."""
        if self.failed is None:
            self.failed = index

    @property
    def _last(self) -> Result:
        return self.results[-1]

    @property
    def ran_on(self) -> str:
        """Where each of the storlets ran."""
        return ",".join(result.ran_on for result in self.results)

    @property
    def span(self) -> tuple[int, int, int] | None:
        return self.results[0].span

    @property
    def sandbox_seconds(self) -> float:
        return sum(result.sandbox_seconds for result in self.results)

    @property
    def waited_seconds(self) -> float:
        return sum(result.waited_seconds for result in self.results)

    @property
    def log(self) -> bytes:
        """Each storlet has its own."""
        return b"".join(result.log for result in self.results)

    @property
    def metadata(self) -> dict[str, str]:
        together: dict[str, str] = {}
        for result in self.results:
            together = merged(together, result.metadata)
        return together

    @property
    def has_run(self) -> bool:
        return any(result.has_run for result in self.results)

    @property
    def usage(self) -> Usage:
        """Of all storlets together (they run at the same time), for what went into the first and came out of the last."""
        every = [result.usage for result in self.results]
        known = [usage.sandbox for usage in every if usage.sandbox]
        names = ("cpu_seconds", "peak_memory_bytes")
        together = {name: sum(sandbox.get(name) or 0 for sandbox in known) for name in names} if known else {}
        return Usage(together, every[0].bytes_in, every[-1].bytes_out)

    def first(self) -> None:
        """Also, where the last storlet has ended already, how the others do: a failure is an error status then."""
        try:
            self._last.first()
            self._last.has_ended()
        except StorletError:
            self.blame(len(self.results) - 1)
            raise

    def has_ended(self) -> bool:
        return self._last.has_ended()

    def chunks(self) -> Iterator[bytes]:
        try:
            yield from self._last.chunks()
        except StorletError:
            self.blame(len(self.results) - 1)
            raise

    def close(self) -> None:
        for result in reversed(self.results):
            result.close()
