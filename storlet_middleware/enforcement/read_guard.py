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
  (:mod:`~storlet_middleware.wsgi.swift_paths`), and :func:`moving_header` names the settings that
  do this;
* facts of other objects in an answer without a read: ETag and length of a large object come from
  its segments, its manifest lists them; a static link shows its target's.
  :meth:`ReadGuard.check_answer` checks these.

Swift turns a refusal of the guard into its own answer (409 for a segment).  The filter replaces
that answer by the first of :attr:`ReadGuard.refused`.  A body that has begun can only break
(:meth:`ReadGuard.break_if_refused`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from swift.common.swob import HTTPForbidden, Response
from swift.common.utils import close_if_possible, config_true_value

from storlet_middleware import names
from storlet_middleware.enforcement.segments import Manifests, look_up
from storlet_middleware.errors import REASONS, BackendFailed, RuleRefused, StorletError
from storlet_middleware.wsgi import authorization
from storlet_middleware.wsgi.bodies import ClosingIterator
from storlet_middleware.wsgi.context import Authorize
from storlet_middleware.wsgi.operation import READS, Operation, query_of
from storlet_middleware.wsgi.swift_paths import (
    ALLOWS_RESERVED,
    Judge,
    SwiftPath,
    covering_rule,
    hidden_version,
    origins,
    origins_of_listing,
    parse_path,
    parse_url,
    versioned_object,
)

#: ``swift.source`` of reads of a link's target, and of segments of large objects.
_OF_LINKS: Final = "SYM"
_OF_DYNAMIC: Final = "DLO"
_OF_STATIC: Final = "SLO"
#: Objects that consist of others: the body ends early if one of these is refused.
_LARGE: Final = frozenset(("x-object-manifest", "x-static-large-object"))
_LINK: Final = frozenset(("x-symlink-target-etag", "x-symlink-target-bytes"))
#: The answer to a POST to a link names its target.
_LOCATION: Final = "location"
_DESCRIBES_OTHERS: Final = _LARGE | _LINK | {_LOCATION}
#: Versioning marks the link that replaces an object with this header.
_IS_VERSION_LINK: Final = "X-Object-Sysmeta-Versions-Symlink"
#: Settings that move a container's objects to another container or cluster, with other rules.
_MOVING_HEADERS: Final = ("X-Versions-Location", "X-History-Location", "X-Container-Sync-To")


class ReadGuard:
    """The rules' link of the authorization chain of one request; a
    :class:`~storlet_middleware.wsgi.context.RulesCheck`.

    :param operation: the client's request.
    :param judge_of: returns the rules of all accounts, evaluated as of the client's request.  Most
        requests need no judge.
    :param decided: the path that the filter has evaluated the rules for: the one that is read, or
        else written.
    :param swift: the authentication middleware's own check; ``None`` where there is none.
    :param app: the rest of the pipeline.
    :param rules_container: the container of rules, whose objects are never deleted as segments.
    """

    def __init__(
        self,
        operation: Operation,
        judge_of: Callable[[Operation], Judge],
        decided: SwiftPath,
        swift: Authorize | None,
        app: Any,
        rules_container: str,
    ) -> None:
        #: The refusals, in order.
        self.refused: list[StorletError] = []
        #: Called with the first refusal.
        self.on_refusal: Callable[[StorletError], None] = _ignore
        #: The mandatory rule whose storlet reads; the storlet may also read other objects of the
        #: account that this rule covers.
        self.running_rule: str | None = None
        #: Whether that storlet may read the target of a link.  Not if its parameters name the
        #: object: the maker of the link would choose them.
        self.follows_links = True
        self._known: dict[SwiftPath, StorletError] = {}
        self._operation = operation
        self._judge_of = judge_of
        self._decided = decided
        self._swift = swift
        self._app = app
        self._rules_container = rules_container
        self._method = operation.method
        # Fast path: nearly all reads are of the client's own path.
        is_plain = self._method in READS and not operation.environ.get("QUERY_STRING")
        self._own_path: str | None = operation.environ["PATH_INFO"] if is_plain else None

    @functools.cached_property
    def _judge(self) -> Judge:
        return self._judge_of(self._operation)

    @property
    def _environ(self) -> dict[str, Any]:
        """A copy of the client's environment, for sub-requests."""
        return dict(self._operation.environ)

    def __call__(self, request: Any) -> Any:
        """``None``, or the answer that refuses a request that Swift allows."""
        environ = request.environ
        if environ["PATH_INFO"] == self._own_path and environ.get("swift.source") != _OF_LINKS:
            return None
        try:
            if self._method == "DELETE":
                return self._refusal_of_deletion(request)
            may_run = self.follows_links or environ.get("swift.source") != _OF_LINKS
            for read in self._paths_to_check(request):
                self._require(read, request.method, may_run=may_run)
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
                    self._require(origin, request.method, may_run=False)
            return None
        # A version is deleted as its object.
        deleted = versioned_object(read) or read
        if deleted == self._decided or deleted.is_hidden:
            return None
        denial = self._judge.denial("DELETE", deleted)
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
                and self._decided.name is not None
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
            if request.method in READS and not self._is_decided(read, request.method)
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

    def _is_decided(self, read: SwiftPath, method: str) -> bool:
        """Whether the filter has decided about exactly this read: not about another version, or
        about a replacement of the object.

        A copy reads its source once, by ``GET``.  A HEAD during a copy is for the target (of a link
        with an ETag, of a segment), and its result does not pass through the storlet.
        """
        _, account, container, name = self._decided
        is_read = self._method in READS or (self._operation.is_copy and method == "GET")
        if container is None or name is None or not is_read:
            return False
        if self._operation.version_id:
            try:
                container, name = hidden_version(container, name, self._operation.version_id)
            except ValueError:
                return False
        return (read.account, read.container, read.name) == (account, container, name)

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
        for origin in origins(end):
            self._require(origin, request.method)
        path = (shown or end).path
        return authorization.authorize(
            {**self._environ, "swift.authorize": self._swift}, self._app, "GET", path
        ).refusal

    def _end_of_links(self, read: SwiftPath) -> SwiftPath | None:
        """The end of the chain of links at an object; ``None`` if it is no link."""
        return look_up(self._app, self._environ, read).end

    def _require_parts(self, request: Any) -> None:
        """Raise if the answer to ``request`` has facts of covered segments: a large object that is
        not covered itself has their hashes and lengths.
        """
        read = parse_path(request.environ["PATH_INFO"])
        if read is None or read.container is None or self.running_rule is not None:
            return
        source = request.environ.get("swift.source")
        parts = Manifests(self._app, self._environ, self._judge)
        rule = None
        if read.name is None:
            if source == _OF_DYNAMIC and request.method == "GET":
                prefix = query_of(request.environ).get("prefix", "")
                rule = parts.covering_rule_of_listed(read, prefix)
        elif request.method in READS and (
            source in (_OF_DYNAMIC, _OF_LINKS) or (source == _OF_STATIC and self._method == "PUT")
        ):
            rule = parts.covering_rule_of_large(read)
        if rule is not None:
            raise _covered(rule)

    # --- evaluation -------------------------------------------------------------------------------

    def _require(self, read: SwiftPath, method: str, *, may_run: bool = True) -> None:
        """Raise if a mandatory rule covers ``read``.

        :param may_run: whether the rule's own storlet may read it.
        """
        if read not in self._known:
            rule = covering_rule(self._judge, read)
            if rule is None or (may_run and self._is_running(rule, read, method)):
                return
            self._known[read] = _covered(rule)
        raise self._known[read]

    def _is_running(self, rule: str, read: SwiftPath, method: str) -> bool:
        """Whether it is the rule whose storlet reads, by ``GET`` and in the rule's own account.

        Never for the listing of a dynamic large object: every writer of the container chooses its
        segments, so the storlet would not see an object as its owner stored it.
        """
        return (
            rule == self.running_rule
            and read.name is not None
            and read.account == self._decided.account
            and method == "GET"
        )

    # --- the answer -------------------------------------------------------------------------------

    def must_check(self, headers: Iterable[tuple[str, str]]) -> bool:
        """Whether :meth:`check_answer` or :meth:`break_if_refused` has to look at an answer."""
        if self.refused:
            return True
        for key, _ in headers:  # noqa: SIM110 - this is what every plain request pays for rules
            if key.lower() in _DESCRIBES_OTHERS:
                return True
        return False

    def check_answer(self, headers: Iterable[tuple[str, str]]) -> None:
        """Raise if the answer must not be sent; no part of it was sent yet.

        :param headers: as Swift gives them; those of 304, 307, 412 and 416 contain the same facts
            as those of a success.
        """
        if self.refused:
            raise self.refused[0]
        if self.running_rule is not None:
            return  # the client gets none of these headers, and each segment is checked
        given = {key.lower(): value for key, value in headers}
        is_manifest = config_true_value(given.get("x-static-large-object", "false"))
        try:
            if self._method == "POST" and _LOCATION in given:
                for origin in origins(self._decided):
                    self._require(origin, "HEAD", may_run=False)
            if not _LINK.isdisjoint(given):
                self._check_link(given)
            if is_manifest and self._operation.source is not None:
                self._check_manifest(given)
        except StorletError as error:
            self.on_refusal(error)
            raise

    def _check_link(self, headers: Mapping[str, str]) -> None:
        """Check a static link: it shows its target's ETag and length in the answer to a read of the
        link itself, or to a ``POST``.
        """
        target = self._target(headers)
        if target is None or target.name is None:
            raise BackendFailed("the target of a link is unknown, and rules may cover it")
        # For a POST to a link, no rule was evaluated for the facts that the link shows.
        own = self._operation.path if self._method == "POST" else None
        found = look_up(self._app, self._environ, target)
        for read in (own, target, found.end):
            if read is not None and not self._is_decided(read, self._method):
                for origin in origins(read):
                    self._require(origin, "HEAD")
        etag = headers.get("x-symlink-target-etag")
        # Swift repeats a POST to a version's link at the version itself.
        is_made_by_client = "x-symlink-target" in headers or self._method == "POST"
        if is_made_by_client and etag and (found.content is None or found.content.etag != etag):
            rule = covering_rule(self._judge, target.sibling(None, None))
            if rule is not None:
                raise _covered(rule)

    def _target(self, headers: Mapping[str, str]) -> SwiftPath | None:
        """The target of a link; versioning shows its own link as one to ``?version-id`` of the
        object.
        """
        path = headers.get("x-symlink-target")
        if path is None:
            return parse_url(headers.get("location") or "")
        own = self._operation.path
        return parse_url(
            f"/{own.version}/{headers.get('x-symlink-target-account') or quote(own.account)}/{path}"
        )

    def _check_manifest(self, headers: Mapping[str, str]) -> None:
        manifest = self._operation.subject
        if manifest.name is None:
            return
        version_id = self._operation.version_id
        query = f"version-id={quote(version_id)}" if version_id else ""
        rule = Manifests(self._app, self._environ, self._judge, query).covering_rule(
            manifest, headers.get("x-timestamp")
        )
        if rule is not None:
            raise _covered(rule)

    def break_if_refused(
        self, headers: Iterable[tuple[str, str]], chunks: Iterable[bytes]
    ) -> Iterable[bytes]:
        """An answer's body that raises at its end if a read was refused after the body had begun.

        Swift ends such a large object early.  Without a Content-Length (DLO of many segments), a
        client would take that for the end of the object.
        """
        is_large = self._method == "GET" and any(key.lower() in _LARGE for key, _ in headers)
        if not is_large:
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


def moving_header(operation: Operation) -> str | None:
    """The header of a request with which Swift moves a container's objects away from its rules."""
    if operation.method not in ("PUT", "POST"):
        return None
    return next((name for name in _MOVING_HEADERS if operation.header(name)), None)


def _covered(rule: str) -> RuleRefused:
    """The refusal of a further read, or of an answer.

    All have one text: which of the reads is refused first depends on lengths and hashes (a range
    selects segments, a condition compares an ETag), and a path would name a segment.
    """
    return RuleRefused(
        rule,
        "the request would read or describe an object that the rule covers: a segment, the target"
        " of a link, an old version, or an extra resource",
    )


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
