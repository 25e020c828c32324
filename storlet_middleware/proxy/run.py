"""One request that runs a storlet, or several: GET, PUT and COPY at the proxy server.

::

    permissions -> resolution -> source, object_nodes -> execution
                -> response (GET) or store (PUT, COPY) -> completion

``GET`` reads the source and answers with the result; ``PUT`` runs on the client's body and stores
the result; ``COPY`` reads as GET and stores as PUT.  The client never gets plain data instead of a
result.

The status line waits until the result's first bytes or its end are known, so that a storlet that
fails early gives a proper error status.  After the first byte has been sent, the only honest
failure is to break the connection; before a PUT is committed, it is to break the PUT.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Final

from swift.common.swob import Request, Response

from storlet_middleware import errors, names
from storlet_middleware.catalog.library import LibraryFetcher
from storlet_middleware.catalog.storlets import ProxyFetcher
from storlet_middleware.concurrency import monotonic
from storlet_middleware.engine.task import Input
from storlet_middleware.errors import StorletError
from storlet_middleware.proxy import run_secrets
from storlet_middleware.proxy.caller_reads import CallerReads
from storlet_middleware.proxy.completion import Completion, InputEtags
from storlet_middleware.proxy.disclosure import Disclosure
from storlet_middleware.proxy.ending import Ending
from storlet_middleware.proxy.execution.execution import Execution
from storlet_middleware.proxy.execution.result import END_BYTES, END_SECONDS, Result
from storlet_middleware.proxy.log_objects import LogObjects
from storlet_middleware.proxy.object_nodes import ObjectNodes
from storlet_middleware.proxy.output_range import output_range_of
from storlet_middleware.proxy.permissions import Permissions
from storlet_middleware.proxy.placement import Placement
from storlet_middleware.proxy.plan import Plan
from storlet_middleware.proxy.ranged_source import UnseekableInput
from storlet_middleware.proxy.requested_steps import RequestedStep, steps_of
from storlet_middleware.proxy.resolution import Resolution
from storlet_middleware.proxy.response import ResultBody, answer_of, span_headers
from storlet_middleware.proxy.run_headers import RunHeaders
from storlet_middleware.proxy.run_services import RunServices
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.proxy.source import Source
from storlet_middleware.proxy.store import Store, source_headers
from storlet_middleware.proxy.stored_outputs import StoredOutputs
from storlet_middleware.proxy.times import Times
from storlet_middleware.services.nesting import is_inner
from storlet_middleware.wsgi.answer import Answer
from storlet_middleware.wsgi.context import RequestContext
from storlet_middleware.wsgi.disconnect import ClientGone, ClientWatch
from storlet_middleware.wsgi.storlet_request import StorletRequest
from storlet_middleware.wsgi.user_metadata import storlet_metadata

_counter: Final = itertools.count(1)
_storlet_of: Final = operator.attrgetter("storlet")
_wants_log_of: Final = operator.attrgetter("wants_log")
#: A small result that ends within this time is sent with its length: in one piece, before the run
#: is logged, and with a proper error status if it fails.  The first bytes of others wait so long,
#: as at an object node.
_LENGTH_SECONDS: Final = 0.1
_LENGTH_BYTES: Final = 4 << 10


class RefusedRun:
    """The run of a request that was refused before anything of it was known."""

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self._id = new_id(environ)

    def headers(self) -> dict[str, str]:
        """The headers of the answer: the id also names the request in the operator's log."""
        return {names.INVOCATION: self._id}


def new_id(environ: Mapping[str, Any]) -> str:
    """The id of a run."""
    # The client supplies a part of the transaction id (X-Trans-Id-Extra), and the id names the log
    # object: it must have no slash.
    return f"{environ.get('swift.trans_id') or 'tx-none'}-{next(_counter)}".replace("/", "_")


