"""GET, PUT and COPY with a storlet, at the proxy server.

::

    GET   open the source -> result -> answer
    PUT   the client's body -> result -> PUT down the pipeline
    COPY  open the source -> result -> PUT down the pipeline

*Opening the source* sends a GET down the pipeline with a description of the invocation.  An object node that can run it
answers in frames; anything else that succeeds is plain data, and the storlet runs here on it.  Plain data is never handed
to the client in its place.

A *result* is the storlet's output with its first bytes or its end known (:mod:`storlet_middleware.proxy.result`), so that a
storlet that fails early gives a proper error status.  After the first byte has gone out, the only honest failure is to
break the connection; before a PUT is committed, it is to break the PUT.

A *plan* is there when a rule asks for the run (:mod:`storlet_middleware.proxy.plan`).  It may name further storlets, which run
here, each on the output of the one before (:mod:`storlet_middleware.proxy.pipeline`), and it says what of the source may leave.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from swift.common.exceptions import ChunkReadError, ChunkReadTimeout
from swift.common.header_key_dict import HeaderKeyDict
from swift.common.swob import HTTPLengthRequired, Range, Request, Response, WsgiBytesIO
from swift.common.utils import close_if_possible, drain_and_close
from swift.common.wsgi import make_pre_authed_request

from storlet_middleware import metrics, names
from storlet_middleware.admission.controller import ROOM, Slot
from storlet_middleware.backend import overflow as overflow_modes
from storlet_middleware.backend.invocation_header import BackendInvocation
from storlet_middleware.catalog.storlets import Catalog, ProxyFetcher
from storlet_middleware.concurrency import GreenTask, end, monotonic, spawn
from storlet_middleware.config import Config
from storlet_middleware.engine import limits
from storlet_middleware.engine.invocation import Invocation
from storlet_middleware.engine.launcher import Demand, Launcher
from storlet_middleware.engine.storlet_version import StorletVersion
from storlet_middleware.engine.task import StreamInput, Task
from storlet_middleware.errors import (
    AccessDenied,
    BackendFailed,
    BadRequest,
    CodeReplaced,
    InternalError,
    NodeBusy,
    RangeUnsatisfiable,
    RuleRefused,
    StorletDenied,
    StorletError,
    StorletNotFound,
    TenantBusy,
    Unprocessable,
)
from storlet_middleware.proxy import placement, stored_headers
from storlet_middleware.proxy.pipeline import Pipeline, merged
from storlet_middleware.proxy.plan import UNKNOWN_TYPE, Plan
from storlet_middleware.proxy.result import BrokenAnswer, LocalResult, RemoteResult, Result
from storlet_middleware.wsgi import authorization, caller, grants
from storlet_middleware.wsgi.answer import Answer
from storlet_middleware.wsgi.bodies import ClientBody, GuardedBody, ObjectBody, SourceAnswer
from storlet_middleware.wsgi.disconnect import ClientGone, ClientWatch, break_connection
from storlet_middleware.wsgi.storlet_request import ByteRange, ObjectPath, StorletRequest, wsgi
from storlet_middleware.wsgi.subrequest import SwiftRefusal, object_path
from storlet_middleware.wsgi.user_metadata import storlet_metadata, user_metadata_wsgi

#: An object node that dies before the first byte: so many further replicas are asked.
_RERUNS: Final = 2
#: A storlet that is uploaded anew between its resolution and the fetch of its code: so often it is resolved again.
_RESOLUTIONS: Final = 4
#: Part of a process's room that only accounts without a storlet in it may use.
_RESERVED: Final = 8
#: Beginnings of the codes of errors for which one storlet of several is the reason.
_OF_A_STEP: Final = ("storlet.", "tenant.", "node.", "sandbox.", "code.")
#: Codes of errors whose text may speak of the source.
_OF_THE_SOURCE: Final = ("backend.failed", "input.incomplete")
_counter: Final = itertools.count(1)


class OutputBroken(ChunkReadError):
    """Raised into a PUT whose storlet failed: to Swift it is a body that broke off, so nothing is committed."""


class Proxy:
    """The filter's part at a proxy server: what all requests share.

    :param app: the rest of the pipeline.
    :param room: storlets that may run through this process, wherever they do: each holds one of its places for requests.
    """

    def __init__(self, app: Any, config: Config, logger: Any, client_timeout_seconds: float, room: int = ROOM) -> None:
        self.app = app
        self.config = config
        self.logger = logger
        self.client_timeout_seconds = client_timeout_seconds
        self.catalog = Catalog(app, config)
        self.launcher = Launcher(config, logger, room)
        self._room = room
        self._inflight: dict[str, int] = {}

    def enter(self, account: str) -> None:
        """Count an invocation of ``account``; raises when it has its share already."""
        limit = self.config.invocation.max_inflight_per_tenant
        own = self._inflight.get(account, 0)
        if own >= limit:
            raise TenantBusy(f"the account has {limit} storlets running through this server")
        # The last ones are for accounts that have none yet.
        if sum(self._inflight.values()) >= self._room - (self._room // _RESERVED if own else 0):
            raise NodeBusy("as many storlets run through this server as leave room for other requests")
        self._inflight[account] = own + 1

    def leave(self, account: str) -> None:
        """Reverse of :meth:`enter`."""
        self._inflight[account] -= 1
        if not self._inflight[account]:
            del self._inflight[account]


@dataclass
class _Step:
    """One storlet of a run; ``id`` is its invocation's, ``version`` is known once the run is admitted.

    ``slot`` is its place on this node from when it has one until its invocation takes it over; a single storlet's takes one by
    itself.
    """

    request: StorletRequest
    id: str
    version: StorletVersion | None = None
    slot: Slot | None = None

    @property
    def storlet(self) -> StorletVersion:
        if self.version is None:
            raise InternalError("the storlet was not resolved")
        return self.version


class Run:
    """One request that runs a storlet, or several.

    :param request: what the client asked for, or a rule.
    :param plan: what else the rule wants; ``None`` where the client asked.
    """

    def __init__(
        self, proxy: Proxy, environ: dict[str, Any], request: StorletRequest, plan: Plan | None = None
    ) -> None:
        self._proxy = proxy
        self._environ = environ
        self._request = request
        self._plan = plan
        self._began = monotonic()
        self._authorized = self._began
        self._first_byte = self._began
        self._is_owner = False
        self._used_grants: list[bool] = []
        self._result: Result | None = None
        self._watch: ClientWatch | None = None
        self._is_counted = False
        self._has_ended = False
        self._is_usage_final = False
        #: ``X-Timestamp`` of the source that it has been decided about ("": there is none); another one is not read.
        self.source_stamp: str | None = None
        self._source_answer: Any = None
        self._placement, self._reason = placement.decide(request, proxy.config.placement.run_on)
        # A part of it is the client's (X-Trans-Id-Extra), and it names the log: a slash would make folders there.
        self.id = f"{environ.get('swift.trans_id') or 'tx-none'}-{next(_counter)}".replace("/", "_")
        self._first_step = _Step(request, self.id)
        self._steps = [self._first_step]
        if plan is not None:
            self._steps += [_Step(step, f"{self.id}.{index}") for index, step in enumerate(plan.further, 2)]
        #: Which step is being started, counted from 0; ``None`` while none can.
        self._starting: int | None = None
        #: How long the places of several steps were waited for.
        self._waited_seconds = 0.0

    # --- the three verbs -----------------------------------------------------------------------------------------

    def answer(self) -> Response | Answer:
        """The client's answer; raises :class:`StorletError`, :class:`SwiftRefusal` or Swift's ``HTTPException``."""
        try:
            self._proxy.enter(self._request.account)
            self._is_counted = True
            self._watch = ClientWatch(self._environ)
            self._admit()
            result = self._result = self._open() if self._request.source else self._open_put()
            for step in self._steps[1:]:
                result = self._append(result, step)
            self._first_byte = monotonic()
            if self._request.target is None:
                self._watch.pause()
                self._is_usage_final = result.has_ended()
                return self._respond(result)
            response = self._store(result, self._request.target)
            self._end("ok" if response.status_int // 100 == 2 else "refused")
            return response  # noqa: TRY300 - the end above belongs to what is tried
        except ClientGone:
            self._end("client-gone")
            raise StorletError("the client closed its connection", status=499, code="client.gone") from None
        except StorletError as error:
            self._end(error.code)
            raise self._for_client(error) from error
        except BaseException:
            self._end("refused")
            raise

    def headers(self) -> dict[str, str]:
        """What every answer carries, also a failed one."""
        ran_on = self._result.ran_on if self._result else self._placement
        sandbox = self._result.sandbox_seconds if self._result else 0.0
        waited = self._waited_seconds + (self._result.waited_seconds if self._result else 0.0)
        first = max(0.0, self._first_byte - self._authorized - waited - sandbox)
        headers = {
            names.INVOCATION: self.id,
            names.RAN_ON: ran_on,
            "Server-Timing": f"auth;dur={(self._authorized - self._began) * 1000:.2f}, queue;dur={waited * 1000:.2f}, "
            f"sandbox;dur={sandbox * 1000:.2f}, first-byte;dur={first * 1000:.2f}",
        }
        if self._plan is not None and self._plan.rule:
            headers[names.RULE] = self._plan.rule
        if self._result is not None and self._is_usage_final and not self._hides_usage():
            headers[names.USAGE] = self._result.usage.as_header()
        return headers

    def _hides_usage(self) -> bool:
        """Bytes read, and the memory of a storlet that gathers them, tell the length of a source that shall not be known."""
        return self._is_closed and self._request.source is not None and not self._is_owner

    @property
    def _is_closed(self) -> bool:
        return self._plan is not None and self._plan.is_mandatory

    def _for_client(self, error: StorletError) -> StorletError:
        """``error`` as the caller may see it; of several storlets, it says which one failed."""
        if not self._is_owner:
            error = error.for_strangers()
            if self._is_closed and error.code in _OF_THE_SOURCE:
                # It may say how many bytes there were.
                error.args = ("the storlet's input could not be read",)
        index = self._failed_step(error.code)
        if index is not None:
            name = f" ({self._steps[index].request.storlet})" if self._is_owner else ""
            error.args = (f"step {index + 1} of {len(self._steps)}{name}: {error}",)
        return error

    def _failed_step(self, code: str) -> int | None:
        """Which of several steps, counted from 0, is the reason of an error with ``code``, if one of them is."""
        if len(self._steps) == 1 or not code.startswith(_OF_A_STEP):
            return None
        failed = self._result.failed if isinstance(self._result, Pipeline) else None
        return self._starting if failed is None else failed

    # --- what is asked before anything runs ----------------------------------------------------------------------

    def _admit(self) -> None:
        request = self._request
        if self._is_signed() and (self._plan is None or self._plan.explicit_last):
            # Swift lets a signed URL's request do anything in the account; the signature covers one object, though.
            raise AccessDenied("a signed URL does not cover running a storlet", status=401)
        for step in self._steps:
            self._require_few_inputs(step.request)
        # Each of them is asked for, also after one that somebody else owns.
        are_owned = [self._may_run_as_owner(step) for step in self._steps]
        self._is_owner = all(are_owned)
        if request.target is not None:
            self._authorize_target(request.target)
        for step in self._steps:
            step.version = self._resolve(step)
            self._require_lower_limits(step)
        self._authorized = monotonic()
        if len(self._steps) > 1:
            self._take_places(self._steps if self._placement == placement.PROXY else self._steps[1:])

    # --- places for several steps --------------------------------------------------------------------------------
    #
    # Steps run at the same time.  Who holds a place and waits for another may wait for somebody who does the same (the node
    # that stores the object may be this one, too).  So all places on this node are taken at once, and a node that stores the
    # object is asked to run the first step only if it can do that without waiting; else that runs here as well.

    def _take_places(self, steps: list[_Step]) -> None:
        """Places on this node for ``steps``, which have none; waits for them."""
        began, self._starting = monotonic(), None
        slots = self._proxy.launcher.admit_together([self._place(step) for step in steps])
        self._starting = 0
        self._waited_seconds += monotonic() - began
        for step, slot in zip(steps, slots, strict=True):
            step.slot = slot

    def _take_places_at_once(self, steps: list[_Step]) -> bool:
        """Whether ``steps`` have places, or could have those that they lack without waiting."""
        lacking = [step for step in steps if step.slot is None]
        if not lacking:
            return True
        slots = self._proxy.launcher.admit_together_at_once([self._place(step) for step in lacking])
        for step, slot in zip(lacking, slots or (), strict=False):
            step.slot = slot
        return slots is not None

    def _give_places_back(self) -> None:
        for step in self._steps:
            slot, step.slot = step.slot, None
            if slot is not None:
                slot.release()

    def _place(self, step: _Step) -> Demand:
        return step.storlet, self._proxy.launcher.effective(step.storlet, step.request.limits).resources

    def _take_all_places(self) -> None:
        """Places on this node for all steps, of which the first was to run elsewhere."""
        if not self._take_places_at_once(self._steps):
            self._give_places_back()
            self._take_places(self._steps)

    # --- rights --------------------------------------------------------------------------------------------------

    def _is_signed(self) -> bool:
        return caller.is_signed(self._environ)

    def _rule_of(self, step: _Step) -> Plan | None:
        """The plan that asks for ``step``; ``None`` where the client does."""
        plan = self._plan
        return None if plan is None or (plan.explicit_last and step is self._steps[-1]) else plan

    def _require_few_inputs(self, request: StorletRequest) -> None:
        if len(request.extra) + max(1, len(request.ranges)) > self._proxy.config.limits.inputs:
            raise BadRequest(f"Too many extra resources. At most {self._proxy.config.limits.inputs} inputs are allowed")

    def _may_run_as_owner(self, step: _Step) -> bool:
        """Raise unless the caller may run the storlet; whether the caller owns it."""
        request, plan = step.request, self._rule_of(step)
        if plan is not None and self._is_signed():
            return False  # who holds the key has given away what the rules make of the object
        try:
            place = request.source or request.target
            return self._proxy.catalog.authorize(
                self._environ, request.version, request.account, request.storlet, place.container if place else ""
            )
        except StorletDenied:
            if plan is None or not plan.rule:
                raise
            self._require_right()
            raise RuleRefused(plan.rule, f"it runs the storlet {request.storlet}, which you may not") from None

    def _require_right(self) -> None:
        """Raise Swift's own refusal of the request: who may not ask anyway learns nothing of the rule."""
        source = self._request.source
        path = source or self._request.target
        if path is None:
            return
        where = object_path(self._request.version, self._request.account, path.container, path.name)
        verdict = authorization.ask(self._environ, self._proxy.app, "GET" if source else "PUT", where)
        if verdict.refusal is not None:
            raise SwiftRefusal(verdict.refusal)

    def _resolve(self, step: _Step) -> StorletVersion:
        request, plan = step.request, self._rule_of(step)
        try:
            return self._proxy.catalog.resolve(self._environ, request.version, request.account, request.storlet)
        except StorletNotFound as error:
            if plan is None:
                raise
            # A 404 would say that the object is not there.
            raise StorletError(f"a rule needs what is missing: {error}", status=422, code=error.code) from None

    def _require_lower_limits(self, step: _Step) -> None:
        """Refuse what the storlet itself forbids; the maxima of its trust class were looked at before."""
        storlet = step.storlet
        trust_class = self._proxy.config.class_of(storlet.account, storlet.name)
        wanted = step.request.limits
        faults = limits.too_much(wanted, names.LIMIT_PREFIX, trust_class, storlet.limits)
        faults += limits.too_little(wanted, names.LIMIT_PREFIX, storlet.language)
        if faults:
            raise BadRequest("; ".join(faults))

    def _authorize_target(self, target: ObjectPath) -> None:
        """Refuse before the storlet runs what Swift would refuse after it."""
        path = object_path(self._request.version, self._request.account, target.container, target.name)
        verdict = authorization.ask(self._environ, self._proxy.app, "PUT", path)
        if verdict.refusal is not None:
            raise SwiftRefusal(verdict.refusal)
        if verdict.container_status == 404:
            raise StorletError(f"there is no container {target.container}", status=404, code="target.not_found")

    # --- inputs --------------------------------------------------------------------------------------------------

    def _open(self) -> Result:
        if self._placement == placement.PROXY:
            return self._run_here()
        reruns, resolutions = _RERUNS, _RESOLUTIONS
        while True:
            # Nothing of an earlier try may serve as input of this one.
            self._result = self._source_answer = None
            result = self._open_at_object()
            if result is None:
                return self._run_here()
            self._result = result
            try:
                result.first()
            except BrokenAnswer as error:
                result.close()
                if not reruns:
                    raise
                reruns -= 1
                # Nothing has gone to the client: another replica may run the storlet from the beginning.
                self._proxy.logger.warning("storlet rerun id=%s why=%s", self.id, error)
            except CodeReplaced:
                result.close()
                if not resolutions:
                    raise
                resolutions -= 1
                self._resolve_anew(self._first_step)
            else:
                return result

    def _open_at_object(self) -> Result | None:
        """The result from an object node; ``None`` when the storlet has to run here.

        Plain data that came instead is kept for :meth:`_run_here` unless a part of it is wanted.
        """
        description = BackendInvocation(
            id=self.id,
            storlet=self._first_step.storlet,
            parameters=self._request.parameters,
            ranges=self._request.ranges,
            wants_log=self._request.wants_log,
            gulp=self._proxy.config.placement.chunk_bytes,
            limits=self._request.limits,
        ).to_headers()
        if description is None:
            self._fall_back("long-description")
            return None
        try:
            answer = self._ask_object_nodes(description)
        except SwiftRefusal as refusal:
            if refusal.answer.status_int != 409:
                raise
            # Links that know their target's hash, as in containers with versions, do not fit an answer with an ETag of its own.
            close_if_possible(refusal.answer.app_iter)
            self._fall_back("link")
            return None
        if answer is None:
            self._fall_back("overflow")
            self._take_all_places()
            return None
        if names.BACKEND_RUN in answer.headers:
            self._source_answer = answer
            return RemoteResult(answer)
        self._fall_back("overflow" if names.BACKEND_FULL in answer.headers else "not-plain")
        if self._request.ranges:
            close_if_possible(answer.app_iter)
        else:
            self._source_answer = answer
        return None

    def _ask_object_nodes(self, description: dict[str, str]) -> Any:
        """Swift's answer; ``None`` when the nodes are full and nobody may wait there."""
        overflow = self._proxy.config.placement.overflow
        if len(self._steps) > 1 and overflow == overflow_modes.NONE:
            overflow = overflow_modes.REPLICA
        if overflow == overflow_modes.NONE:
            return self._get(self._source(), headers=description)
        try:
            return self._get(self._source(), headers=description | {names.BACKEND_OVERFLOW: overflow})
        except SwiftRefusal as refusal:
            # Swift gives the highest 4xx that it got, which is that of a full node, or 503 when too few nodes answered.
            if refusal.answer.status_int not in (409, 503):
                raise
            close_if_possible(refusal.answer.app_iter)
        if len(self._steps) > 1:
            return None
        # Nobody has begun to run it. Now whoever is asked first lets it wait.
        return self._get(self._source(), headers=description)

    def _fall_back(self, reason: str) -> None:
        self._placement, self._reason = placement.PROXY, reason

    def _run_here(self) -> Result:
        """Run on what Swift gives for the source and the extra resources, all fetched at the same time."""
        wanted: list[tuple[ObjectPath, ByteRange | None]] = []
        if self._source_answer is None:
            spans: tuple[ByteRange | None, ...] = self._request.ranges or (None,)
            wanted += [(self._source(), span) for span in spans]
        answers = self._fetch(wanted + [(path, None) for path in self._request.extra])
        if self._source_answer is not None:
            answers.insert(0, self._source_answer)
        self._source_answer = answers[0]
        span = _span_of(answers[0]) if len(self._request.ranges) == 1 else None
        return self._launch(self._first_step, [self._input(answer) for answer in answers], span)

    def _fetch(self, wanted: list[tuple[ObjectPath, ByteRange | None]]) -> list[Any]:
        """Answers with data for all of ``wanted``, in their order, or the first fault and nothing left open."""
        # One needs no task of its own.
        outcomes = [self._try_get(*wanted[0])] if len(wanted) == 1 else self._try_all(wanted)
        faults = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        if faults:
            for outcome in outcomes:
                if not isinstance(outcome, Exception):
                    close_if_possible(outcome.app_iter)
            # What a rule closes to the caller is refused in the rule's name, whatever Swift made of that.
            refused = self._refused_by_rules()
            raise refused[0] if refused else faults[0]
        return outcomes

    def _try_all(self, wanted: list[tuple[ObjectPath, ByteRange | None]]) -> list[Any]:
        """The same as :meth:`_try_get` for each, at the same time."""
        tasks = [spawn(self._try_get, path, span) for path, span in wanted]
        try:
            return [task.wait() for task in tasks]
        except BaseException:
            for task in tasks:
                _give_up(task)
            raise

    def _try_get(self, path: ObjectPath, span: ByteRange | None) -> Any:
        """The answer, or the exception: a task of its own must not print it."""
        try:
            headers = {} if span is None else {"Range": str(_range_header(span))}
            answer = self._get(path, headers=headers)
            if span is not None and answer.status_int != 206:
                close_if_possible(answer.app_iter)
                raise RangeUnsatisfiable(  # noqa: TRY301 - an answer like the others
                    f"no byte of {path.container}/{path.name} is in the range"
                )
        except Exception as error:  # noqa: BLE001
            if isinstance(error, SwiftRefusal) and path in self._request.extra and path != self._request.source:
                return _extra_refused(path, error.answer)
            return error
        return answer

    def _get(self, path: ObjectPath, headers: dict[str, str]) -> Any:
        """Swift's answer to a GET of ``path`` by the caller; raises unless it has data."""
        environ = _clean_environ(self._environ)
        environ["REQUEST_METHOD"] = "GET"
        environ["PATH_INFO"] = _path_info(self._request, path)
        environ["swift.source"] = names.SWIFT_SOURCE
        environ["wsgi.input"] = WsgiBytesIO()
        if path != self._request.source:
            # Conditions and query belong to the source.
            environ["QUERY_STRING"] = ""
            for key in [key for key in environ if key.startswith("HTTP_IF_")]:
                del environ[key]
        self._install_grants(environ)
        request = Request(environ)
        request.headers.update(headers)
        status, given, chunks = request.call_application(self._proxy.app)
        answer = SourceAnswer(int(status.split(" ", 1)[0]), HeaderKeyDict(given), chunks)
        if answer.status_int == 416:
            close_if_possible(chunks)
            raise RangeUnsatisfiable(f"no byte of {path.container}/{path.name} is in the range")
        if answer.status_int not in (200, 206):
            # Who refuses with 401 or 403 has not looked at the object.
            is_hidden = self._used_grants or (self._is_closed and answer.status_int not in (401, 403))
            refusal = Response(status=status, headers=answer.headers, app_iter=chunks, request=request)
            raise SwiftRefusal(self._without_source(refusal) if is_hidden else refusal)
        is_source = path == self._request.source and self.source_stamp is not None
        if is_source and answer.headers.get("X-Timestamp", "") != self.source_stamp:
            close_if_possible(answer.app_iter)
            raise BackendFailed("the object was changed while its rules were asked; ask again", retry_after=1)
        return answer

    def _without_source(self, answer: Any) -> Response:
        """Who may have only what a storlet makes learns the status and nothing else of the object."""
        drain_and_close(answer)
        return Response(status=answer.status_int, request=Request(self._environ))

    def _install_grants(self, environ: dict[str, Any]) -> None:
        guard = environ.get("swift.authorize")
        # What the rules say to a read is asked after all that may allow it.
        authorize = getattr(guard, "original", guard)
        if authorize is None:
            return
        user = caller.user_of(self._environ)
        for step in self._steps:
            # All that leaves has gone through each of the storlets.
            reader = grants.Reader(user, self._request.account, step.request.storlet)
            authorize = grants.authorize_with_grants(authorize, self._proxy.app, reader, self._used_grants)
        around = getattr(guard, "around", None)
        environ["swift.authorize"] = around(authorize) if around is not None else authorize

    def _input(self, answer: Any) -> StreamInput:
        refused = self._refused_by_rules()
        body = ObjectBody(answer) if refused is None else GuardedBody(answer, refused)
        return StreamInput(body, storlet_metadata(answer.headers))

    def _refused_by_rules(self) -> list[StorletError] | None:
        """What the rules have refused of the reads that belong to the request; ``None`` where nobody asks them."""
        return getattr(self._environ.get("swift.authorize"), "refused", None)

    def _open_put(self) -> Result:
        _require_length(self._environ)
        metadata = storlet_metadata(Request(self._environ).headers)
        body = ClientBody(self._environ, self._proxy.client_timeout_seconds)
        extra = self._fetch([(path, None) for path in self._request.extra])
        inputs = [StreamInput(body, metadata, drains=True), *map(self._input, extra)]
        return self._launch(self._first_step, inputs, None)

    def _launch(self, step: _Step, inputs: list[StreamInput], span: tuple[int, int, int] | None) -> Result:
        result = self._result = LocalResult(Invocation(self._task(step), inputs), span, 0.0)
        if len(self._steps) > 1:
            self._take_all_places()
        self._start(step, result)
        result.first()
        return result

    def _append(self, before: Result, step: _Step) -> Result:
        """Run ``step`` on the output of ``before``."""
        self._starting = self._steps.index(step)
        pipeline = before if isinstance(before, Pipeline) else Pipeline(before)
        known = merged(self._inherited_metadata(), pipeline.metadata)
        metadata = {key: value for key, value in known.items() if value}
        upstream = StreamInput(pipeline.upstream(), metadata, drains=True, is_ours=True)
        result = LocalResult(Invocation(self._task(step), [upstream]), None, 0.0)
        pipeline.add(result)
        self._result = pipeline
        self._start(step, result)
        pipeline.first()
        return pipeline

    def _inherited_metadata(self) -> dict[str, str]:
        """What a result of the first step has of the source's metadata."""
        if self._source_answer is None:
            return storlet_metadata(Request(self._environ).headers)
        if self._used_grants:
            return {}
        return storlet_metadata(self._of_source(user_metadata_wsgi(self._source_answer.headers)))

    def _of_source(self, headers: dict[str, str]) -> dict[str, str]:
        """Those of the source's ``headers`` that may leave."""
        plan = self._plan
        return plan.leaving(headers.items()) if plan is not None and plan.withholds else headers

    def _start(self, step: _Step, result: LocalResult) -> None:
        began = monotonic()
        invocation = result.invocation
        fetcher = ProxyFetcher(self._proxy.app, self._environ, self._request.version)
        for resolutions in reversed(range(_RESOLUTIONS + 1)):
            try:
                # No input is touched before the code is there.
                slot, step.slot = step.slot, None
                self._proxy.launcher.start(invocation, step.storlet, fetcher, slot)
                break
            except CodeReplaced:
                if not resolutions:
                    raise
                self._resolve_anew(step)
                invocation.task = self._task(step)
        result.sandbox_seconds = max(0.0, monotonic() - began - invocation.waited_seconds)

    def _task(self, step: _Step) -> Task:
        request, launcher = step.request, self._proxy.launcher
        effective = launcher.effective(step.storlet, request.limits)
        return launcher.task(step.id, dict(request.parameters), effective, wants_log=request.wants_log)

    def _resolve_anew(self, step: _Step) -> None:
        request = step.request
        step.version = self._proxy.catalog.resolve_anew(
            self._environ, request.version, request.account, request.storlet
        )

    def _source(self) -> ObjectPath:
        if self._request.source is None:
            raise InternalError("the request has no source")
        return self._request.source

    # --- GET: to the client --------------------------------------------------------------------------------------

    def _respond(self, result: Result) -> Answer:
        source, plan = self._source_answer.headers, self._plan
        is_withheld = plan is not None and plan.withholds
        headers = HeaderKeyDict({} if self._used_grants else self._passed_on(source))
        stored_headers.set_metadata(headers, result.metadata)
        headers.setdefault("Content-Type", self._inherited_type(UNKNOWN_TYPE))
        if result.span and not is_withheld:
            headers[names.INPUT_RANGE] = "bytes {}-{}/{}".format(*result.span)
        # eventlet gathers small pieces until they are 4 KiB; a storlet's slow output is sent as it comes.
        self._environ["eventlet.minimum_write_chunk_size"] = 0
        length = self._known_length(result)
        own = self.headers() if length is None else {**self.headers(), "Content-Length": str(length)}
        others = [header for header in headers.items() if header[0] not in own]
        return Answer("200 OK", [*others, *own.items()], _Stream(self._stream(result), self._end))

    def _known_length(self, result: Result) -> int | None:
        """Of a result that is whole before its answer begins.

        A client that knows the length has the end of its answer with the last byte, and not only after all that is left to do.
        """
        # Who asks for a log may look for it as soon as the answer has ended.
        has_more_to_do = any(step.request.wants_log for step in self._steps)
        return result.usage.bytes_out if self._is_usage_final and not has_more_to_do else None

    def _passed_on(self, source: Any) -> dict[str, str]:
        """Headers of the source that a transformed answer may carry."""
        plan = self._plan
        return plan.leaving(source.items()) if plan is not None and plan.withholds else _passed_on(source)

    def _inherited_type(self, default: str) -> str:
        """The content type of a result of which no storlet says what it is; ``default`` where the source has none."""
        plan, source = self._plan, self._source_answer.headers
        if plan is not None and plan.withholds:
            return plan.type_that_leaves(source)
        return source.get("Content-Type") or default

    def _stream(self, result: Result) -> Iterator[bytes]:
        code = "client-gone"
        try:
            chunks = result.chunks()
            yield from self._watch.guard(chunks) if self._watch else chunks
            code = "ok"
        except StorletError as error:
            code = error.code
            break_connection(self._environ)
            raise
        except ClientGone:
            raise StorletError("the client closed its connection", status=499, code="client.gone") from None
        except Exception:
            code = "internal"
            break_connection(self._environ)
            raise
        finally:
            self._end(code)

    # --- PUT and COPY: into the store ----------------------------------------------------------------------------

    def _store(self, result: Result, target: ObjectPath) -> Response:
        environ = _clean_environ(self._environ)
        environ["REQUEST_METHOD"] = "PUT"
        environ["PATH_INFO"] = _path_info(self._request, target)
        environ["QUERY_STRING"] = ""
        environ["swift.source"] = names.SWIFT_SOURCE
        environ["HTTP_TRANSFER_ENCODING"] = "chunked"
        for key in ("CONTENT_LENGTH", "HTTP_ETAG", "HTTP_X_COPY_FROM", "HTTP_DESTINATION", "HTTP_EXPECT"):
            environ.pop(key, None)
        # The conditions of a copy were the source's.
        dropped = ("HTTP_X_OBJECT_META_STORLET_", *(("HTTP_IF_",) if self._source_answer is not None else ()))
        for key in [key for key in environ if key.startswith(dropped)]:
            del environ[key]
        body = _OutputBody(result.chunks())
        environ["wsgi.input"] = body
        request = Request(environ)
        self._set_stored_headers(request, result)
        stored_headers.require_storable(request, result.metadata)
        try:
            answer = request.get_response(self._proxy.app)
        finally:
            body.close()
        if body.error is not None:
            drain_and_close(answer)
            raise body.error
        if answer.status_int // 100 == 2 and not body.is_whole:
            drain_and_close(answer)
            raise InternalError("Swift committed before the storlet's output had ended")
        self._is_usage_final = True
        answer.headers.update(self._stored_answer_headers())
        return answer

    def _set_stored_headers(self, request: Any, result: Result) -> None:
        if self._source_answer is not None:
            own = {key.lower() for key, value in request.headers.items() if value or key.lower() != "content-type"}
            if not self._used_grants:
                inherited = self._of_source(user_metadata_wsgi(self._source_answer.headers))
                request.headers.update({key: value for key, value in inherited.items() if key.lower() not in own})
            if "content-type" not in own:
                request.headers["Content-Type"] = self._inherited_type("")
        stored_headers.set_metadata(request.headers, result.metadata)
        if self._plan is not None and self._plan.reverse:
            request.headers[names.REVERSE_SYSMETA] = self._plan.reverse

    def _stored_answer_headers(self) -> dict[str, str]:
        headers = self.headers()
        if self._source_answer is not None:
            source = self._source()
            headers[names.GENERATED_FROM_ACCOUNT] = quote(self._request.account)
            headers[names.GENERATED_FROM] = quote(f"{source.container}/{source.name}")
            modified = self._source_answer.headers.get("Last-Modified")
            plan = self._plan
            if modified and (plan is None or not plan.withholds or plan.lets_leave("Last-Modified")):
                headers[names.GENERATED_FROM_LAST_MODIFIED] = modified
        return headers

    # --- the end -------------------------------------------------------------------------------------------------

    def _end(self, code: str) -> None:
        """Release everything, keep the log, say how it went; calls after the first do nothing."""
        if self._has_ended:
            return
        self._has_ended = True
        if self._watch is not None:
            self._watch.stop()
        result = self._result
        try:
            if result is not None:
                result.close()
                self._is_usage_final = result.has_run
            elif self._source_answer is not None:
                close_if_possible(self._source_answer.app_iter)
        finally:
            self._give_places_back()
            # Whatever of Swift's fails to be closed: the account has its place back.
            if self._is_counted:
                self._proxy.leave(self._request.account)
        if result is None:
            return
        usage = result.usage
        if code != "client-gone":
            self._keep_logs(result, code)
        now = monotonic()
        metrics.invocation(
            self._proxy.logger,
            self._request.method,
            code,
            now - self._began,
            self._first_byte - self._began,
            usage.bytes_out,
        )
        self._proxy.logger.info(
            "invocation done id=%s account=%s storlet=%s method=%s placement=%s why=%s code=%s ms=%.1f waited_ms=%.1f %s",
            self.id, quote(self._request.account), self._storlets_for_log(), self._request.method,
            result.ran_on, self._reason, code, (now - self._began) * 1000, (self._waited_seconds + result.waited_seconds) * 1000,
            usage.for_log() + self._plan_for_log(code),
        )  # fmt: skip

    def _storlets_for_log(self) -> str:
        return ",".join(quote(step.request.storlet) for step in self._steps)

    def _plan_for_log(self, code: str) -> str:
        plan = self._plan
        if plan is None:
            return ""
        index = self._failed_step(code)
        failed = "" if index is None else f" failed_step={index + 1}"
        return f" rule={plan.rule or '-'}{' undone=1' if plan.is_reversing else ''}{failed}"

    def _keep_logs(self, result: Result, code: str) -> None:
        """Whoever asks for a storlet may ask for its log: it is the account's own, and only the account's owner can read it."""
        for step, part in zip(self._steps, result.results if isinstance(result, Pipeline) else [result], strict=False):
            if step.request.wants_log:
                self._keep_log(step, part.log, f"outcome: {code}\nusage: {part.usage.as_header()}\n")

    def _keep_log(self, step: _Step, log: bytes, end: str) -> None:
        """Store the invocation's log as an object of the tenant; a log that cannot be kept fails nothing."""
        body = log + end.encode()
        container = self._proxy.config.storlet.log_container
        version, account = self._request.version, self._request.account
        path = object_path(version, account, container, f"{step.request.storlet}/{step.id}.log")
        try:
            status = self._put(path, body)
            if status == 404:
                self._put(object_path(version, account, container), b"")
                status = self._put(path, body)
        except Exception:
            self._proxy.logger.exception("ERROR storlets: log not kept id=%s", self.id)
            return
        if status // 100 != 2:
            self._proxy.logger.warning("log not kept id=%s status=%d", self.id, status)

    def _put(self, path: str, body: bytes) -> int:
        request = make_pre_authed_request(
            self._environ,
            method="PUT",
            path=path,
            body=body,
            headers={"Content-Length": str(len(body)), "Content-Type": "text/plain; charset=utf-8"},
            swift_source=names.SWIFT_SOURCE,
        )
        answer = request.get_response(self._proxy.app)
        drain_and_close(answer)
        return int(answer.status_int)


