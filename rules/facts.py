"""Facts about a request, as the rules see them: plain values, independent of Swift.

A missing value is ``None`` (or absent from its mapping, or an empty set).  Every test of a missing
value fails, except ``present: false``.  :mod:`rules.rewriting` describes what this means below
``not``.

Facts about the stored object and its container cost a request to Swift, so they start as
``UNKNOWN``.  If a decision depends on them, the engine returns :class:`rules.engine.Needs`; its
caller looks the facts up and evaluates again.

A *lost* fact is unknown, too, and cannot be looked up: Swift's middlewares make requests of their
own for a client's (``bulk``, ``staticweb``, ``formpost``), without the client's address and most of
its headers.  A rule that depends on one fails closed: it decides if it restricts (``deny``,
``mandatory: true``), and does not match otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final


class Unknown(Enum):
    """The type of :data:`UNKNOWN`."""

    UNKNOWN = "unknown"


#: Not looked up yet; different from missing.
UNKNOWN: Final = Unknown.UNKNOWN


#: The header with which a client requests a storlet.
RUN_HEADER: Final = "x-run-storlet"
#: Secrets of the caller, which rules never see: more people may read a rule and its messages.
HIDDEN_HEADERS: Final = frozenset(
    (
        "x-auth-token", "x-storage-token", "x-service-token", "x-auth-key", "authorization",
        "cookie", "x-amz-security-token", "x-container-sync-auth",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Caller:
    """The user or program that makes the request.

    :param user: name or id from the authentication middleware; ``None`` for anonymous requests and
        signed URLs.
    :param project: the caller's own project (tempauth: account), not the account in the request.
    :param domain: the domain of the user (Keystone).
    :param roles: Keystone roles or tempauth groups, in their original case; compared without case.
    :param is_anonymous: no user is logged in, and the request has no signature.
    :param is_signed: a signed URL or form (``tempurl``, ``formpost``) authorizes the request.
    :param signer: of a signed request, the user whose own key has made the signature (S3), if it is
        one: a rule that restricts also holds if it holds for this user.
    """

    user: str | None = None
    project: str | None = None
    domain: str | None = None
    roles: frozenset[str] = frozenset()
    is_anonymous: bool = False
    is_signed: bool = False
    signer: Caller | None = None


@dataclass(frozen=True)
class ObjectFacts:
    """The object: the source of a GET, HEAD or COPY, the object to be stored by a PUT.

    :param size_bytes: ``None`` if the size is not known in advance (a chunked upload).
    :param metadata: user metadata; keys in lower case, without ``X-Object-Meta-``.
    """

    exists: bool = False
    content_type: str | None = None
    size_bytes: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ContainerFacts:
    """The object's container.

    :param metadata: user metadata; keys in lower case, without ``X-Container-Meta-``.
    :param policy: name of its storage policy.
    """

    metadata: Mapping[str, str] = field(default_factory=dict)
    policy: str | None = None


@dataclass(frozen=True)
class Facts:
    """Every value that a condition can test.

    :param method: ``GET``, ``HEAD``, ``PUT``, ``POST``, ``COPY`` or ``DELETE``; a PUT with
        ``X-Copy-From`` is a ``COPY``.
    :param container: container of the object that is read or stored; ``None`` for requests to the
        account.
    :param object: name of the object; ``None`` for requests to a container.
    :param headers: request headers; names in lower case.
    :param query: parameters of the query string; the last value of a repeated parameter.
    :param client_address: an IPv4 or IPv6 address.
    :param minute_of_week: time of the request in UTC; 0 is Monday 00:00.
    :param lost: names of lost facts, as far as they are missing.
    """

    method: str
    container: str | None = None
    object: str | None = None
    caller: Caller = Caller()
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    client_address: str | None = None
    minute_of_week: int | None = None
    stored: ObjectFacts | Unknown = UNKNOWN
    holder: ContainerFacts | Unknown = UNKNOWN
    lost: frozenset[str] = frozenset()

    @property
    def views(self) -> tuple[Facts, ...]:
        """The request as rules evaluate it: itself; or without a user, and by its signer."""
        signer = self.caller.signer
        if signer is None:
            return (self,)
        return tuple(replace(self, caller=c) for c in (replace(self.caller, signer=None), signer))

    @property
    def requests_storlet(self) -> bool:
        """The client requests a storlet itself; ordinary rules give way to that."""
        return RUN_HEADER in self.headers
