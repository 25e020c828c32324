"""Resolves the storlets of a run, each to one version, and compares the request with what that
version declares: limits, the numbers of inputs and outputs, seekable inputs, parameters.

All of it is repeated for a version that replaces another one while the run begins.
"""

from __future__ import annotations

from storlet_middleware import names
from storlet_middleware.bundle import manifest
from storlet_middleware.engine import limits
from storlet_middleware.engine.storlet_version import StorletVersion
from storlet_middleware.errors import BadRequest, PreconditionFailed, StorletError, StorletNotFound
from storlet_middleware.proxy.permissions import MOST_DESCRIPTORS, Permissions
from storlet_middleware.proxy.requested_steps import RequestedStep
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.wsgi.context import RequestContext
from storlet_middleware.wsgi.storlet_request import SWIFT_QUERIES, split_parameters


class Resolution:
    """The resolution of one run's storlets.

    :param permissions: of the run; they decide about the names of secrets.
    """

    def __init__(
        self,
        proxy: Proxy,
        context: RequestContext,
        steps: list[RequestedStep],
        permissions: Permissions,
    ) -> None:
        self._proxy = proxy
        self._environ = context.environ
        self._operation = context.operation
        self._steps = steps
        self._request = steps[0].request
        self._permissions = permissions

    def resolve(self) -> None:
        """Resolve each storlet to one version; raise if a version does not allow the request's
        limits.
        """
        for step in self._steps:
            step.version = self._resolve(step)
            self._check(step)

    def resolve_again(self, step: RequestedStep) -> None:
        """Resolve a step's storlet again, bypassing the cache: its code was replaced meanwhile."""
        # Without the defaults of the former version.
        request = step.request
        step.set_parameters(request.parameters)
        step.version = self._proxy.catalog.resolve_again(
            self._environ, request.version, request.account, request.storlet
        )
        self._check(step)

    def _resolve(self, step: RequestedStep) -> StorletVersion:
        request = step.request
        try:
            return self._proxy.catalog.resolve(
                self._environ, request.version, request.account, request.storlet
            )
        except StorletNotFound as error:
            if step.plan is None:
                raise
            # A 404 would mean that the object does not exist.
            raise StorletError(
                f"a rule requires a missing storlet: {error}", status=422, code=error.code
            ) from None

    def _check_version(self, step: RequestedStep) -> None:
        """Refuse another version than the one that the request requires."""
        if step.request.if_version != step.storlet.key:
            raise PreconditionFailed(
                f"{names.IF_VERSION}: storlet {step.request.storlet} is another version"
            )

    def _check_limits(self, step: RequestedStep) -> None:
        """Refuse limits that the storlet forbids; the maxima of its trust class were checked at the
        edge.
        """
        wanted, storlet = step.request.limits, step.storlet
        trust_class = self._proxy.config.class_of(storlet.account, storlet.name)
        faults = limits.above_maximum(wanted, names.LIMIT_PREFIX, trust_class, storlet.limits)
        faults += limits.below_minimum(wanted, names.LIMIT_PREFIX, storlet.language)
        if step.plan is not None:
            faults = limits.of_rule(step.plan.rule, faults)
        if faults:
            raise BadRequest("; ".join(faults))

    def _check_descriptors(self, step: RequestedStep) -> None:
        """Refuse a message that the socket for services makes too large."""
        request, most = step.request, MOST_DESCRIPTORS - 1
        if request.descriptor_count > most:
            raise BadRequest(
                f"storlet {request.storlet} has services: {request.input_count} inputs and"
                f" {len(request.outputs)} further outputs: together at most {most} are allowed"
            )

    def _check(self, step: RequestedStep) -> None:
        """Refuse a request that does not fit the version; many versions declare nothing."""
        request, version = step.request, step.storlet
        if request.if_version:
            self._check_version(step)
        if request.limits:
            self._check_limits(step)
        if version.services:
            self._check_descriptors(step)
        if version.inputs:
            self._check_declared_inputs(step)
        if version.outputs:
            self._check_declared_outputs(step)
        if version.seekable:
            self._check_seekable(step)
        if version.parameters:
            self._fill_parameters(step)

    def _check_declared_inputs(self, step: RequestedStep) -> None:
        """Refuse a number of inputs that a bundle's manifest excludes."""
        request = step.request
        # A later step of a pipeline has one input, the output of the step before.
        given = request.input_count if step is self._steps[0] else 1
        sent = (
            f"{names.RANGE} has {len(request.ranges)}, {names.EXTRA_RESOURCES} {len(request.extra)}"
        )
        self._require_count(step, step.storlet.inputs, given, ("inputs", "takes", sent))

    def _check_declared_outputs(self, step: RequestedStep) -> None:
        """Refuse a number of outputs that a bundle's manifest excludes."""
        # Only the last step of a pipeline has further outputs.
        given = 1 + (len(step.request.outputs) if step is self._steps[-1] else 0)
        sent = f"{names.OUTPUT} has {given - 1}"
        self._require_count(step, step.storlet.outputs, given, ("outputs", "makes", sent))

    def _require_count(
        self,
        step: RequestedStep,
        declared: tuple[int, ...],
        given: int,
        texts: tuple[str, str, str],
    ) -> None:
        """Refuse ``given`` outside of ``declared``: the least and the most."""
        least, most = declared
        if least <= given <= most:
            return
        what, does, sent = texts
        wanted = f"{least}" if least == most else f"{least} to {most}"
        text = f"number of {what}: {given}: storlet {step.request.storlet} {does} {wanted}; {sent}"
        raise _fault(step, text)

    def _check_seekable(self, step: RequestedStep) -> None:
        """Refuse inputs in which a storlet that declares seekable inputs could not seek."""
        wanted = ""
        if step is not self._steps[0]:
            wanted = "the output of another storlet cannot seek: make it the first step"
        elif self._request.source is None and self._request.target is None:
            wanted = "its input is no stored object: store it first"
        elif self._request.source is None:
            wanted = "the body of an upload cannot seek: store it first, and copy it"
        elif self._request.ranges:
            wanted = f"leave out {names.RANGE}: the storlet reads the whole object"
        elif queries := self._part_queries():
            wanted = f"leave out the query {', '.join(queries)}"
        if wanted:
            raise _fault(step, f"the storlet has seekable inputs: {wanted}")

    def _part_queries(self) -> list[str]:
        """Parameters of the query that select another form of the source, or a part of it."""
        query = {} if self._operation is None else self._operation.query
        return sorted(name for name in SWIFT_QUERIES if name in query and name != "version-id")

    def _fill_parameters(self, step: RequestedStep) -> None:
        """Refuse parameters that do not fit a bundle's manifest, and fill in its defaults."""
        declared = step.storlet.parameters
        # A query has names of Swift's and of signed URLs, too.
        own, others = split_parameters(step.request.parameters, declared)
        values, faults = manifest.parameters_of_run(declared, own)
        if step.plan is not None:
            faults = [f"rule {step.plan.rule}: {each}" for each in faults]
        if faults:
            raise BadRequest("; ".join(faults))
        self._permissions.require_secret_names(step, own)
        step.set_parameters({**others, **values})


def _fault(step: RequestedStep, text: str) -> BadRequest:
    """The error of a step that a client requests, or a rule, which the text names."""
    return BadRequest(text if step.plan is None else f"rule {step.plan.rule}: {text}")
