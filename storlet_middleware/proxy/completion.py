"""The end of a run: one log line, one set of metrics, and the requested log objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from swift.common.utils import drain_and_close
from swift.common.wsgi import make_pre_authed_request

from storlet_middleware import metrics, names
from storlet_middleware.proxy.plan import Plan
from storlet_middleware.proxy.result import Result, Usage
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.proxy.steps import Step
from storlet_middleware.wsgi.swift_paths import object_path

#: Outcomes of a run, in the log and in metrics, other than error codes.
OK: Final = "ok"
REFUSED: Final = "refused"


@dataclass(frozen=True)
class RunRecord:
    """The record of a run that has ended.

    :param code: ``ok``, ``refused`` (by Swift), or an error code.
    :param placement: where each step ran.
    :param reason: why the first step ran there.
    :param failed_step: index of the step of a pipeline that failed.
    """

    id: str
    account: str
    storlets: tuple[str, ...]
    method: str
    placement: str
    reason: str
    code: str
    seconds: float
    first_byte_seconds: float
    waited_seconds: float
    usage: Usage
    plan: Plan | None = None
    failed_step: int | None = None

    def report(self, logger: Any) -> None:
        """Write the record to the operator's log and to StatsD."""
        metrics.invocation(
            logger,
            self.method,
            self.code,
            self.seconds,
            self.first_byte_seconds,
            self.usage.bytes_out,
        )
        logger.info(
            "invocation done id=%s account=%s storlet=%s method=%s placement=%s why=%s code=%s"
            " ms=%.1f waited_ms=%.1f %s",
            self.id,
            quote(self.account),
            ",".join(map(quote, self.storlets)),
            self.method,
            self.placement,
            self.reason,
            self.code,
            self.seconds * 1000,
            self.waited_seconds * 1000,
            self.usage.for_log() + self._plan_fields(),
        )

    def _plan_fields(self) -> str:
        plan = self.plan
        if plan is None:
            return ""
        failed = "" if self.failed_step is None else f" failed_step={self.failed_step + 1}"
        return f" rule={plan.rule or '-'}{' undone=1' if plan.is_reversing else ''}{failed}"


class LogObjects:
    """Stores the logs of a run's storlets as objects of the tenant.

    Every caller with access to a storlet can request its log: the log belongs to the account, and
    only the account's owner can read it.
    """

    def __init__(self, proxy: Proxy, environ: dict[str, Any], invocation_id: str) -> None:
        self._proxy = proxy
        self._environ = environ
        self._id = invocation_id

    def store(self, steps: list[Step], results: list[Result], code: str) -> bool:
        """Store each requested log; return whether all are stored.

        A failure to store one does not fail the run.
        """
        are_stored = True
        for step, result in zip(steps, results, strict=False):
            if step.request.wants_log:
                end = f"outcome: {code}\nusage: {result.usage.as_header()}\n"
                are_stored &= self._store(step, result.log + end.encode())
        return are_stored

    def _store(self, step: Step, body: bytes) -> bool:
        container = self._proxy.config.storlet.log_container
        version, account = step.request.version, step.request.account
        path = object_path(version, account, container, f"{step.request.storlet}/{step.id}.log")
        try:
            status = self._put(path, body)
            if status == 404:
                self._put(object_path(version, account, container), b"")
                status = self._put(path, body)
        except Exception:
            self._proxy.logger.exception("ERROR storlets: log not kept id=%s", self._id)
            status = 500
        if status // 100 == 2:
            return True
        self._proxy.logger.warning("log not kept id=%s status=%d", self._id, status)
        metrics.log_lost(self._proxy.logger)
        return False

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