class Run:
    """See the module.

    :param requests: of the client or a rule, for each storlet of the run in its order.
    :param plan: a rule's further requirements; ``None`` if the client requested the run.
    :param source_timestamp: ``X-Timestamp`` of the source that the rules were evaluated for; see
        :class:`~.caller_reads.CallerReads`.
    """

    def __init__(
        self,
        proxy: Proxy,
        context: RequestContext,
        requests: Sequence[StorletRequest],
        plan: Plan | None = None,
        source_timestamp: str | None = None,
    ) -> None:
        self._proxy = proxy
        self._environ = environ = context.environ
        self._request = request = requests[0]
        self._plan = plan
        self._times = Times(monotonic())
        self.id = new_id(environ)
        self._steps = steps_of(self.id, requests, plan)
        self._storlets: list[str] = list(map(_storlet_of, requests))
        self._wants_log = any(map(_wants_log_of, requests))
        self._completion = Completion(proxy, environ, self.id, self._steps, plan, self._times)
        self._placement = Placement(request, proxy.config.placement.run_on)
        self._range = output_range_of(context, requests, plan)
        self._disclosure = Disclosure(
            plan,
            context.used_grants,
            reads_source=request.source is not None,
            is_inner=is_inner(environ),
        )
        self._permissions = Permissions(proxy, context, self._steps)
        self._resolution = Resolution(proxy, context, self._steps, self._permissions)
        # Later steps of a client get no more than its first step lets out.
        own = plan.explicit_count if plan is not None else len(requests)
        storlets = self._storlets[: len(requests) - own + 1]
        reads = CallerReads(proxy, context, request, storlets, self._disclosure, source_timestamp)
        self._source = Source(proxy, context, request, reads)
        others = ProxyFetcher(proxy.app, environ, request.version)
        fetcher = LibraryFetcher(proxy.catalog.library, others)
        self._outputs = StoredOutputs(proxy, environ, self._steps[-1].request, request.target)
        self._services = RunServices(proxy, environ, self._outputs)
        self._execution = Execution(
            proxy.launcher,
            self._steps,
            fetcher,
            self._resolve_again,
            self._services.of_step,
            self._outputs.sinks,
        )
        self._headers = RunHeaders(self.id, plan, self._times, self._execution, self._disclosure)
        self._watch: ClientWatch | None = None
        self._is_counted = False
        self._has_ended = False
        self._is_log_lost = False

    # --- the run ----------------------------------------------------------------------------------

    def answer(self) -> Response | Answer:
        """The client's answer.

        :raises StorletError: the run failed.
        :raises SwiftRefusal: Swift refused the source or target.
        :raises HTTPException: raised by Swift.
        """
        try:
            self._proxy.acquire(self._request.account)
            self._is_counted = True
            self._watch = ClientWatch(self._environ)
            self._disclosure.is_owner = self._permissions.check_access()
            self._services.begin(self._storlets, self.id, self._completion.rule)
            self._resolve()
            if (
                self._execution.is_pipeline
                and self._request.source
                and not self._disclosure.is_owner
            ):
                self._source.reads.require_allowed(self._source.path)
            self._completion.prepare()
            for step in self._steps:
                run_secrets.fetch(self._proxy.secrets, self._environ, step)
            self._placement.adjust_to(self._steps[0])
            self._times.authorized = monotonic()
            if self._execution.is_pipeline:
                self._execution.acquire_slots(is_first_elsewhere=not self._placement.is_at_proxy)
            result = self._result()
            self._times.first_byte = monotonic()
            if self._request.target is None:
                return self._respond(result, self._watch)
            response = self._store(result, self._watch)
            self._end(Ending.of_answer(response))
            if self._is_log_lost:
                response.headers[names.LOG_LOST] = "true"
            return response  # noqa: TRY300 - the end above belongs to what is tried
        except ClientGone:
            gone = StorletError("the client closed its connection", code=errors.CLIENT_GONE)
            self._end(Ending.of_error(gone))
            raise gone from None
        except StorletError as error:
            self._end(Ending.of_error(error))
            shown = self._shown(error)
            if shown is error:
                raise  # "from error" would replace its cause by itself
            raise shown from error
        except BaseException as error:
            self._end(Ending.of_error(error))
            raise

    def _resolve(self) -> None:
        """Resolve each storlet to one version."""
        self._resolution.resolve()
        if self._range is not None:
            self._range.give(self._steps[0])

    def _resolve_again(self, step: RequestedStep) -> None:
        """Resolve a storlet again whose code was replaced meanwhile."""
        self._resolution.resolve_again(step)
        if self._range is not None:
            self._range.give(step)
        run_secrets.fetch(self._proxy.secrets, self._environ, step)

    def _result(self) -> Result:
        """The result of all steps, with its first bytes or its end known."""
        if self._request.source is None:
            self._execution.run_first(self._source.inputs_of_put(), None)
        elif self._placement.is_at_proxy or not self._runs_at_object():
            self._execution.run_first(*self._inputs())
        return self._execution.run_further(self._inherited_metadata)

    def _inputs(self) -> tuple[Sequence[Input], tuple[int, int, int] | None]:
        """The inputs of the first step, and the span of a single range."""
        if self._steps[0].storlet.seekable:
            try:
                return self._source.seekable_inputs(), None
            except UnseekableInput:
                if self._range is None or not self._range.withdraw(self._steps[0]):
                    raise
                self._source.answer = None  # read, and closed
        return self._source.inputs()

    def _runs_at_object(self) -> bool:
        """Whether an object node runs the first step."""
        nodes = ObjectNodes(
            self._proxy,
            self._source,
            self._execution,
            self._steps[0],
            self._resolve_again,
        )
        reason = nodes.run()
        if reason is None:
            return True
        self._placement.move_to_proxy(reason)
        return False

    def _inherited_metadata(self) -> dict[str, str]:
        """The metadata that the first step's output inherits from its source."""
        if self._source.answer is None:
            return storlet_metadata(Request(self._environ).headers)
        return storlet_metadata(self._disclosure.inherited_metadata(self._source.headers))

    # --- answers ----------------------------------------------------------------------------------

    def _respond(self, result: Result, watch: ClientWatch) -> Answer:
        part = None if self._range is None else self._range.part_of(result.metadata)
        if part is not None and part.length <= END_BYTES:
            # Its last bytes wait for the end in any case: so a failure is an error status.
            result.end_within(END_SECONDS, END_BYTES)
        commit = self._outputs.commit_of(result, watch.pause)
        self._headers.is_usage_final = commit is None and result.end_within(
            _LENGTH_SECONDS, _LENGTH_BYTES
        )
        watch.pause()
        own = self._headers.now()
        # A client that requested a log may read it when the answer has ended, so no Content-Length
        # may end the answer earlier.
        if part is not None and self._headers.is_usage_final:
            part.require(result.length)
        if part is not None and commit is None:
            own["Content-Length"] = str(part.length)
        elif (
            self._headers.is_usage_final
            and not self._wants_log
            # The length of a larger result is known in time from an object node only.
            and (result.length <= _LENGTH_BYTES or self._disclosure.shows_placement)
        ):
            own["Content-Length"] = str(result.length)
        chunks = result.chunks()
        chunks = self._completion.through(chunks) if part is None else part.exactly(chunks)
        body = ResultBody(self._environ, chunks, watch, self._end, commit, self._shown)
        # Data that a storlet sends has no headers.
        answer = self._source.answer
        source = {} if answer is None else answer.headers
        whole = answer_of(self._environ, result, source, self._disclosure, own, body)
        return whole if part is None else part.answer(whole)

    def _store(self, result: Result, watch: ClientWatch) -> Response:
        request = self._request
        if request.target is None:
            raise AssertionError("the request has no target")
        source = None if self._source.answer is None else self._source.headers
        reverse = self._plan.reverse if self._plan is not None else ""
        place = Store(self._proxy, self._environ, request, request.target, reverse)
        # Objects may be stored if the client disconnects during the commit: the run is no failure.
        chunks = watch.until_end(self._completion.through(result.chunks()))
        answer = place.put(result, chunks, self._outputs, self._disclosure, source)
        self._headers.is_usage_final = True
        answer.headers.update(self._headers.now())
        answer.headers.update(span_headers(result, self._disclosure))
        answer.headers.update(source_headers(request, source, self._disclosure))
        return answer

    def headers(self) -> dict[str, str]:
        """The headers of every answer, also of a failed run."""
        return self._headers.now()

    def _shown(self, error: StorletError) -> StorletError:
        """``error`` as the caller may see it."""
        failed = self._execution.failed_step(error.code)
        return self._disclosure.error(error, failed, self._storlets)

    # --- the end ----------------------------------------------------------------------------------

    def _end(self, ending: Ending) -> None:
        """Release everything, keep the logs, report the run; calls after the first do nothing."""
        if self._has_ended:
            return
        self._has_ended = True
        if self._watch is not None:
            self._watch.stop()
        self._services.end()
        result = self._execution.result
        try:
            try:
                # First: a reader of an output may wait for its PUT.
                self._outputs.close()
            finally:
                if result is not None:
                    result.close()
                    self._headers.is_usage_final = result.has_run
                else:
                    self._source.close()
        finally:
            self._execution.release_slots()
            # Also if Swift's close fails: the account's run must not stay counted.
            if self._is_counted:
                self._proxy.release(self._request.account)
        if self._wants_log and result is not None and ending.code != errors.CLIENT_GONE:
            logs = LogObjects(self._proxy, self._environ, self.id)
            results = self._execution.results()
            self._is_log_lost = not logs.store(self._steps, results, ending.code)
        outputs = self._outputs.targets() if self._outputs else ()
        self._completion.report(
            self._execution, self._placement.reason, ending, self._input_etags, outputs
        )

    def _input_etags(self) -> InputEtags:
        return InputEtags(self._source.etag, self._source.resource_etags)
