"""Runs inside each other: those that the request of a storlet starts, by a call or by a rule.

The client's run is the outer one, and the runs that its storlet's requests start are inner ones,
which may have inner ones themselves.  The WSGI environment of such requests, which no client can
set, has what all of them share:

* the names of the storlets, so that a cycle is refused, and the depth is bounded;
* the pace: runs inside each other have one rate of operations, not one each, and an inner run
  counts as several operations;
* the cancellation: when a run ends, what its storlet has started ends;
* the id of the run that has sent the request, and the rule that has decided it, for the records: an
  inner run of a rule's storlet shows the caller as little as the run of the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from storlet_middleware import errors
from storlet_middleware.concurrency import monotonic, sleep
from storlet_middleware.errors import Unprocessable
from storlet_middleware.wsgi.disconnect import CANCELLATION, Cancellation

_KEY: Final = "storlets.nesting"
#: The most runs inside each other, the outer one included.
MAX_DEPTH: Final = 8
#: The operations that may come at once after a pause, in seconds of the rate.
_BURST_SECONDS: Final = 1.0
#: Operations of the rate that an inner run takes, with the one that has started it: it needs about
#: ten milliseconds of the proxy server's processor, several times as much as other operations.
RUN_OPERATIONS: Final = 4


class OperationPace:
    """The rate of the operations of one client request's runs."""

    def __init__(self) -> None:
        #: When the next operation may begin.
        self._due = monotonic() - _BURST_SECONDS
        self._charged = 0

    def charge(self, operations: int) -> None:
        """Count further operations; the next one waits for them."""
        self._charged += operations

    def keep(self, rate: int) -> None:
        """Wait until the next operation may begin; ``rate`` is in operations per second."""
        operations, self._charged = 1 + self._charged, 0
        self._due = max(self._due + operations / rate, monotonic() - _BURST_SECONDS)
        sleep(max(0.0, self._due - monotonic()))


@dataclass(frozen=True)
class Nesting:
    """The runs that a request is made in.

    :param chain: the names of their storlets, the outer run first; empty for a client's request.
    :param parent: the id of the run whose storlet has sent the request, or of the distribution.
    :param rule: the rule that has decided that run, or one that it is in; empty if none has.
    """

    chain: tuple[str, ...] = ()
    depth: int = 0
    parent: str = ""
    rule: str = ""
    pace: OperationPace = field(default_factory=OperationPace, compare=False)
    cancellation: Cancellation = field(default_factory=Cancellation, compare=False)

    def inside(self, storlets: Iterable[str], run_id: str = "", rule: str = "") -> Nesting:
        """The nesting of the requests that the run ``run_id`` of ``storlets`` makes.

        An inner run is charged to the pace.

        :param rule: see the class.
        :raises Unprocessable: a storlet would run in a run of itself, or the runs are too deep.
        """
        names = tuple(storlets)
        for name in names:
            if name in self.chain:
                cycle = " -> ".join((*self.chain[self.chain.index(name) :], name))
                raise Unprocessable(
                    f"the storlets run each other without end: {cycle}",
                    code=errors.SERVICES_REFUSED,
                )
        if self.depth >= MAX_DEPTH:
            raise Unprocessable(
                f"storlets run inside each other {MAX_DEPTH} deep: {' -> '.join(self.chain)}; no"
                f" more are allowed",
                code=errors.SERVICES_REFUSED,
            )
        if self.depth:
            self.pace.charge(RUN_OPERATIONS - 1)
        cancellation = Cancellation(self.cancellation)
        chain, depth = self.chain + names, self.depth + 1
        return Nesting(chain, depth, run_id, rule or self.rule, self.pace, cancellation)

    def of_flow(self, run_id: str) -> Nesting:
        """The nesting of the requests of a flow with this id, which is no run itself."""
        return replace(self, parent=run_id)

    def put(self, environ: dict[str, Any]) -> None:
        """Mark a request as made in these runs, or by a flow of a client, whose requests share the
        pace.
        """
        environ[_KEY] = self
        if self.depth:
            environ[CANCELLATION] = self.cancellation


def is_inner(environ: Mapping[str, Any]) -> bool:
    """Whether a run or a flow has made the request."""
    return _KEY in environ


def parent_of(environ: Mapping[str, Any]) -> str:
    """The id of the run or the distribution that has made the request; empty for a client's."""
    found: Nesting | None = environ.get(_KEY)
    return "" if found is None else found.parent


def rule_of(environ: Mapping[str, Any]) -> str:
    """The rule that has decided a run that the request is made in; empty if none has."""
    found: Nesting | None = environ.get(_KEY)
    return "" if found is None else found.rule


def nesting_of(environ: Mapping[str, Any]) -> Nesting:
    """The runs that the request is made in; none for a client's."""
    found: Nesting | None = environ.get(_KEY)
    return found or Nesting()
