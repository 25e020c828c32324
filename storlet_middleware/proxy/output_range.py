"""The range of a result: ``Range`` on a GET for which a rule runs one storlet that declares ranges.

The storlet learns the range from a parameter that no client and no rule can set.  It seeks in its
input, and reports in a metadata item which bytes of which total it writes; a storlet that reports
nothing gives its whole output, which answers the request with 200, as without this module.

The report is checked against the client's range, and the output against the report: a result with
fewer or more bytes is a failure.  The last bytes are sent after the storlet has succeeded, because
the client takes a response with all its bytes for complete.

The whole result answers all other requests with ``Range``: several ranges, ``If-Range`` (a result
has no validator to compare with), a range that cannot be parsed, several storlets.  RFC 9110 allows
it (14.2).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from storlet_middleware import names
from storlet_middleware.engine.storlet_version import StorletVersion
from storlet_middleware.errors import RangeUnsatisfiable, Unprocessable
from storlet_middleware.proxy.plan import Plan
from storlet_middleware.proxy.requested_steps import RequestedStep
from storlet_middleware.wsgi.answer import Answer
from storlet_middleware.wsgi.byte_ranges import ByteRange, parse_ranges, resolve_range
from storlet_middleware.wsgi.context import RequestContext
from storlet_middleware.wsgi.storlet_request import SWIFT_QUERIES, StorletRequest

#: The parameter of the storlet: requests, rules and manifests cannot have names with this prefix.
PARAMETER: Final = "storlet_range"
#: The metadata item with the storlet's report; it does not leave the proxy server.
ITEM: Final = "Storlet-Range"
_REPORT: Final = re.compile(r"bytes (?:([0-9]{1,18})-([0-9]{1,18})|\*)/([0-9]{1,18})", re.ASCII)


def output_range_of(
    context: RequestContext, requests: Sequence[StorletRequest], plan: Plan | None
) -> OutputRange | None:
    """The range of the result that the request may get; ``None``: it gets all of the result."""
    environ, operation = context.environ, context.operation
    if plan is None or "HTTP_RANGE" not in environ or "HTTP_IF_RANGE" in environ:
        return None
    if len(requests) > 1 or plan.explicit_count or plan.is_mandatory or operation is None:
        return None
    request = requests[0]
    is_part = any(name in operation.query for name in SWIFT_QUERIES - {"version-id"})
    if request.source is None or request.target is not None or is_part:
        return None
    with contextlib.suppress(ValueError):
        wanted = parse_ranges(environ["HTTP_RANGE"])
        return OutputRange(wanted[0]) if len(wanted) == 1 else None
    return None


@dataclass(frozen=True)
class Part:
    """The bytes of a result that answer a request; ``first`` and ``last`` are inclusive."""

    first: int
    last: int
    size: int

    @property
    def length(self) -> int:
        return self.last + 1 - self.first

    def exactly(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """``chunks``, which must have the bytes of the part; the last ones only after their end."""
        held, length = b"", 0
        for chunk in chunks:
            length += len(chunk)
            if length > self.length:
                break
            if held:
                yield held
            held = chunk
        self.require(length)
        yield held

    def answer(self, whole: Answer) -> Answer:
        """``whole``, the answer without a range, with the status and the headers of this part."""
        item = (names.OBJECT_META + ITEM).lower()
        headers = [(key, value) for key, value in whole.headers if key.lower() != item]
        span = f"bytes {self.first}-{self.last}/{self.size}"
        headers += [("Content-Range", span), ("Accept-Ranges", "bytes")]
        return Answer("206 Partial Content", headers, whole.chunks)

    def require(self, length: int) -> None:
        """Raise :class:`~.errors.Unprocessable` unless an output of ``length`` is the part."""
        if length != self.length:
            what = "more" if length > self.length else "fewer"
            text = f"the storlet wrote {what} bytes than the {self.length} of the range"
            raise Unprocessable(text)


class OutputRange:
    """The range that a client requests of a run's result.

    :param wanted: as in the request.
    """

    def __init__(self, wanted: ByteRange) -> None:
        self._wanted = wanted
        first, last = ("" if end is None else str(end) for end in wanted)
        self._text = f"bytes={first}-{last}"
        #: Whether the storlet of the run was given the range.
        self.is_given = False
        #: The storlet as it runs without a range.
        self._whole: StorletVersion | None = None

    def give(self, step: RequestedStep) -> None:
        """Give the range to the storlet of ``step``, which was just resolved, if it declares
        ranges.
        """
        self._whole = version = step.storlet
        self.is_given = version.ranges
        parameters = {**step.settings.parameters}
        parameters.pop(PARAMETER, None)  # of a version that was replaced
        if version.ranges:
            # A node that knows no ranges knows inputs in which a storlet seeks, or gives plain
            # data.
            step.version = replace(version, seekable=True)
            parameters[PARAMETER] = self._text
        step.set_parameters(parameters)

    def withdraw(self, step: RequestedStep) -> bool:
        """Make ``step`` give all of its output from a stream; return whether its storlet can."""
        if not self.is_given or self._whole is None or self._whole.seekable:
            return False
        self.is_given, step.version = False, self._whole
        parameters = {**step.settings.parameters}
        del parameters[PARAMETER]
        step.set_parameters(parameters)
        return True

    def part_of(self, metadata: Mapping[str, str]) -> Part | None:
        """The part that the storlet writes; ``None`` if it writes all of the result.

        :param metadata: of the result.
        :raises RangeUnsatisfiable: the result has no byte in the range.
        :raises Unprocessable: the storlet reports another range than the client's.
        """
        report = next((metadata[key] for key in metadata if key.lower() == ITEM.lower()), None)
        if report is None or not self.is_given:
            return None
        match = _REPORT.fullmatch(report)
        if match is None:
            raise Unprocessable(f"the storlet reports the range {report[:60]!r}: want bytes a-b/n")
        first, last, size = match.groups()
        expected = resolve_range(self._wanted, int(size))
        told = None if first is None else (int(first), int(last))
        if told != expected:
            raise Unprocessable(f"the storlet reports {report!r} for the range {self._text}")
        if expected is None:
            error = RangeUnsatisfiable(f"no byte of the {size} bytes of the result is in the range")
            error.size = int(size)
            raise error
        return Part(*expected, int(size))
