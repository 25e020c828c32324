"""The end of a run: its record, from which :mod:`~.reports` makes the log line and the metrics."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from storlet_middleware import names
from storlet_middleware.concurrency import monotonic
from storlet_middleware.proxy.ending import Ending
from storlet_middleware.proxy.execution.execution import Execution
from storlet_middleware.proxy.execution.result import Result
from storlet_middleware.proxy.output_hash import OutputHash
from storlet_middleware.proxy.plan import Plan
from storlet_middleware.proxy.requested_steps import RequestedStep
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.proxy.times import Times
from storlet_middleware.records import followed
from storlet_middleware.records.lines import DELAY_SECONDS
from storlet_middleware.records.record import OK, Record, StorletRef, one_line, tail
from storlet_middleware.records.wish import DEFAULT, Wish, wish_of_account, wish_of_run
from storlet_middleware.services.nesting import parent_of, rule_of
from storlet_middleware.wsgi.caller import identity_of
from storlet_middleware.wsgi.storlet_request import ObjectPath, is_query_of_swift
from storlet_middleware.wsgi.swift_paths import AccountPath

#: Characters of the parameters that a record has.
_PARAMETERS_LENGTH: Final = 4096
_RANGE_KEY: Final = names.environ_key(names.RANGE)
#: The same few storlets run again and again.
_reference: Final = functools.lru_cache(maxsize=1024)(StorletRef)
#: A ``traceparent`` of W3C Trace Context.
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True)
class InputEtags:
    """The ETags of a run's inputs, by which a repetition can be compared; empty where unknown."""

    source: str = ""
    resources: tuple[str, ...] = ()


