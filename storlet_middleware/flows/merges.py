"""The merge of a distribution: a storlet over the outputs of the splits.

The storlet gets as many outputs at a time as an invocation may have inputs.  Its own outputs are
merged in the same way, until one is left: a tree, so ``merge`` must be associative.  Outputs stay
in the order of the objects.  With one object the storlet runs, too, on one input.  An input has the
metadata that its storlet set, as a stored object would have it.

A storlet may declare the parameter ``merge-stage``. It is ``inner`` where the output is merged
again, and ``last`` where it is the result: a mean is the quotient of two sums only at the end.

A merge begins when all its inputs are complete, in the worker whose split was the last of them.  So
it holds no slot while it waits for a split, which could deadlock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from storlet_middleware import names
from storlet_middleware.catalog.library import LibraryFetcher
from storlet_middleware.catalog.storlets import ProxyFetcher
from storlet_middleware.concurrency import monotonic
from storlet_middleware.engine import limits
from storlet_middleware.engine.task import StreamInput
from storlet_middleware.errors import BadRequest, StorletError
from storlet_middleware.flows.distribution import Part
from storlet_middleware.flows.spool import Budget, Spool
from storlet_middleware.proxy.completion import Completion
from storlet_middleware.proxy.ending import SUCCESS, Ending
from storlet_middleware.proxy.execution.execution import Execution
from storlet_middleware.proxy.permissions import Permissions
from storlet_middleware.proxy.placement import Reason
from storlet_middleware.proxy.requested_steps import RequestedStep, step_of
from storlet_middleware.proxy.resolution import Resolution
from storlet_middleware.proxy.run_secrets import used_by
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.proxy.times import Times
from storlet_middleware.services.nesting import nesting_of
from storlet_middleware.wsgi.context import RequestContext
from storlet_middleware.wsgi.storlet_request import StorletRequest

#: The parameter that a flow sets, and its values.
STAGE: Final = "merge-stage"
INNER: Final = "inner"
LAST: Final = "last"


class Merges:
    """Runs the merge storlet of one distribution; construction checks the caller's access to it.

    :param run_id: of the distribution; the merges have it with a number.
    :raises StorletError: the caller may not run the storlet, it takes one input only, or it
        declares services or seekable inputs.
    """

    def __init__(
        self, proxy: Proxy, context: RequestContext, part: Part, run_id: str, budget: Budget
    ) -> None:
        self._proxy = proxy
        self._environ = context.environ
        #: The records of the merges have the distribution as their parent.
        self._recorded = dict(context.environ)
        nesting_of(context.environ).of_flow(run_id).put(self._recorded)
        self._run_id = run_id
        self._budget = budget
        self._count = 0
        path = context.require_operation().path
        headers = {names.LIMIT_PREFIX + name.title(): text for name, text in part.limits.items()}
        values, _ = limits.requested(headers)
        self._request = StorletRequest(
            method="POST",
            version=path.version,
            account=path.account,
            storlet=part.storlet,
            source=None,
            target=None,
            parameters=part.parameters,
            limits=values,
        )
        self._step = step_of(run_id, self._request)
        permissions = Permissions(proxy, context, [self._step])
        self._is_owner = permissions.check_access()
        self._resolution = Resolution(proxy, context, [self._step], permissions)
        self._resolution.resolve()
        if self._step.storlet.services:
            raise BadRequest(
                f"merge: {part.storlet} declares services, which a merge does not have"
            )
        if used_by(self._step):
            raise BadRequest(f"merge: {part.storlet} uses secrets, which a merge does not have")
        declared = self._step.storlet.inputs
        most = proxy.config.limits.inputs
        self.most_inputs = min(most, declared[1]) if declared else most
        if self.most_inputs < 2:
            raise BadRequest(f"merge: {part.storlet} takes one input only: want two or more")
        self._has_stages = STAGE in self._step.storlet.parameters
        if self._has_stages and STAGE in part.parameters:
            raise BadRequest(f"merge: {STAGE}: is set by {names.DISTRIBUTED}: leave it out")

    def merge(self, inputs: Sequence[Spool], stage: str) -> Spool:
        """The storlet's output; closes ``inputs``.

        :param stage: ``inner`` or ``last``.
        """
        self._count += 1
        step = replace(self._step, id=f"{self._run_id}.{self._count}")
        if self._has_stages:
            own = {STAGE: stage}
            step.request = replace(self._request, parameters={**self._request.parameters, **own})
            step.set_parameters({**self._step.settings.parameters, **own})
        others = ProxyFetcher(self._proxy.app, self._environ, self._request.version)
        fetcher = LibraryFetcher(self._proxy.catalog.library, others)
        steps, times = [step], Times(monotonic())
        execution = Execution(self._proxy.launcher, steps, fetcher, self._resolution.resolve_again)
        completion = Completion(self._proxy, self._recorded, step.id, steps, None, times)
        output, ending = Spool(self._budget), SUCCESS
        try:
            completion.prepare()
            self._run(execution, inputs, output)
        except BaseException as error:
            output.close()
            ending = Ending.of_error(error)
            if isinstance(error, StorletError):
                raise self._shown(error) from error
            raise
        finally:
            try:
                if execution.result is not None:
                    execution.result.close()
            finally:
                execution.release_slots()
                for spool in inputs:
                    spool.close()
            completion.report(execution, Reason.SEVERAL_INPUTS, ending)
        return output

    def _run(
        self, execution: Execution[RequestedStep], inputs: Sequence[Spool], output: Spool
    ) -> None:
        streams = [
            StreamInput(spool, _for_storlet(spool.metadata), drains=True, is_ours=True)
            for spool in inputs
        ]
        result = execution.run_first(streams, None)
        for chunk in result.chunks():
            output.write(chunk)
        output.metadata = result.metadata

    def _shown(self, error: StorletError) -> StorletError:
        """The error as the caller may see it."""
        known = error if self._is_owner else error.without_tenant_text()
        return StorletError(
            f"merge: {known}", code=known.code, status=known.status, detail=known.detail,
            retry_after=known.retry_after,
        )  # fmt: skip


def _for_storlet(metadata: Mapping[str, str]) -> dict[str, str]:
    """The metadata of an output as the next storlet sees it: as that of a stored object."""
    return {
        key: value for key, value in metadata.items() if value and key.lower() != "content-type"
    }


class Tree:
    """Merges the outputs of ``count`` objects, in their order, ``width`` at a time.

    An object that was not selected has no output.

    :param merge: the output of several, or of one, for a stage.
    """

    def __init__(self, count: int, width: int, merge: Callable[[Sequence[Any], str], Any]) -> None:
        self._width = width
        self._merge = merge
        #: The number of outputs of each level, and those of each group that is not complete.
        self._counts = [count]
        while self._counts[-1] > 1 or len(self._counts) == 1:
            self._counts.append(-(-self._counts[-1] // width))
        self._groups: dict[tuple[int, int], dict[int, Any]] = {}
        self.root: Any = None

    def add(self, number: int, output: Any) -> None:
        """Add the output of an object; merges every group that this completes."""
        for level, count in enumerate(self._counts[:-1]):
            group, place = divmod(number, self._width)
            members = self._groups.setdefault((level, group), {})
            members[place] = output
            if len(members) < min(self._width, count - group * self._width):
                return
            del self._groups[level, group]
            found = [members[key] for key in sorted(members) if members[key] is not None]
            is_root = level == len(self._counts) - 2
            if len(found) == 1 and not is_root:
                output = found[0]
            else:
                output = self._merge(found, LAST if is_root else INNER) if found else None
            number = group
        self.root = output

    def close(self) -> None:
        """Release the outputs that were not merged, and a root that was not taken."""
        groups, self._groups = self._groups, {}
        root, self.root = self.root, None
        left = [output for members in groups.values() for output in members.values()]
        with contextlib.ExitStack() as stack:
            for output in (root, *left):
                if output is not None:
                    stack.callback(output.close)
