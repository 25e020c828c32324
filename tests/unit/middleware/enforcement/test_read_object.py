"""The stored object that decides about an operation."""

from __future__ import annotations

import pytest
from swift.common.swob import Request, Response

from storlet_middleware.enforcement.read_object import ReadObject
from storlet_middleware.enforcement.request_facts import ObjectState, Parts
from storlet_middleware.wsgi.operation import parse
from storlet_middleware.wsgi.swift_paths import SwiftPath
from tests.unit.middleware.ruled_proxy import Ruled, assert_closed, rule
from tests.unit.middleware.support import ACCOUNT, FakeSwift

PATH = f"/v1/{ACCOUNT}/c/o"
END = SwiftPath("v1", ACCOUNT, "d", "end")


@pytest.fixture
def store() -> FakeSwift:
    found = FakeSwift()
    found.put("c", "o", b"hello")
    return found


class Shown:
    """The caller may see the facts of some containers; all calls are kept."""

    def __init__(self, *containers: str) -> None:
        self._containers = containers
        self.calls: list[tuple[str | None, Parts, str]] = []

    def __call__(self, place: SwiftPath, parts: Parts, version_id: str = "") -> bool:
        self.calls.append((place.container, parts, version_id))
        return place.container in self._containers


def read_object(swift: FakeSwift, shows: Shown, method: str = "GET", query: str = "") -> ReadObject:
    environ = Request.blank(f"{PATH}?{query}", method=method).environ
    operation = parse(environ)
    assert operation is not None
    return ReadObject(swift, environ, operation, shows)


def test_a_rule_about_a_version_looks_at_this_version(ruled: Ruled) -> None:
    ruled.rule(rule("hide", "method: GET, metadata: {study: '7'}", "deny: it is closed"))
    assert_closed(ruled.get("c/o?version-id=1.2"))
    queries = {seen.query for seen in ruled.swift.requests("HEAD", "c/o")}
    assert queries == {"version-id=1.2"}


def test_the_object_is_looked_up_once(store: FakeSwift) -> None:
    read = read_object(store, Shown())
    assert read.known_state is None
    assert read.state() is read.state() is read.known_state
    assert read.look_up() is not read.known_state
    assert len(store.requests("HEAD", "c/o")) == 2


def test_a_post_is_decided_by_the_object_and_not_by_a_version(store: FakeSwift) -> None:
    read = read_object(store, Shown(), "POST", "version-id=1.2")
    read.state()
    assert read.path.name == "o"
    assert [seen.query for seen in store.requests("HEAD", "c/o")] == [""]


@pytest.mark.parametrize(
    ("containers", "is_shown"), [(("c", "d"), True), (("c",), False), (("d",), False)]
)
def test_an_object_behind_links_is_shown_with_the_link(
    store: FakeSwift, containers: tuple[str, ...], is_shown: bool
) -> None:
    shows = Shown(*containers)
    read = read_object(store, shows, query="version-id=1.2")
    state = ObjectState(read.look_up().facts, parts=Parts.NAMED, end=END)
    assert read.is_shown(state) is is_shown
    assert shows.calls[0] == ("c", Parts.NONE, "1.2")
    assert shows.calls[1:] in ([], [("d", Parts.NAMED, "")])


def test_facts_of_a_hidden_object_are_hidden(store: FakeSwift) -> None:
    store.hooks["HEAD", PATH] = lambda request: Response(request=request)
    assert read_object(store, Shown()).is_hidden
    assert not read_object(store, Shown("c")).is_hidden
