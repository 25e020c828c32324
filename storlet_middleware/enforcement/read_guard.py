"""Evaluates the rules for every further read that Swift makes for a client's request.

::

    filter --> copy --> slo --> dlo --> versioned_writes --> symlink --> proxy-server
                     segments   listing, segments            targets         |
                                                                      swift.authorize
                                                              = the authorization chain

The filter has decided about the first read.  A request for one object can cause reads of others:
segments of large objects, targets of links, sources of copies, old versions. Swift's middlewares
make them as sub-requests to the right of the filter, and the proxy server calls ``swift.authorize``
for each of them with the path that is read. The guard is the last link of the authorization chain
(:mod:`~storlet_middleware.wsgi.context`): a request that Swift refuses stays refused, and the rules
are evaluated for a request that Swift allows.  They are evaluated as of the client's request,
because a sub-request lacks most of the facts that rules look at (address, headers, Keystone's
identity).

The proxy server (``Application.handle_request``) first authorizes without the container's ACL.  A
refusal then is final for writes; reads are authorized again with the ACL.  An authorization that
has succeeded is taken out of the environment until the request has been handled.  So one read may
be checked twice, and each refusal is recorded once.

The guard does not see what Swift does with its own privileges.  These cases are handled elsewhere:

* an object's current version (``symlink`` follows the link that versioning put in its place) is the
  object itself;
* **links behind such a version.**  Where the version is itself a link, Swift makes the request
  after the next from the pre-authorised environment before it, without any authorization.  The
  request between the two is seen here; its headers identify that case, and the target is looked up
  and checked, by Swift's ACLs too (``_check_links_of_version``);
* copies into archives and back (``X-Versions-Location``) move bytes to another container without a
  rule.  Names of archived versions are checked as of any container
  (:mod:`~storlet_middleware.wsgi.swift_paths`), and settings that do this are refused
  (:func:`~storlet_middleware.enforcement.requirements.require_no_moves`);
* facts of other objects in an answer without a read (:mod:`~.answer_check`).

Swift turns a refusal of the guard into its own answer (409 for a segment).  The filter replaces
that answer by the first of :attr:`ReadGuard.refused`.  A body that has begun can only break
(:meth:`ReadGuard.break_if_refused`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from swift.common.swob import HTTPForbidden, Response
from swift.common.utils import close_if_possible, config_true_value

from storlet_middleware import names
from storlet_middleware.enforcement import answer_check
from storlet_middleware.enforcement.covered_reads import CoveredReads, refusal
from storlet_middleware.enforcement.segments import look_up
from storlet_middleware.errors import REASONS, RuleRefused, StorletError
from storlet_middleware.wsgi import authorization
from storlet_middleware.wsgi.bodies import ClosingIterator
from storlet_middleware.wsgi.context import Authorize
from storlet_middleware.wsgi.operation import READS, query_of
from storlet_middleware.wsgi.swift_paths import (
    ALLOWS_RESERVED,
    SwiftPath,
    origins,
    origins_of_listing,
    parse_path,
    versioned_object,
)

#: ``swift.source`` of reads of a link's target, and of segments of large objects.
_OF_LINKS: Final = "SYM"
_OF_DYNAMIC: Final = "DLO"
_OF_STATIC: Final = "SLO"
#: Versioning marks the link that replaces an object with this header.
_IS_VERSION_LINK: Final = "X-Object-Sysmeta-Versions-Symlink"


class ReadGuard:
    """The rules' link of the authorization chain of one request; a
    :class:`~storlet_middleware.wsgi.context.RulesCheck`.

    :param reads: evaluates the rules as of the client's request.
    :param swift: the authentication middleware's own check; ``None`` where there is none.
    :param rules_container: the container of rules, whose objects are never deleted as segments.
    """

    def __init__(self, reads: CoveredReads, swift: Authorize | None, rules_container: str) -> None:
        self.reads = reads
        #: The refusals, in order.
        self.refused: list[StorletError] = []
        #: Called with the first refusal.
        self.on_refusal: Callable[[StorletError], None] = _ignore
        self._operation = reads.operation
        self._swift = swift
        self._rules_container = rules_container
        self._method = reads.operation.method
        environ = reads.operation.environ
        # Fast path: nearly all reads are of the client's own path.
        is_plain = self._method in READS and not environ.get("QUERY_STRING")
        self._own_path: str | None = environ["PATH_INFO"] if is_plain else None

    def __call__(self, request: Any) -> Any:
        """``None``, or the answer that refuses a request that Swift allows."""
        environ = request.environ
        if environ["PATH_INFO"] == self._own_path and environ.get("swift.source") != _OF_LINKS:
            return None
        try:
            if self._method == "DELETE":
                return self._refusal_of_deletion(request)
            may_run = self.reads.follows_links or environ.get("swift.source") != _OF_LINKS
            for read in self._paths_to_check(request):
                self.reads.require(read, request.method, may_run=may_run)
            self._require_parts(request)
            return self._check_links_of_version(request)
        except StorletError as error:
            if not self.refused:
                self.on_refusal(error)
            if error not in self.refused:
                self.refused.append(error)
            return _refusal_response(error, request)

    def _refusal_of_deletion(self, request: Any) -> Any:
        """Swift's answer for a segment that may not be deleted with its manifest, or ``None``.

        It is no refusal of the whole request: Swift's answer names each such segment, as it does
        those that the container's ACL protects.
        """
        # Swift also reads the manifest, and that of the object at the end of a link: its answer
        # shows whether there is one.
        if self._deletes_rules(request):
            return HTTPForbidden(
                request=request,
                body=f"objects in {self._rules_container} cannot be deleted as segments\n",
            )
        read = parse_path(request.environ["PATH_INFO"])
        if read is None or read.name is None:
            return None
        if request.method != "DELETE":
            if request.environ.get("swift.source") == _OF_LINKS:
                for origin in origins(read):
                    self.reads.require(origin, request.method, may_run=False)
            return None
        # A version is deleted as its object.
        deleted = versioned_object(read) or read
        if deleted == self.reads.decided or deleted.is_hidden:
            return None
        denial = self.reads.path_rules.denial("DELETE", deleted)
        return None if denial is None else _refusal_response(RuleRefused(*denial), request)

    def _deletes_rules(self, request: Any) -> bool:
        """Whether the request deletes rules as segments of a manifest; only a direct request may
        delete rules.
        """
        if "multipart-manifest" not in self._operation.query:
            return False
        read = parse_path(request.environ["PATH_INFO"])
        return (
            read is not None and read.name is not None and read.container == self._rules_container
        )

    # --- what a request reads ---------------------------------------------------------------------

    def _paths_to_check(self, request: Any) -> Iterable[SwiftPath]:
        """The paths whose rules must be evaluated before ``request`` may be handled."""
        read = parse_path(request.environ["PATH_INFO"])
        if read is None:
            return ()
        if read.name is None:
            # A listing for the client is filtered elsewhere.  Other listings are read by DLO for
            # the facts of its segments.
            is_of_segments = (
                request.method == "GET"
                and read.container is not None
                and self.reads.decided.name is not None
            )
            return (
                origins_of_listing(read, query_of(request.environ).get("prefix", ""))
                if is_of_segments
                else ()
            )
        if request.method == "PUT":
            return (read.sibling(read.container, None),) if self._shows_version(request) else ()
        return (
            origins(read)
            if request.method in READS and not self.reads.is_decided(read, request.method)
            else ()
        )

    def _shows_version(self, request: Any) -> bool:
        """Whether the answer has the ETag of a version: ``PUT`` with ``?version-id`` restores a
        version.
        """
        is_restored = self._operation.version_id and self._method == "PUT"
        return bool(is_restored) and config_true_value(
            request.headers.get(_IS_VERSION_LINK, "false")
        )

    def _check_links_of_version(self, request: Any) -> Any:
        """Check the target of a link that is itself a version, which Swift reads without
        authorization.

        Returns Swift's refusal, or ``None``.
        """
        is_link = request.environ.get("swift.source") == _OF_LINKS
        if not is_link or not config_true_value(request.headers.get(ALLOWS_RESERVED, "false")):
            return None
        read = parse_path(request.environ["PATH_INFO"])
        end = None if read is None else self._end_of_links(read)
        shown = None if end is None else versioned_object(end)
        if end is None or read in (end, shown):
            return None  # an object's version is that object
        refused = authorization.authorize(
            {**self.reads.environ, "swift.authorize": self._swift},
            self.reads.app,
            "GET",
            (shown or end).path,
        ).refusal
        # A caller without access learns nothing of the rules.
        if refused is None:
            for origin in origins(end):
                self.reads.require(origin, request.method)
        return refused

    def _end_of_links(self, read: SwiftPath) -> SwiftPath | None:
        """The end of the chain of links at an object; ``None`` if it is no link."""
        end = look_up(self.reads.app, self.reads.environ, read).end
        return None if end is None else end.known_path

    def _require_parts(self, request: Any) -> None:
        """Raise if the answer to ``request`` has facts of covered segments: a large object that is
        not covered itself has their hashes and lengths.
        """
        read = parse_path(request.environ["PATH_INFO"])
        if read is None or read.container is None or self.reads.running_rule is not None:
            return
        source = request.environ.get("swift.source")
        rule = None
        if read.name is None:
            if source == _OF_DYNAMIC and request.method == "GET":
                prefix = query_of(request.environ).get("prefix", "")
                rule = self.reads.manifests().covering_rule_of_listed(read, prefix)
        elif request.method in READS and (
            source in (_OF_DYNAMIC, _OF_LINKS) or (source == _OF_STATIC and self._method == "PUT")
        ):
            rule = self.reads.manifests().covering_rule_of_large(read)
        if rule is not None:
            raise refusal(rule)

    # --- the answer -------------------------------------------------------------------------------

    def must_check(self, status: str, headers: Iterable[tuple[str, str]]) -> bool:
        """Whether :meth:`check_answer` or :meth:`break_if_refused` has to look at an answer."""
        return bool(self.refused) or answer_check.describes_others(status, headers)

    def check_answer(
        self, status: str, headers: Iterable[tuple[str, str]], read: SwiftPath | None = None
    ) -> None:
        """Raise if the answer must not be sent; no part of it was sent yet."""
        if self.refused:
            raise self.refused[0]
        if self.reads.running_rule is not None:
            return  # the client gets none of these headers, and each segment is checked
        try:
            answer_check.require_uncovered(self.reads, status, headers, read)
        except StorletError as error:
            self.on_refusal(error)
            raise

    def break_if_refused(
        self, headers: Iterable[tuple[str, str]], chunks: Iterable[bytes]
    ) -> Iterable[bytes]:
        """An answer's body that raises at its end if a read was refused after the body had begun.

        Swift ends such a large object early.  Without a Content-Length (DLO of many segments), a
        client would take that for the end of the object.
        """
        # Objects that consist of others: the body ends early if one of these is refused.
        is_large = any(key.lower() in answer_check.LARGE for key, _ in headers)
        if self._method != "GET" or not is_large:
            return chunks
        checked = _raise_if_refused(chunks, self.refused)
        return ClosingIterator(checked, lambda: close_if_possible(chunks))


def _raise_if_refused(chunks: Iterable[bytes], refused: list[StorletError]) -> Iterator[bytes]:
    """Yield ``chunks``; raise at their end if a read was refused."""
    yield from chunks
    if refused:
        raise refused[0]


def _ignore(_: StorletError) -> None:
    """The default of :attr:`ReadGuard.on_refusal`."""


def _refusal_response(error: StorletError, request: Any) -> Response:
    """The answer for Swift, and for the client if the filter does not replace it.

    The status line names the rule, too, because SLO reports only that of a segment
    (``?heartbeat=on``).
    """
    reason = (
        f"{REASONS.get(error.status, 'Error')} ({error.rule})"
        if isinstance(error, RuleRefused)
        else error.code
    )
    answer = Response(
        status=f"{error.status} {reason}",
        body=f"{error}\n",
        request=request,
        content_type="text/plain",
    )
    answer.headers[names.ERROR] = error.code
    if isinstance(error, RuleRefused):
        answer.headers[names.RULE] = error.rule
    if error.retry_after is not None:
        answer.headers["Retry-After"] = str(error.retry_after)
    return answer
