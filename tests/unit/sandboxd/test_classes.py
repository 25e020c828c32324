"""Trust classes and images: the sandbox of a storlet, and the effect of changes by the operator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from storlet_daemon.protocol import messages
from storlet_middleware.keys import tenant_key
from tests.unit.sandboxd.doubles import (
    FakeContainer,
    FakeDocker,
    FakeNode,
    greeting,
    loaded,
    refused,
    until,
    work,
)

V1, V2 = "1" * 64, "2" * 64
MakeClasses = Callable[..., FakeNode]


def test_an_admin_storlet_has_a_sandbox_and_a_uid_of_its_own_beside_its_neighbours(
    with_options: MakeClasses,
) -> None:
    node = with_options("[class:admin]\nstorlets = AUTH_a/root.py")
    paths = {loaded(node.load(version=V1)), loaded(node.load(version=V2, name="root.py"))}
    assert len(paths) == 2
    sandboxes = {s.trust_class: s for s in node.status().sandboxes}
    assert set(sandboxes) == {"user", "admin"}
    assert sandboxes["user"].uid != sandboxes["admin"].uid
    assert sandboxes["user"].key != sandboxes["admin"].key


def test_an_admin_account_has_no_user_sandbox_and_others_have_no_admin_one(
    with_options: MakeClasses,
) -> None:
    node = with_options("[class:admin]\naccounts = AUTH_a")
    node.load("AUTH_a")
    node.load("AUTH_b")
    assert {(s.account, s.trust_class) for s in node.status().sandboxes} == {
        ("AUTH_a", "admin"),
        ("AUTH_b", "user"),
    }


def test_a_class_lowers_the_limits_of_its_sandboxes_only(with_options: MakeClasses) -> None:
    node = with_options("[class:user]\npids = 9\n[class:admin]\nstorlets = AUTH_a/root.py")
    node.load(version=V1)
    node.load(version=V2, name="root.py")
    limits = {
        c.body["Labels"]["org.storlets.class"]: c.body["HostConfig"]["PidsLimit"]
        for c in containers(node)
    }
    assert limits == {"user": 9, "admin": 512}


def test_a_mount_whose_directory_is_missing_is_reported_by_option_and_path(
    with_options: MakeClasses,
) -> None:
    node = with_options("[class:admin]\naccounts = AUTH_a\nmounts = /nowhere/models:/models:ro")
    answer = refused(node.load("AUTH_a"))
    assert answer.code == "sandbox.unavailable"
    assert "[class:admin] mounts" in answer.message
    assert "/nowhere/models" in answer.message
    assert greeting(loaded(node.load("AUTH_b")))


def test_an_account_has_the_image_that_the_operator_chose_and_others_the_default(
    with_options: MakeClasses,
) -> None:
    node = with_options("[image:AUTH_a]\nimage = example/special:1")
    node.load("AUTH_a")
    node.load("AUTH_b")
    images = {s.account: s.image for s in node.status().sandboxes}
    assert images == {"AUTH_a": "example/special:1", "AUTH_b": "storlets/sandbox:latest"}


def test_a_missing_image_of_one_account_is_named_and_affects_no_other(
    with_options: MakeClasses,
) -> None:
    docker = FakeDocker(missing_images={"example/special:1"})
    node = with_options("[image:AUTH_a]\nimage = example/special:1", docker)
    answer = refused(node.load("AUTH_a"))
    assert answer.code == "sandbox.unavailable"
    assert "example/special:1" in answer.message
    assert greeting(loaded(node.load("AUTH_b")))
    images = node.status().images
    assert images["storlets/sandbox:latest"] == {"id": "sha256:one"}
    assert images["example/special:1"]["id"] is None
    docker.missing_images.clear()
    assert greeting(loaded(node.load("AUTH_a")))


def test_both_classes_are_adopted(with_options: MakeClasses) -> None:
    node = with_options(
        "[class:admin]\nstorlets = AUTH_a/root.py\n[image:AUTH_a]\nimage = example/special:1"
    )
    before = [
        greeting(loaded(node.load(version=V1))),
        greeting(loaded(node.load(version=V2, name="root.py"))),
    ]
    node.stop()
    node.start()
    after = [
        greeting(loaded(node.load(version=V1))),
        greeting(loaded(node.load(version=V2, name="root.py"))),
    ]
    assert after == before
    assert node.docker.starts == 2


def test_a_removed_class_finishes_its_work_and_starts_none(
    with_options: MakeClasses,
) -> None:
    node = with_options("[class:admin]\naccounts = AUTH_a")
    with work(loaded(node.load("AUTH_a"))):
        node.stop()
        node.more_options = ""
        node.start()
        assert greeting(loaded(node.load("AUTH_a")))
        both = {("admin", "draining"), ("user", "running")}
        until(lambda: {(s.trust_class, s.state) for s in node.status().sandboxes} == both)
    until(lambda: [s.trust_class for s in node.status().sandboxes] == ["user"])


def test_a_storlet_that_is_lowered_leaves_the_admin_sandbox_of_its_account(
    with_options: MakeClasses,
) -> None:
    node = with_options("[class:admin]\nstorlets = AUTH_a/one.py, AUTH_a/two.py")
    one = loaded(node.load(version=V1, name="one.py"))
    two = loaded(node.load(version=V2, name="two.py"))
    node.stop()
    node.more_options = "[class:admin]\nstorlets = AUTH_a/one.py"
    # The privileges of the class have not changed, so the sandbox itself stays.
    node.start()
    until(lambda: [s.state for s in node.status().sandboxes] == ["running"])
    assert Path(one).exists()
    assert not Path(two).exists()
    again = loaded(node.load(version=V2, name="two.py"))
    assert [s.trust_class for s in node.status().sandboxes if s.key in again] == ["user"]


def test_sandboxes_without_the_image_label_of_an_older_sandboxd_are_adopted(
    with_options: MakeClasses,
) -> None:
    node = with_options("")
    with work(loaded(node.load())) as connection:
        node.stop()
        (container,) = containers(node)
        labels = dict(container.body["Labels"])
        del labels["org.storlets.image-name"]
        container.body = {**container.body, "Labels": labels}
        node.start()
        until(lambda: [s.state for s in node.status().sandboxes] == ["running"])
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(10)


def test_accounts_whose_names_share_60_characters_share_nothing(with_options: MakeClasses) -> None:
    node = with_options("")
    one, other = (f"AUTH_{60 * 'x'}{end}" for end in "12")
    paths = {Path(loaded(node.load(account))).parent for account in (one, other)}
    mounts = [
        {mount["Source"] for mount in c.body["HostConfig"]["Mounts"]} for c in containers(node)
    ]
    assert len(paths) == 2
    assert not mounts[0] & mounts[1]
    assert len({c.body["User"] for c in containers(node)}) == 2
    assert tenant_key(one) != tenant_key(other)


def containers(node: FakeNode) -> list[FakeContainer]:
    return list(node.docker.containers.values())


def test_an_account_of_the_full_length_with_any_printable_characters_has_a_sandbox(
    with_options: MakeClasses,
) -> None:
    node = with_options("")
    for account in ("AUTH_" + 1019 * "y", "AUTH_ä/../\N{GRINNING FACE}", "-rf"):
        assert greeting(loaded(node.load(account)))
    assert isinstance(node.status(), messages.NodeStatus)
