"""The services of the storlets of one run: requests to the store in the caller's name.

The runs that these requests start are inside this one (:mod:`~storlet_middleware.services.nesting`)
and end with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storlet_daemon.protocol.messages import CreateObject
from storlet_middleware.engine.services import Services
from storlet_middleware.engine.task import ServiceLimits
from storlet_middleware.proxy.requested_steps import RequestedStep
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.proxy.stored_outputs import StoredOutputs
from storlet_middleware.services import identity
from storlet_middleware.services.channel import Channel
from storlet_middleware.services.creations import Creations
from storlet_middleware.services.nesting import Nesting, is_inner, nesting_of
from storlet_middleware.services.operations import Operations
from storlet_middleware.services.requests import StoreRequests
from storlet_middleware.wsgi.storlet_request import reserved_containers
from storlet_middleware.wsgi.swift_paths import AccountPath


class RunServices:
    """See the module.

    :param outputs: of the run; the objects that its storlets create are stored with them.
    """

    def __init__(self, proxy: Proxy, environ: dict[str, Any], outputs: StoredOutputs) -> None:
        self._proxy = proxy
        self._environ = environ
        self._outputs = outputs
        #: The names of the run's storlets, its id and its rule; ``None`` before its start.
        self._run: tuple[Sequence[str], str, str] | None = None
        #: Of the requests of the run's storlets.
        self._nesting: Nesting | None = None

    def begin(self, storlets: Sequence[str], run_id: str, rule: str = "") -> None:
        """The run of ``storlets`` begins.

        :param rule: the rule that has decided it, or a run that it is in; empty if none has.
        :raises Unprocessable: it would be a cycle, or too deep in other runs.
        """
        # Not for a client's run: it is in no other, and most storlets send no requests.
        if is_inner(self._environ):
            self._nesting = nesting_of(self._environ).inside(storlets, run_id, rule)
        self._run = storlets, run_id, rule

    def of_step(self, step: RequestedStep, limits: ServiceLimits) -> Services | None:
        """The services of a step's storlet; ``None`` if it has none."""
        declared, request = step.storlet.services, step.request
        if not declared or self._run is None or identity.refusal(self._environ):
            return None
        nesting = self._nesting
        if nesting is None:
            nesting = self._nesting = nesting_of(self._environ).inside(*self._run)
        account_path = AccountPath(request.version, request.account)
        proxy = self._proxy
        asked = StoreRequests(proxy.front, proxy.app, self._environ, account_path, nesting)
        reserved = reserved_containers(proxy.config)
        creations = Creations(asked, reserved, self._outputs, limits.creations)
        self._outputs.may_grow |= CreateObject.SERVICE in declared
        memory = proxy.buffers.share(request.account)
        operations = Operations(asked, reserved, creations, memory)
        return Channel(operations, declared, limits, proxy.logger, nesting.pace)

    def end(self) -> None:
        """End what the storlets have started."""
        if self._nesting is not None:
            self._nesting.cancellation.cancel()
