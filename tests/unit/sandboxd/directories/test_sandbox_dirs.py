"""The directories, sockets and notes of single sandboxes."""

from __future__ import annotations

from storlet_middleware.sandboxd.directories.paths import NodePaths
from tests.unit.sandboxd.doubles import connect

KEY = "0123456789abcdef"
VERSION = "a" * 64


def test_a_group_socket_appears_only_when_published_and_replaces_the_old_one(
    paths: NodePaths,
) -> None:
    paths.sandboxes.make(KEY)
    path = paths.sandboxes.group_socket(KEY, VERSION)
    for _ in range(2):
        listener, temporary = paths.sandboxes.listen_for_invocations(KEY)
        paths.sandboxes.publish(temporary, KEY, VERSION)
        assert not temporary.exists()
        connect(path)
        listener.close()
    paths.sandboxes.withdraw(KEY, VERSION)
    assert not path.exists()
    paths.sandboxes.withdraw(KEY, VERSION)


def test_adoption_keeps_the_sockets_of_live_groups_only(paths: NodePaths) -> None:
    paths.sandboxes.make(KEY)
    for version in ("a" * 64, "b" * 64):
        listener, temporary = paths.sandboxes.listen_for_invocations(KEY)
        paths.sandboxes.publish(temporary, KEY, version)
        listener.close()
    listener, temporary = paths.sandboxes.listen_for_invocations(KEY)
    listener.close()
    assert paths.sandboxes.keep_group_sockets(KEY, ["a" * 64, "c" * 64]) == {"a" * 64}
    assert [p.name for p in paths.sandboxes.group_socket(KEY, VERSION).parent.iterdir()] == [
        "a" * 24 + ".sock"
    ]
