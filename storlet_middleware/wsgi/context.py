"""The state of one request while it is handled: operation, chain of authorization, grants that
were used, refusals.

The filter puts one :class:`RequestContext` into the environment, under :data:`CONTEXT`.
Sub-requests that Swift derives from the environment carry the chain as ``swift.authorize``; only
the filter's own code reads the context.

The chain, in its order::

    swift    the authentication middleware's own ``swift.authorize``: allows or refuses
    grants   allows what Swift refuses if a grant names a storlet of this run (proxy reads only)
    owners   may refuse what is allowed: records of runs are for owners only
    rules    may refuse what is allowed, by the rules of the account that is read

:class:`AuthorizationChain` is the only code that knows this order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from storlet_middleware.errors import StorletError
from storlet_middleware.wsgi.operation import Operation, parse
from storlet_middleware.wsgi.swift_paths import SwiftPath

#: Key of the WSGI environment.
CONTEXT: Final = "storlets.context"
_AUTHORIZE: Final = "swift.authorize"

#: Takes a swob request; ``None`` allows it, an answer refuses it.
Authorize: TypeAlias = Callable[[Any], Any]


class Grant(Protocol):
    """Access through a storlet."""

    def allows(self, request: Any, swift: Authorize) -> bool:
        """Whether ``request``, which ``swift`` refused, is allowed by a grant."""


class RulesCheck(Protocol):
    """Checks by the rules of each sub-request that Swift makes for the client's request, and of the
    answer.
    """

    #: The refusals, in order.
    refused: list[StorletError]

    def __call__(self, request: Any) -> Any:
        """``None``, or the answer that refuses a request that is allowed otherwise."""

    def must_check(self, status: str, headers: Iterable[tuple[str, str]]) -> bool:
        """Whether an answer with these headers may contain facts of other objects."""

    def check_answer(
        self, status: str, headers: Iterable[tuple[str, str]], read: SwiftPath | None = None
    ) -> None:
        """Raise the refusal of an answer, if there is one.

        :param read: the object that was read, if it is not the operation's own.
        """

    def break_if_refused(
        self, headers: Iterable[tuple[str, str]], chunks: Iterable[bytes]
    ) -> Iterable[bytes]:
        """The answer's body, which raises if a read was refused after the body had begun."""


class OwnersCheck(Protocol):
    """Refuses requests for objects that only owners of the account may read."""

    def refusal(self, request: Any, swift: Authorize | None) -> Any:
        """``None``, or the answer that refuses a request that is allowed otherwise."""


@dataclass(frozen=True)
class AuthorizationChain:
    """``environ["swift.authorize"]`` of a request; see the module for the order.

    :param swift: ``None`` where no authentication middleware is in the pipeline, which allows
        everything.
    :param denied: receives Swift's answer for each request that it refused and no grant allows.
    """

    swift: Authorize | None
    grants: tuple[Grant, ...] = ()
    rules: RulesCheck | None = None
    owners: OwnersCheck | None = None
    denied: list[Any] = field(default_factory=list)

    def __call__(self, request: Any) -> Any:
        """``None``, or the answer that refuses."""
        refusal = None if self.swift is None else self.swift(request)
        if refusal is not None:
            refusal = self._without_grant(request, refusal)
        if refusal is None and self.owners is not None:
            refusal = self.owners.refusal(request, self.swift)
        return self.rules(request) if refusal is None and self.rules is not None else refusal

    def _without_grant(self, request: Any, refusal: Any) -> Any:
        """``refusal`` by Swift; ``None`` if a grant allows the request."""
        swift = self.swift
        if swift is not None and any(grant.allows(request, swift) for grant in self.grants):
            return None
        self.denied.append(refusal)
        return refusal

    def with_grants(self, *grants: Grant) -> AuthorizationChain:
        """The same chain with grants, for the reads of a run."""
        return AuthorizationChain(self.swift, grants, self.rules, self.owners, self.denied)


@dataclass(frozen=True)
class RequestContext:
    """See the module.

    :param operation: ``None`` for requests without a path to stored data.
    :param environ: the client's WSGI environment, which this context is in.
    :param used_grants: names of the storlets by whose grants an object was read; filled while it is
        read.
    """

    operation: Operation | None
    chain: AuthorizationChain
    environ: dict[str, Any]
    used_grants: list[str] = field(default_factory=list)

    @property
    def refused(self) -> list[StorletError]:
        """The refusals by the rules, in order; the filter sends them in place of Swift's answer."""
        return [] if self.chain.rules is None else self.chain.rules.refused

    def require_operation(self) -> Operation:
        """The operation; raises if there is none."""
        if self.operation is None:
            raise ValueError("the request has no path to stored data")
        return self.operation


def swift_authorize(environ: Mapping[str, Any]) -> Authorize | None:
    """The authentication middleware's own check, without grants and rules."""
    given = environ.get(_AUTHORIZE)
    return given.swift if isinstance(given, AuthorizationChain) else given


def install(
    environ: dict[str, Any],
    operation: Operation | None,
    rules: RulesCheck | None = None,
    owners: OwnersCheck | None = None,
) -> RequestContext:
    """Put a context and its chain into ``environ``.

    A middleware to the left may send the same environment through the filter again; the chain is
    then built again from the authentication middleware's check, never around an earlier chain.
    """
    chain = AuthorizationChain(swift_authorize(environ), (), rules, owners)
    context = RequestContext(operation, chain, environ)
    environ[CONTEXT] = context
    if chain.swift is not None or rules is not None:
        environ[_AUTHORIZE] = chain
    return context


def context_of(environ: dict[str, Any]) -> RequestContext:
    """The context in ``environ``; a request that has none gets one without rules."""
    context: RequestContext | None = environ.get(CONTEXT)
    return install(environ, parse(environ)) if context is None else context
