"""The objects that paths in Swift denote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swift.common.middleware.versioned_writes.legacy import VersionedWritesContext

from storlet_middleware.wsgi.swift_paths import (
    SwiftPath,
    archived_name,
    covering_rule,
    hidden_version,
    may_be_archived,
    name_fault,
    object_path,
    origins,
    origins_of_listing,
    parse_path,
    parse_url,
    version_of,
    versioned_object,
)
from tests.unit.middleware.rules_pipeline import OnePathRule

#: The longest line of a request that Swift's servers read; they answer others with 414.
LINE_BYTES = 8192


@pytest.mark.parametrize(
    ("container", "name", "wanted"),
    [
        ("c", "o", ""), ("c", None, ""), ("c" * 256, "o" * 1024, ""), ("c", "/o//p/", ""),
        ("", "o", "want /container/object"), ("c", "", "want /container/object"),
        ("c\0", "o", "want /container/object"), ("c", "o\0", "want /container/object"),
        ("c", "\ud800", "want /container/object"), ("", None, "want the name of a container"),
        ("a/b", None, "want the name of a container"),
        ("c" * 257, "o", "the name of the container has more than 256 bytes"),
        ("é" * 129, None, "the name of the container has more than 256 bytes"),
        ("c", "o" * 1025, "the name of the object has more than 1024 bytes"),
        ("c", "漢" * 342, "the name of the object has more than 1024 bytes"),
    ],
)  # fmt: skip
def test_a_name_that_swift_cannot_have_is_named(
    container: str, name: str | None, wanted: str
) -> None:
    assert name_fault(container, name) == wanted


@given(st.text(max_size=300), st.text(max_size=1100))
def test_swift_can_read_the_line_of_a_request_for_each_name_without_a_fault(
    container: str, name: str
) -> None:
    if not name_fault(container, name):
        assert len(object_path("v1", "a" * 256, container, name)) < LINE_BYTES - 512


@pytest.mark.parametrize(
    "name", ["o", "a/b c", "é", "x" * 200, "y" * 4095, "z" * 5000, "1640995200.00000"]
)
def test_names_of_archived_versions_are_recognised(name: str) -> None:
    raw = name.encode().decode("latin-1")
    made = VersionedWritesContext(None, None)._build_versions_object_name(raw, 1640995200)
    archived = made.encode("latin-1").decode()
    assert archived_name(archived) == name
    encoded = archived.encode()
    for end in range(0, len(encoded), 1 + len(encoded) // 50):
        assert may_be_archived(encoded[:end].decode("utf-8", "surrogateescape"))
    assert may_be_archived(archived)


@pytest.mark.parametrize(
    "name",
    ["", "o", "001o", "001o/", "001o/now", "002o/1640995200.00000", "00Ao/1640995200.00000",
     "1o/1640995200.00000", "000/1640995200.00000", "001o/1640995200.00000/1",
     "001o/1640995200.0000", "xyzo/1640995200.00000"],
)  # fmt: skip
def test_names_of_other_objects_are_not_taken_for_archived_versions(name: str) -> None:
    assert archived_name(name) is None


@pytest.mark.parametrize("prefix", ["seg", "001ox", "002o/x/", "001o/x", "x", "000/"])
def test_prefixes_that_no_archived_version_has_are_recognised(prefix: str) -> None:
    assert not may_be_archived(prefix)


def test_paths_are_decoded_to_text() -> None:
    assert parse_path("/v1/AUTH_a/c/d/\u00c3\u00a9") == SwiftPath("v1", "AUTH_a", "c", "d/é")
    assert parse_path("/v1/AUTH_a/c") == SwiftPath("v1", "AUTH_a", "c")
    assert parse_url("/v1/AUTH_a/c/%C3%A9%3F?version-id=1") == SwiftPath("v1", "AUTH_a", "c", "é?")
    for path in ("/info", "", "/v1", "/v1/", "/v1/AUTH_a//o", "/auth/v1.0", "/v1/AUTH_a/c/\u00c3"):
        assert parse_path(path) is None
    for url in ("", "/v1/AUTH_a/c/%C3"):
        assert parse_url(url) is None


HERE = SwiftPath("v1", "AUTH_a", "c", "o")
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=6)


@given(account=TEXTS, container=TEXTS, name=TEXTS, version=st.sampled_from(["v1", "v1.0"]))
def test_a_quoted_path_is_parsed_to_the_same_object(
    account: str, container: str, name: str, version: str
) -> None:
    place = SwiftPath(version, account, container, f"{name}/{name}")
    assert parse_url(place.path) == place
    assert place.path.endswith("?")
    assert parse_url(SwiftPath(version, account).path) == SwiftPath(version, account)


@pytest.mark.parametrize("version_id", ["1640995200.00000", "1640995200.12345"])
def test_a_hidden_version_belongs_to_its_object(version_id: str) -> None:
    hidden = HERE.sibling(*hidden_version("c", "o", version_id))
    assert hidden.is_hidden
    assert not HERE.is_hidden
    assert versioned_object(hidden) == HERE
    # Its metadata may differ from the object's, so it counts as any object of the container.
    assert list(origins(hidden)) == [HERE.sibling("c", None)]
    assert list(origins_of_listing(hidden.sibling(hidden.container, None), "")) == [
        HERE.sibling("c", None)
    ]


def test_a_version_is_at_its_hidden_path() -> None:
    version_id = "1640995200.00000"
    assert version_of(HERE, version_id) == HERE.sibling(*hidden_version("c", "o", version_id))
    for place, no_version in ((HERE, ""), (HERE, "null"), (HERE.sibling("c", None), version_id)):
        assert version_of(place, no_version) == place


def test_paths_that_are_no_version_belong_to_no_object() -> None:
    container, name = hidden_version("c", "o", "1640995200.00000")
    for place in (
        HERE,
        HERE.sibling("c", name),
        HERE.sibling(container, "o"),
        HERE.sibling("\0other\0c", name),
        HERE.sibling(container, None),
    ):
        assert versioned_object(place) is None
    with pytest.raises(ValueError, match="nonsense"):
        hidden_version("c", "o", "nonsense")


def test_an_archived_version_may_belong_to_any_container() -> None:
    archived = HERE.sibling("archive", "001o/1640995200.00000")
    assert list(origins(HERE)) == [HERE]
    assert list(origins(archived)) == [archived, HERE.sibling(None, "o")]
    listing = HERE.sibling("archive", None)
    assert list(origins_of_listing(listing, "seg")) == [listing]
    assert list(origins_of_listing(listing, "")) == [listing, HERE.sibling(None, None)]


def test_a_read_without_a_name_is_checked_as_any_object() -> None:
    path_rules = OnePathRule("AUTH_a/c/o")
    assert covering_rule(path_rules, HERE) == "hide"
    assert covering_rule(path_rules, HERE.sibling("c", "other")) is None
    for container, name in (("c", None), (None, None), (None, "o")):
        assert covering_rule(path_rules, HERE.sibling(container, name)) == "hide"
    assert covering_rule(path_rules, HERE.sibling("other", None)) is None
