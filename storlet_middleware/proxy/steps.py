"""The steps of a run: one storlet each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from storlet_middleware.admission.controller import Slot
from storlet_middleware.engine.log_pieces import LogPiece, ignore
from storlet_middleware.engine.storlet_version import StorletVersion
from storlet_middleware.errors import InternalError
from storlet_middleware.proxy.plan import Plan
from storlet_middleware.wsgi.storlet_request import StorletRequest


@dataclass
class Step:
    """One storlet of a run.

    :param id: the invocation's.
    :param version: known after the permission checks.
    :param plan: the requirements of the rule that requires the storlet; ``None`` if the client
        requested it.
    :param keeps_log_tail: the record of the run has the end of its log if it fails.
    :param log_delay_seconds: see :class:`~storlet_middleware.engine.log_pieces.LogPieces`.
    :param tell: receives the log in pieces while the storlet runs.
    :param given: the parameters of the request, without the defaults of a bundle's manifest.
    :param secrets: the values of the account's secrets that the storlet has.
    :param slot: the step's slot on this node, from its acquisition until the invocation takes it
        over.  Only steps of a pipeline acquire one here; a single storlet acquires its slot when it
        starts.
    """

    request: StorletRequest
    id: str
    version: StorletVersion | None = None
    plan: Plan | None = None
    keeps_log_tail: bool = False
    log_delay_seconds: float | None = None
    tell: Callable[[LogPiece], None] = ignore
    slot: Slot | None = None
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    given: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.given = self.request.parameters

    @property
    def storlet(self) -> StorletVersion:
        if self.version is None:
            raise InternalError("the storlet was not resolved")
        return self.version

    def release_slot(self) -> None:
        slot, self.slot = self.slot, None
        if slot is not None:
            slot.release()


def steps_of(
    invocation_id: str, requests: Sequence[StorletRequest], plan: Plan | None = None
) -> list[Step]:
    """The steps of a run; the second and later ones have the run's id with their number.

    :param plan: of the run; it requires the steps that the client has not requested.
    """
    steps = [Step(requests[0], invocation_id)]
    if len(requests) > 1:
        steps += [
            Step(request, f"{invocation_id}.{number}")
            for number, request in enumerate(requests[1:], 2)
        ]
    if plan is not None:
        for step in steps[: len(steps) - plan.explicit_count]:
            step.plan = plan
    return steps
