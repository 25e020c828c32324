"""The steps that requests of a client or of a rule specify."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from storlet_middleware.proxy.execution.steps import Settings, Step
from storlet_middleware.proxy.plan import Plan
from storlet_middleware.wsgi.storlet_request import StorletRequest


@dataclass
class RequestedStep(Step):
    """A step with its request.

    :param request: as it was parsed, so its parameters have no defaults of a bundle's manifest.
    :param plan: the requirements of the rule that requires the storlet; ``None`` if the client
        requested it.
    """

    request: StorletRequest = field(kw_only=True)
    plan: Plan | None = field(default=None, kw_only=True)

    def set_parameters(self, parameters: Mapping[str, str]) -> None:
        """Run the storlet with ``parameters``, which were made of those of the request."""
        self.settings = replace(self.settings, parameters=parameters)


def step_of(invocation_id: str, request: StorletRequest, plan: Plan | None = None) -> RequestedStep:
    """The step of one request."""
    settings = Settings(request.parameters, request.limits, request.wants_log)
    return RequestedStep(invocation_id, settings, request=request, plan=plan)


def steps_of(
    invocation_id: str, requests: Sequence[StorletRequest], plan: Plan | None = None
) -> list[RequestedStep]:
    """The steps of a run; the second and later ones have the run's id with their number.

    :param plan: of the run; it requires the steps that the client has not requested.
    """
    steps = [step_of(invocation_id, requests[0])]
    if len(requests) > 1:
        steps += [
            step_of(f"{invocation_id}.{number}", request)
            for number, request in enumerate(requests[1:], 2)
        ]
    if plan is not None:
        for step in steps[: len(steps) - plan.explicit_count]:
            step.plan = plan
    return steps