class Completion:
    """Makes and keeps the record of one run.

    :param environ: the client's request.
    :param steps: the storlets; a run whose first one was not resolved has no record.
    """

    def __init__(
        self,
        proxy: Proxy,
        environ: dict[str, Any],
        run_id: str,
        steps: list[RequestedStep],
        plan: Plan | None,
        times: Times,
    ) -> None:
        self._proxy = proxy
        self._environ = environ
        self._id = run_id
        self._steps = steps
        self._request = steps[0].request
        self._plan = plan
        #: The rule that has decided the run, or one that it is in; empty if none has.
        self.rule = (plan.rule or "-") if plan is not None else rule_of(environ)
        self._times = times
        self._wish = DEFAULT
        #: Of the output, if the record of a success has it.
        self._hash: OutputHash | None = None

    def prepare(self) -> None:
        """Read what is wanted of the run's record, after its storlets were resolved."""
        account = wish_of_account(self._environ, self._proxy.app, self._request.account)
        self._wish = wish_of_run(account, [step.storlet.records for step in self._steps])
        is_followed = followed.is_followed(self._environ, self._proxy.app, self._request.account)
        if self._wish is Wish.NONE and not is_followed:
            return
        account_path = AccountPath(self._request.version, self._request.account)
        for step in self._steps:
            step.keeps_log_tail = True
            step.log_delay_seconds = 0.0 if is_followed else DELAY_SECONDS
            step.tell = self._proxy.log_lines.receiver(
                self._environ, account_path, self._id, step.request.storlet
            )

    def through(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """``chunks``, the run's output, which is hashed on its way if its record has the hash."""
        if self._wish is not Wish.ALL:
            return chunks
        self._hash = OutputHash()
        return self._hash.through(chunks)

    def report(
        self,
        execution: Execution[RequestedStep],
        reason: str,
        ending: Ending,
        etags: Callable[[], InputEtags] = InputEtags,
        outputs: Sequence[ObjectPath] = (),
    ) -> None:
        """Keep the record of a run whose storlet was resolved, and report one that has begun.

        :param etags: called only for a record that is kept.
        :param outputs: where its further outputs and created objects are stored.
        """
        is_wanted = self._wish.includes(is_failure=ending.is_failure)
        result = execution.result
        if self._steps[0].version is None or (result is None and not is_wanted):
            return
        record = self._record(execution, reason, ending, outputs)
        if result is not None:
            self._proxy.reports.add(record)
        if is_wanted:
            self._describe(record, execution, ending, etags())
            account_path = AccountPath(self._request.version, self._request.account)
            self._proxy.records.keep(self._environ, account_path, record)

    def _record(
        self,
        execution: Execution[RequestedStep],
        reason: str,
        ending: Ending,
        outputs: Sequence[ObjectPath],
    ) -> Record:
        """The record with the fields that are logged, also if none is kept."""
        request, times, plan, result = self._request, self._times, self._plan, execution.result
        failed_step = execution.failed_step(ending.code)
        usage = result.usage if result is not None else None
        asked = usage.services if usage is not None else None
        return Record(
            id=self._id,
            parent=parent_of(self._environ),
            time=time.time(),
            account=request.account,
            storlets=tuple(map(_storlet, self._steps)),
            method=request.method,
            outputs=tuple(map(_path, outputs)),
            rule=self.rule,
            undoes_rule=plan is not None and plan.is_reversing,
            placement=result.ran_on if result is not None else "",
            why=reason if result is not None else "",
            code=ending.code,
            failed_step=None if failed_step is None else failed_step + 1,
            queue_seconds=execution.waited_seconds,
            first_byte_seconds=times.since_begin(times.first_byte),
            total_seconds=monotonic() - times.began,
            cpu_seconds=usage.cpu_seconds if usage is not None else None,
            peak_memory_bytes=usage.peak_memory_bytes if usage is not None else None,
            bytes_in=usage.bytes_in if usage is not None else None,
            bytes_out=usage.bytes_out if usage is not None else None,
            service_operations=asked.operations if asked is not None else None,
            service_bytes_in=asked.bytes_in if asked is not None else None,
            service_bytes_out=asked.bytes_out if asked is not None else None,
        )

    def _describe(
        self, record: Record, execution: Execution[RequestedStep], ending: Ending, etags: InputEtags
    ) -> None:
        """Add the fields that only a record has: most runs are logged, and not recorded."""
        request, times, result = self._request, self._times, execution.result
        record.caller, record.caller_id = identity_of(self._environ)
        record.object = _path(request.source or request.target)
        record.target = _path(request.target) if request.source is not None else ""
        record.parameters = _parameters(request.parameters)
        record.limits = dict(request.limits) or None
        record.range = str(self._environ.get(_RANGE_KEY, "")) if request.ranges else ""
        record.resources = tuple(map(_path, request.extra))
        record.resource_etags, record.etag = etags.resources, etags.source
        record.message = one_line(ending.message)
        record.auth_seconds = times.since_begin(times.authorized)
        if result is not None:
            starts = result.start_times
            record.node = self._nodes(result)
            record.cold_start_seconds = result.sandbox_seconds
            record.code_seconds = starts.code or None
            record.sandbox_seconds = starts.sandbox or None
            record.worker_seconds = starts.worker or None
            record.log = tail(result.log) if ending.is_failure else ""
        record.output_sha256 = self._hash.hex if self._hash and ending.code == OK else ""
        trace = str(self._environ.get("HTTP_TRACEPARENT", ""))
        record.traceparent = trace if _TRACEPARENT.fullmatch(trace) else ""
        record.traceback = tail(ending.traceback)

    def _nodes(self, result: Result) -> str:
        """The node of each storlet; those without another ran on this one."""
        here = self._proxy.config.sandbox.node_id
        return ",".join(node or here for node in result.node.split(","))


def _storlet(step: RequestedStep) -> StorletRef:
    version = step.version
    if version is None:
        return StorletRef(step.request.storlet)
    return _reference(step.request.storlet, version.key, version.digest, version.number)


def _parameters(given: Mapping[str, str]) -> dict[str, str] | None:
    """The parameters of a request for its record; those of signed URLs are credentials."""
    own = {name: value for name, value in given.items() if not is_query_of_swift(name)}
    size = sum(len(name) + len(value) for name, value in own.items())
    return own if size <= _PARAMETERS_LENGTH else None


def _path(path: ObjectPath | None) -> str:
    return f"{path.container}/{path.name}" if path is not None else ""