class _Stream:
    """A generator whose end is told also when it was never begun, which a generator alone does not notice."""

    def __init__(self, chunks: Iterator[bytes], on_close: Callable[[str], None]) -> None:
        self._chunks = chunks
        self._on_close = on_close

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks

    def close(self) -> None:
        close_if_possible(self._chunks)
        self._on_close("client-gone")


class _OutputBody:
    """A result as the body of a PUT (``wsgi.input``)."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""
        self.is_whole = False
        self.error: StorletError | None = None

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes; raises :class:`OutputBroken` when the storlet failed."""
        if self.error is not None:
            raise OutputBroken("the storlet failed")
        while (size < 0 or not self._rest) and not self.is_whole:
            try:
                chunk = next(self._chunks, None)
            except StorletError as error:
                self.error = error
                raise OutputBroken("the storlet failed") from error
            except ChunkReadTimeout as timeout:
                # Swift waits for data of a PUT as long as for a client's.
                self.error = Unprocessable(f"the storlet stalled for {timeout}", code="storlet.timeout.idle")
                raise
            self.is_whole = chunk is None
            self._rest += chunk or b""
        if size < 0 or size >= len(self._rest):
            piece, self._rest = self._rest, b""
        else:
            piece, self._rest = self._rest[:size], self._rest[size:]
        return piece

    def close(self) -> None:
        close_if_possible(self._chunks)


