"""A harness for runs that a rule requires, and scripts of their workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from swift.common.swob import HTTPException, HTTPForbidden, Request, Response

from storlet_middleware import names
from storlet_middleware.config import Config
from storlet_middleware.errors import REASONS, RuleRefused, StorletError
from storlet_middleware.proxy.plan import Plan
from storlet_middleware.proxy.run import Run
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.wsgi.context import install
from storlet_middleware.wsgi.operation import parse
from storlet_middleware.wsgi.storlet_request import ObjectPath, StorletRequest
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.support import ACCOUNT, OWNER, Answer, FakeSwift, WorkerRun, authorize

BOB = "test:bob"

PLAN = Plan("R")

MANDATORY = Plan("R", is_mandatory=True)

TWO, THREE = ("up.py", "up.py"), ("up.py", "up.py", "up.py")

Script = Callable[[WorkerRun], None]


class RunHarness:
    """Executes runs that a rule requires, and answers like the filter."""

    def __init__(self, swift: FakeSwift, config: Config) -> None:
        self._logger = Logger()
        self.proxy = Proxy(swift, config, self._logger, 60.0)

    @property
    def logger(self) -> Logger:
        """The logger, after all runs were reported."""
        self.proxy.reports.flush()
        return self._logger

    def call(
        self, method: str, plan: Plan | None, steps: Iterable[str] = ("up.py",), **more: Any
    ) -> Answer:
        answer = self.start(method, plan, steps, **more)
        chunks = []
        try:
            chunks.extend(answer.app_iter)
        except Exception as error:  # noqa: BLE001
            answer.broken = error
        finally:
            answer.app_iter.close() if hasattr(answer.app_iter, "close") else None
        answer.data = b"".join(chunks)
        return answer

    def start(
        self,
        method: str,
        plan: Plan | None,
        steps: Iterable[str] = ("up.py",),
        *,
        headers: dict[str, str] | None = None,
        user: str = OWNER,
        body: Any = None,
        guard: Any = authorize,
        rules: Any = None,
        last: dict[str, Any] | None = None,
        **changes: Any,
    ) -> Answer:
        here = ObjectPath("c", "o")
        environ = {"swift.trans_id": "txtest", "swift.authorize": guard, "REMOTE_USER": user}
        request = Request.blank(
            f"/v1/{ACCOUNT}/c/o", method=method, headers=headers or {}, environ=environ
        )
        if isinstance(body, bytes):
            request.body = body
        elif body is not None:
            request.environ["wsgi.input"] = body
        target = {"GET": None, "PUT": here, "COPY": ObjectPath("c", "copy")}[method]
        requests = [
            replace(
                StorletRequest(
                    method, "v1", ACCOUNT, storlet, None if method == "PUT" else here, target, {}
                ),
                **(changes if index == 0 else {}),
            )
            for index, storlet in enumerate(steps)
        ]
        requests[-1] = replace(requests[-1], **(last or {}))
        context = install(request.environ, parse(request.environ), rules)
        run = Run(self.proxy, context, requests, plan)
        captured: list[Any] = []
        try:
            response: Any = run.answer()
        except SwiftRefusal as refusal:
            response = refusal.answer
            response.headers.update(run.headers())
        except HTTPException as refusal:
            response = refusal
        except StorletError as error:
            response = Response(
                status=f"{error.status} {REASONS[error.status]}",
                body=f"{error}\n{error.detail}",
                request=request,
            )
            response.headers.update({**run.headers(), "X-Storlet-Error": error.code})
            if isinstance(error, RuleRefused):
                response.headers[names.RULE] = error.rule
        chunks = response(request.environ, lambda *start: captured.extend(start))
        return Answer(captured[0], captured[1], chunks)

    def assert_idle(self) -> None:
        assert self.proxy._inflight == {}
        assert self.proxy.launcher._admission._counts.own.by_key == {}


def setting(data: bytes = b"", **metadata: str) -> Script:
    def script(worker: WorkerRun) -> None:
        worker.begin(**metadata)
        worker.write(data + worker.read())
        worker.succeed()

    return script


class ClosingRules:
    """Rules that refuse reads of one object; the last link of the authorization chain."""

    def __init__(self, closed: str = "") -> None:
        self.refused: list[StorletError] = []
        self._closed = closed

    def __call__(self, request: Any) -> Any:
        if self._closed and request.environ["PATH_INFO"].endswith(self._closed):
            self.refused.append(RuleRefused("other", "no"))
            return HTTPForbidden(request=request)
        return None

    def must_check(self, status: str, headers: Any) -> bool:
        return bool(self.refused)

    def check_answer(self, status: str, headers: Any, read: Any = None) -> None:
        if self.refused:
            raise self.refused[0]

    def break_if_refused(self, headers: Any, chunks: Any) -> Any:
        return chunks


def step_number(worker: WorkerRun) -> int:
    """The number of the pipeline step that the worker runs."""
    return int(worker.invoke.id.partition(".")[2] or 1)


def by_step(*scripts: Script) -> Script:
    return lambda worker: scripts[step_number(worker) - 1](worker)
