"""The paste filter ``egg:swift-storlets#storlets``: parses a request once, evaluates the rules,
runs storlets and answers errors.

::

    [filter:storlets]
    use = egg:swift-storlets#storlets
    role = proxy                                   # or object
    storlet_conf_path = /etc/swift/storlet.conf
    legacy_status = false
    recon_cache_path = /var/cache/swift            # of Swift's recon middleware

In a proxy's pipeline the filter is placed after the auth middlewares and before ``copy``, quotas,
``slo`` and ``dlo``, so that it sees whole objects; in an object server's pipeline, right before the
server.

The stages of a request at a proxy::

    environ -> operation -> route (the filter's own part)
            -> ruling (the decision of the rules) -> run -> answer

``legacy_status = true`` answers failures of storlets with the status codes of OpenStack Storlets
(503 on GET, 500 on PUT, 401 for a missing storlet) for clients that depend on them; the error code
in ``X-Storlet-Error`` is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from swift.common.registry import register_swift_info
from swift.common.swob import HTTPException, HTTPPreconditionFailed, Request
from swift.common.utils import config_true_value, get_logger

from rules.text import MAX_BYTES
from storlet_daemon.protocol import messages
from storlet_daemon.runtimes.table import API_VERSION
from storlet_middleware import names, self_test
from storlet_middleware.account_secrets import store as secret_store
from storlet_middleware.account_secrets.answers import SecretAnswers
from storlet_middleware.admission.controller import ROOM
from storlet_middleware.catalog import library_callers, upload_check
from storlet_middleware.catalog.bundle_uploads import BundleUploads
from storlet_middleware.catalog.code_uploads import CodeUploads
from storlet_middleware.catalog.library import library_of
from storlet_middleware.catalog.library_list import LibraryList
from storlet_middleware.catalog.plain_uploads import PlainUploads
from storlet_middleware.catalog.upload_check import UploadCheck
from storlet_middleware.config import DEFAULT_PATH, USER_CLASS, Config, ConfigError, load, nearest
from storlet_middleware.enforcement.ruling import (
    Answered,
    Enforcement,
    Filtered,
    PassOn,
    RunStorlets,
)
from storlet_middleware.engine import limits
from storlet_middleware.error_answers import ErrorAnswers, HasHeaders
from storlet_middleware.errors import AccessDenied, BadRequest, InternalError, StorletError
from storlet_middleware.flows.distributed import Distributed
from storlet_middleware.flows.sequence import Sequences
from storlet_middleware.object_server.node import ObjectNode
from storlet_middleware.proxy.run import RefusedRun, Run
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.recon import DEFAULT_DIRECTORY
from storlet_middleware.records import wish
from storlet_middleware.records.answers import RunRecords
from storlet_middleware.routes import Route, route_of
from storlet_middleware.ruleset.versions import RULES
from storlet_middleware.wsgi import (
    authorization,
    deferred_put,
    delegation,
    gate,
    s3_headers,
    s3_request,
    storlet_request,
)
from storlet_middleware.wsgi.account_info import account_metadata
from storlet_middleware.wsgi.context import CONTEXT, RequestContext, context_of
from storlet_middleware.wsgi.grant_changes import GrantChanges
from storlet_middleware.wsgi.operation import READS, Operation, parse
from storlet_middleware.wsgi.strings import text
from storlet_middleware.wsgi.subrequest import SwiftRefusal

_PASTE_OPTIONS: Final = ("role", "storlet_conf_path", "legacy_status", "recon_cache_path")

StartResponse = Callable[..., Any]
WSGIApp = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]


class ProxyFilter:
    """The filter in a proxy's pipeline."""

    def __init__(
        self, app: WSGIApp, config: Config, logger: Any, options: Mapping[str, str]
    ) -> None:
        self._app = app
        self._config = config
        self._logger = logger
        client_seconds = float(options.get("client_timeout", 60))
        self._proxy = Proxy(
            app,
            config,
            logger,
            client_seconds,
            _max_runs(options),
            _recon_directory(options),
        )
        self._proxy.front = self
        self._errors = ErrorAnswers(
            is_legacy=config_true_value(options.get("legacy_status", "false"))
        )
        self._sequences = Sequences(self, config, self._proxy.catalog.library)
        self._enforcement = Enforcement(
            self._proxy, logger, self._require_enabled, self._sequences.steps
        )
        check = UploadCheck(config, self._proxy.launcher, self._proxy)
        self._bundles = BundleUploads(app, config, client_seconds, check)
        self._code_uploads = CodeUploads(
            app,
            self._proxy.catalog,
            self._bundles,
            PlainUploads(app, self._proxy.catalog, check, config.limits.code_bytes, client_seconds),
            self._require_enabled,
        )
        library = self._proxy.catalog.library
        #: The parts that answer requests of an account.
        self._of_account: Mapping[Route, RunRecords | LibraryList | Distributed | SecretAnswers] = {
            Route.DISTRIBUTE: Distributed(
                self,
                self._proxy,
                self._require_enabled,
                self._enforcement.require_allowed_output,
            ),
            Route.SECRETS: SecretAnswers(
                self._proxy.secrets, self._require_enabled, client_seconds
            ),
            Route.SHOW_RUNS: RunRecords(app, config),
            Route.SHOW_LIBRARY: LibraryList(library, self._require_enabled),
        }
        self._grants = GrantChanges(
            app, self._proxy.catalog.containers, library.names, self._require_enabled
        )

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        is_s3 = s3_request.is_s3(environ)
        if is_s3:
            start_response = s3_headers.keeping(environ, start_response)
        run: list[Run] = []
        answer: WSGIApp
        try:
            answer = self._answer(environ, run, is_s3=is_s3)
        except SwiftRefusal as refusal:
            refused = _rule_refusal(environ)
            answer = self._errors.of_swift(environ, refusal, refused, *_run(environ, run))
        except HTTPException as refusal:
            answer = refusal
        except StorletError as error:
            answer = self._errors.of(environ, _rule_refusal(environ) or error, *_run(environ, run))
        except Exception:
            self._logger.exception(
                "ERROR storlets: %s %s", environ["REQUEST_METHOD"], environ.get("PATH_INFO")
            )
            internal = InternalError("Internal server error")
            answer = self._errors.of(environ, internal, *_run(environ, run))
        return answer(environ, start_response)

    # --- stages of a request ---------------------------------------------------------------------

    def _answer(self, environ: dict[str, Any], runs: list[Run], *, is_s3: bool) -> WSGIApp:
        """The answer, as a WSGI application; the run is added to ``runs`` before it begins, because
        error answers carry its headers.
        """
        # A middleware to the left may send an environment once more.
        environ.pop(CONTEXT, None)
        operation = self._operation(environ, is_s3=is_s3)
        route = route_of(environ, operation, self._proxy.catalog.containers)
        if operation is None:
            return (
                self._route(route, environ, PassOn())
                if route is not Route.PASS
                else self._forward_unstored(environ)
            )
        ruling = self._enforcement.decide(environ, operation)
        # Not the mapping first: the hash of a member of an Enum is a call of Python.
        is_pass = route is Route.PASS
        if not is_pass and route in self._of_account and not isinstance(ruling, Answered):
            ruling = Answered(self._of_account[route].answer(context_of(environ)))
        if isinstance(ruling, Answered):
            return ruling.answer
        if isinstance(ruling, Filtered):
            return ruling.apply(
                self._route(route, environ, PassOn()) if route is not Route.PASS else self._app
            )
        if isinstance(ruling, RunStorlets):
            if route is Route.REFUSE_HEADERS:
                raise storlet_request.headers_without_storlet(environ)
            deferred_put.require_no_run(environ, ruling.plan.rule)
            run = Run(
                self._proxy,
                context_of(environ),
                ruling.requests,
                ruling.plan,
                ruling.source_timestamp,
            )
        elif route is Route.RUN:
            run = self._explicit_run(operation, context_of(environ), ruling)
        elif route is Route.RUN_ON_DATA:
            run = self._run_on_data(operation, context_of(environ))
        elif route is Route.PASS:
            compared = None if ruling.evaluation is None else ruling.swift_answer()
            return compared or self._forward
        else:
            return self._route(route, environ, ruling)
        runs.append(run)
        return run.answer()

    def _operation(self, environ: dict[str, Any], *, is_s3: bool) -> Operation | None:
        """The operation of a request; raises if the request alone shows that it is refused."""
        if is_s3:
            s3_request.remember(environ)
        operation = parse(environ)
        if operation is None:
            return None
        if is_s3:
            s3_request.check_operation(operation)
        # Swift lets a signed request do anything in the account, but the signature covers one
        # object only.
        delegation.require_covered(environ)
        if operation.sent_method not in READS:
            wish.require_valid(operation)
            upload_check.require_valid(operation)
            library_callers.require_valid(operation)
            self._proxy.protection.require_no_write(operation)
        return operation

    def _route(self, route: Route, environ: dict[str, Any], ruling: PassOn) -> WSGIApp:
        """The answer of one of this filter's own routes, as a WSGI application."""
        ruling.pin_source()
        context = context_of(environ)
        if route is Route.REFUSE_REFERER:
            raise AccessDenied("Referrer containing storlets is not allowed")
        if route is Route.REFUSE_HEADERS:
            raise storlet_request.headers_without_storlet(environ)
        if route is Route.WRITE_CODE:
            app = self._code_uploads.writer(context)
            return self._forward if app == self._app else app
        if route is Route.LIST_VERSIONS:
            listed: WSGIApp = self._bundles.versions(context.require_operation(), environ)
            return listed
        if route is Route.CHANGE_GRANTS:
            answer: WSGIApp = self._grants.change(context)
            return answer
        return self._grants.show_to_owner(self._app)

    def _explicit_run(self, operation: Operation, context: RequestContext, ruling: PassOn) -> Run:
        """A run that the client requests."""
        # The path of an operation is UTF-8.
        if operation.path.is_hidden:
            raise BadRequest("the path is not valid UTF-8 or contains NULL")
        request = storlet_request.parse(operation, self._config)
        self._require_enabled(context.environ)
        if (
            request.target is not None
            and request.target.container in self._proxy.catalog.containers
        ):
            raise BadRequest(
                f"a storlet cannot write into the container {request.target.container}: choose"
                " another one"
            )
        steps = self._sequences.steps(context.environ, request)
        return Run(self._proxy, context, steps, source_timestamp=ruling.source_timestamp)

    def _run_on_data(self, operation: Operation, context: RequestContext) -> Run:
        """A run that a storlet requests, on data that it sends; its result is the answer."""
        request = replace(storlet_request.parse(operation, self._config), target=None)
        self._require_enabled(context.environ)
        return Run(self._proxy, context, self._sequences.steps(context.environ, request))

    def _forward(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Forward to the rest of the pipeline; refuse answers with facts that a rule hides from the
        caller.
        """
        deferred = deferred_put.taken_from(environ)
        if deferred is not None:
            return deferred.keep(self._forward, start_response)
        context: RequestContext | None = environ.get(CONTEXT)
        guard = context.chain.rules if context is not None else None
        try:
            return gate.stream(self._app, environ, start_response, guard)
        except StorletError as error:
            return self._errors.of(environ, error)(environ, start_response)  # type: ignore[no-any-return]

    def _forward_unstored(self, environ: dict[str, Any]) -> WSGIApp:
        """Requests for paths without stored data: ``/info``, ``/healthcheck``, paths that Swift
        refuses.
        """
        if environ["PATH_INFO"] == "/info":
            _publish_self_test(self._config)
        try:
            text(environ["PATH_INFO"])
        except UnicodeDecodeError:
            # Swift refuses it too late: after it has read the sources of copies and the segments of
            # manifests.
            raise HTTPPreconditionFailed(
                body="Invalid UTF8 or contains NULL", request=Request(environ)
            ) from None
        return self._app

    def _require_enabled(self, environ: dict[str, Any]) -> None:
        account = context_of(environ).require_operation().path.account
        known = account_metadata(environ, self._app, account)
        if not config_true_value(known.get(names.ACCOUNT_ENABLED, "false")):
            if s3_request.is_of_s3(environ):
                # A wrong signature leaves the path of an account that does not exist.
                refusal = authorization.authorize_account(environ).refusal
                if refusal is not None:
                    raise SwiftRefusal(refusal)
            raise BadRequest(
                "Account disabled for storlets: its owner enables it with POST and"
                f" X-Account-Meta-{names.ACCOUNT_ENABLED.title()}: true"
            )


def _run(environ: Mapping[str, Any], run: list[Run]) -> tuple[HasHeaders, ...]:
    """The run of a failed request; one without headers of its own if it was refused before."""
    if run or "HTTP_X_RUN_STORLET" not in environ:
        return tuple(run)
    return (RefusedRun(environ),)


def _rule_refusal(environ: Mapping[str, Any]) -> StorletError | None:
    """The first refusal by the rules; it takes precedence over Swift's answer."""
    context: RequestContext | None = environ.get(CONTEXT)
    return context.refused[0] if context is not None and context.refused else None


def _with_server_options(global_conf: Mapping[str, str], options: dict[str, str]) -> dict[str, str]:
    """``options`` with the server-wide values of the options that Swift's own server uses too."""
    return {
        **{
            name: global_conf[name]
            for name in ("client_timeout", "max_clients")
            if name in global_conf
        },
        **options,
    }


def _recon_directory(options: Mapping[str, str]) -> str:
    return options.get("recon_cache_path", DEFAULT_DIRECTORY)


def _max_runs(options: Mapping[str, str]) -> int:
    """Maximum number of runs in a server process: half of its requests, so that plain requests
    always find capacity.
    """
    return max(1, int(options.get("max_clients", 2 * ROOM)) // 2)


def filter_factory(global_conf: dict[str, str], **local_conf: str) -> Callable[[WSGIApp], WSGIApp]:
    """Paste entry point; raises :class:`~storlet_middleware.config.ConfigError` with all faults, so
    that the server does not start with invalid options.
    """
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
    options = _with_server_options(global_conf, local_conf)
    if role == "object":
        most, directory = _max_runs(options), _recon_directory(options)
        return lambda app: ObjectNode(app, config, logger, most, directory)
    _publish_info(config)
    return lambda app: ProxyFilter(app, config, logger, options)


def _publish_info(config: Config) -> None:
    """Register the section of ``/info``; the first three names are those of OpenStack Storlets, the
    limits are the maxima of class user.
    """
    register_swift_info(
        "storlet_handler",
        storlet_container=config.storlet.storlet_container,
        storlet_dependency=config.storlet.dependency_container,
        storlet_gateway_class="DockerStorletGateway",
        storlet_log=config.storlet.log_container,
        languages={
            language: list(versions) for language, versions in config.storlet.languages.items()
        },
        protocol_version=messages.VERSION,
        engine_api=API_VERSION,
        bundles={"versions_kept": config.storlet.versions_kept, "source": True},
        records={"days": config.storlet.records_days, "follows_lines": True},
        upload_check=True,
        secrets={"most": secret_store.MOST, "value_bytes": secret_store.MOST_BYTES},
        library=library_of(config).published(),
        library_callers=library_callers.DEFAULT.value,
        run_on=config.placement.run_on,
        rules={"container": config.rules.container, "object": RULES, "max_bytes": MAX_BYTES},
        limits=limits.published(config.classes[USER_CLASS]),
    )


def _publish_self_test(config: Config) -> None:
    """Update the self-test's results, which change with the node, for each request of ``/info``."""
    register_swift_info("storlet_handler", self_test=self_test.states(config.sandbox.run_dir))
