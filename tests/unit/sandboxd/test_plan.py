"""Plans of sandboxes: keys and names, and the containers of an earlier sandboxd that match one."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from storlet_middleware.config import ADMIN_CLASS, USER_CLASS
from storlet_middleware.sandboxd import docker, plan
from storlet_middleware.sandboxd.docker import Container
from storlet_middleware.sandboxd.errors import ImageMissing, MountMissing, PathFault, StartupFault
from storlet_middleware.sandboxd.identity import Identities, UidRange
from storlet_middleware.sandboxd.plan import Assignment, Demand, Plan, Planner, check_node_id
from tests.unit.sandboxd.doubles import FakeEngine, FakeNode

IMAGE = "storlets/sandbox:latest"
DEMAND = Demand("AUTH_a", USER_CLASS, IMAGE)
ID = "0123456789abcdef" * 4
SPARE_KEY = "feed" * 4


def planner_of(node: FakeNode) -> Planner:
    """The planner of a node, with a code directory for AUTH_a."""
    node.paths.make()
    node.paths.code.make("AUTH_a", os.getuid())
    uids = UidRange(3_000_000_000, 1000)
    identities = Identities(node.paths.state_dir, node.home / "claims", uids)
    return Planner(node.config, FakeEngine(node.docker), node.paths, identities)


@pytest.fixture
def planner(idle_node: FakeNode) -> Planner:
    return planner_of(idle_node)


def container_of(made: Plan, **changes: Any) -> Container:
    """The running container that Docker made from a plan."""
    container = Container(
        ID, made.container_name, made.body["Labels"], True, made.facts.image_id, 1.0
    )
    return dataclasses.replace(container, **changes)


def relabelled(container: Container, **labels: str) -> Container:
    names = {"account": docker.LABEL_ACCOUNT, "key": docker.LABEL_KEY, "code": docker.LABEL_CODE}
    changed = {names[name]: value for name, value in labels.items()}
    return dataclasses.replace(container, labels={**container.labels, **changed})


def test_a_sandbox_has_a_key_of_its_account_class_and_image() -> None:
    others = [
        Demand("AUTH_b", USER_CLASS, IMAGE),
        Demand("AUTH_a", ADMIN_CLASS, IMAGE),
        Demand("AUTH_a", USER_CLASS, "other:1"),
    ]
    assert len({demand.key for demand in (DEMAND, *others)}) == 4


@pytest.mark.parametrize(
    ("options", "account", "expected"),
    [
        ("", "AUTH_a", (USER_CLASS, IMAGE)),
        ("[class:admin]\naccounts = AUTH_a", "AUTH_a", (ADMIN_CLASS, IMAGE)),
        ("[class:admin]\nstorlets = AUTH_a/up.py", "AUTH_a", (ADMIN_CLASS, IMAGE)),
        ("[class:admin]\nstorlets = AUTH_a/up.py", "AUTH_b", (USER_CLASS, IMAGE)),
        ("[image:AUTH_a]\nimage = own:1", "AUTH_a", (USER_CLASS, "own:1")),
    ],
)
def test_the_options_choose_the_class_and_the_image(
    idle_node: FakeNode, options: str, account: str, expected: tuple[str, str]
) -> None:
    idle_node.more_options = options
    assert planner_of(idle_node).demand(account, "up.py") == Demand(account, *expected)


def test_a_plan_carries_the_labels_by_which_it_is_recognized(planner: Planner) -> None:
    made = planner.plan(DEMAND)
    labels = made.body["Labels"]
    assert made.container_name == f"storlet-unit-{DEMAND.key}"
    assert (labels[docker.LABEL_NODE], labels[docker.LABEL_KEY]) == ("unit", DEMAND.key)
    assert made.config_hash == planner.plan(DEMAND).config_hash
    assert planner.plan_of(container_of(made)) == made


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"is_running": False}, id="not running"),
        pytest.param({"name": "storlet-unit-other"}, id="another name"),
        pytest.param({"labels": {}}, id="no labels"),
    ],
)
def test_a_container_is_not_adopted_when_it_is(planner: Planner, change: dict[str, Any]) -> None:
    assert planner.plan_of(container_of(planner.plan(DEMAND), **change)) is None


@pytest.mark.parametrize(
    "labels", [{"account": "AUTH_b"}, {"key": "0" * 16}, {"code": "1:2"}], ids=str
)
def test_a_container_with_an_unexpected_label_is_not_adopted(
    planner: Planner, labels: dict[str, str]
) -> None:
    assert planner.plan_of(relabelled(container_of(planner.plan(DEMAND)), **labels)) is None


def test_a_container_of_a_self_test_is_not_adopted(planner: Planner, idle_node: FakeNode) -> None:
    idle_node.paths.code.make(plan.SELF_TEST_ACCOUNT, os.getuid())
    made = planner.plan(Demand(plan.SELF_TEST_ACCOUNT, USER_CLASS, IMAGE))
    assert planner.plan_of(container_of(made)) is None


@pytest.mark.parametrize("what", ["image", "limit", "class", "image name"])
def test_a_container_that_would_be_made_differently_today_is_outdated(
    planner: Planner, idle_node: FakeNode, what: str
) -> None:
    container = container_of(planner.plan(DEMAND))
    if what == "image":
        idle_node.docker.image = "sha256:two"
    idle_node.limits = {"pids": 7} if what == "limit" else {}
    changes = {
        "class": "[class:admin]\naccounts = AUTH_a", "image name": "[image:AUTH_a]\nimage = own:1",
    }  # fmt: skip
    idle_node.more_options = changes.get(what, "")
    found = planner_of(idle_node).plan_of(container)
    assert found is not None
    assert (found.is_outdated, found.is_detached) == (True, False)


def test_a_running_container_survives_the_removal_of_its_image(
    planner: Planner, idle_node: FakeNode
) -> None:
    made = planner.plan(DEMAND)
    idle_node.docker.image = None
    assert planner.plan_of(container_of(made)) == made
    with pytest.raises(ImageMissing):
        planner.plan(DEMAND)


def test_a_detached_container_keeps_a_key_of_its_own(planner: Planner) -> None:
    made = planner.plan(DEMAND)
    name = plan.detached_name(made.container_name, ID)
    found = planner.plan_of(container_of(made, name=name))
    assert found is not None
    assert (found.is_detached, found.is_outdated, found.key) == (True, True, plan.detached_key(ID))
    assert found.demand == DEMAND


def test_a_plan_needs_the_code_directory_and_the_mounts_of_its_class(idle_node: FakeNode) -> None:
    idle_node.more_options = "[class:admin]\nmounts = /nowhere/models:/models:ro"
    planner = planner_of(idle_node)
    with pytest.raises(PathFault):
        planner.plan(Demand("AUTH_b", USER_CLASS, IMAGE))
    with pytest.raises(MountMissing, match=r"\[class:admin\] mounts: /nowhere/models"):
        planner.plan(Demand("AUTH_a", ADMIN_CLASS, IMAGE))


# --- pre-warmed sandboxes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("demand", "expected"),
    [
        (DEMAND, True),
        (Demand("AUTH_a", ADMIN_CLASS, IMAGE), False),
        (Demand("AUTH_a", USER_CLASS, "other:1"), False),
    ],
)
def test_spares_satisfy_the_user_class_with_the_default_image(
    planner: Planner, demand: Demand, *, expected: bool
) -> None:
    assert planner.can_be_spare(demand) is expected


def test_an_assigned_spare_gets_its_tenant_and_keeps_its_directories(planner: Planner) -> None:
    spare = planner.spare_plan(SPARE_KEY)
    assert (spare.account, spare.identity.uid, spare.facts.is_spare) == ("", 0, True)
    assigned = planner.assigned_plan(DEMAND, spare)
    assert (assigned.demand, assigned.key) == (DEMAND, SPARE_KEY)
    assert assigned.facts.control_dir == spare.facts.control_dir
    assert assigned.identity == planner.plan(DEMAND).identity
    assert assigned.container_name == planner.plan(DEMAND).container_name
    assert not assigned.facts.is_spare


@pytest.mark.parametrize(
    ("change", "is_adopted"),
    [
        ({}, True),
        ({"container": "f" * 64}, False),
        ({"uid": 1}, False),
        ({"code_mark": "1:2"}, False),
        ({"demand": Demand("AUTH_b", USER_CLASS, IMAGE)}, False),
    ],
)
def test_an_assigned_spare_is_adopted_only_with_a_fitting_note(
    planner: Planner, change: dict[str, Any], *, is_adopted: bool
) -> None:
    spare = planner.spare_plan(SPARE_KEY)
    assigned = planner.assigned_plan(DEMAND, spare)
    note = Assignment(ID, DEMAND, assigned.identity.uid, assigned.code_mark)
    found = planner.assigned_plan_of(container_of(spare), dataclasses.replace(note, **change))
    assert found == (assigned if is_adopted else None)


def test_the_names_of_a_detached_sandbox_come_from_its_container() -> None:
    assert plan.detached_name("storlet-unit-k", ID) == "storlet-unit-k-0123456789ab"
    assert len(plan.detached_key(ID)) == len(DEMAND.key)
    assert Path(plan.detached_key(ID)).name == plan.detached_key(ID)


@pytest.mark.parametrize("node_id", ["", ".x", "a b", "a/b", "x" * 129])
def test_a_node_id_that_cannot_be_in_a_container_name_is_refused(node_id: str) -> None:
    with pytest.raises(StartupFault, match="node_id"):
        check_node_id(node_id)
