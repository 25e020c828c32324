"""Runs the first step of a run on an object node, or returns the reason why it has to run at the
proxy.

The GET of the source carries a description of the invocation.  An object node that can run it
answers in frames.  Everything else falls back to the proxy, with one of the reasons in
:class:`~.placement.Reason`; plain data is kept as the proxy's input.

A node that cannot run anything at the moment (no sandboxd, no image, code that cannot be fetched,
no slot) sends an error that is marked as "nothing has run".  Then another replica runs the storlet,
or else the proxy: one broken node must not fail a share of all requests.  Later requests pass over
the node for a while (:mod:`~.circuit_breaker`).

A node that dies before its first byte reached the client is replaced by another replica, which runs
the storlet from the beginning. After the first byte nothing is repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from swift.common.utils import close_if_possible

from storlet_middleware import names
from storlet_middleware.backend import framed_etag, frames
from storlet_middleware.backend import overflow as overflow_modes
from storlet_middleware.backend.invocation_header import BackendInvocation
from storlet_middleware.backend.refusals import Refusal, refusal_of
from storlet_middleware.errors import CodeReplaced, NodeBusy, StorletError, row_of
from storlet_middleware.proxy.execution.execution import RESOLUTIONS, Execution
from storlet_middleware.proxy.execution.result import BrokenAnswer, RemoteResult
from storlet_middleware.proxy.placement import Reason
from storlet_middleware.proxy.requested_steps import RequestedStep
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.proxy.source import Source
from storlet_middleware.wsgi.subrequest import SwiftRefusal

#: The reasons for plain data from a node.
_WHY_PLAIN: Final[dict[str, Reason]] = {
    Refusal.FULL: Reason.OVERFLOW,
    Refusal.VERSION: Reason.NODE_VERSION,
}
#: Maximum number of further replicas after a node failed before the first byte.
_RERUNS: Final = 2
#: The same after a node could not start the storlet.
_FURTHER_NODES: Final = 2


class ObjectNodes:
    """Attempts to run the first step of one run on a node that has the object.

    :param resolve_again: resolves the step's storlet again after its code was replaced.
    """

    def __init__(
        self,
        proxy: Proxy,
        source: Source,
        execution: Execution[RequestedStep],
        step: RequestedStep,
        resolve_again: Callable[[RequestedStep], None],
    ) -> None:
        self._proxy = proxy
        self._source = source
        self._execution = execution
        self._step = step
        self._resolve_again = resolve_again
        self._reruns, self._resolutions, self._further = _RERUNS, RESOLUTIONS, _FURTHER_NODES
        self._account = step.request.account
        trust_class = proxy.config.class_of(self._account, step.request.storlet)
        self._has_effects = trust_class.has_effects
        self._avoided = proxy.nodes.avoided(self._account)

    def run(self) -> Reason | None:
        """Run the step; return ``None`` if the execution has its result, else the reason for the
        proxy.

        Raises when the storlet failed before its first byte.
        """
        while True:
            # An answer of an earlier attempt must not become the input of this one.
            self._source.answer = None
            self._execution.discard_result()
            # Of a version that has replaced the first one.
            if self._step.storlet.services:
                return Reason.SERVICES
            if self._step.secrets:
                return Reason.SECRETS
            answer, reason = self._attempt()
            if answer is None:
                return reason
            node = _node_of(answer)
            result = RemoteResult(answer, node, self._step.tell)
            self._source.answer = answer
            self._execution.adopt(result)
            try:
                result.first()
            except StorletError as error:
                result.close()
                if not self._may_repeat(error, answer, result):
                    self._source.answer = None
                    self._execution.discard_result()
                    return Reason.NODE_UNABLE
            else:
                self._proxy.nodes.record_success(node, self._account)
                return None

    def _may_repeat(self, error: StorletError, answer: Any, result: RemoteResult) -> bool:
        """After a failed attempt: True for another one, False if the proxy runs the step.

        Raises ``error`` if the step must not or cannot run again.
        """
        if isinstance(error, BrokenAnswer):
            # The storlet may have run.
            if not self._reruns or self._has_effects:
                raise error
            self._reruns -= 1
            if not error.has_ended and (node := _node_of(answer)):
                self._avoided.add(node)
            self._proxy.logger.warning("storlet rerun id=%s why=%s", self._step.id, error)
            return True
        if isinstance(error, CodeReplaced):
            if not self._resolutions:
                raise error
            self._resolutions -= 1
            self._resolve_again(self._step)
            return True
        if not self._may_run_elsewhere(result, error):
            raise error
        if not (self._record_failure(answer, result, error) and self._further):
            return False
        self._further -= 1
        return True

    def _record_failure(self, answer: Any, result: RemoteResult, error: StorletError) -> bool:
        """Pass over the node from now on; False if this is impossible, or of no use.

        A full node (``node.busy``) had the invocation in its queue.  The invocation must not wait
        in a second one, so the proxy runs it; and the node is fine.
        """
        node = _node_of(answer)
        self._proxy.logger.warning(
            "object node cannot run id=%s node=%s code=%s why=%s",
            self._step.id,
            node or "unknown",
            error.code,
            error,
        )
        if not node or error.code == NodeBusy.code or node in self._avoided:
            return False
        self._avoided.add(node)
        self._proxy.nodes.record_failure(
            node, self._account, error, is_of_whole_node=result.is_of_whole_node
        )
        return True

    def _may_run_elsewhere(self, result: RemoteResult, error: StorletError) -> bool:
        """Whether the node failed before it started the invocation, for a reason of the node, and
        another can run it.
        """
        if result.has_run or not row_of(error.code).is_of_node:
            return False
        # The invocation has waited in one queue already, so it must not wait in a second one.
        return error.code != NodeBusy.code or self._execution.try_acquire()

    def _attempt(self) -> tuple[Any, Reason]:
        """A framed answer, or ``None`` with the reason."""
        description = self._description()
        if description is None:
            return None, Reason.LONG_DESCRIPTION
        if self._avoided:
            description[names.BACKEND_AVOID] = ", ".join(sorted(self._avoided))
        try:
            answer = self._answer(description)
        except SwiftRefusal as refusal:
            why = self._why_refused(refusal)
            if why is None:
                raise
            close_if_possible(refusal.answer.app_iter)
            return None, why
        if answer is None:
            self._execution.acquire_all_slots()
            return None, Reason.OVERFLOW
        version = answer.headers.get(names.BACKEND_RUN)
        if version is not None and frames.can_decode(version):
            return answer, Reason.DEFAULT
        if version is not None:
            close_if_possible(answer.app_iter)
            return None, Reason.NODE_VERSION
        if self._step.request.ranges or self._step.storlet.seekable:
            # Each range is read on its own.
            close_if_possible(answer.app_iter)
        else:
            self._source.answer = answer
        return None, _WHY_PLAIN.get(refusal_of(answer.headers) or "", Reason.NOT_PLAIN)

    def _description(self) -> dict[str, str] | None:
        settings = self._step.settings
        return BackendInvocation(
            id=self._step.id,
            storlet=self._step.storlet,
            parameters=settings.parameters,
            ranges=self._step.request.ranges,
            wants_log=settings.wants_log,
            chunk_bytes=self._proxy.config.placement.chunk_bytes,
            limits=settings.limits,
            keeps_log_tail=self._step.keeps_log_tail,
            log_delay_seconds=self._step.log_delay_seconds,
        ).to_headers()

    def _why_refused(self, refusal: SwiftRefusal) -> Reason | None:
        """Why the proxy can run what Swift refused; ``None`` if the refusal is for the client.

        A link that carries its target's hash, as in containers with versions, refuses an answer
        with an ETag of its own.  Swift answers 503 if it got no usable answer of any node: beside a
        node that the request avoids, others may be dead.
        """
        if _is_link(refusal):
            return Reason.LINK
        reason = refusal_of(refusal.answer.headers)
        is_unable = reason is Refusal.UNABLE or refusal.answer.status_int == 503
        return Reason.NODE_UNABLE if self._avoided and is_unable else None

    def _answer(self, description: dict[str, str]) -> Any:
        """Swift's answer; ``None`` when the nodes are full and a pipeline may not queue there."""
        overflow, is_pipeline = self._proxy.config.placement.overflow, self._execution.is_pipeline
        if is_pipeline and overflow == overflow_modes.NONE:
            overflow = overflow_modes.REPLICA
        if overflow != overflow_modes.NONE:
            try:
                return self._source.reads.get(
                    self._source.path, description | {names.BACKEND_OVERFLOW: overflow}
                )
            except SwiftRefusal as refusal:
                # Swift returns the highest 4xx that it received, here a full node's, or 503 if too
                # few nodes answered.
                is_full = refusal_of(refusal.answer.headers) is Refusal.FULL
                if not is_full and refusal.answer.status_int != 503:
                    raise
                close_if_possible(refusal.answer.app_iter)
            if is_pipeline:
                return None
        # Nothing has run yet; the first node may queue the invocation.
        return self._source.reads.get(self._source.path, description)


def _node_of(answer: Any) -> str:
    """The node that sent a framed answer; empty if it is of a release that sends no name."""
    return framed_etag.read(answer.headers.get("Etag", "")).node


def _is_link(refusal: SwiftRefusal) -> bool:
    """Whether Swift's symlink middleware refused: its 409 carries no reason of an object node."""
    return refusal.answer.status_int == 409 and refusal_of(refusal.answer.headers) is None
