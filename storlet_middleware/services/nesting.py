"""Storlets that run because the request of a storlet runs them: their depth, and cycles.

A storlet's request may run storlets again: a rule may cover the object that it opens.  The chain of
names travels in the WSGI environment of such requests, which no client can set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from storlet_middleware import errors
from storlet_middleware.errors import Unprocessable

_KEY: Final = "storlets.nesting"
#: The most runs inside each other, the outer one included.
MAX_DEPTH: Final = 8


@dataclass(frozen=True)
class Nesting:
    """The runs that a request is made in.

    :param chain: the names of their storlets, the outer run first; empty for a client's request.
    """

    chain: tuple[str, ...] = ()
    depth: int = 0

    def inside(self, storlets: Iterable[str]) -> Nesting:
        """The nesting of the requests that a run of ``storlets`` makes.

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
        return Nesting(self.chain + names, self.depth + 1)

    def put(self, environ: dict[str, Any]) -> None:
        """Mark a request as made in these runs."""
        environ[_KEY] = self


def nesting_of(environ: Mapping[str, Any]) -> Nesting:
    """The runs that the request is made in; none for a client's."""
    found: Nesting | None = environ.get(_KEY)
    return found or Nesting()