def _require_length(environ: dict[str, Any]) -> None:
    """Refuse a body as Swift does whose end nobody knows: the server gives us an empty one in its place."""
    request = Request(environ)
    try:
        length = request.message_length()
    except (AttributeError, ValueError) as error:  # swob's ways to say that it knows no such encoding
        raise BadRequest(str(error)) from None
    if length is None and "HTTP_TRANSFER_ENCODING" not in environ:
        raise HTTPLengthRequired(request=request)


def _passed_on(source: Any) -> dict[str, str]:
    """Headers of the source that a transformed answer may carry: user metadata and what browsers need for CORS."""
    return user_metadata_wsgi(source) | {
        key: value for key, value in source.items() if key.lower().startswith("access-control-")
    }


def _path_info(request: StorletRequest, path: ObjectPath) -> str:
    return wsgi(f"/{request.version}/{request.account}/{path.container}/{path.name}")


_OURS: Final = ("HTTP_X_RUN_STORLET", "HTTP_X_STORLET_", "HTTP_X_COPY_FROM", "HTTP_DESTINATION")


def _clean_environ(environ: dict[str, Any]) -> dict[str, Any]:
    """A copy of the client's request without what is ours: nothing of it reaches the rest of the pipeline."""
    return {key: value for key, value in environ.items() if not key.startswith(_OURS)}


def _range_header(span: ByteRange) -> Range:
    first, last = span
    return Range(f"bytes={'' if first is None else first}-{'' if last is None else last}")


def _span_of(answer: Any) -> tuple[int, int, int] | None:
    """First, last and size from ``Content-Range: bytes a-b/size``."""
    try:
        span, size = answer.headers["Content-Range"].removeprefix("bytes ").split("/")
        first, last = span.split("-")
        return int(first), int(last), int(size)
    except (KeyError, ValueError):
        return None


def _give_up(task: GreenTask) -> None:
    """End ``task``, which opens an answer, and close the answer if it has got so far."""
    end(task)
    with contextlib.suppress(BaseException):
        outcome = task.wait()
        if not isinstance(outcome, BaseException):
            close_if_possible(outcome.app_iter)


def _extra_refused(path: ObjectPath, answer: Any) -> StorletError:
    close_if_possible(answer.app_iter)
    text = f"extra resource /{path.container}/{path.name}: {answer.status}"
    if answer.status_int in (401, 403):
        return AccessDenied(text, status=answer.status_int)
    if answer.status_int == 404:
        return StorletError(text, status=404, code="input.not_found")
    return StorletError(text, status=503, code="backend.failed", retry_after=5)
