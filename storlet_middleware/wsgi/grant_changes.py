"""Requests that change or show the storlet grants of a container."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from swift.common.swob import Request, Response
from swift.common.wsgi import make_subrequest
from swift.proxy.controllers.base import get_container_info

from storlet_middleware import names
from storlet_middleware.config import nearest
from storlet_middleware.errors import AccessDenied, BadRequest
from storlet_middleware.wsgi import grants, own_requests
from storlet_middleware.wsgi.caller import user_of
from storlet_middleware.wsgi.context import RequestContext, swift_authorize
from storlet_middleware.wsgi.strings import wsgi
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from storlet_middleware.wsgi.swift_paths import object_path

WSGIApp = Callable[..., Any]

#: Prefixes of the headers that may accompany a grant in a POST of a container.
_WITH_GRANTS: Final = (
    "X-Container-",
    "X-Remove-Container-",
    "X-Versions-",
    "X-Remove-Versions-",
    "X-History-",
    "X-Remove-History-",
)


class GrantChanges:
    """The grants of all containers.

    :param app: the rest of the pipeline.
    :param code_containers: the storlet and the dependency container; they have no grants.
    :param library: the names of the storlets that every account has.
    """

    def __init__(
        self,
        app: WSGIApp,
        code_containers: tuple[str, ...],
        library: list[str],
        require_enabled: Callable[[dict[str, Any]], None],
    ) -> None:
        self._app = app
        self._code_containers = code_containers
        self._library = library
        self._require_enabled = require_enabled

    def change(self, context: RequestContext) -> Response:
        """The answer to a POST of ``X-Storlet-Container-Read`` or
        ``X-Remove-Storlet-Container-Read`` to a container.
        """
        environ, place = context.environ, context.require_operation().path
        self._require_enabled(environ)
        if place.container is None or place.container in self._code_containers:
            raise BadRequest(
                f"storlet ACL update cannot be a storlet container: {place.container} has no grants"
            )
        grant, is_given = grants.parse_change(environ)
        path = object_path(place.version, place.account, place.container)
        self._require_owner(environ, path)
        change = grants.change_headers(grant, is_given=is_given)
        post = make_subrequest(
            environ, method="POST", path=path, headers=change, swift_source=names.SWIFT_SOURCE
        )
        info = get_container_info(post.environ, self._app, swift_source=names.SWIFT_SOURCE)
        if is_given and grants.count(info.get("sysmeta", {})) >= grants.MAX_GRANTS:
            raise BadRequest(
                f"the container has {grants.MAX_GRANTS} storlet grants already: remove one with"
                f" {names.REVOKE_USER}"
            )
        for name, value in Request(environ).headers.items():
            if name.startswith(_WITH_GRANTS):
                post.headers[name] = value
        answer = post.get_response(self._app)
        if is_given and answer.is_success:
            warning = "; ".join(self._warnings(environ, (place.version, place.account), grant))
            if warning:
                answer.headers[names.WARNING] = wsgi(warning)
        return answer

    def _warnings(
        self, environ: dict[str, Any], place: tuple[str, str], grant: grants.Grant
    ) -> Iterator[str]:
        """Why a grant cannot have an effect.

        It is stored all the same: a grant may precede the user and the storlet.
        """
        user, storlet = grant
        owner = user_of(environ)
        # Keystone's names have no account, those of TempAuth have one.
        if ":" in owner and ":" not in user:
            yield f"user {user} has no account: users are named like {owner} here"
        if names.is_library(storlet):
            if storlet not in self._library:
                yield f"the library has no storlet {storlet}{nearest(storlet, self._library)}"
            return
        container = self._code_containers[0]
        # A bundle has the suffix in the name of its object, and not in its own.
        codes = (
            object_path(*place, container, name)
            for name in (storlet, storlet + names.BUNDLE_SUFFIX)
        )
        if all(
            own_requests.exchange(self._app, environ, "HEAD", code).status_int == 404
            for code in codes
        ):
            listed = own_requests.listing(self._app, environ, object_path(*place, container), {})
            known = [
                entry["name"].removesuffix(names.BUNDLE_SUFFIX)
                for entry in listed or ()
                if "name" in entry
            ]
            meant = nearest(storlet, known)
            yield f"there is no storlet {storlet} in container {container}{meant}"

    def _require_owner(self, environ: dict[str, Any], path: str) -> None:
        """Require an owner: Swift also allows a POST by callers with an account ACL, and ignores
        owner-only headers.
        """
        if swift_authorize(environ) is None:
            return  # without an authentication middleware every caller is an owner
        post = make_subrequest(environ, method="POST", path=path, swift_source=names.SWIFT_SOURCE)
        refusal = environ["swift.authorize"](post)
        if refusal is not None:
            raise SwiftRefusal(refusal)
        if not post.environ.get("swift_owner"):
            raise AccessDenied("only the owner of an account may change storlet ACLs")

    @staticmethod
    def show_to_owner(app: WSGIApp) -> WSGIApp:
        """``app`` with the grants added to the answers of an owner's HEAD and GET of containers."""

        def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
                shown = grants.as_header(headers) if environ.get("swift_owner") else ""
                if shown:
                    headers = [*headers, (names.GRANTS, shown)]
                return start_response(status, headers, *more)

            chunks: Iterable[bytes] = app(environ, start)
            return chunks

        return answer
