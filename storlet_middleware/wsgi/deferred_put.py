"""A PUT that the filter decides now and that is sent later: of an object that a storlet creates.

Its body comes while the storlet runs, and Swift gets it late (``proxy/withheld_put.py``).  But the
storlet has to know at once whether the caller may store the object.  So the PUT enters the filter
without a body, as the caller's own, and the rules decide it.  Where the filter would pass it on,
the rest of its way is kept, and the answer is ``204 No Content``.  The decision holds until the run
has ended.

The mark is an object in the WSGI environment, which no client can set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from storlet_middleware.errors import InternalError, RuleRefused

_KEY: Final = "storlets.deferred_put"

WSGIApp: TypeAlias = Callable[[dict[str, Any], Any], Iterable[bytes]]


class DeferredPut:
    """A PUT, and after the filter's decision a WSGI application that sends it on.

    :param environ: of the PUT, which the filter completes.
    """

    def __init__(self, environ: dict[str, Any]) -> None:
        self.environ = environ
        self._rest: WSGIApp | None = None
        environ[_KEY] = self

    def keep(self, rest: WSGIApp, start_response: Any) -> Iterable[bytes]:
        """The filter would pass the PUT on to ``rest``."""
        self._rest = rest
        start_response("204 No Content", [])
        return [b""]

    @property
    def is_decided(self) -> bool:
        """Whether the PUT may be sent, and its answer is this object's."""
        return self._rest is not None

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Send it, from where it was kept."""
        if self._rest is None:
            raise InternalError("a PUT is sent that was not decided")
        return self._rest(environ, start_response)


def taken_from(environ: dict[str, Any]) -> DeferredPut | None:
    """The deferred PUT of this request, from which the mark is removed; ``None`` if it is none."""
    found: DeferredPut | None = environ.pop(_KEY, None)
    return found


def require_no_run(environ: dict[str, Any], rule: str) -> None:
    """Refuse a deferred PUT for which ``rule`` runs a storlet: its bytes are not there yet."""
    if _KEY in environ:
        raise RuleRefused(
            rule,
            "it runs a storlet on what is stored there, which an object that another storlet"
            " creates cannot have: create it elsewhere",
        )
