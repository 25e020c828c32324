"""The checks before a run starts: the caller may run the storlets and write the result.

Order: number of inputs and outputs, each storlet's read ACL or for the library the account's
setting, the write ACL of each target.  A signed URL runs the storlets of a rule without their ACLs.
Then :mod:`~.resolution` resolves the storlets.  Parameters that they declare as names of secrets
are checked here as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from storlet_daemon.protocol import framing
from storlet_middleware import errors, names
from storlet_middleware.bundle import manifest
from storlet_middleware.catalog import library_callers
from storlet_middleware.errors import (
    AccessDenied,
    BadRequest,
    RuleRefused,
    StorletDenied,
    StorletError,
)
from storlet_middleware.proxy.requested_steps import RequestedStep
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.wsgi import authorization, delegation
from storlet_middleware.wsgi.context import RequestContext
from storlet_middleware.wsgi.storlet_request import ObjectPath, StorletRequest
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from storlet_middleware.wsgi.swift_paths import object_path

#: Inputs and further outputs of a message to a worker, which also has output and log.
MOST_DESCRIPTORS: Final = framing.DESCRIPTORS_MAX - 2


class Permissions:
    """The checks of one run."""

    def __init__(self, proxy: Proxy, context: RequestContext, steps: list[RequestedStep]) -> None:
        self._proxy = proxy
        self._environ = context.environ
        self._steps = steps
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
        if request.descriptor_count > MOST_DESCRIPTORS:
            raise BadRequest(
                f"{names.OUTPUT}: {given} outputs and {request.input_count} inputs: together at"
                f" most {MOST_DESCRIPTORS} are allowed"
            )

    def _check_storlet(self, step: RequestedStep) -> bool:
        """Raise unless the caller may run the storlet; return whether the caller owns it."""
        request, plan = step.request, step.plan
        if plan is not None and delegation.is_signed(self._environ):
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

    def require_secret_names(self, step: RequestedStep, given: Mapping[str, str]) -> None:
        """Refuse names of secrets that another caller than an owner of the storlet has chosen.

        Otherwise a reader of encrypted objects could decrypt them, also with the name in metadata
        or in the name of an object from which a rule makes the parameter.

        :param step: a resolved one.
        :param given: its parameters, without those of Swift.
        """
        if step.id in self._owned:
            return
        declared, plan = step.storlet.parameters, step.plan
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
