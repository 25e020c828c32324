"""Storlet ACLs: a user reads a container through a storlet and in no other way."""

from __future__ import annotations

import hashlib
import json
from urllib.parse import quote

import pytest

from tests.support.accounts import unique
from tests.support.http import Client
from tests.support.pairs import paired
from tests.support.storlets import Tool

SECRET = b"the plain text, never for the reader\n"
READERS = ("test:tester3", "test2:tester2")
KINDS = ("plain", "ec")


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest, users: dict[str, Client], owner: Client) -> Client:
    """A user without permissions on the account of the tests."""
    return users[request.param].on(owner.account)


@pytest.fixture(params=KINDS)
def each_guarded(request: pytest.FixtureRequest, owner: Client) -> str:
    """A container of each kind that only its owner may read, and an object in it."""
    return make_guarded(owner, request.param)


@pytest.fixture
def guarded(request: pytest.FixtureRequest, owner: Client) -> str:
    """The same of one kind, for a test with other parameters.

    A grant does not depend on how objects are stored, so each kind with each value of a parameter
    is enough, and a test has half as many runs.
    """
    number = sum(request.node.callspec.indices.values())
    return make_guarded(owner, paired(request, number, KINDS))


def make_guarded(owner: Client, kind: str) -> str:
    container = unique("guarded")
    policy = {"X-Storage-Policy": "ec21"} if kind == "ec" else {}
    assert owner.put(container, headers=policy).status == 201
    assert owner.put(f"{container}/o", SECRET, {"X-Object-Meta-Inner": "hidden"}).status == 201
    return container


def grant(owner: Client, container: str, user: str, storlet: str) -> int:
    return owner.post(
        container, {"X-Storlet-Container-Read": user, "X-Storlet-Name": storlet}
    ).status


def revoke(owner: Client, container: str, user: str, storlet: str) -> int:
    return owner.post(
        container, {"X-Remove-Storlet-Container-Read": user, "X-Storlet-Name": storlet}
    ).status


def test_a_grant_opens_the_container_through_the_storlet_only(
    tool: Tool,
    owner: Client,
    reader: Client,
    guarded: str,
    storlet_names: dict[str, str],
    shared_storlets: None,
) -> None:
    theirs = Tool(reader, tool.storlet, tool.placement)
    assert theirs.get(f"{guarded}/o", "upper").status == 403
    assert grant(owner, guarded, reader.user, tool.storlet) == 204
    answer = theirs.get(f"{guarded}/o", "upper")
    assert (answer.status, answer.body) == (200, SECRET.upper())
    assert reader.get(f"{guarded}/o").status == 403
    assert reader.head(f"{guarded}/o").status == 403
    assert reader.get(guarded).status == 403
    other = next(name for name in storlet_names.values() if name != tool.storlet)
    assert Tool(reader, other, tool.placement).get(f"{guarded}/o").status == 403


def test_a_grant_does_not_open_it_by_range_failure_or_condition(
    anywhere: Tool, owner: Client, reader: Client, guarded: str, shared_storlets: None
) -> None:
    assert grant(owner, guarded, reader.user, anywhere.storlet) == 204
    theirs = Tool(reader, anywhere.storlet, anywhere.placement)
    assert (
        theirs.get(f"{guarded}/o", "upper", {"X-Storlet-Range": "bytes=0-3"}).body
        == SECRET[:4].upper()
    )
    for headers in (
        {"X-Storlet-Range": "bytes=1000-"},
        {"Range": "bytes=0-3"},
        {"If-Match": '"x"'},
    ):
        answer = theirs.get(f"{guarded}/o", "upper", headers)
        assert answer.status >= 400
        assert b"plain text" not in answer.body
    assert b"plain text" not in theirs.get(f"{guarded}/o", "fail").body


def test_a_grant_is_listed_and_revoked(
    tool: Tool, owner: Client, reader: Client, guarded: str, shared_storlets: None
) -> None:
    assert grant(owner, guarded, reader.user, tool.storlet) == 204
    listed = owner.head(guarded).headers.get("X-Storlet-Container-Read", "")
    assert reader.user in listed
    assert tool.storlet in listed
    assert revoke(owner, guarded, reader.user, tool.storlet) == 204
    assert reader.user not in owner.head(guarded).headers.get("X-Storlet-Container-Read", "")
    assert Tool(reader, tool.storlet, tool.placement).get(f"{guarded}/o").status == 403


def test_several_grants_can_coexist(
    owner: Client,
    users: dict[str, Client],
    each_guarded: str,
    storlet_names: dict[str, str],
    shared_storlets: None,
) -> None:
    python, java = storlet_names["python"], storlet_names["java"]
    assert owner.post(each_guarded, {"X-Container-Read": "test5:tester5"}).status == 204
    for user in READERS:
        assert grant(owner, each_guarded, user, python) == 204
    assert grant(owner, each_guarded, READERS[0], java) == 204
    assert revoke(owner, each_guarded, READERS[0], python) == 204
    first, second = (users[user].on(owner.account) for user in READERS)
    assert Tool(first, python).get(f"{each_guarded}/o").status == 403
    assert Tool(first, java).get(f"{each_guarded}/o").status == 200
    assert Tool(second, python).get(f"{each_guarded}/o").status == 200
    assert owner.head(each_guarded).headers["X-Container-Read"] == "test5:tester5"


