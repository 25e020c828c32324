"""Grants without an effect."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storlet_client import Storlets
from storlet_client.diagnosis import grants
from storlet_client.diagnosis.check import Check
from tests.unit.client.server import Reply, Server
from tests.unit.client.test_operations import META

Problems = Callable[..., list[Check]]


def grant(server: Server, grants: str, readers: str) -> None:
    """Containers ``c`` with grants, and ``storlet`` with readers and one storlet."""
    server.on("GET", "", Reply(body=b'[{"name": "c"}, {"name": "gone"}, {"subdir": "x"}]'))
    server.on("HEAD", "/c", Reply(204, {"X-Storlet-Container-Read": grants}))
    server.on("HEAD", "/storlet", Reply(204, {"X-Container-Read": readers}))
    server.on("GET", "/storlet", Reply(body=b'[{"name": "fruit.storlet"}]'))
    plain = {key: value for key, value in META.items() if "Dependency" not in key}
    server.on("HEAD", "/storlet/fruit.storlet", Reply(200, plain))


def test_a_storlet_that_does_not_exist_is_found(server: Server, problems: Problems) -> None:
    grant(server, "a:u=friut, a:u=fruit, a:u=xyz", "a:u")
    assert {(check.text, check.remedy) for check in problems()} == {
        (
            "a:u through friut, which does not exist (did you mean fruit?)",
            "storlet grant c a:u fruit",
        ),
        ("a:u through xyz, which does not exist", "storlet revoke c a:u xyz"),
    }


@pytest.mark.parametrize(
    ("user", "readers", "is_found"),
    [
        ("a:u", "", True),
        ("a:u", "b:w", True),
        ("a:u", "b:w, a:u", False),
        ("a:u", "a", False),
        ("a:u", ".r:*", False),
        ("a:u", "some-role", False),
        ("name", "0123:4567", False),
        ("name", "", True),
    ],
)
def test_a_user_who_may_not_read_storlets_is_found(
    server: Server, problems: Problems, user: str, readers: str, is_found: bool
) -> None:
    grant(server, f"{user}=fruit", readers)
    listed = ",".join([*filter(None, [readers]), user])
    assert [check.remedy for check in problems()] == [
        f"swift post --read-acl {listed} storlet"
    ] * is_found


def test_a_grant_for_the_object_of_a_bundle_is_found(server: Server, problems: Problems) -> None:
    grant(server, "a:u=fruit.storlet", "a:u")
    (check,) = problems()
    assert check.text.startswith("a:u through fruit.storlet, which does not exist (did you mean")
    assert check.remedy == "storlet grant c a:u fruit"


def test_the_repair_for_one_user_does_not_undo_that_for_another(
    server: Server, problems: Problems
) -> None:
    grant(server, "a:u=fruit, a:w=fruit, a:u=fruit, a:x=fruit", "a:x")
    found = problems()
    assert [each.text.partition(" ")[0] for each in found] == ["a:u", "a:w"]
    assert {each.remedy for each in found} == {"swift post --read-acl a:x,a:u,a:w storlet"}


def test_it_is_reported_that_not_all_containers_were_checked(
    server: Server, storlets: Storlets, problems: Problems, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grants, "MOST_CONTAINERS", 1)
    grant(server, "", "")
    assert problems() == []
    assert storlets.diagnose()[-1].text == "those of the first 1 containers only were checked"
