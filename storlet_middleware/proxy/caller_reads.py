"""Reads of objects as the caller of a run can read them from Swift.

Each read is a GET down the rest of the pipeline with the caller's environment, so that Swift's
authorization, the grants of this run and the rules apply to it.  Conditions (``If-*``) and the
query of the request belong to the source; extra resources are read without them.  An answer without
data is Swift's refusal; :class:`~.disclosure.Disclosure` decides whether the client gets all of it.
"""

from __future__ import annotations

from typing import Any, Final

from swift.common.swob import Request, Response, WsgiBytesIO
from swift.common.utils import close_if_possible, drain_and_close

from storlet_middleware import names
from storlet_middleware.concurrency import result_of
from storlet_middleware.errors import AccessDenied, BackendFailed, RangeUnsatisfiable
from storlet_middleware.proxy.disclosure import Disclosure
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.wsgi import authorization, dynamic_object, gate
from storlet_middleware.wsgi.bodies import GuardedBody, SourceAnswer
from storlet_middleware.wsgi.caller import user_of
from storlet_middleware.wsgi.context import AuthorizationChain, RequestContext, swift_authorize
from storlet_middleware.wsgi.grants import GrantedReads, Reader
from storlet_middleware.wsgi.storlet_request import SWIFT_QUERIES, ObjectPath, StorletRequest
from storlet_middleware.wsgi.subrequest import SwiftRefusal, client_environ, path_info
from storlet_middleware.wsgi.swift_paths import SwiftPath, object_path

#: Headers of the client's request that select a part of the answer.
_RANGES: Final = ("HTTP_RANGE", "HTTP_IF_RANGE")


