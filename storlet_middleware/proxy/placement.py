"""Where an invocation runs: a pure decision, with its reason."""

from __future__ import annotations

from storlet_middleware.wsgi.storlet_request import StorletRequest

OBJECT = "object"
PROXY = "proxy"


def decide(request: StorletRequest, default: str) -> tuple[str, str]:
    """``object`` or ``proxy``, and why (one or two words for the log)."""
    if request.source is None:
        return PROXY, "incoming-body"
    if request.run_on_proxy:
        return PROXY, "asked"
    if request.extra:
        return PROXY, "several-inputs"
    if request.run_on_object:
        return OBJECT, "asked"
    return default, "default"
