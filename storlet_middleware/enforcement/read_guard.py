"""Asks the rules about every read that Swift does for a client's request beside the one that the filter decided about.

::

    filter --> copy --> slo --> dlo --> versioned_writes --> symlink --> proxy-server --> swift.authorize
                     segments   listing, segments            targets                      = Guard

A request for one object may become reads of others: segments of large objects, targets of links, sources of copies, old
versions.  Swift's middlewares make them as sub-requests to the right of our filter, and the proxy server asks
``swift.authorize`` about each of them, with the path that is read.  So the guard stands in that place: what Swift refuses is
refused as ever, and of what Swift allows the rules are asked.  They are asked as of the client's request: a sub-request
lacks most of what they speak of (address, headers, Keystone's identity).

The proxy server (``Application.handle_request``) asks without the container's ACL first.  A refusal stands for writes; reads
ask again with the ACL.  What has allowed is taken out of the environment until the request has been handled.  So one read may
be asked about twice, and each refusal is remembered once.

What the guard does not see, because Swift makes it with its own right, and who looks at it instead:

* an object's current version (``symlink`` follows the link that versioning put in its place): it is the object;
* **links after such a version.**  Where the version is itself a link, Swift makes the request after the next with the
  environment of the pre-authorised one before it, so nobody's authorisation is asked about it.  The request between the two
  is seen here, its headers tell it, and what it leads to is looked up and asked about, Swift's ACLs too (``_beyond``);
* copies into archives and back (``X-Versions-Location``): the bytes change their container and no rule sees it.  Objects with
  names of archived versions are asked about as of any container (:mod:`~storlet_middleware.wsgi.swift_paths`), and :func:`moves_bytes` names the
  settings that do such things;
* what an answer tells of other objects without reading them: etag and length of a large object are made of its segments', its
  manifest lists them; a static link tells its target's.  :meth:`Guard.check_answer` looks at that.

The guard answers Swift; what Swift makes of a refusal (409 for a segment) is replaced by whoever holds the guard, with the
first of :attr:`Guard.refused`.  A body that has begun can only break (:meth:`Guard.whole`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, quote

from swift.common.swob import Response
from swift.common.utils import close_if_possible, config_true_value

from storlet_middleware import names
from storlet_middleware.enforcement.segments import Manifests, end_of_links
from storlet_middleware.errors import REASONS, BackendFailed, RuleRefused, StorletError
from storlet_middleware.wsgi import authorization
from storlet_middleware.wsgi.storlet_request import text
from storlet_middleware.wsgi.swift_paths import (
    ALLOWS_RESERVED,
    Judge,
    Read,
    asked,
    hidden_version,
    listed,
    of_path,
    of_url,
    origins,
    visible,
)

Authorize: TypeAlias = Callable[[Any], Any]

_READS: Final = ("GET", "HEAD")
#: ``swift.source`` of what is read because a link leads there.
_OF_LINKS: Final = "SYM"
#: What is made of other objects may end early, when one of these is refused.
_LARGE: Final = frozenset(("x-object-manifest", "x-static-large-object"))
_LINK: Final = frozenset(("x-symlink-target-etag", "x-symlink-target-bytes"))
_TELLS_OF_OTHERS: Final = _LARGE | _LINK
#: How versioning marks the link that it puts in an object's place.
_IS_VERSION_LINK: Final = "X-Object-Sysmeta-Versions-Symlink"
#: With these a container's objects are moved to where other rules hold, or none.
_MOVES_BYTES: Final = ("X-Versions-Location", "X-History-Location", "X-Container-Sync-To")


class Guard:
    """Takes the place of ``environ["swift.authorize"]`` for one request of a client.

    :param original: what it takes the place of, which decides first; ``None`` where there is no auth middleware.
    :param judge_of: gives the rules of all accounts, asked as of the client's request.  Most requests need no judge.
    :param decided: what the filter has asked the rules about: what the request reads.
    :param environ: a copy of the client's, which Swift changes.
    :param app: the rest of the pipeline.
    """

    #: The mandatory rule whose storlet reads: what the same rule of this account covers is read for it as well.
    under: str | None = None

    def __init__(
        self,
        original: Authorize | None,
        judge_of: Callable[[dict[str, Any], str], Judge],
        decided: Read,
        environ: dict[str, Any],
        app: Any,
    ) -> None:
        self.original = original
        #: What it refused, in order; those that :meth:`around` made share it.
        self.refused: list[StorletError] = []
        self._known: dict[Read, StorletError] = {}
        self._judge_of = judge_of
        self._decided = decided
        self._environ = environ
        self._app = app
        self._method: str = environ["REQUEST_METHOD"]
        # Nearly all reads are of the path that the client asks for, and nothing but that is ever looked at.
        is_plain = self._method in _READS and not environ.get("QUERY_STRING")
        self._own_path: str | None = environ["PATH_INFO"] if is_plain else None

    @functools.cached_property
    def _judge(self) -> Judge:
        return self._judge_of(self._environ, self._decided.version)

    @property
    def _is_copy(self) -> bool:
        return self._method == "COPY" or (self._method == "PUT" and bool(self._environ.get("HTTP_X_COPY_FROM")))

    @functools.cached_property
    def _version_id(self) -> str:
        """The version of the object that the client asks for; empty for the one that there is now."""
        version = _query(self._environ).get("version-id", "")
        return "" if version == "null" else version

    def around(self, other: Authorize | None) -> Guard:
        """The same guard around another authorize."""
        guard = Guard.__new__(Guard)
        guard.__dict__.update(self.__dict__, original=other)
        return guard

    def __call__(self, request: Any) -> Any:
        """``swift.authorize``: ``None``, or the answer that refuses."""
        refusal = None if self.original is None else self.original(request)
        if refusal is not None:
            return refusal
        environ = request.environ
        if environ["PATH_INFO"] == self._own_path and environ.get("swift.source") != _OF_LINKS:
            return None
        try:
            for read in self._reads(request):
                self._require(read, request.method)
            return self._beyond(request)
        except StorletError as error:
            if error not in self.refused:
                self.refused.append(error)
            return _answer(error, request)

    # --- what a request reads ------------------------------------------------------------------------------------

    def _reads(self, request: Any) -> Iterable[Read]:
        """What the rules have to be asked about before ``request`` may be handled."""
        read = of_path(request.environ["PATH_INFO"])
        if read is None or self._method == "DELETE":
            return ()  # what is read of a manifest whose segments are deleted, too, does not leave
        if read.name is None:
            # The listing that a client asks for is filtered.  Another one is read for what DLO tells of its segments.
            is_of_segments = request.method == "GET" and read.container is not None and self._decided.name is not None
            return listed(read, _query(request.environ).get("prefix", "")) if is_of_segments else ()
        if request.method == "PUT":
            return (read.of(read.container, None),) if self._tells_version(request) else ()
        return origins(read) if request.method in _READS and not self._is_decided(read, request.method) else ()

    def _tells_version(self, request: Any) -> bool:
        """``PUT`` with ``?version-id`` makes a version the current one, and its answer has that version's etag."""
        is_restored = self._version_id and self._method == "PUT" and not self._is_copy
        return bool(is_restored) and config_true_value(request.headers.get(_IS_VERSION_LINK, "false"))

    def _is_decided(self, read: Read, method: str) -> bool:
        """Whether the filter has decided about reading this, and not about another version of it or what is to take its place.

        A copy reads its source once, by ``GET``.  A HEAD in it is for the target (of a link with an etag, of a segment), and what
        comes of that is not what a storlet makes of the source.
        """
        _, account, container, name = self._decided
        if container is None or name is None or not (self._method in _READS or (self._is_copy and method == "GET")):
            return False
        if self._version_id:
            try:
                container, name = hidden_version(container, name, self._version_id)
            except ValueError:
                return False
        return (read.account, read.container, read.name) == (account, container, name)

    def _beyond(self, request: Any) -> Any:
        """Of a link that Swift follows from a version: Swift's refusal of what it reads next, asking nobody."""
        is_link = request.environ.get("swift.source") == _OF_LINKS
        if not is_link or not config_true_value(request.headers.get(ALLOWS_RESERVED, "false")):
            return None
        read = of_path(request.environ["PATH_INFO"])
        end = None if read is None else self._end_of_links(read)
        shown = None if end is None else visible(end)
        if end is None or read in (end, shown):
            return None  # an object's version is that object
        for origin in origins(end):
            self._require(origin, request.method)
        path = (shown or end).path
        return authorization.ask({**self._environ, "swift.authorize": self.original}, self._app, "GET", path).refusal

    def _end_of_links(self, read: Read) -> Read | None:
        """Where links end that begin at an object; ``None`` when it is none."""
        return end_of_links(self._app, self._environ, read)

    # --- asking --------------------------------------------------------------------------------------------------

    def _require(self, read: Read, method: str) -> None:
        """Raise when a mandatory rule covers what is read."""
        if read not in self._known:
            rule = asked(self._judge, read)
            if rule is None or self._is_under(rule, read, method):
                return
            self._known[read] = RuleRefused(rule, f"the request would read {_what(read)}, which the rule covers")
        raise self._known[read]

    def _is_under(self, rule: str, read: Read, method: str) -> bool:
        """Whether it is the rule whose storlet reads: it reads by ``GET``.  Names of rules are those of one account."""
        return rule == self.under and read.account == self._decided.account and method == "GET"

    # --- the answer ----------------------------------------------------------------------------------------------

    def has_to_see(self, headers: Iterable[tuple[str, str]]) -> bool:
        """Whether :meth:`check_answer` or :meth:`whole` may have something to do with an answer."""
        if self.refused:
            return True
        for key, _ in headers:  # noqa: SIM110 - this is what every plain request pays for rules
            if key.lower() in _TELLS_OF_OTHERS:
                return True
        return False

    def check_answer(self, headers: Iterable[tuple[str, str]]) -> None:
        """Raise what keeps the answer to the client's request, of which nothing has left yet, from leaving.

        :param headers: as Swift gives them; those of 304, 307, 412 and 416 tell as much as those of a success.
        """
        if self.refused:
            raise self.refused[0]
        given = {key.lower(): value for key, value in headers}
        if not _LINK.isdisjoint(given):
            self._check_link(given)
        if self._method in _READS and config_true_value(given.get("x-static-large-object", "false")):
            self._check_manifest(given)

    def _check_link(self, headers: Mapping[str, str]) -> None:
        """A static link tells its target's etag and length: to who asks for the link itself, or tries to ``POST`` to it."""
        target = self._target(headers)
        if target is None or target.name is None:
            raise BackendFailed("the target of a link cannot be told, and rules may cover it")
        # Who posts to a link was asked about nothing that the link tells.
        own = of_path(self._environ["PATH_INFO"]) if self._method == "POST" else None
        for read in (own, target, self._end_of_links(target)):
            if read is not None and not self._is_decided(read, self._method):
                for origin in origins(read):
                    self._require(origin, "HEAD")

    def _target(self, headers: Mapping[str, str]) -> Read | None:
        """What a link leads to; versioning makes of its own link one to ``?version-id`` of the object."""
        path = headers.get("x-symlink-target")
        if path is None:
            return of_url(headers.get("location") or "")
        _, version, account, *_ = text(self._environ["PATH_INFO"]).split("/")
        return of_url(f"/{version}/{headers.get('x-symlink-target-account') or quote(account)}/{path}")

    def _check_manifest(self, headers: Mapping[str, str]) -> None:
        manifest = of_path(self._environ["PATH_INFO"])
        if manifest is None or manifest.name is None:
            return
        query = f"version-id={quote(self._version_id)}" if self._version_id else ""
        rule = Manifests(self._app, self._environ, self._judge, query).rule_of(manifest, headers.get("x-timestamp"))
        if rule is not None:
            raise RuleRefused(rule, "the object consists of others, of which the rule covers some")

    def whole(self, headers: Iterable[tuple[str, str]], chunks: Iterable[bytes]) -> Iterable[bytes]:
        """An answer's body that breaks at its end when a read was refused after it had begun.

        Swift ends a large object early then, which a client that was told no length (DLO of many segments) takes for the end.
        """
        is_large = self._method == "GET" and any(key.lower() in _LARGE for key, _ in headers)
        return _Whole(chunks, self.refused) if is_large else chunks


