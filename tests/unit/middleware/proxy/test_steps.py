"""The steps of a run: ids, storlet versions and slots."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_middleware.admission.controller import Admission, Slot
from storlet_middleware.errors import InternalError
from storlet_middleware.proxy.plan import Plan
from storlet_middleware.proxy.steps import Step, steps_of
from storlet_middleware.wsgi.storlet_request import StorletRequest
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.object_nodes import VERSION
from tests.unit.middleware.support import make_config


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


def test_a_storlet_that_was_not_resolved_is_a_defect() -> None:
    step = Step(request("up.py"), "tx-1")
    with pytest.raises(InternalError):
        _ = step.storlet
    step.version = VERSION
    assert step.storlet == VERSION


def test_a_slot_is_released_once(short_dir: Path) -> None:
    admission = Admission(make_config(short_dir, admission__invocations="2"), Logger())

    def take() -> Slot | None:
        return admission.acquire_at_once(admission.claim("AUTH_test", "g", 1))

    step = Step(request("up.py"), "tx-1", slot=take())
    assert step.slot is not None
    assert take() is None  # an account has at most half of the node's slots
    step.release_slot()
    step.release_slot()
    assert step.slot is None
    again = take()
    assert again is not None
    step.release_slot()
    assert take() is None
    again.release()
