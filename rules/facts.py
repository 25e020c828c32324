"""What is known of a request when its rules are asked: values only, no Swift.

A value that is not there is ``None`` (or absent from its mapping, or an empty set) and makes every test of it fail but ``present: false``: a
missing value never matches by accident.  What that means below ``not`` is told in :mod:`rules.conditions`.

The facts of the stored object and of its container cost a request to get.  They are ``UNKNOWN`` at first; when the
decision depends on them, evaluation says so (:class:`rules.engine.Needs`), and is asked again with the facts filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final


class Unknown(Enum):
    """The type of :data:`UNKNOWN`."""

    UNKNOWN = "unknown"


#: Not looked up yet, which is something else than not there.
UNKNOWN: Final = Unknown.UNKNOWN


#: With this header a client asks for a storlet.
RUN_HEADER: Final = "x-run-storlet"


@dataclass(frozen=True)
class Caller:
    """Who asks.

    :param user: name or id as the authentication middleware gives it; ``None`` for anonymous requests and signed URLs.
    :param project: the caller's own project (with tempauth: account), not the one that is asked for.
    :param domain: the domain of the user (Keystone).
    :param roles: Keystone roles, or tempauth groups, in whatever case they come: they are compared without regard to it.
    :param is_anonymous: nobody is logged in, and the request carries no signature.
    :param is_signed: the request is authorised by a signed URL or form (``tempurl``, ``formpost``).
    """

    user: str | None = None
    project: str | None = None
    domain: str | None = None
    roles: frozenset[str] = frozenset()
    is_anonymous: bool = False
    is_signed: bool = False


@dataclass(frozen=True)
class ObjectFacts:
    """The object itself: the source of a GET, HEAD or COPY, the object that is to be stored of a PUT.

    :param size_bytes: ``None`` when nobody knows, as for a chunked upload.
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
    """Everything a condition may look at.

    :param method: ``GET``, ``HEAD``, ``PUT``, ``POST``, ``COPY`` or ``DELETE``; a PUT with ``X-Copy-From`` is a ``COPY``.
    :param container: of the object whose bytes leave or are stored; ``None`` for requests to the account.
    :param object: name of the object; ``None`` for requests to a container.
    :param headers: of the request; names in lower case.
    :param query: the query string's parameters; of a repeated one the last value counts.
    :param client_address: an IPv4 or IPv6 address.
    :param minute_of_week: of the request in UTC, 0 is Monday 00:00.
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

    @property
    def asks_for_storlet(self) -> bool:
        """The client says itself what is to run; ordinary rules give way to that."""
        return RUN_HEADER in self.headers
