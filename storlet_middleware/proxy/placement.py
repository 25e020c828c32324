"""Where the first storlet of a run runs, and all reasons.

The request and the configuration decide first.  Later facts of the storlet and of the object nodes
can only move the run to the proxy server.
"""

from __future__ import annotations

import enum
from typing import Final

from storlet_middleware.proxy.execution.steps import Step
from storlet_middleware.wsgi.storlet_request import StorletRequest

OBJECT: Final = "object"
PROXY: Final = "proxy"


class Reason(enum.StrEnum):
    """Why a run is placed where it is; the operator's log has it as ``why``."""

    #: ``[placement] run_on``.
    DEFAULT = "default"
    #: The request or the rule specifies it.
    REQUESTED = "asked"
    #: A PUT: the input comes to the proxy.
    INCOMING_BODY = "incoming-body"
    #: Extra resources are on other nodes.
    SEVERAL_INPUTS = "several-inputs"
    #: Further outputs are stored by the proxy server, in the caller's name.
    SEVERAL_OUTPUTS = "several-outputs"
    #: The storlet declares services: only the proxy knows the caller.
    SERVICES = "services"
    #: The storlet has secrets: their values are not sent to other servers.
    SECRETS = "secrets"
    #: The description of the invocation does not fit into headers.
    LONG_DESCRIPTION = "long-description"
    #: A link that carries its target's hash.
    LINK = "link"
    #: The object nodes are full.
    OVERFLOW = "overflow"
    #: The object node failed before anything ran, for a reason of its own.
    NODE_UNABLE = "node-unable"
    #: The node's answer is of a version that this proxy cannot decode.
    NODE_VERSION = "node-version"
    #: Not a whole, plain object on the node: a fragment, a manifest, a link, encrypted; or a node
    #: without this filter.
    NOT_PLAIN = "not-plain"


class Placement:
    """The placement of one run.

    :param default: ``[placement] run_on``.
    """

    __slots__ = ("_where", "reason")

    def __init__(self, request: StorletRequest, default: str) -> None:
        self._where, self.reason = decide(request, default)

    @property
    def is_at_proxy(self) -> bool:
        return self._where == PROXY

    def move_to_proxy(self, reason: Reason) -> None:
        """No object node runs the storlet, for this reason."""
        self._where, self.reason = PROXY, reason

    def adjust_to(self, step: Step) -> None:
        """Move the run to the proxy if no object node may run its first, resolved storlet."""
        if self._where == PROXY:
            return
        if step.storlet.services:
            self.move_to_proxy(Reason.SERVICES)
        elif step.secrets:
            self.move_to_proxy(Reason.SECRETS)


def decide(request: StorletRequest, default: str) -> tuple[str, Reason]:
    """``object`` or ``proxy``, and why.

    :param default: ``[placement] run_on``.
    """
    if request.source is None:
        return PROXY, Reason.INCOMING_BODY
    if request.run_on_proxy:
        return PROXY, Reason.REQUESTED
    if request.extra:
        return PROXY, Reason.SEVERAL_INPUTS
    if request.outputs:
        return PROXY, Reason.SEVERAL_OUTPUTS
    if request.run_on_object:
        return OBJECT, Reason.REQUESTED
    return default, Reason.DEFAULT
