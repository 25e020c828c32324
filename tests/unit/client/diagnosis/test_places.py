"""Containers and objects that the caller names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storlet_client import Storlets
from storlet_client.diagnosis.check import OWNER, Check
from tests.unit.client.server import Reply, Server

Problems = Callable[..., list[Check]]


def test_places_that_can_be_read_are_well(
    server: Server, storlets: Storlets, problems: Problems
) -> None:
    server.on("HEAD", "/c", Reply(204, {"X-Container-Object-Count": "7"}))
    server.on("HEAD", "/c/a%20b", Reply(200, {"Content-Length": "2048"}))
    assert problems("c/a b") == []
    twice = [check.subject for check in storlets.diagnose(["c", "c/a b", "c/a b"])]
    assert twice[-2:] == ["container c", "object c/a b"]
    assert twice.count("container c") == 1
    assert [check.text for check in storlets.diagnose(["c/a b"])[-2:]] == [
        "you may read it; 7 objects",
        "you may read it; 2,048 bytes",
    ]


def test_a_missing_container_and_a_missing_object_are_named_with_the_nearest(
    server: Server, problems: Problems
) -> None:
    server.on("GET", "", Reply(body=b'[{"name": "samples"}]'))
    server.on("HEAD", "/samples", Reply(204))
    server.on("GET", "/samples", Reply(body=b'[{"name": "input.csv"}]'))
    assert problems("sampless/x", "samples/inptu.csv", "samples/zz") == [
        Check(
            "container sampless",
            False,
            "missing (did you mean samples?)",
            "storlet upload FILE sampless/x",
        ),
        Check(
            "object samples/inptu.csv",
            False,
            "missing (did you mean input.csv?)",
            "storlet upload FILE samples/inptu.csv",
        ),
        Check("object samples/zz", False, "missing", "storlet upload FILE samples/zz"),
    ]


@pytest.mark.parametrize("place", ["", "/"])
def test_a_place_without_a_name_is_not_taken_for_the_account(
    server: Server, problems: Problems, place: str
) -> None:
    remedy = "storlet doctor CONTAINER/OBJECT"
    subject = f"place {place!r}"
    assert problems(place) == [Check(subject, False, "has no name of a container", remedy)]


def test_a_rule_that_refuses_is_named(server: Server, problems: Problems) -> None:
    server.on("HEAD", "/c", Reply(204))
    server.on("HEAD", "/c/o", Reply(403, {"X-Storlet-Rule": "shut"}))
    remedy = "storlet rules decide GET c/o"
    assert problems("c/o") == [Check("object c/o", False, "rule shut refuses the request", remedy)]


def test_a_user_without_rights_is_shown_the_owner_and_the_right_to_request(
    server: Server, storlets: Storlets
) -> None:
    server.on("HEAD", "", Reply(403))
    for path in ("/storlet", "/c", "/c/o"):
        server.on("HEAD", path, Reply(403))
    bad = {each.subject: each.remedy for each in storlets.diagnose(["c/o"]) if not each.is_well}
    assert bad == {
        "account": OWNER,
        "container storlet": f"{OWNER} for: swift post --read-acl USER storlet",
        "container c": f"{OWNER} for: swift post --read-acl USER c,"
        " or: storlet grant c USER STORLET",
    }
