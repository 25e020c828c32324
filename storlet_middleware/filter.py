"""The paste filter ``egg:swift-storlets#storlets``: what is ours goes to one handler, everything else passes.

::

    [filter:storlets]
    use = egg:swift-storlets#storlets
    role = proxy                                   # or object
    storlet_conf_path = /etc/swift/storlet.conf
    legacy_status = false

In a proxy's pipeline the filter stands after the auth middlewares and before ``copy``, quotas, ``slo`` and ``dlo``, so that
it sees whole objects; in an object server's, right before the server.

``legacy_status = true`` answers failures of storlets with the status codes of OpenStack Storlets (503 on GET, 500 on PUT,
401 for a missing storlet) for clients that depend on them; the error code in ``X-Storlet-Error`` is the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from swift.common.constraints import check_utf8
from swift.common.registry import register_swift_info
from swift.common.swob import HTTPException, Request, Response
from swift.common.utils import close_if_possible, config_true_value, drain_and_close, get_logger
from swift.common.wsgi import make_subrequest
from swift.proxy.controllers.base import get_account_info, get_container_info

from rules.text import MAX_BYTES
from storlet_daemon.protocol import messages
from storlet_middleware import names, self_test
from storlet_middleware.admission.controller import ROOM
from storlet_middleware.config import DEFAULT_PATH, USER_CLASS, Config, ConfigError, load, nearest
from storlet_middleware.enforcement import s3
from storlet_middleware.enforcement.ruling import GUARD, Handler, Rules
from storlet_middleware.engine import limits
from storlet_middleware.errors import (
    REASONS,
    AccessDenied,
    BadRequest,
    InternalError,
    PreconditionFailed,
    RuleRefused,
    StorletError,
)
from storlet_middleware.object_server.node import ObjectNode
from storlet_middleware.proxy.run import Proxy, Run
from storlet_middleware.ruleset.store import RULES
from storlet_middleware.wsgi import authorization, grants
from storlet_middleware.wsgi.storlet_request import (
    ObjectPath,
    account_of,
    parse,
    parse_object_path,
    refuse_unknown,
    storlet_headers,
    text,
)
from storlet_middleware.wsgi.subrequest import SwiftRefusal, object_path
from storlet_middleware.wsgi.swift_paths import Read, of_path

_PASTE_OPTIONS: Final = ("role", "storlet_conf_path", "legacy_status")
_GRANT_KEYS: Final = frozenset(
    "HTTP_" + name.upper().replace("-", "_") for name in (names.GRANT_USER, names.GRANT_STORLET, names.REVOKE_USER)
)

#: What a container's POST may set beside the grants.
_WITH_GRANTS: Final = (
    "X-Container-",
    "X-Remove-Container-",
    "X-Versions-",
    "X-Remove-Versions-",
    "X-History-",
    "X-Remove-History-",
)

StartResponse = Callable[..., Any]
WSGIApp = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]


class ProxyFilter:
    """The filter in a proxy's pipeline."""

    def __init__(self, app: WSGIApp, config: Config, logger: Any, options: Mapping[str, str]) -> None:
        self._app = app
        self._config = config
        self._logger = logger
        self._is_legacy = config_true_value(options.get("legacy_status", "false"))
        self._proxy = Proxy(app, config, logger, float(options.get("client_timeout", 60)), _room(options))
        self._own_containers = self._proxy.catalog.containers
        self._rules = Rules(app, config, logger, self._proxy, self._require_enabled)

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        run: Run | None = None
        try:
            place = of_path(environ["PATH_INFO"])
            handler = self._rules.handler(environ, place, self._handler(environ, place))
            answer: Any = self._pass if handler is None else handler(environ)
            if answer is self._app:
                answer = self._pass
            if isinstance(answer, Run):
                run = answer
                answer = run.answer()
        except SwiftRefusal as refusal:
            why = self._rules.refusal_of(environ)
            if why is not None:
                answer = self._error(environ, why, run)
            else:
                answer = refusal.answer
                answer.headers.update(run.headers() if run else {})
                if answer.status_int >= 400:
                    answer.headers[names.ERROR] = refusal.code
        except HTTPException as refusal:
            answer = refusal
        except StorletError as error:
            answer = self._error(environ, self._rules.refusal_of(environ) or error, run)
        except Exception:
            self._logger.exception("ERROR storlets: %s %s", environ["REQUEST_METHOD"], environ.get("PATH_INFO"))
            answer = self._error(environ, InternalError("Internal server error"), run)
        return answer(environ, start_response)  # type: ignore[no-any-return]

    # --- routing -------------------------------------------------------------------------------------------------

    def _handler(self, environ: dict[str, Any], place: Read | None) -> Handler | None:  # noqa: PLR0911 - a table
        """Who answers; ``None`` for everything that is not ours, decided without any input or output."""
        # Swift compares a referrer's host without regard to case.
        if "storlets" in environ.get("HTTP_REFERER", "").lower():
            return _refuse_referrer
        if place is None or place.container is None:
            return None
        method = environ["REQUEST_METHOD"]
        if place.name is not None:
            if "HTTP_X_RUN_STORLET" in environ:
                return self._run
            if storlet_headers(environ):
                return _refuse_headers_without_storlet
            if place.container in self._own_containers and method in ("PUT", "POST", "DELETE"):
                return self._write_code
            if method == "COPY" and self._is_copy_of_code(environ):
                return self._write_code
        elif method == "POST" and not _GRANT_KEYS.isdisjoint(environ):
            return self._change_grants
        elif method in ("GET", "HEAD"):
            return self._show_grants
        return None

    def _is_copy_of_code(self, environ: Mapping[str, Any]) -> bool:
        try:
            target = parse_object_path(environ.get("HTTP_DESTINATION", ""), needs_slash=False)
        except ValueError:
            return False
        return target.container in self._own_containers

    def _pass(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """What is not ours, unless it reads what a rule of whatever account closes to the caller."""
        if GUARD not in environ:
            if environ["PATH_INFO"] == "/info":
                _publish_self_test(self._config)
            return self._app(environ, start_response)
        try:
            return self._rules.hand_on(environ, start_response)
        except StorletError as error:
            return self._error(environ, error, None)(environ, start_response)  # type: ignore[no-any-return]

    # --- handlers ------------------------------------------------------------------------------------------------

    def _run(self, environ: dict[str, Any]) -> Run:
        path = _object_parts(environ)
        request = parse(environ, path, self._config)
        self._require_enabled(environ)
        if request.target is not None and request.target.container in self._own_containers:
            raise BadRequest(f"a storlet cannot write into the container {request.target.container}")
        return Run(self._proxy, environ, request)

    def _require_enabled(self, environ: dict[str, Any]) -> None:
        info = get_account_info(environ, self._app, swift_source=names.SWIFT_SOURCE)
        if not config_true_value(info.get("meta", {}).get(names.ACCOUNT_ENABLED, "false")):
            raise BadRequest("Account disabled for storlets")

    def _write_code(self, environ: dict[str, Any]) -> WSGIApp:
        """PUT, POST, COPY and DELETE in the storlet and dependency containers."""
        version, account, container, name = _object_parts(environ)
        request = Request(environ)
        target = ObjectPath(container, name)
        if request.method != "DELETE":
            self._require_enabled(environ)
            self._proxy.catalog.refuse_links(request.headers)
            headers: Mapping[str, str] = request.headers
            if request.method == "COPY":
                headers = self._with_source_metadata(request, version, account, target)
                target = parse_object_path(environ["HTTP_DESTINATION"], needs_slash=False)
                account = account_of(request.headers.get("Destination-Account", "")) or account
            elif request.method == "PUT" and request.headers.get("X-Copy-From"):
                try:
                    source = parse_object_path(request.headers["X-Copy-From"], needs_slash=False)
                except ValueError:
                    raise PreconditionFailed(
                        "X-Copy-From header must be of the form <container name>/<object name>"
                    ) from None
                source_account = account_of(request.headers.get("X-Copy-From-Account", "")) or account
                headers = self._with_source_metadata(request, version, source_account, source)
            self._proxy.catalog.check_upload(account, target.container, target.name, headers)
        memory = self._proxy.catalog.changing(environ, account)
        if not self._may_write(environ, version, account, target):
            # Swift will refuse it; what a stranger tries shall not cost the account its remembered versions.
            return self._app

        def write(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
            memory.writing()
            try:
                chunks = self._app(environ, start_response)
            except BaseException:
                memory.written()
                raise
            if isinstance(chunks, list | tuple):
                memory.written()
                return chunks
            # With heartbeats (SLO, COPY) Swift answers first and writes while its answer is read.
            return _Ended(chunks, memory.written)

        return write

    def _may_write(self, environ: dict[str, Any], version: str, account: str, target: ObjectPath) -> bool:
        path = object_path(version, account, target.container, target.name)
        return authorization.ask(environ, self._app, "PUT", path).refusal is None

    def _with_source_metadata(self, request: Any, version: str, account: str, source: ObjectPath) -> Mapping[str, str]:
        """The metadata that a copy will have: the source's, under what the request sets."""
        own = dict(request.headers)
        if config_true_value(request.headers.get("X-Fresh-Metadata", "false")):
            return own
        path = object_path(version, account, source.container, source.name)
        answer = self._head(request.environ, path)
        return {**dict(answer.headers), **own}

    def _head(self, environ: dict[str, Any], path: str) -> Any:
        """What Swift says of ``path`` to the caller; raises what it refuses with, never goes on without an answer."""
        head = make_subrequest(
            environ, method="HEAD", path=path, headers={"X-Newest": "true"}, swift_source=names.SWIFT_SOURCE
        )
        answer = head.get_response(self._app)
        drain_and_close(answer)
        if answer.status_int // 100 != 2:
            # A HEAD's Content-Length is that of a body which never comes.
            raise SwiftRefusal(Response(status=answer.status_int, request=Request(environ)))
        return answer

    def _require_owner(self, environ: dict[str, Any], path: str) -> None:
        """Swift lets others post to a container too (account ACLs), and drops from their posts what only an owner sets."""
        authorize = environ.get("swift.authorize")
        if authorize is None:
            return
        post = make_subrequest(environ, method="POST", path=path, swift_source=names.SWIFT_SOURCE)
        refusal = authorize(post)
        if refusal is not None:
            raise SwiftRefusal(refusal)
        if not post.environ.get("swift_owner"):
            raise AccessDenied("only the owner of an account may change storlet ACLs")

    def _change_grants(self, environ: dict[str, Any]) -> Response:
        """POST of ``X-Storlet-Container-Read`` or ``X-Remove-Storlet-Container-Read`` to a container."""
        _, version, account, container, *_ = text(environ["PATH_INFO"]).split("/")
        self._require_enabled(environ)
        if container in self._own_containers:
            raise BadRequest("storlet ACL update cannot be a storlet container")
        grant, is_given = grants.parse_change(environ)
        path = object_path(version, account, container)
        self._require_owner(environ, path)
        change = grants.stored(grant, is_given=is_given)
        post = make_subrequest(environ, method="POST", path=path, headers=change, swift_source=names.SWIFT_SOURCE)
        info = get_container_info(post.environ, self._app, swift_source=names.SWIFT_SOURCE)
        if is_given and grants.count(info.get("sysmeta", {})) >= grants.MAX_GRANTS:
            raise BadRequest(f"the container has {grants.MAX_GRANTS} storlet grants already")
        for name, value in Request(environ).headers.items():
            if name.startswith(_WITH_GRANTS):
                post.headers[name] = value
        return post.get_response(self._app)

    def _show_grants(self, environ: dict[str, Any]) -> WSGIApp:
        """HEAD and GET of a container: its owner sees the grants."""

        def answer(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
            def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
                shown = grants.as_header(headers) if environ.get("swift_owner") else ""
                if shown:
                    headers = [*headers, (names.GRANTS, shown)]
                return start_response(status, headers, *more)

            return self._app(environ, start)

        return answer

    # --- errors --------------------------------------------------------------------------------------------------

    def _error(self, environ: Mapping[str, Any], error: StorletError, run: Run | None) -> Response:
        s3.tell(environ, error)
        status = error.status
        if self._is_legacy:
            legacy = error.legacy_get if environ["REQUEST_METHOD"] == "GET" else error.legacy_put
            status = legacy or status
        headers = run.headers() if run else {}
        headers[names.ERROR] = error.code
        if isinstance(error, RuleRefused):
            headers[names.RULE] = error.rule
        if error.retry_after is not None:
            headers["Retry-After"] = str(error.retry_after)
        if "application/json" in environ.get("HTTP_ACCEPT", ""):
            message: dict[str, Any] = {"code": error.code, "message": str(error)}
            if error.detail:
                message["detail"] = error.detail
            body, kind = json.dumps(message) + "\n", "application/json"
        else:
            body, kind = f"{error}\n" + (f"\n{error.detail.rstrip()}\n" if error.detail else ""), "text/plain"
        # swob does not know every status.
        line = f"{status} {REASONS.get(status, 'Error')}"
        response = Response(status=line, body=body.encode(), request=Request(dict(environ)))
        response.headers.update(headers)
        response.headers["Content-Type"] = f"{kind}; charset=utf-8"
        return response


def _object_parts(environ: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Version, account, container and object as text; raises what a path deserves that Swift would not take."""
    _, version, account, container, name = text(environ["PATH_INFO"]).split("/", 4)
    if not check_utf8(container) or not check_utf8(name):
        raise BadRequest("the path is not valid UTF-8 or contains NULL")
    return version, account, container, name


class _Ended:
    """An answer's body whose end, however it comes, is told once."""

    def __init__(self, chunks: Iterable[bytes], on_end: Callable[[], None]) -> None:
        self._chunks = chunks
        self._on_end = on_end
        self._has_ended = False

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._chunks
        finally:
            self._end()

    def close(self) -> None:
        close_if_possible(self._chunks)
        self._end()

    def _end(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._on_end()


def _refuse_referrer(environ: dict[str, Any]) -> Response:
    raise AccessDenied("Referrer containing storlets is not allowed")


def _refuse_headers_without_storlet(environ: dict[str, Any]) -> Response:
    headers = storlet_headers(environ)
    faults = refuse_unknown(headers, names.CLIENT_HEADERS, "unknown header")
    known = [header for header in headers if not any(fault.startswith(header + ":") for fault in faults)]
    faults += [f"{header}: means nothing without {names.RUN_STORLET}" for header in known]
    raise BadRequest("; ".join(faults))


def _of_server(global_conf: Mapping[str, str], options: dict[str, str]) -> dict[str, str]:
    """``options``, with those that Swift's own server has, if they were set for all of it."""
    return {**{name: global_conf[name] for name in ("client_timeout", "max_clients") if name in global_conf}, **options}


def _room(options: Mapping[str, str]) -> int:
    """How many storlets a server process may have: half of its requests, so that others find a place whatever comes."""
    return max(1, int(options.get("max_clients", 2 * ROOM)) // 2)


def filter_factory(global_conf: dict[str, str], **local_conf: str) -> Callable[[WSGIApp], WSGIApp]:
    """Paste entry point; raises :class:`~storlet_middleware.config.ConfigError` with every fault, so that the server
    does not start with options that nobody meant."""
    faults = [
        f"[filter:storlets] unknown option {name}{nearest(name, list(_PASTE_OPTIONS))}"
        for name in local_conf
        if name not in _PASTE_OPTIONS and not name.startswith(("log_", "__"))
    ]
    role = local_conf.get("role", "")
    if role not in ("proxy", "object"):
        faults.append(f"[filter:storlets] role = {role}: want proxy or object")
    try:
        config = load(local_conf.get("storlet_conf_path", DEFAULT_PATH))
    except ConfigError as error:
        faults.append(str(error))
    if faults:
        raise ConfigError("\n".join(faults))
    logger = get_logger({**global_conf, **local_conf}, log_route="storlets")
    options = _of_server(global_conf, local_conf)
    if role == "object":
        return lambda app: ObjectNode(app, config, logger, _room(options))
    _publish(config)
    return lambda app: ProxyFilter(app, config, logger, options)


def _publish(config: Config) -> None:
    """What ``/info`` says; the first three names are those of OpenStack Storlets, the limits are the maxima of class user."""
    user = config.classes[USER_CLASS]
    register_swift_info(
        "storlet_handler",
        storlet_container=config.storlet.storlet_container,
        storlet_dependency=config.storlet.dependency_container,
        storlet_gateway_class="DockerStorletGateway",
        storlet_log=config.storlet.log_container,
        languages={language: list(versions) for language, versions in config.storlet.languages.items()},
        protocol_version=messages.VERSION,
        run_on=config.placement.run_on,
        rules={"container": config.rules.container, "object": RULES, "max_bytes": MAX_BYTES},
        limits={
            "memory_bytes": user.limits.memory_bytes,
            "cpus": user.limits.cpus,
            "pids": user.limits.pids,
            "inputs": config.limits.inputs,
            **limits.published(user),
        },
    )


def _publish_self_test(config: Config) -> None:
    """What ``/info`` says changes with the node; so it is read when somebody asks."""
    register_swift_info("storlet_handler", self_test=self_test.states(config.sandbox.run_dir))
