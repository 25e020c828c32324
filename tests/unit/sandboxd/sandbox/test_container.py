"""The container of one sandbox: leftovers of its name, its new name, its end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from storlet_middleware.config import USER_CLASS
from storlet_middleware.sandboxd.errors import EngineFault
from storlet_middleware.sandboxd.identity import Identities, UidRange
from storlet_middleware.sandboxd.plan import Demand, Plan, Planner
from storlet_middleware.sandboxd.sandbox.container import SandboxContainer
from storlet_middleware.sandboxd.threads import Threads
from tests.unit.sandboxd.doubles import FakeEngine, FakeNode

DEMAND = Demand("AUTH_a", USER_CLASS, "storlets/sandbox:latest")
Work = Callable[[Callable[[], SandboxContainer], Plan], Awaitable[None]]


@pytest.fixture
def run(idle_node: FakeNode) -> Callable[[Work], None]:
    """Runs a test with what makes containers, and with a plan of one."""
    node = idle_node
    node.paths.make()
    node.paths.code.make(DEMAND.account, os.getuid())
    uids = UidRange(3_000_000_000, 1000)
    identities = Identities(node.paths.state_dir, node.home / "claims", uids)
    engine = FakeEngine(node.docker)
    plan = Planner(node.config, engine, node.paths, identities).plan(DEMAND)
    node.paths.sandboxes.make(plan.key)

    async def main(work: Work) -> None:
        threads = Threads()
        context: Any = SimpleNamespace(
            engine=engine, threads=threads, removing=threads, config=node.config
        )
        await work(lambda: SandboxContainer(context), plan)

    return lambda work: asyncio.run(main(work))


def test_a_leftover_of_its_name_is_removed(
    idle_node: FakeNode, run: Callable[[Work], None]
) -> None:
    async def work(make: Callable[[], SandboxContainer], plan: Plan) -> None:
        earlier, later = make(), make()
        await earlier.create(plan)
        await later.create(plan)
        assert earlier.id != later.id
        assert set(idle_node.docker.containers) == {later.id}
        assert await earlier.end() == "the container was removed"
        await later.remove()
        assert not idle_node.docker.containers

    run(work)


def test_a_foreign_container_of_its_name_stays(
    idle_node: FakeNode, run: Callable[[Work], None]
) -> None:
    async def work(make: Callable[[], SandboxContainer], plan: Plan) -> None:
        foreign, own = make(), make()
        await foreign.create(plan)
        (container,) = idle_node.docker.containers.values()
        container.body = {**container.body, "Labels": {}}
        with pytest.raises(EngineFault, match="not ours"):
            await own.create(plan)
        assert own.id is None
        await own.remove()
        assert set(idle_node.docker.containers) == {foreign.id}

    run(work)


@pytest.mark.parametrize("is_down", [False, True])
def test_a_name_that_docker_does_not_change_is_no_failure(
    idle_node: FakeNode, run: Callable[[Work], None], *, is_down: bool
) -> None:
    async def work(make: Callable[[], SandboxContainer], plan: Plan) -> None:
        spare = make()
        await spare.create(plan)
        (container,) = idle_node.docker.containers.values()
        container.name = "spare"
        idle_node.docker.is_down = is_down
        await spare.rename(plan)
        assert container.name == ("spare" if is_down else plan.container_name)
        idle_node.docker.is_down = False

    run(work)
