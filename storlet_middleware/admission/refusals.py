"""The errors of invocations that got no slot."""

from __future__ import annotations

from typing import Any

from storlet_middleware import metrics
from storlet_middleware.admission.fairness import Claim, Load, Obstacle
from storlet_middleware.concurrency import monotonic
from storlet_middleware.errors import NodeBusy, StorletError, TenantBusy


def refused(
    logger: Any, load: Load, claim: Claim, obstacle: Obstacle | None, why: str
) -> StorletError:
    """The error of an invocation that got no slot ``why``; the refusal is counted."""
    error = _error(load, claim, obstacle, why)
    metrics.admission_refused(logger, error.code)
    return error


def _error(load: Load, claim: Claim, obstacle: Obstacle | None, why: str) -> StorletError:
    seconds = load.retry_after(claim.tenant, obstacle, monotonic())
    if obstacle is not Obstacle.SHARE:
        text = f"the node had no room for the invocation {why}"
        return NodeBusy(text, retry_after=seconds)
    share = load.share(claim.tenant)
    text = f"the account uses its share of this node's invocations, {share}"
    return TenantBusy(f"{text}, and got no other {why}", retry_after=seconds)