class CallerReads:
    """The reads of one run; a :class:`~.ranged_source.Reader`.

    :param storlets: names of the storlets that the bytes pass before a client's own choice: a grant
        for any of them allows a read.
    :param timestamp: ``X-Timestamp`` of the source that the rules were evaluated for ("": there was
        none); an object with another one is refused.  ``None``: no rule was evaluated for the
        object itself.
    """

    def __init__(
        self,
        proxy: Proxy,
        context: RequestContext,
        request: StorletRequest,
        storlets: list[str],
        disclosure: Disclosure,
        timestamp: str | None,
    ) -> None:
        self._proxy = proxy
        self._context = context
        self._environ = context.environ
        self._request = request
        self._storlets = storlets
        self._disclosure = disclosure
        self._timestamp = timestamp

    @property
    def used_grant(self) -> bool:
        """Whether a grant allowed a read."""
        return bool(self._context.used_grants)

    def require_allowed(self, path: ObjectPath) -> None:
        """Raise Swift's refusal of a caller that may not read ``path``, before it is read.

        Every caller may run the library, so without this check a caller without any rights could
        wait for slots of the account.
        """
        request = self._request
        place = object_path(request.version, request.account, path.container, path.name)
        refusal = authorization.authorize(self._environ, self._proxy.app, "GET", place).refusal
        if refusal is None:
            return
        asked = Request(self._get_environ(path, is_source=path == request.source))
        authorize = asked.environ.get("swift.authorize")
        grants = authorize.grants if isinstance(authorize, AuthorizationChain) else ()
        swift = swift_authorize(self._environ)
        if swift is None or not any(grant.allows(asked, swift) for grant in grants):
            raise SwiftRefusal(refusal)

    def get_in_turn(self, path: ObjectPath, headers: dict[str, str]) -> SourceAnswer:
        """:meth:`get`, among few of the account at a time (:attr:`Proxy.openings`)."""
        with self._proxy.openings.held(self._request.account):
            return self.get(path, headers)

    def get(self, path: ObjectPath, headers: dict[str, str]) -> SourceAnswer:
        """Swift's answer to the caller's GET of ``path``.

        :raises RangeUnsatisfiable: no byte is in the range.
        :raises SwiftRefusal: Swift answered without data.
        :raises BackendFailed: the object is not the one that the rules were evaluated for.
        """
        place = self._request
        is_source = path is place.source or path == place.source
        further = None
        if not is_source:
            further = SwiftPath(place.version, place.account, path.container, path.name)
        environ = self._get_environ(path, is_source=is_source)
        # Not Request.headers: eight calls for each header.
        for name, value in headers.items():
            environ[names.environ_key(name)] = value
        given = result_of(
            gate.ask,
            self._proxy.app,
            environ,
            self._context.chain.rules,
            further,
            release=lambda answer: close_if_possible(answer.chunks),
        )
        chunks = given.chunks
        answer = SourceAnswer(int(given.status[:3]), given.header_dict(), chunks)
        operation = self._context.operation
        if self.used_grant and operation is not None and operation.conditions:
            close_if_possible(chunks)
            raise AccessDenied(
                "a grant does not cover conditions (If-*), which would confirm a guess of the"
                " object's hash: retry without them"
            )
        if answer.status_int == 416:
            close_if_possible(chunks)
            raise unsatisfiable(path)
        if answer.status_int not in (200, 206):
            raise SwiftRefusal(self._refusal(environ, given.status, answer))
        # A link that is read as such has no bytes, and the rules were evaluated for its target.
        is_link = "X-Symlink-Target" in answer.headers
        is_checked = is_source and self._timestamp is not None and not is_link
        if is_checked and answer.headers.get("X-Timestamp", "") != self._timestamp:
            close_if_possible(chunks)
            raise BackendFailed(
                "the object changed while its rules were being evaluated; retry", retry_after=1
            )
        return answer

    def _get_environ(self, path: ObjectPath, *, is_source: bool) -> dict[str, Any]:
        environ = client_environ(self._environ)
        environ["REQUEST_METHOD"] = "GET"
        environ["PATH_INFO"] = path_info(self._request, path)
        environ["swift.source"] = names.SWIFT_SOURCE
        environ["wsgi.input"] = WsgiBytesIO()
        # Storlets of a rule work on the whole object; a server may answer a Range with all of the
        # result (RFC 9110, 14.2).
        for key in _RANGES:
            environ.pop(key, None)
        if not is_source:
            environ["QUERY_STRING"] = ""
            for key in [key for key in environ if key.startswith("HTTP_IF_")]:
                del environ[key]
        chain = self._context.chain
        if chain.swift is not None and not self._reads_stored_form():
            user, account = user_of(self._environ), self._request.account
            grants = [
                GrantedReads(
                    Reader(user, account, storlet), self._proxy.app, self._context.used_grants
                )
                for storlet in self._storlets
            ]
            chain = chain.with_grants(*grants)
            environ["swift.authorize"] = chain
        return environ

    def _reads_stored_form(self) -> bool:
        """Whether the client's query selects a manifest, link, part or version: no grant covers
        these.
        """
        operation = self._context.operation
        return operation is not None and not SWIFT_QUERIES.isdisjoint(operation.query)

    def _refusal(self, environ: dict[str, Any], status: str, answer: SourceAnswer) -> Response:
        refusal = Response(
            status=status,
            headers=answer.headers,
            app_iter=answer.app_iter,
            request=Request(environ),
        )
        if not self._disclosure.hides_source_answer(answer.status_int):
            return refusal
        drain_and_close(refusal)
        return Response(status=answer.status_int, request=Request(self._environ))

    def body(self, answer: SourceAnswer) -> GuardedBody:
        """The bytes of an answer; iteration raises unless they are complete."""
        manifest = answer.headers.get(dynamic_object.MANIFEST)
        find_length = None if manifest is None else lambda: self._listed_bytes(manifest)
        context = self._context
        return GuardedBody(answer, context.refused, context.chain.denied, find_length)

    def _listed_bytes(self, manifest: str) -> int:
        place = (self._request.version, self._request.account)
        return dynamic_object.listed_bytes(self._proxy.app, self._environ, place, manifest)


def unsatisfiable(path: ObjectPath) -> RangeUnsatisfiable:
    """The error of a read whose range is behind the end of the object."""
    return RangeUnsatisfiable(f"no byte of {path.container}/{path.name} is in the range")
