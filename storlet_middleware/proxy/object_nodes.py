"""Runs the first step of a run on an object node, or returns the reason why it has to run at the
proxy.

The GET of the source carries a description of the invocation.  An object node that can run it
answers in frames.  Everything else falls back to the proxy, with one of the reasons in
:class:`~.placement.Reason`; plain data is kept as the proxy's input.

A node that cannot run anything at the moment (no sandboxd, no image, code that cannot be fetched,
no slot) sends an error that is marked as "nothing has run".  Then the storlet runs at the proxy:
one broken node must not fail a share of all requests.

A node that dies before its first byte reached the client is replaced by another replica, which runs
the storlet from the beginning. After the first byte nothing is repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from swift.common.utils import close_if_possible

from storlet_middleware import names
from storlet_middleware.backend import frames
from storlet_middleware.backend import overflow as overflow_modes
from storlet_middleware.backend.invocation_header import BackendInvocation
from storlet_middleware.backend.refusals import Refusal, refusal_of
from storlet_middleware.errors import CodeReplaced, NodeBusy, StorletError, row_of
from storlet_middleware.proxy.execution import RESOLUTIONS, Execution
from storlet_middleware.proxy.placement import Reason
from storlet_middleware.proxy.result import BrokenAnswer, RemoteResult
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.proxy.source import Source
from storlet_middleware.proxy.steps import Step
from storlet_middleware.wsgi.subrequest import SwiftRefusal

#: The reasons for plain data from a node.
_WHY_PLAIN: Final[dict[str, Reason]] = {
    Refusal.FULL: Reason.OVERFLOW,
    Refusal.VERSION: Reason.NODE_VERSION,
}
#: Maximum number of further replicas after a node failed before the first byte.
_RERUNS: Final = 2


class ObjectNodes:
    """Attempts to run the first step of one run on a node that has the object.

    :param resolve_again: resolves the step's storlet again after its code was replaced.
    """

    def __init__(
        self,
        proxy: Proxy,
        source: Source,
        execution: Execution,
        step: Step,
        resolve_again: Callable[[Step], None],
    ) -> None:
        self._proxy = proxy
        self._source = source
        self._execution = execution
        self._step = step
        self._resolve_again = resolve_again

    def run(self) -> Reason | None:
        """Run the step; return ``None`` if the execution has its result, else the reason for the
        proxy.

        Raises when the storlet failed before its first byte.
        """
        reruns, resolutions = _RERUNS, RESOLUTIONS
        while True:
            # An answer of an earlier attempt must not become the input of this one.
            self._source.answer = None
            self._execution.discard_result()
            answer, reason = self._attempt()
            if answer is None:
                return reason
            result = RemoteResult(answer)
            self._source.answer = answer
            self._execution.adopt(result)
            try:
                result.first()
            except BrokenAnswer as error:
                result.close()
                if not reruns:
                    raise
                reruns -= 1
                self._proxy.logger.warning("storlet rerun id=%s why=%s", self._step.id, error)
            except CodeReplaced:
                result.close()
                if not resolutions:
                    raise
                resolutions -= 1
                self._resolve_again(self._step)
            except StorletError as error:
                result.close()
                if not self._may_run_here(result, error):
                    raise
                self._proxy.logger.warning(
                    "object node cannot run id=%s code=%s why=%s", self._step.id, error.code, error
                )
                self._source.answer = None
                self._execution.discard_result()
                return Reason.NODE_UNABLE
            else:
                return None

    def _may_run_here(self, result: RemoteResult, error: StorletError) -> bool:
        """Whether the node failed before it started the invocation, for a reason of the node, and
        this node can run it.
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
        try:
            answer = self._answer(description)
        except SwiftRefusal as refusal:
            if not _is_link(refusal):
                raise
            # A link that carries its target's hash, as in containers with versions, refuses an
            # answer with an ETag of its own.
            close_if_possible(refusal.answer.app_iter)
            return None, Reason.LINK
        if answer is None:
            self._execution.acquire_all_slots()
            return None, Reason.OVERFLOW
        version = answer.headers.get(names.BACKEND_RUN)
        if version is not None and frames.can_decode(version):
            return answer, Reason.DEFAULT
        if version is not None:
            close_if_possible(answer.app_iter)
            return None, Reason.NODE_VERSION
        if self._step.request.ranges:
            # Each range is read on its own.
            close_if_possible(answer.app_iter)
        else:
            self._source.answer = answer
        return None, _WHY_PLAIN.get(refusal_of(answer.headers) or "", Reason.NOT_PLAIN)

    def _description(self) -> dict[str, str] | None:
        request = self._step.request
        return BackendInvocation(
            id=self._step.id,
            storlet=self._step.storlet,
            parameters=request.parameters,
            ranges=request.ranges,
            wants_log=request.wants_log,
            chunk_bytes=self._proxy.config.placement.chunk_bytes,
            limits=request.limits,
        ).to_headers()

    def _answer(self, description: dict[str, str]) -> Any:
        """Swift's answer; ``None`` when the nodes are full and a pipeline may not queue there."""
        overflow, is_pipeline = self._proxy.config.placement.overflow, self._execution.is_pipeline
        if is_pipeline and overflow == overflow_modes.NONE:
            overflow = overflow_modes.REPLICA
        if overflow != overflow_modes.NONE:
            try:
                return self._source.get(
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
        return self._source.get(self._source.path, description)


def _is_link(refusal: SwiftRefusal) -> bool:
    """Whether Swift's symlink middleware refused: its 409 carries no reason of an object node."""
    return refusal.answer.status_int == 409 and refusal_of(refusal.answer.headers) is None
