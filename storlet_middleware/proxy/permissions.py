"""The checks before a run starts: the caller may run the storlets and write the result.

Order: signed URLs, number of inputs, each storlet's read ACL or for the library the account's
setting, the target's write ACL; then each
storlet is resolved to one version, and the request's limits are compared with what that version
declares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from storlet_daemon.protocol import framing
from storlet_middleware import errors, names
from storlet_middleware.bundle import manifest
from storlet_middleware.catalog import library_callers
from storlet_middleware.engine import limits
from storlet_middleware.engine.storlet_version import StorletVersion
from storlet_middleware.errors import (
    AccessDenied,
    BadRequest,
    PreconditionFailed,
    RuleRefused,
    StorletDenied,
    StorletError,
    StorletNotFound,
)
from storlet_middleware.proxy.plan import Plan
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.proxy.steps import Step
from storlet_middleware.wsgi import authorization, delegation
from storlet_middleware.wsgi.context import RequestContext
from storlet_middleware.wsgi.storlet_request import (
    SWIFT_QUERIES,
    ObjectPath,
    StorletRequest,
    is_query_of_swift,
)
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from storlet_middleware.wsgi.swift_paths import object_path

#: Inputs and further outputs of a message to a worker, which also has output and log.
_MOST_DESCRIPTORS: Final = framing.DESCRIPTORS_MAX - 2


class Permissions:
    """The checks of one run.

    :param plan: a rule's requirements of the run; ``None`` if the client requested the run.
    """

    def __init__(
        self, proxy: Proxy, context: RequestContext, steps: list[Step], plan: Plan | None
    ) -> None:
        self._proxy = proxy
        self._environ = context.environ
        self._operation = context.operation
        self._steps = steps
        self._plan = plan
        self._request = steps[0].request
        #: The ids of the steps whose storlets the caller owns.
        self._owned: set[str] = set()

    def check_access(self) -> bool:
        """Raise unless the caller may run the storlets and write the target; return whether the
        caller owns all storlets.

        :raises StorletError: ours; :raises SwiftRefusal: Swift's own answer.
        """
        for step in self._steps:
            request = step.request
            if request.ranges or request.extra:
                self._check_inputs(request)
            if request.outputs:
                self._check_outputs(request)
        # No short circuit: every storlet is checked, also after one that the caller does not own.
        owns_all = True
        for step in self._steps:
            if self._check_storlet(step):
                self._owned.add(step.id)
            else:
                owns_all = False
        if self._request.target is not None:
            self._check_target(self._request.target)
        for output in self._steps[-1].request.outputs:
            self._check_target(output)
        return owns_all

    def resolve(self) -> None:
        """Resolve each storlet to one version; raise if a version does not allow the request's
        limits.
        """
        for step in self._steps:
            version = step.version = self._resolve(step)
            if step.request.if_version:
                self._check_version(step)
            if step.request.limits:
                self._check_limits(step)
            if version.services:
                self._check_descriptors(step)
            self._check_declared(step, version)

    def resolve_again(self, step: Step) -> None:
        """Resolve a step's storlet again, bypassing the cache: its code was replaced meanwhile."""
        request = step.request
        version = step.version = self._proxy.catalog.resolve_again(
            self._environ, request.version, request.account, request.storlet
        )
        if request.if_version:
            self._check_version(step)
        self._check_declared(step, version)

    def _check_declared(self, step: Step, version: StorletVersion) -> None:
        """Refuse a request that does not fit what the storlet declares; many declare nothing."""
        if version.inputs:
            self._check_declared_inputs(step)
        if version.outputs:
            self._check_declared_outputs(step)
        if version.seekable:
            self._check_seekable(step)
        if version.parameters:
            self._fill_parameters(step)

    def _is_signed(self) -> bool:
        return delegation.is_signed(self._environ)

    def _plan_of(self, step: Step) -> Plan | None:
        """The plan that requires ``step``; ``None`` if the client requested the step."""
        plan = self._plan
        if plan is None:
            return None
        explicit = self._steps[len(self._steps) - plan.explicit_count :]
        return None if any(step is each for each in explicit) else plan

    def _check_version(self, step: Step) -> None:
        """Refuse another version than the one that the request requires."""
        if step.request.if_version != step.storlet.key:
            raise PreconditionFailed(
                f"{names.IF_VERSION}: storlet {step.request.storlet} is another version"
            )

    def _check_inputs(self, request: StorletRequest) -> None:
        most = self._proxy.config.limits.inputs
        if request.input_count > most:
            raise BadRequest(
                f"Too many extra resources. At most {most} inputs are allowed:"
                f" {names.EXTRA_RESOURCES} has {len(request.extra)}, {names.RANGE} has"
                f" {len(request.ranges)}"
            )

    def _check_outputs(self, request: StorletRequest) -> None:
        most, given = self._proxy.config.limits.outputs, len(request.outputs)
        if given > most:
            raise BadRequest(
                f"{names.OUTPUT}: {given} outputs: at most {most} are allowed"
                if most
                else f"{names.OUTPUT}: further outputs are not allowed here: leave it out"
            )
        if request.descriptor_count > _MOST_DESCRIPTORS:
            raise BadRequest(
                f"{names.OUTPUT}: {given} outputs and {request.input_count} inputs: together at"
                f" most {_MOST_DESCRIPTORS} are allowed"
            )

    def _check_descriptors(self, step: Step) -> None:
        """Refuse a message that the socket for services makes too large."""
        request, most = step.request, _MOST_DESCRIPTORS - 1
        if request.descriptor_count > most:
            raise BadRequest(
                f"storlet {request.storlet} has services: {request.input_count} inputs and"
                f" {len(request.outputs)} further outputs: together at most {most} are allowed"
            )

    def _check_declared_inputs(self, step: Step) -> None:
        """Refuse a number of inputs that a bundle's manifest excludes."""
        request = step.request
        # A later step of a pipeline has one input, the output of the step before.
        given = request.input_count if step is self._steps[0] else 1
        sent = (
            f"{names.RANGE} has {len(request.ranges)}, {names.EXTRA_RESOURCES} {len(request.extra)}"
        )
        self._require_count(step, step.storlet.inputs, given, ("inputs", "takes", sent))

    def _check_declared_outputs(self, step: Step) -> None:
        """Refuse a number of outputs that a bundle's manifest excludes."""
        # Only the last step of a pipeline has further outputs.
        given = 1 + (len(step.request.outputs) if step is self._steps[-1] else 0)
        sent = f"{names.OUTPUT} has {given - 1}"
        self._require_count(step, step.storlet.outputs, given, ("outputs", "makes", sent))

    def _require_count(
        self, step: Step, declared: tuple[int, ...], given: int, texts: tuple[str, str, str]
    ) -> None:
        """Refuse ``given`` outside of ``declared``: the least and the most."""
        least, most = declared
        if least <= given <= most:
            return
        what, does, sent = texts
        wanted = f"{least}" if least == most else f"{least} to {most}"
        text = f"number of {what}: {given}: storlet {step.request.storlet} {does} {wanted}; {sent}"
        plan = self._plan_of(step)
        raise BadRequest(text if plan is None else f"rule {plan.rule}: {text}")

    def _check_seekable(self, step: Step) -> None:
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
            plan, text = self._plan_of(step), f"the storlet has seekable inputs: {wanted}"
            raise BadRequest(text if plan is None else f"rule {plan.rule}: {text}")

    def _part_queries(self) -> list[str]:
        """Parameters of the query that select another form of the source, or a part of it."""
        query = {} if self._operation is None else self._operation.query
        return sorted(name for name in SWIFT_QUERIES if name in query and name != "version-id")

    def _check_storlet(self, step: Step) -> bool:
        """Raise unless the caller may run the storlet; return whether the caller owns it."""
        request = step.request
        plan = None if self._plan is None else self._plan_of(step)
        if plan is not None and self._is_signed():
            return False  # the owner of the key shares the result of the rules' storlets
        try:
            place = request.source or request.target
            container = place.container if place else ""
            is_owner = self._proxy.catalog.authorize(
                self._environ, request.version, request.account, request.storlet, container
            )
            if plan is None and names.is_library(request.storlet):
                library_callers.require_allowed(
                    self._environ, self._proxy.app, request.account, request.storlet,
                    is_owner=is_owner,
                )  # fmt: skip
            return is_owner  # noqa: TRY300 - the handler is for the storlet's ACL
        except StorletDenied:
            if plan is None or not plan.rule:
                raise
            self._check_object()
            raise RuleRefused(
                plan.rule, f"it runs the storlet {request.storlet}, which the caller may not run"
            ) from None

    def _check_object(self) -> None:
        """Raise Swift's own refusal of the request, so that the rule is not revealed to callers
        without access.
        """
        source = self._request.source
        path = source or self._request.target
        if path is not None:
            self._require_authorized("GET" if source else "PUT", path)

    def _check_target(self, target: ObjectPath) -> None:
        """Refuse early a target that Swift would refuse after the storlet has run."""
        if self._require_authorized("PUT", target).container_status == 404:
            raise StorletError(
                f"there is no container {target.container}", code=errors.TARGET_NOT_FOUND
            )

    def _require_authorized(self, method: str, path: ObjectPath) -> authorization.Verdict:
        where = object_path(self._request.version, self._request.account, path.container, path.name)
        verdict = authorization.authorize(self._environ, self._proxy.app, method, where)
        if verdict.refusal is not None:
            raise SwiftRefusal(verdict.refusal)
        return verdict

    def _resolve(self, step: Step) -> StorletVersion:
        request = step.request
        try:
            return self._proxy.catalog.resolve(
                self._environ, request.version, request.account, request.storlet
            )
        except StorletNotFound as error:
            if self._plan_of(step) is None:
                raise
            # A 404 would mean that the object does not exist.
            raise StorletError(
                f"a rule requires a missing storlet: {error}", status=422, code=error.code
            ) from None

    def _check_limits(self, step: Step) -> None:
        """Refuse limits that the storlet forbids; the maxima of its trust class were checked at the
        edge.
        """
        wanted, storlet = step.request.limits, step.storlet
        trust_class = self._proxy.config.class_of(storlet.account, storlet.name)
        faults = limits.above_maximum(wanted, names.LIMIT_PREFIX, trust_class, storlet.limits)
        faults += limits.below_minimum(wanted, names.LIMIT_PREFIX, storlet.language)
        plan = self._plan_of(step)
        if plan is not None:
            faults = limits.of_rule(plan.rule, faults)
        if faults:
            raise BadRequest("; ".join(faults))

    def _fill_parameters(self, step: Step) -> None:
        """Refuse parameters that do not fit a bundle's manifest, and fill in its defaults."""
        declared, given = step.storlet.parameters, step.given
        # A query has names of Swift's and of signed URLs, too.
        others = {
            name: value
            for name, value in given.items()
            if name not in declared and is_query_of_swift(name)
        }
        own = {name: value for name, value in given.items() if name not in others}
        values, faults = manifest.parameters_of_run(declared, own)
        plan = self._plan_of(step)
        if plan is not None:
            faults = [f"rule {plan.rule}: {each}" for each in faults]
        if faults:
            raise BadRequest("; ".join(faults))
        if step.id not in self._owned:
            self._check_secret_names(step, own)
        step.request = replace(step.request, parameters={**others, **values})

    def _check_secret_names(self, step: Step, given: Mapping[str, str]) -> None:
        """Refuse names of secrets that another caller than an owner has chosen.

        Otherwise a reader of encrypted objects could decrypt them, also with the name in metadata
        or in the name of an object from which a rule makes the parameter.
        """
        declared, plan = step.storlet.parameters, self._plan_of(step)
        if plan is None:
            if manifest.secrets_named(declared, given):
                raise AccessDenied(
                    f"storlet {step.request.storlet}: only an owner of the account, or a rule,"
                    " names a secret in a parameter"
                )
            return
        rendered = {name: text for name, text in given.items() if name in step.request.rendered}
        if manifest.secrets_named(declared, rendered):
            self._check_object()
            raise RuleRefused(
                plan.rule,
                "it names a secret with {...} in a parameter, which only an owner of the account"
                " may use: write the name of the secret into the rule",
            )
