"""The context of all sandboxes: slow work of one kind does not delay work of another kind."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from pathlib import Path

import pytest

from storlet_middleware.sandboxd.cgroups.hierarchy import Hierarchy
from storlet_middleware.sandboxd.node import MOVES_MAX, REMOVALS_MAX, Node
from storlet_middleware.sandboxd.threads import CALLS_MAX, Threads
from tests.unit.sandboxd.doubles import FakeEngine, FakeNode, own_processes_only

LIMITS = {"threads": CALLS_MAX, "moving": MOVES_MAX, "removing": REMOVALS_MAX}


def make_node(fake: FakeNode) -> Node:
    return Node(fake.config, FakeEngine(fake.docker), fake.paths, Threads(), own_processes_only)


@pytest.mark.parametrize("hung", LIMITS)
def test_hung_calls_of_one_kind_leave_the_threads_of_the_others_free(
    idle_node: FakeNode, hung: str
) -> None:
    release = threading.Event()

    async def main() -> None:
        node = make_node(idle_node)
        waiting = [
            asyncio.create_task(getattr(node, hung).call(release.wait, 10))
            for _ in range(LIMITS[hung])
        ]
        await asyncio.sleep(0)
        for name in LIMITS:
            call = getattr(node, name).call(lambda: "done")
            if name != hung:
                assert await asyncio.wait_for(call, 5) == "done"
                continue
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(call, 0.02)
        release.set()
        await asyncio.gather(*waiting)

    asyncio.run(main())


def test_two_nodes_share_no_threads(idle_node: FakeNode) -> None:
    async def main() -> None:
        one, other = make_node(idle_node), make_node(idle_node)
        assert one.moving is not other.moving
        assert one.removing is not other.removing

    asyncio.run(main())


def test_the_control_groups_of_storlets_are_in_the_hierarchy_of_the_node(
    idle_node: FakeNode, tmp_path: Path
) -> None:
    async def main() -> None:
        host = Hierarchy(tmp_path / "cgroup", tmp_path / "proc")
        node = dataclasses.replace(make_node(idle_node), host_cgroups=host)
        (tmp_path / "cgroup" / "memory" / "box").mkdir(parents=True)
        (tmp_path / "proc" / "7").mkdir(parents=True)
        (tmp_path / "proc" / "7" / "cgroup").write_text("1:memory:/box\n")
        found = node.worker_cgroups.directories(7)
        assert found == {"memory": tmp_path / "cgroup" / "memory" / "box"}

    asyncio.run(main())
