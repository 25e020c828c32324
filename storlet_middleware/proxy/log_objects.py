"""The requested logs of a run as objects of the tenant."""

from __future__ import annotations

from typing import Any

from storlet_middleware import metrics
from storlet_middleware.proxy.execution.result import Result
from storlet_middleware.proxy.requested_steps import RequestedStep
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.wsgi import own_requests
from storlet_middleware.wsgi.swift_paths import object_path


class LogObjects:
    """Stores the logs of a run's storlets as objects of the tenant.

    Every caller with access to a storlet can request its log: the log belongs to the account, and
    only the account's owner can read it.
    """

    def __init__(self, proxy: Proxy, environ: dict[str, Any], invocation_id: str) -> None:
        self._proxy = proxy
        self._environ = environ
        self._id = invocation_id

    def store(self, steps: list[RequestedStep], results: list[Result], code: str) -> bool:
        """Store each requested log; return whether all are stored.

        A failure to store one does not fail the run.
        """
        are_stored = True
        for step, result in zip(steps, results, strict=False):
            if step.settings.wants_log:
                end = f"outcome: {code}\nusage: {result.usage.as_header()}\n"
                are_stored &= self._store(step, result.log + end.encode())
        return are_stored

    def _store(self, step: RequestedStep, body: bytes) -> bool:
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
        headers = {"Content-Length": str(len(body)), "Content-Type": "text/plain; charset=utf-8"}
        answer = own_requests.exchange(self._proxy.app, self._environ, "PUT", path, headers, body)
        return int(answer.status_int)