def test_granting_needs_permission_to_set_acls(
    any_tool: Tool, reader: Client, guarded: str
) -> None:
    assert grant(reader, guarded, reader.user, any_tool.storlet) == 403


def test_a_grant_is_not_an_access_to_other_containers_or_methods(
    any_tool: Tool,
    owner: Client,
    reader: Client,
    guarded: str,
    container: str,
    shared_storlets: None,
) -> None:
    assert grant(owner, guarded, reader.user, any_tool.storlet) == 204
    assert owner.put(f"{container}/o", SECRET).status == 201
    theirs = Tool(reader, any_tool.storlet)
    assert theirs.get(f"{container}/o").status == 403
    assert theirs.put(f"{guarded}/new", b"x").status == 403
    assert (
        theirs.get(f"{guarded}/o", headers={"X-Storlet-Extra-Resources": f"/{container}/o"}).status
        == 403
    )


@pytest.mark.parametrize(
    "referer",
    [
        "//storlets.test:tester3_{storlet}",
        "http://storlets.test:tester3_{storlet}/",
        "http://storlets",
        "https://a.b/storlets",
    ],
)
def test_a_referer_cannot_forge_a_grant(
    any_tool: Tool, owner: Client, users: dict[str, Client], guarded: str, referer: str
) -> None:
    assert grant(owner, guarded, "test:tester3", any_tool.storlet) == 204
    value = referer.format(storlet=any_tool.storlet)
    for user in ("test:tester3", "test2:tester2"):
        forger = users[user].on(owner.account)
        for headers in ({"Referer": value}, {"Referer": value, "X-Run-Storlet": any_tool.storlet}):
            answer = forger.get(f"{guarded}/o", headers)
            assert answer.status == 403
            assert b"plain text" not in answer.body


def test_a_client_cannot_write_the_stored_grants(
    any_tool: Tool,
    owner: Client,
    users: dict[str, Client],
    each_guarded: str,
    shared_storlets: None,
) -> None:
    forged = f'["test:tester3", "{any_tool.storlet}"]'
    header = f"X-Container-Sysmeta-Storlet-Grant-{hashlib.sha256(forged.encode()).hexdigest()[:24]}"
    assert owner.post(each_guarded, {header: forged}).status == 204
    assert Tool(users["test:tester3"], any_tool.storlet).get(f"{each_guarded}/o").status == 403


def test_backend_headers_of_a_client_are_ignored(
    any_tool: Tool, owner: Client, users: dict[str, Client], each_guarded: str
) -> None:
    forger = users["test:tester3"]
    answer = forger.get(
        f"{each_guarded}/o", {"X-Backend-Storlet-Invocation": "{}", "X-Backend-Storlet-Run": "1"}
    )
    assert answer.status == 403
    assert owner.get(f"{each_guarded}/o", {"X-Backend-Storlet-Invocation": "{}"}).body == SECRET


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"X-Storlet-Container-Read": "test:tester3"}, "mandatory header"),
        ({"X-Storlet-Name": "x.py"}, "mandatory header"),
        (
            {"X-Storlet-Container-Read": "a,b", "X-Storlet-Name": "x.py"},
            "storlet ACL update request has",
        ),
        (
            {"X-Storlet-Container-Read": "test:tester3", "X-Storlet-Name": "a/b"},
            "storlet ACL update request has",
        ),
    ],
)
def test_malformed_grants_are_refused(
    owner: Client, guarded: str, headers: dict[str, str], told: str
) -> None:
    answer = owner.post(guarded, headers)
    assert answer.status == 400
    assert told in answer.text


def test_a_grant_without_effect_has_a_warning(
    any_tool: Tool, owner: Client, each_guarded: str
) -> None:
    def warning(user: str, storlet: str) -> str | None:
        headers = {"X-Storlet-Container-Read": user, "X-Storlet-Name": storlet}
        answer = owner.post(each_guarded, headers)
        assert answer.status == 204
        return answer.headers.get("X-Storlet-Warning")

    assert warning("test:tester3", any_tool.storlet) is None
    assert warning("tester3", any_tool.storlet) == (
        f"user tester3 has no account: users are named like {owner.user} here"
    )
    assert warning("test:tester3", f"x{any_tool.storlet}") == (
        f"there is no storlet x{any_tool.storlet} in container storlet;"
        f" did you mean {any_tool.storlet}?"
    )
    assert owner.head(each_guarded).headers["X-Storlet-Container-Read"].count("=") == 3


@pytest.mark.parametrize("container", ["storlet", "dependency"])
def test_grants_on_the_containers_of_storlets_are_refused(owner: Client, container: str) -> None:
    answer = owner.post(
        container, {"X-Storlet-Container-Read": "test:tester3", "X-Storlet-Name": "x.py"}
    )
    assert answer.status == 400
    assert "storlet ACL update cannot be a storlet container" in answer.text


