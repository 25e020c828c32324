"""The steps that requests specify: ids, plans and parameters."""

from __future__ import annotations

import pytest

from storlet_middleware.proxy.execution.steps import Settings
from storlet_middleware.proxy.plan import Plan
from storlet_middleware.proxy.requested_steps import step_of, steps_of
from storlet_middleware.wsgi.storlet_request import StorletRequest


def request(storlet: str) -> StorletRequest:
    return StorletRequest("GET", "v1", "AUTH_test", storlet, None, None, {})


def test_each_step_has_an_id_of_its_own_in_order() -> None:
    steps = steps_of("tx-1", [request("a.py"), request("b.py"), request("a.py")])
    assert [(step.id, step.request.storlet) for step in steps] == [
        ("tx-1", "a.py"),
        ("tx-1.2", "b.py"),
        ("tx-1.3", "a.py"),
    ]
    assert [step.id for step in steps_of("tx-1", [request("a.py")])] == ["tx-1"]


@pytest.mark.parametrize(
    ("explicit_count", "required"), [(0, [True, True]), (1, [True, False]), (2, [False, False])]
)
def test_a_plan_requires_the_steps_before_those_of_the_client(
    explicit_count: int, required: list[bool]
) -> None:
    plan = Plan("R", explicit_count=explicit_count)
    steps = steps_of("tx-1", [request("a.py"), request("b.py")], plan)
    assert [step.plan is plan for step in steps] == required


def test_a_step_has_the_settings_of_its_request() -> None:
    request = StorletRequest(
        "GET", "v1", "AUTH_test", "a", None, None, {"n": "1"}, wants_log=True, limits={"cpus": 0.5}
    )
    step = step_of("tx-1", request)
    assert step.settings == Settings({"n": "1"}, {"cpus": 0.5}, wants_log=True)
    step.set_parameters({"n": "1", "m": "2"})
    assert step.settings == Settings({"n": "1", "m": "2"}, {"cpus": 0.5}, wants_log=True)
    assert step.request is request
