"""The worker groups of a sandbox: load, publish, unload."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from storlet_daemon.protocol import messages
from storlet_middleware.sandboxd.directories.code_dirs import CodeDirs
from storlet_middleware.sandboxd.sandbox.worker_groups import GROUPS_PER_STORLET_MAX, WorkerGroups
from tests.unit.sandboxd.doubles import FakeDocker, FakeNode, greeting, loaded, refused, until

MakeNode = Callable[..., FakeNode]
V1, V2 = "1" * 64, "2" * 64


def test_two_versions_have_two_sockets_of_one_sandbox(node: FakeNode) -> None:
    first, second = greeting(loaded(node.load(version=V1))), greeting(loaded(node.load(version=V2)))
    assert (first[0], second[0]) == (V1, V2)
    assert first[1] == second[1]


def test_a_repeated_load_of_a_live_group_gives_the_same_socket(node: FakeNode) -> None:
    path = loaded(node.load())
    inode = Path(path).stat().st_ino
    assert loaded(node.load()) == path
    assert Path(path).stat().st_ino == inode


def test_a_group_whose_path_was_removed_gets_a_new_one(node: FakeNode) -> None:
    path = loaded(node.load())
    Path(path).unlink()
    assert greeting(loaded(node.load()))
    assert node.docker.starts == 1


def test_a_refused_load_has_a_one_line_reason_and_leaves_no_socket(make_node: MakeNode) -> None:
    node = make_node(FakeDocker(behaviour="refuses"))
    answer = refused(node.load())
    assert (answer.code, answer.message) == (
        "internal",
        "the supervisor refused the storlet: not today",
    )
    assert not [path for path in (node.home / "run" / "s").rglob("*") if not path.is_dir()]


def test_an_unused_group_is_unloaded(make_node: MakeNode) -> None:
    docker = FakeDocker()
    node = FakeNode(docker)
    node.invocation["group_idle_seconds"] = 0.5
    try:
        node.start()
        path = loaded(node.load(version=V1))
        until(lambda: not node.status().sandboxes[0].groups)
        assert not Path(path).exists()
        assert docker.starts == 1
        assert greeting(loaded(node.load(version=V1)))
    finally:
        node.remove()


def test_a_recreated_code_directory_gets_a_new_sandbox_that_sees_it(node: FakeNode) -> None:
    node.load(version=V1)
    (node.put_code("AUTH_a", V2) / V2).rmdir()
    code_dir = node.put_code("AUTH_a", V1)
    (code_dir / V1).rmdir()
    code_dir.rename(code_dir.with_name("old"))
    assert greeting(loaded(node.load(version=V2)))
    assert node.docker.starts == 2


def test_a_storlet_has_a_share_of_the_groups(node: FakeNode) -> None:
    """Each limit that a request lowers makes another group."""
    other = loaded(node.load(version="f" * 64, name="other.py"))
    paths = [
        loaded(node.load(version=f"{number:02x}" * 32, name="many.py"))
        for number in range(1, GROUPS_PER_STORLET_MAX + 4)
    ]
    names = [group.name for group in node.status().sandboxes[0].groups]
    assert names.count("many.py") == GROUPS_PER_STORLET_MAX
    assert names.count("other.py") == 1
    assert sum(Path(path).exists() for path in paths) == GROUPS_PER_STORLET_MAX
    assert Path(paths[-1]).exists()
    assert Path(other).exists()


def test_all_code_is_kept_for_adopted_groups_that_the_status_lacks(tmp_path: Path) -> None:
    """A status of many groups with long names does not fit into a message."""
    code = CodeDirs(tmp_path, 0, 0)
    names = ["c" * 64]

    async def status() -> tuple[messages.Group, ...]:
        return tuple(messages.Group(V1, "a.py", 1, 0, 0, 0, 0.0, name) for name in names)

    dirs = SimpleNamespace(keep_group_sockets=lambda _key, versions: set(versions))
    config = SimpleNamespace(class_of=lambda *_: SimpleNamespace(name="user"))
    node: Any = SimpleNamespace(paths=SimpleNamespace(sandboxes=dirs, code=code), config=config)
    demand = SimpleNamespace(account="AUTH_a", trust_class="user")
    plan: Any = SimpleNamespace(demand=demand, account="AUTH_a", key="k")
    supervisor: Any = SimpleNamespace(link=SimpleNamespace(status=status))

    async def adopted(*versions: str) -> set[Path]:
        groups = WorkerGroups(node, supervisor, lambda: plan, lambda _: None)
        await groups.adopt(versions)
        return groups.code_in_use()

    own = code.version_dir("AUTH_a", "c" * 64)
    assert asyncio.run(adopted(V1)) == {own}
    assert asyncio.run(adopted(V1, V2)) == {own, code.path_of("AUTH_a")}
    # A supervisor that a storlet controls keeps no other account's code from eviction.
    names[0] = f"{code.path_of('AUTH_b')}"
    [found] = asyncio.run(adopted(V1))
    assert found.parent == code.path_of("AUTH_a")