def test_a_storlet_that_may_not_be_read_does_not_run(
    any_tool: Tool, owner: Client, users: dict[str, Client], each_guarded: str
) -> None:
    """A caller without read access to the container ``storlet`` and without a grant.

    The caller may read the data."""
    assert owner.post(each_guarded, {"X-Container-Read": "test:tester3"}).status == 204
    reader = users["test:tester3"]
    assert reader.get(f"{each_guarded}/o").status == 200
    answer = Tool(reader, any_tool.storlet).get(f"{each_guarded}/o")
    assert answer.status in (401, 403, 404)
    assert answer.error in ("access.denied", "storlet.not_found")


def test_a_grant_survives_an_ordinary_post(
    any_tool: Tool,
    owner: Client,
    users: dict[str, Client],
    each_guarded: str,
    shared_storlets: None,
) -> None:
    assert grant(owner, each_guarded, "test:tester3", any_tool.storlet) == 204
    assert owner.post(each_guarded, {"X-Container-Meta-Note": "x"}).status == 204
    reader = Tool(users["test:tester3"], any_tool.storlet)
    assert reader.get(f"{each_guarded}/o", "upper").body == SECRET.upper()


def test_granted_data_cannot_be_copied_away(
    any_tool: Tool,
    owner: Client,
    users: dict[str, Client],
    each_guarded: str,
    shared_storlets: None,
) -> None:
    assert grant(owner, each_guarded, "test:tester3", any_tool.storlet) == 204
    target = unique("target")
    assert owner.put(target, headers={"X-Container-Write": "test:tester3"}).status == 201
    reader = users["test:tester3"]
    destination = {"Destination": quote(f"/{target}/o")}
    assert reader.request("COPY", f"{each_guarded}/o", destination).status == 403
    assert (
        reader.put(f"{target}/o", b"", {"X-Copy-From": quote(f"/{each_guarded}/o")}).status == 403
    )


def test_a_copy_through_a_grant_has_no_header_of_its_source(
    any_tool: Tool,
    owner: Client,
    users: dict[str, Client],
    each_guarded: str,
    shared_storlets: None,
) -> None:
    assert grant(owner, each_guarded, "test:tester3", any_tool.storlet) == 204
    target = unique("target")
    assert owner.put(target, headers={"X-Container-Write": "test:tester3"}).status == 201
    theirs = Tool(users["test:tester3"].on(owner.account), any_tool.storlet)
    answer = theirs.copy(f"{each_guarded}/o", f"{target}/o", "upper")
    assert answer.status == 201, answer
    assert "X-Storlet-Generated-From-Last-Modified" not in answer.headers
    assert owner.head(f"{target}/o").meta("Inner") is None
    assert owner.get(f"{target}/o").body == SECRET.upper()


@pytest.mark.parametrize(
    "query",
    ["multipart-manifest=get", "multipart-manifest=get&format=raw", "part-number=1", "symlink=get"],
)
def test_a_grant_does_not_open_how_the_object_is_stored(
    anywhere: Tool, owner: Client, reader: Client, guarded: str, shared_storlets: None, query: str
) -> None:
    digest = hashlib.md5(SECRET, usedforsecurity=False).hexdigest()
    manifest = json.dumps(
        [{"path": f"/{guarded}/o", "etag": digest, "size_bytes": len(SECRET)}]
    ).encode()
    assert owner.put(f"{guarded}/slo", manifest, query="multipart-manifest=put").status == 201
    assert grant(owner, guarded, reader.user, anywhere.storlet) == 204
    theirs = Tool(reader, anywhere.storlet, anywhere.placement)
    assert theirs.get(f"{guarded}/slo").body == SECRET
    answer = reader.get(f"{guarded}/slo", theirs.headers(), query=f"do=identity&{query}")
    assert answer.status == 403, answer
    assert digest.encode() not in answer.body


@pytest.mark.parametrize(
    ("order", "status", "error"), [(1, 403, "access.denied"), (-1, 409, "swift.refused")]
)
@pytest.mark.usefixtures("shared_storlets")
def test_a_segment_that_the_grant_does_not_cover_is_refused(  # noqa: PLR0917 - fixtures
    anywhere: Tool, owner: Client, reader: Client, guarded: str, order: int, status: int, error: str
) -> None:
    """Swift itself answers 409 if it cannot read the first segment."""
    elsewhere = unique("elsewhere")
    assert owner.put(elsewhere).status == 201
    assert owner.put(f"{elsewhere}/segment", b"x" * 1000).status == 201
    paths = [f"/{guarded}/o", f"/{elsewhere}/segment"]
    manifest = json.dumps([{"path": path} for path in paths[::order]])
    made = owner.put(f"{guarded}/large", manifest.encode(), query="multipart-manifest=put")
    assert made.status == 201
    assert grant(owner, guarded, reader.user, anywhere.storlet) == 204
    theirs = Tool(reader, anywhere.storlet, anywhere.placement)
    answer = theirs.get(f"{guarded}/large")
    assert (answer.status, answer.error) == (status, error), answer
    assert b"xxx" not in answer.body