class _Whole:
    """A body; whoever closes it closes what it is made of, also when nothing of it was read."""

    def __init__(self, chunks: Iterable[bytes], refused: list[StorletError]) -> None:
        self._chunks = chunks
        self._refused = refused

    def __iter__(self) -> Iterator[bytes]:
        yield from self._chunks
        if self._refused:
            raise self._refused[0]

    def close(self) -> None:
        close_if_possible(self._chunks)


def moves_bytes(environ: Mapping[str, Any]) -> str | None:
    """The header by which a request lets Swift move a container's objects to where no rule sees them."""
    if environ["REQUEST_METHOD"] not in ("PUT", "POST"):
        return None
    return next((name for name in _MOVES_BYTES if environ.get("HTTP_" + name.upper().replace("-", "_"))), None)


def _query(environ: Mapping[str, Any]) -> dict[str, str]:
    """Each parameter's last value, as Swift's middlewares have it."""
    query = str(environ.get("QUERY_STRING") or "").encode("latin-1").decode("utf-8", "surrogateescape")
    return dict(parse_qsl(query, keep_blank_values=True, errors="surrogateescape"))


def _what(read: Read) -> str:
    if read.name is not None and read.container is not None:
        return f"{read.container}/{read.name}"
    return f"what is or may be in the container {read.container}" if read.container else "what may be an old version"


def _answer(error: StorletError, request: Any) -> Response:
    """For Swift, and for the client where nobody puts another answer in its place: also the reason names the rule, because
    that is what SLO passes on of a segment (``?heartbeat=on``)."""
    reason = f"{REASONS.get(error.status, 'Error')} ({error.rule})" if isinstance(error, RuleRefused) else error.code
    answer = Response(status=f"{error.status} {reason}", body=f"{error}\n", request=request, content_type="text/plain")
    answer.headers[names.ERROR] = error.code
    if isinstance(error, RuleRefused):
        answer.headers[names.RULE] = error.rule
    if error.retry_after is not None:
        answer.headers["Retry-After"] = str(error.retry_after)
    return answer
