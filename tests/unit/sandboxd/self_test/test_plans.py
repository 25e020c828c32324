"""Plans of the sandboxes of self-tests: those of tenants with smaller limits."""

from __future__ import annotations

import dataclasses
import os

import pytest

from storlet_middleware.config import USER_CLASS
from storlet_middleware.sandboxd.identity import Identities, UidRange
from storlet_middleware.sandboxd.plan import SELF_TEST_ACCOUNT, Planner
from storlet_middleware.sandboxd.self_test.plans import SelfTestPlans
from tests.unit.sandboxd.doubles import FakeEngine, FakeNode


def plans_of(node: FakeNode) -> SelfTestPlans:
    node.paths.make()
    node.paths.code.make(SELF_TEST_ACCOUNT, os.getuid())
    identities = Identities(
        node.paths.state_dir, node.home / "claims", UidRange(3_000_000_000, 1000)
    )
    planner = Planner(node.config, FakeEngine(node.docker), node.paths, identities)
    return SelfTestPlans(node.config, planner)


@pytest.mark.parametrize("memory", ["64M", "1G"])
def test_limits_of_the_self_test_never_exceed_those_of_the_class(
    idle_node: FakeNode, memory: str
) -> None:
    idle_node.limits = {"memory_bytes": memory}
    limits = idle_node.config.classes[USER_CLASS].limits
    small = plans_of(idle_node).limits(USER_CLASS)
    for field in dataclasses.fields(small):
        assert getattr(small, field.name) <= getattr(limits, field.name)
    assert small.memory_bytes <= 128 << 20


def test_each_test_has_the_small_limits(idle_node: FakeNode) -> None:
    plans = plans_of(idle_node)
    small = plans.limits(USER_CLASS)
    spare = plans.spare_plan()
    for made in (plans.plan(USER_CLASS), spare, plans.assigned_plan(spare)):
        assert (made.facts.memory_bytes, made.facts.pids) == (small.memory_bytes, small.pids)


def test_an_assigned_sandbox_keeps_its_directories(idle_node: FakeNode) -> None:
    plans = plans_of(idle_node)
    spare = plans.spare_plan()
    assigned = plans.assigned_plan(spare)
    assert (assigned.key, assigned.facts.control_dir) == (spare.key, spare.facts.control_dir)
    assert (assigned.account, spare.account) == (SELF_TEST_ACCOUNT, "")
    assert plans.spare_plan().container_name == spare.container_name
